//! How long a join of two streams keeps a row, from its condition.
//!
//! A side of the join may forget a row once no later row of the other side can match it. Rows that
//! come later are after the watermark. So with a watermarked column among the equal keys (a window
//! as a rule), rows whose key is at or before the watermark are done with. With a condition such as
//! `r.ts BETWEEN l.ts AND l.ts + INTERVAL 1 MINUTE`, solving it for one side's event time tells how
//! far behind the watermark that side's rows may still match.

use super::event_time::{delay_of, event_time_of};
use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, ExprSchema, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// When a row in the state of one side is done with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StateBound {
    /// When the watermark has reached the key at this place.
    Key {
        /// Its place among the equal keys.
        position: usize,
    },
    /// When the watermark plus this many milliseconds (negative as a rule) has reached the event
    /// time of the row.
    Value {
        /// What is added to the watermark.
        slack_ms: i64,
    },
}

/// The bounds of both sides; `None` where rows are kept for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct JoinBounds {
    pub(crate) left: Option<StateBound>,
    pub(crate) right: Option<StateBound>,
}

impl StateBound {
    fn reached(self, watermark_ms: i64) -> i64 {
        match self {
            StateBound::Key { .. } => watermark_ms,
            StateBound::Value { slack_ms } => watermark_ms.saturating_add(slack_ms),
        }
    }
}

impl JoinBounds {
    /// The watermark of what comes out: the event times of all rows that come out later are after
    /// it. None if a side keeps rows for ever.
    pub(crate) fn output(self, watermark_ms: i64) -> Option<i64> {
        let (left, right) = (self.left?, self.right?);
        Some(left.reached(watermark_ms).min(right.reached(watermark_ms)).min(watermark_ms))
    }
}

/// The bounds from the equal keys and the rest of the condition.
pub(crate) fn join_bounds(
    left: &DFSchema,
    right: &DFSchema,
    on: &[(Expr, Expr)],
    filter: Option<&Expr>,
) -> JoinBounds {
    let watermarked = |schema: &DFSchema, key: &Expr| {
        column(key)
            .and_then(|column| schema.field_from_column(column).ok())
            .is_some_and(|field| delay_of(field).is_some())
    };
    let position = on
        .iter()
        .position(|(key, _)| watermarked(left, key))
        .or_else(|| on.iter().position(|(_, key)| watermarked(right, key)));
    if let Some(position) = position {
        let bound = Some(StateBound::Key { position });
        return JoinBounds { left: bound, right: bound };
    }
    let (Some(left_time), Some(right_time)) = (time_column(left), time_column(right)) else {
        return JoinBounds::default();
    };
    let Some(filter) = filter else { return JoinBounds::default() };
    let constraints: Vec<Constraint> =
        split_conjunction(filter).into_iter().flat_map(constraints).collect();
    let bound = |own: &Column, other: &Column| {
        let slacks = constraints.iter().filter_map(|it| it.slack_ms(own, other));
        slacks.min().map(|slack_ms| StateBound::Value { slack_ms })
    };
    JoinBounds { left: bound(&left_time, &right_time), right: bound(&right_time, &left_time) }
}

fn time_column(schema: &DFSchema) -> Option<Column> {
    let place = event_time_of(schema)?;
    let (qualifier, field) = schema.qualified_field(place);
    matches!(field.data_type(), DataType::Timestamp(..))
        .then(|| Column::from((qualifier, field.as_ref())))
}

fn column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => column(&alias.expr),
        _ => None,
    }
}

/// A sum of columns and a constant that is above zero (or at least zero).
#[derive(Debug, Default)]
struct Constraint {
    plus: Vec<Column>,
    minus: Vec<Column>,
    constant_us: i128,
    or_zero: bool,
}

impl Constraint {
    /// Solved for the event time of one side: what is added to the watermark of the other side.
    fn slack_ms(&self, own: &Column, other: &Column) -> Option<i64> {
        if self.plus.as_slice() != std::slice::from_ref(own)
            || self.minus.as_slice() != std::slice::from_ref(other)
        {
            return None;
        }
        // own + c - other > 0, and other > W: own > W - c. Forgetting takes the watermark itself
        // in, so "at least" keeps a millisecond more.
        let slack = (-self.constant_us).div_euclid(1_000) - i128::from(self.or_zero);
        i64::try_from(slack).ok()
    }

    fn add(&mut self, expr: &Expr, positive: bool) -> Option<()> {
        match expr {
            Expr::Column(column) => {
                if positive { &mut self.plus } else { &mut self.minus }.push(column.clone());
            }
            Expr::Alias(alias) => self.add(&alias.expr, positive)?,
            Expr::Negative(inner) => self.add(inner, !positive)?,
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus, right }) => {
                self.add(left, positive)?;
                self.add(right, positive)?;
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => {
                self.add(left, positive)?;
                self.add(right, !positive)?;
            }
            Expr::Literal(value, _) => {
                let micros = literal_us(value)?;
                self.constant_us += if positive { micros } else { -micros };
            }
            // Another unit or zone of a timestamp is the same instant, cut off at worst.
            Expr::Cast(cast) if matches!(cast.field.data_type(), DataType::Timestamp(..)) => {
                self.add(&cast.expr, positive)?;
            }
            Expr::Cast(cast) => match cast.expr.as_ref() {
                Expr::Literal(value, _) => {
                    let value = value.cast_to(cast.field.data_type()).ok()?;
                    self.add(&Expr::Literal(value, None), positive)?;
                }
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }
}

/// The constraints that one part of a conjunction makes.
fn constraints(expr: &Expr) -> Vec<Constraint> {
    let less = |low: &Expr, high: &Expr, or_zero: bool| {
        let mut constraint = Constraint { or_zero, ..Constraint::default() };
        constraint.add(high, true)?;
        constraint.add(low, false)?;
        Some(constraint)
    };
    let found = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Lt => vec![less(left, right, false)],
            Operator::LtEq => vec![less(left, right, true)],
            Operator::Gt => vec![less(right, left, false)],
            Operator::GtEq => vec![less(right, left, true)],
            _ => Vec::new(),
        },
        Expr::Between(between) if !between.negated => {
            vec![less(&between.low, &between.expr, true), less(&between.expr, &between.high, true)]
        }
        _ => Vec::new(),
    };
    found.into_iter().flatten().collect()
}

/// An interval of a fixed length or a length of time, in microseconds.
fn literal_us(value: &ScalarValue) -> Option<i128> {
    const DAY_US: i128 = 86_400_000_000;
    match value {
        ScalarValue::IntervalMonthDayNano(Some(it)) if it.months == 0 => {
            // A part of a microsecond that is cut off would make the bound too tight.
            (it.nanoseconds % 1_000 == 0)
                .then(|| i128::from(it.days) * DAY_US + i128::from(it.nanoseconds / 1_000))
        }
        ScalarValue::IntervalDayTime(Some(it)) => {
            Some(i128::from(it.days) * DAY_US + i128::from(it.milliseconds) * 1_000)
        }
        ScalarValue::DurationSecond(Some(it)) => Some(i128::from(*it) * 1_000_000),
        ScalarValue::DurationMillisecond(Some(it)) => Some(i128::from(*it) * 1_000),
        ScalarValue::DurationMicrosecond(Some(it)) => Some(i128::from(*it)),
        ScalarValue::DurationNanosecond(Some(it)) if it % 1_000 == 0 => {
            Some(i128::from(it / 1_000))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{JoinBounds, StateBound, join_bounds};
    use crate::schema::timestamp;
    use crate::stream::event_time::WATERMARK_DELAY;
    use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, Schema};
    use datafusion::common::{DFSchema, ScalarValue};
    use datafusion::logical_expr::{Expr, lit};
    use datafusion::prelude::col;
    use std::collections::HashMap;

    fn side(name: &str, watermark: bool) -> DFSchema {
        let mut time = Field::new("ts", timestamp(), true);
        if watermark {
            let delay = HashMap::from([(WATERMARK_DELAY.to_owned(), "10000".to_owned())]);
            time.set_metadata(delay);
        }
        let schema = Schema::new(vec![Field::new("id", DataType::Int64, true), time]);
        DFSchema::try_from_qualified_schema(name, &schema).unwrap()
    }

    fn seconds(seconds: i64) -> Expr {
        let value = IntervalMonthDayNano::new(0, 0, seconds * 1_000_000_000);
        lit(ScalarValue::IntervalMonthDayNano(Some(value)))
    }

    fn bounds(filter: Expr) -> (Option<i64>, Option<i64>) {
        let found = join_bounds(
            &side("l", true),
            &side("r", true),
            &[(col("l.id"), col("r.id"))],
            Some(&filter),
        );
        let slack = |bound: Option<StateBound>| {
            bound.map(|bound| match bound {
                StateBound::Value { slack_ms } => slack_ms,
                StateBound::Key { .. } => panic!("no key has a watermark"),
            })
        };
        (slack(found.left), slack(found.right))
    }

    #[test]
    fn a_range_bounds_both_sides() {
        let between = col("r.ts").between(col("l.ts"), col("l.ts") + seconds(60));
        // l.ts >= r.ts - 60 s; r.ts >= l.ts.
        assert_eq!(bounds(between), (Some(-60_001), Some(-1)));
        let written = col("r.ts").gt(col("l.ts") - seconds(30));
        let written = written.and(col("r.ts").lt_eq(col("l.ts") + seconds(30)));
        assert_eq!(bounds(written), (Some(-30_001), Some(-30_000)));
        let turned = (col("l.ts") + seconds(5)).gt_eq(col("r.ts"));
        assert_eq!(bounds(turned), (Some(-5_001), None));
    }

    #[test]
    fn one_direction_bounds_one_side() {
        assert_eq!(bounds(col("r.ts").gt(col("l.ts"))), (None, Some(0)));
        assert_eq!(bounds(col("r.ts").lt(col("l.ts"))), (Some(0), None));
        // A gap that must have passed: l.ts <= r.ts - 10 s.
        let gap = (col("l.ts") + seconds(10)).lt_eq(col("r.ts"));
        assert_eq!(bounds(gap), (None, Some(9_999)));
        let minus = (col("r.ts") - col("l.ts")).lt(seconds(7));
        assert_eq!(bounds(minus), (Some(-7_000), None));
    }

    #[test]
    fn the_looser_of_two_bounds_holds() {
        let both = col("r.ts").gt_eq(col("l.ts")).and(col("r.ts").gt(col("l.ts") - seconds(3)));
        assert_eq!(bounds(both), (None, Some(-3_000)));
    }

    #[test]
    fn what_is_no_range_gives_no_bound() {
        for filter in [
            col("l.id").lt(col("r.id")),
            col("r.ts").gt(col("l.ts")).or(col("l.id").gt(lit(3))),
            (col("l.ts") + seconds(1)).lt(col("l.ts") + seconds(2)),
            col("r.ts").not_between(col("l.ts"), col("l.ts") + seconds(60)),
            col("r.ts").gt(lit(ScalarValue::TimestampMicrosecond(Some(0), Some("UTC".into())))),
        ] {
            assert_eq!(bounds(filter.clone()), (None, None), "{filter}");
        }
        let month =
            lit(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(1, 0, 0))));
        assert_eq!(bounds(col("r.ts").lt(col("l.ts") + month)), (None, None));
    }

    #[test]
    fn a_watermark_on_a_key_bounds_both_sides_and_goes_first() {
        let key = Some(StateBound::Key { position: 1 });
        let on = [(col("l.id"), col("r.id")), (col("l.ts"), col("r.ts"))];
        let range = col("r.ts").gt(col("l.ts"));
        for (left, right) in [(true, true), (true, false), (false, true)] {
            let found = join_bounds(&side("l", left), &side("r", right), &on, Some(&range));
            assert_eq!(found, JoinBounds { left: key, right: key });
        }
    }

    #[test]
    fn without_watermarks_on_both_sides_a_range_bounds_nothing() {
        let range = col("r.ts").between(col("l.ts"), col("l.ts") + seconds(60));
        let on = [(col("l.id"), col("r.id"))];
        for (left, right) in [(true, false), (false, true), (false, false)] {
            let found = join_bounds(&side("l", left), &side("r", right), &on, Some(&range));
            assert_eq!(found, JoinBounds::default());
        }
    }
}
