//! Joins.

use super::columns::column;
use super::{Planner, built, plan_id};
use crate::failure::{Failure, Outcome};
use datafusion::common::{Column, JoinType};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit};
use spark_connect_proto::join::JoinType as Kind;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Join, Relation};

/// The plan ids that mean each side: of a relation that is in both, as where a frame is joined with one
/// that was made of it, the side in which it lies less deep; neither, where both have it at one depth.
fn ids_of_sides(left: &Relation, right: &Relation) -> [Vec<i64>; 2] {
    let below = |relation: &Relation| {
        let mut ids = Vec::new();
        ids_below(relation, 0, &mut ids);
        ids
    };
    let (left, right) = (below(left), below(right));
    let nearer = |own: &[(i64, usize)], other: &[(i64, usize)]| {
        let depth = |id: &i64| other.iter().filter(|(known, _)| known == id).map(|it| it.1).min();
        let own = own.iter().filter(|(id, own)| depth(id).is_none_or(|other| *own < other));
        own.map(|(id, _)| *id).collect()
    };
    [nearer(&left, &right), nearer(&right, &left)]
}

/// The plan ids of a relation and all below it whose columns it still shows, with their depths.
fn ids_below(relation: &Relation, depth: usize, ids: &mut Vec<(i64, usize)>) {
    ids.extend(plan_id(relation).map(|id| (id, depth)));
    let input = match &relation.rel_type {
        Some(RelType::Project(it)) => it.input.as_deref(),
        Some(RelType::Filter(it)) => it.input.as_deref(),
        Some(RelType::Sort(it)) => it.input.as_deref(),
        Some(RelType::Limit(it)) => it.input.as_deref(),
        Some(RelType::WithColumns(it)) => it.input.as_deref(),
        Some(RelType::WithColumnsRenamed(it)) => it.input.as_deref(),
        Some(RelType::Drop(it)) => it.input.as_deref(),
        Some(RelType::Deduplicate(it)) => it.input.as_deref(),
        Some(RelType::WithWatermark(it)) => it.input.as_deref(),
        Some(RelType::SubqueryAlias(it)) => it.input.as_deref(),
        Some(RelType::Hint(it)) => it.input.as_deref(),
        _ => None,
    };
    if let Some(input) = input {
        ids_below(input, depth + 1, ids);
    }
}

fn join_type(kind: Kind) -> Outcome<JoinType> {
    Ok(match kind {
        Kind::Inner | Kind::Cross => JoinType::Inner,
        Kind::FullOuter => JoinType::Full,
        Kind::LeftOuter => JoinType::Left,
        Kind::RightOuter => JoinType::Right,
        Kind::LeftAnti => JoinType::LeftAnti,
        Kind::LeftSemi => JoinType::LeftSemi,
        Kind::Unspecified => return Err(Failure::missing("join_type")),
    })
}

impl Planner<'_> {
    pub(super) fn join(&mut self, join: &Join) -> Outcome<LogicalPlan> {
        let left_relation = join.left.as_deref().ok_or_else(|| Failure::missing("left"))?;
        let right_relation = join.right.as_deref().ok_or_else(|| Failure::missing("right"))?;
        let left = self.plan(left_relation)?;
        let right = self.plan(right_relation)?;
        let kind = join_type(join.join_type())?;
        let [left_ids, right_ids] = ids_of_sides(left_relation, right_relation);
        let (left, right) = (self.side(left, left_ids)?, self.side(right, right_ids)?);
        if !join.using_columns.is_empty() {
            return self.join_using(left, right, kind, &join.using_columns);
        }
        let Some(condition) = &join.join_condition else {
            return built(LogicalPlanBuilder::from(left).join_on(right, kind, [lit(true)]));
        };
        let both = left.schema().join(right.schema())?;
        let columns = crate::expression::Columns::new(&both, &self.qualifiers, self.session);
        let syntax = crate::expression::Translator::new(&columns).expression(condition)?;
        let context = self.session.engine.context();
        let condition = onefold_plan::sql::expression_of(context, &both, syntax)?;
        let parts = datafusion::logical_expr::utils::split_conjunction_owned(condition);
        built(LogicalPlanBuilder::from(left).join_on(right, kind, parts))
    }

    /// A side of a join with a qualifier of its own, so that columns of one name on both sides can
    /// be told apart. A side that the user named keeps that name.
    fn side(&mut self, plan: LogicalPlan, ids: Vec<i64>) -> Outcome<LogicalPlan> {
        let named = plan.schema().iter().all(|(qualifier, _)| {
            qualifier.is_some_and(|it| it.table() != datafusion::logical_expr::UNNAMED_TABLE)
        });
        if named {
            let qualifier = plan.schema().iter().next().and_then(|(qualifier, _)| qualifier);
            let qualifier = qualifier.map(|it| it.table().to_owned());
            for id in ids {
                if let Some(qualifier) = &qualifier {
                    self.qualifiers.entry(id).or_insert_with(|| qualifier.clone());
                }
            }
            return Ok(plan);
        }
        let name = self.fresh_name();
        for id in ids {
            self.qualifiers.insert(id, name.clone());
        }
        built(LogicalPlanBuilder::from(plan).alias(name.as_str()))
    }

    /// `join(other, ["a", "b"])`: the named columns come once, first.
    fn join_using(
        &mut self,
        left: LogicalPlan,
        right: LogicalPlan,
        kind: JoinType,
        names: &[String],
    ) -> Outcome<LogicalPlan> {
        let find = |plan: &LogicalPlan, name: &str| -> Outcome<Column> {
            let lower = name.to_lowercase();
            plan.schema()
                .iter()
                .find(|(_, field)| field.name().to_lowercase() == lower)
                .map(|(qualifier, field)| Column::from((qualifier, field)))
                .ok_or_else(|| Failure::no_column(name, ""))
        };
        let mut keys = Vec::with_capacity(names.len());
        for name in names {
            keys.push((find(&left, name)?, find(&right, name)?));
        }
        let conditions: Vec<Expr> = keys
            .iter()
            .map(|(left, right)| {
                datafusion::logical_expr::binary_expr(
                    Expr::Column(left.clone()),
                    Operator::Eq,
                    Expr::Column(right.clone()),
                )
            })
            .collect();
        let mut columns = Vec::new();
        for (left_key, right_key) in &keys {
            let (left_key, right_key) =
                (Expr::Column(left_key.clone()), Expr::Column(right_key.clone()));
            let name = match &left_key {
                Expr::Column(column) => column.name.clone(),
                other => other.to_string(),
            };
            columns.push(match kind {
                JoinType::Right => right_key.alias(name),
                JoinType::Full => {
                    datafusion::functions::expr_fn::coalesce(vec![left_key, right_key]).alias(name)
                }
                _ => left_key,
            });
        }
        let rest = |plan: &LogicalPlan, own: &dyn Fn(&Column) -> bool| -> Vec<Expr> {
            plan.schema()
                .iter()
                .filter(|(qualifier, field)| !own(&Column::from((*qualifier, *field))))
                .map(|(qualifier, field)| column(qualifier, field))
                .collect()
        };
        columns.extend(rest(&left, &|column| keys.iter().any(|(key, _)| key == column)));
        if !matches!(kind, JoinType::LeftSemi | JoinType::LeftAnti) {
            columns.extend(rest(&right, &|column| keys.iter().any(|(_, key)| key == column)));
        }
        let joined = built(LogicalPlanBuilder::from(left).join_on(right, kind, conditions))?;
        built(LogicalPlanBuilder::from(joined).project(columns))
    }
}
