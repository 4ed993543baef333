//! Literals as syntax: as Spark's SQL would write them, so that columns get Spark's names.

use super::call::call;
use crate::failure::{Failure, Outcome};
use crate::types::ddl_of;
use chrono::{DateTime, Days, NaiveDate};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, Expr, Ident, ObjectName, TimezoneInfo, TypedString,
    UnaryOperator, Value,
};
use spark_connect_proto::expression::Literal;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::literal::specialized_array::ValueType;

/// Deepest nesting of a literal: arrays, maps and structs of one another.
const DEPTH_MAX: usize = 32;

/// A text.
pub(crate) fn text(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}

/// A whole number; below zero it is the negation of one.
fn number(value: i128) -> Expr {
    let digits = Expr::Value(Value::Number(value.unsigned_abs().to_string(), false).into());
    if value < 0 {
        return Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(digits) };
    }
    digits
}

/// `DATE 'text'`.
fn dated(data_type: SqlType, text: String) -> Expr {
    let value = Value::SingleQuotedString(text).into();
    Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false })
}

/// An interval of days to seconds, in its parts.
fn day_time(micros: i64) -> Expr {
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    let part = |value: i64| typed(number(i128::from(value)), "INT");
    let seconds_only = (seconds % 60) as f64 + rest as f64 / 1e6;
    let arguments = vec![
        part(seconds / 86_400),
        part(seconds / 3_600 % 24),
        part(seconds / 60 % 60),
        typed(text(&format!("{seconds_only:?}")), "DOUBLE"),
    ];
    call("make_dt_interval", arguments)
}

/// A literal with its type: `value::TYPE`, which has the name of the value alone.
pub(crate) fn typed(value: Expr, to: &str) -> Expr {
    Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(value),
        data_type: SqlType::Custom(ObjectName::from(vec![Ident::new(to)]), Vec::new()),
        array: false,
        format: None,
    }
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// A literal as syntax.
///
/// # Errors
/// A type that Onefold does not have, or a value out of its range.
pub(crate) fn literal(literal: &Literal) -> Outcome<Expr> {
    literal_at(literal, 0)
}

fn literal_at(literal: &Literal, depth: usize) -> Outcome<Expr> {
    if depth > DEPTH_MAX {
        return Err(Failure::analysis(format!("a literal is nested deeper than {DEPTH_MAX}")));
    }
    let depth = depth + 1;
    let kind = literal.literal_type.as_ref().ok_or_else(|| Failure::missing("literal"))?;
    Ok(match kind {
        LiteralType::Null(data_type) => match ddl_of(data_type)?.as_str() {
            "void" | "VOID" => null(),
            to => typed(null(), to),
        },
        LiteralType::Boolean(value) => Expr::Value(Value::Boolean(*value).into()),
        LiteralType::Byte(value) => typed(number(i128::from(*value)), "TINYINT"),
        LiteralType::Short(value) => typed(number(i128::from(*value)), "SMALLINT"),
        LiteralType::Integer(value) => number(i128::from(*value)),
        LiteralType::Long(value) => match i32::try_from(*value) {
            Ok(_) => typed(number(i128::from(*value)), "BIGINT"),
            Err(_) => number(i128::from(*value)),
        },
        LiteralType::Float(value) => typed(text(&format!("{value:?}")), "FLOAT"),
        LiteralType::Double(value) => typed(text(&format!("{value:?}")), "DOUBLE"),
        LiteralType::Decimal(decimal) => {
            let digits = decimal.value.trim_start_matches('-').len();
            let scale = decimal.value.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            let precision = decimal.precision.unwrap_or(i32::try_from(digits).unwrap_or(38));
            let scale = decimal.scale.unwrap_or(i32::try_from(scale).unwrap_or(0));
            let precision = precision.max(scale).clamp(1, 38);
            typed(text(&decimal.value), &format!("DECIMAL({precision},{scale})"))
        }
        LiteralType::String(value) => text(value),
        LiteralType::Binary(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            Expr::Value(Value::HexStringLiteral(hex).into())
        }
        LiteralType::Date(days) => dated(SqlType::Date, date_text(*days)?),
        LiteralType::Timestamp(micros) => {
            dated(SqlType::Timestamp(None, TimezoneInfo::None), format!("{}Z", time_text(*micros)?))
        }
        LiteralType::TimestampNtz(micros) => typed(text(&time_text(*micros)?), "TIMESTAMP_NTZ"),
        LiteralType::DayTimeInterval(micros) => day_time(*micros),
        LiteralType::YearMonthInterval(months) => interval(&format!("{months} MONTH"))?,
        LiteralType::CalendarInterval(parts) => interval(&format!(
            "{} MONTH {} DAY {}",
            parts.months,
            parts.days,
            day_time_text(parts.microseconds)
        ))?,
        LiteralType::Array(array) => call("array", all(&array.elements, depth)?),
        LiteralType::Map(map) => {
            let mut arguments = Vec::with_capacity(map.keys.len() * 2);
            for (key, value) in map.keys.iter().zip(&map.values) {
                arguments.push(literal_at(key, depth)?);
                arguments.push(literal_at(value, depth)?);
            }
            call("map", arguments)
        }
        LiteralType::Struct(value) => {
            #[allow(deprecated, reason = "where older clients put the type")]
            let kind = literal.data_type.as_ref().or(value.struct_type.as_ref());
            let schema = kind.map(crate::types::to_schema).transpose()?;
            let mut arguments = Vec::new();
            for (place, element) in value.elements.iter().enumerate() {
                let known = schema.as_ref().and_then(|schema| schema.fields().get(place));
                let name = known.map_or_else(
                    || format!("col{}", place.saturating_add(1)),
                    |field| field.name().clone(),
                );
                arguments.push(text(&name));
                arguments.push(literal_at(element, depth)?);
            }
            call("named_struct", arguments)
        }
        LiteralType::SpecializedArray(array) => call("array", specialized(array)?),
        LiteralType::Time(_) => return Err(Failure::unsupported("the type TIME")),
        LiteralType::TimestampNtzNanos(_) | LiteralType::TimestampLtzNanos(_) => {
            return Err(Failure::unsupported("a timestamp with nanoseconds"));
        }
    })
}

fn all(literals: &[Literal], depth: usize) -> Outcome<Vec<Expr>> {
    literals.iter().map(|literal| literal_at(literal, depth)).collect()
}

fn specialized(
    array: &spark_connect_proto::expression::literal::SpecializedArray,
) -> Outcome<Vec<Expr>> {
    let values = array.value_type.as_ref().ok_or_else(|| Failure::missing("array values"))?;
    Ok(match values {
        ValueType::Bools(values) => {
            values.values.iter().map(|it| Expr::Value(Value::Boolean(*it).into())).collect()
        }
        ValueType::Ints(values) => values.values.iter().map(|it| number(i128::from(*it))).collect(),
        ValueType::Longs(values) => {
            values.values.iter().map(|it| typed(number(i128::from(*it)), "BIGINT")).collect()
        }
        ValueType::Floats(values) => {
            values.values.iter().map(|it| typed(text(&it.to_string()), "FLOAT")).collect()
        }
        ValueType::Doubles(values) => {
            values.values.iter().map(|it| typed(text(&it.to_string()), "DOUBLE")).collect()
        }
        ValueType::Strings(values) => values.values.iter().map(|it| text(it)).collect(),
    })
}

fn interval(parts: &str) -> Outcome<Expr> {
    Ok(onefold_plan::sql::parse_expression(&format!("INTERVAL '{parts}'"))?)
}

fn day_time_text(micros: i64) -> String {
    format!("{} MICROSECOND", micros)
}

fn date_text(days: i32) -> Outcome<String> {
    let epoch = NaiveDate::default();
    let count = Days::new(u64::from(days.unsigned_abs()));
    let date = if days < 0 { epoch.checked_sub_days(count) } else { epoch.checked_add_days(count) };
    date.map(|date| date.format("%Y-%m-%d").to_string())
        .ok_or_else(|| Failure::invalid(format!("{days} days since 1970 is no date")))
}

fn time_text(micros: i64) -> Outcome<String> {
    DateTime::from_timestamp_micros(micros)
        .map(|time| {
            let text = time.format("%Y-%m-%d %H:%M:%S%.6f").to_string();
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        })
        .ok_or_else(|| Failure::invalid(format!("{micros} µs since 1970 is no time")))
}
