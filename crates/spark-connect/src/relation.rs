//! Relations: Spark Connect's messages to logical plans.

mod aggregate;
mod columns;
mod hint;
mod join;
pub(crate) mod local;
mod missing;
mod parse;
mod python;
mod range;
mod read;
mod sets;
mod spread;
mod state;
mod statistics;
mod to_schema;

use crate::client_session::ClientSession;
use crate::expression::{Columns, Translator, kind};
use crate::failure::{Failure, Outcome};
use crate::observe::Observer;
use crate::python::Calls;
use crate::{observe, show, stack};
use datafusion::common::{DFSchema, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::SelectItem;
pub(crate) use local::of_batches;
use onefold_plan::sql;
use spark_connect_proto::expression::{ExprType, SortOrder};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Expression, Relation};
use std::collections::HashMap;
use std::sync::Arc;

/// Deepest nesting of relations: each takes stack.
const DEPTH_MAX: usize = 400;

/// Turns relations into plans over the session's tables.
pub(crate) struct Planner<'a> {
    pub(crate) session: &'a ClientSession,
    /// By plan id, the qualifier that a join gave to that plan's columns.
    qualifiers: HashMap<i64, String>,
    /// Relations that `WithRelations` names by plan id.
    references: HashMap<i64, LogicalPlan>,
    depth: usize,
    names: usize,
    /// What `observe` put into the plan.
    pub(crate) observers: Vec<Arc<Observer>>,
    /// Calls of the plan's functions in Python.
    pub(crate) calls: Calls,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(session: &'a ClientSession) -> Self {
        Planner {
            session,
            qualifiers: HashMap::new(),
            references: HashMap::new(),
            depth: 0,
            names: 0,
            observers: Vec::new(),
            calls: Calls::default(),
        }
    }

    /// The plan of a relation.
    ///
    /// # Errors
    /// Names that do not exist, types that do not fit, parts of Spark that are not there.
    pub(crate) fn plan(&mut self, relation: &Relation) -> Outcome<LogicalPlan> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Failure::analysis(format!(
                "the plan is nested deeper than {DEPTH_MAX}; split it with temporary views"
            )));
        }
        let kind = relation.rel_type.as_ref().ok_or_else(|| Failure::missing("relation"))?;
        let plan = stack::enough(|| self.relation(kind));
        self.depth -= 1;
        plan
    }

    fn relation(&mut self, kind: &RelType) -> Outcome<LogicalPlan> {
        match kind {
            RelType::Read(read) => self.read(read),
            RelType::Project(project) => self.project(project),
            RelType::Filter(filter) => {
                let input = self.input(filter.input.as_deref())?;
                let condition =
                    filter.condition.as_ref().ok_or_else(|| Failure::missing("condition"))?;
                let condition = self.expression(&input, condition)?;
                built(LogicalPlanBuilder::from(input).filter(condition))
            }
            RelType::Join(join) => self.join(join),
            RelType::SetOp(operation) => self.set_operation(operation),
            RelType::Sort(sort) => {
                let input = self.input(sort.input.as_deref())?;
                if sort.order.is_empty() {
                    return Ok(input);
                }
                self.sort(input, &sort.order)
            }
            RelType::Limit(limit) => {
                let input = self.input(limit.input.as_deref())?;
                let count = counted(limit.limit, "limit")?;
                built(LogicalPlanBuilder::from(input).limit(0, Some(count)))
            }
            RelType::Offset(offset) => {
                let input = self.input(offset.input.as_deref())?;
                let count = counted(offset.offset, "offset")?;
                built(LogicalPlanBuilder::from(input).limit(count, None))
            }
            RelType::Tail(tail) => self.tail(tail),
            RelType::Aggregate(aggregate) => self.aggregate(aggregate),
            RelType::Sql(query) => self.sql(query),
            RelType::LocalRelation(local) => self.local(local),
            RelType::CachedLocalRelation(cached) => self.cached_local(cached),
            RelType::ChunkedCachedLocalRelation(cached) => self.chunked_local(cached),
            RelType::CachedRemoteRelation(remote) => {
                self.session.remote(&remote.relation_id).ok_or_else(|| {
                    Failure::analysis(format!(
                        "No DataFrame with id {} was found: it belongs to a batch that is over",
                        remote.relation_id
                    ))
                })
            }
            RelType::Range(range) => self.range(range),
            RelType::SubqueryAlias(alias) => {
                let input = self.input(alias.input.as_deref())?;
                built(LogicalPlanBuilder::from(input).alias(alias.alias.as_str()))
            }
            RelType::Repartition(repartition) => self.repartition(repartition),
            RelType::RepartitionByExpression(by) => self.repartition_by(by),
            RelType::Hint(hint) => self.hint(hint),
            RelType::CollectMetrics(metrics) => {
                let input = self.input(metrics.input.as_deref())?;
                let items = self.items(input.schema(), &metrics.metrics)?;
                let context = self.session.engine.context();
                let (plan, observer) = observe::observed(input, &metrics.name, items, context)?;
                self.observers.push(observer);
                Ok(plan)
            }
            RelType::ToDf(to) => self.renamed_in_order(to),
            RelType::WithColumnsRenamed(renamed) => self.renamed(renamed),
            RelType::WithColumns(with) => self.with_columns(with),
            RelType::Drop(drop) => self.drop_columns(drop),
            RelType::ToSchema(to) => self.fitted_to_schema(to),
            RelType::Deduplicate(deduplicate) => self.deduplicate(deduplicate),
            RelType::WithWatermark(watermark) => {
                let input = self.input(watermark.input.as_deref())?;
                Ok(onefold_plan::stream::with_watermark(
                    input,
                    &watermark.event_time,
                    &watermark.delay_threshold,
                )?)
            }
            RelType::Sample(sample) => self.sample(sample),
            RelType::Unpivot(unpivot) => self.unpivot(unpivot),
            RelType::FillNa(fill) => self.fill_na(fill),
            RelType::DropNa(drop) => self.drop_na(drop),
            RelType::Replace(replace) => self.replace(replace),
            RelType::WithRelations(with) => {
                for reference in &with.references {
                    let plan = self.plan(reference)?;
                    if let Some(id) = plan_id(reference) {
                        self.references.insert(id, plan.clone());
                    }
                    if let Some(RelType::SubqueryAlias(alias)) = &reference.rel_type {
                        self.session
                            .engine
                            .frame(plan)
                            .create_or_replace_temp_view(&alias.alias)?;
                    }
                }
                self.input(with.root.as_deref())
            }
            RelType::ShowString(shown) => {
                let input = self.input(shown.input.as_deref())?;
                show::show_string(self.session, input, shown)
            }
            RelType::HtmlString(shown) => {
                let input = self.input(shown.input.as_deref())?;
                show::html_string(self.session, input, shown)
            }
            RelType::MapPartitions(map) => self.map_partitions(map),
            RelType::ApplyInPandasWithState(apply) => self.apply_with_state(apply),
            RelType::GroupMap(map) => self.group_map(map),
            RelType::CoGroupMap(map) => self.cogroup_map(map),
            RelType::Describe(describe) => self.describe(describe),
            RelType::Summary(summary) => self.summary(summary),
            RelType::Cov(cov) => self.covariance(cov),
            RelType::Corr(corr) => self.correlation(corr),
            RelType::ApproxQuantile(wanted) => self.quantiles(wanted),
            RelType::Crosstab(wanted) => self.crosstab(wanted),
            RelType::FreqItems(wanted) => self.frequent_items(wanted),
            RelType::SampleBy(sample) => self.sample_by(sample),
            RelType::Parse(parse) => self.parse(parse),
            RelType::Catalog(catalog) => crate::catalog::answer(self.session, catalog),
            other => Err(Failure::unsupported(format!("the relation {}", name_of(other)))),
        }
    }

    /// The plan of a required input.
    fn input(&mut self, input: Option<&Relation>) -> Outcome<LogicalPlan> {
        self.plan(input.ok_or_else(|| Failure::missing("input"))?)
    }

    /// An expression over a plan's columns.
    pub(crate) fn expression(&self, input: &LogicalPlan, expression: &Expression) -> Outcome<Expr> {
        let columns = Columns::new(input.schema(), &self.qualifiers, self.session);
        let syntax = Translator::new(&columns).expression(expression)?;
        Ok(sql::expression_of(self.session.engine.context(), input.schema(), syntax)?)
    }

    /// Expressions as columns with Spark's names.
    pub(crate) fn items(
        &self,
        schema: &DFSchema,
        expressions: &[Expression],
    ) -> Outcome<Vec<Expr>> {
        let mut items = Vec::with_capacity(expressions.len());
        for expression in expressions {
            let columns = Columns::new(schema, &self.qualifiers, self.session);
            if let ExprType::UnresolvedRegex(regex) = kind(expression)? {
                items.extend(columns::matching(schema, &regex.col_name)?);
                continue;
            }
            let item = Translator::new(&columns).item(expression)?;
            let said = match kind(expression)? {
                ExprType::Alias(alias) => alias.metadata.as_deref(),
                _ => None,
            };
            for item in self.item(schema, item)? {
                items.push(columns::with_said(item, said)?);
            }
        }
        Ok(items)
    }

    fn item(&self, schema: &DFSchema, item: SelectItem) -> Outcome<Vec<Expr>> {
        Ok(sql::select_item_of(self.session.engine.context(), schema, item)?)
    }

    fn sort(&self, input: LogicalPlan, order: &[SortOrder]) -> Outcome<LogicalPlan> {
        let columns = Columns::new(input.schema(), &self.qualifiers, self.session);
        let keys: Outcome<Vec<_>> =
            order.iter().map(|part| Translator::new(&columns).order(part)).collect();
        Ok(sql::sort(self.session.engine.context(), input.clone(), keys?)?)
    }

    fn sql(&mut self, query: &spark_connect_proto::Sql) -> Outcome<LogicalPlan> {
        let text = crate::sql_command::bound(self, query)?;
        Ok(self.session.engine.sql(&text)?.logical_plan().clone())
    }

    /// A name that nothing else in this plan has.
    fn fresh_name(&mut self) -> String {
        self.names += 1;
        format!("#{}", self.names)
    }
}

/// The plan id of a relation.
fn plan_id(relation: &Relation) -> Option<i64> {
    relation.common.as_ref().and_then(|common| common.plan_id)
}

/// A builder's plan.
fn built(builder: datafusion::error::Result<LogicalPlanBuilder>) -> Outcome<LogicalPlan> {
    Ok(builder.and_then(LogicalPlanBuilder::build)?)
}

fn counted(count: i32, what: &str) -> Outcome<usize> {
    usize::try_from(count).map_err(|_| {
        Failure::analysis(format!("The {what} expression must be equal to or greater than 0"))
    })
}

/// A table by the name that a client writes: `t`, `db.t`, `catalog.db.t`.
pub(crate) fn table_reference(text: &str) -> Outcome<TableReference> {
    let parts = crate::expression::parts_of(text)?;
    Ok(match parts.as_slice() {
        [table] => TableReference::bare(table.as_str()),
        [schema, table] => TableReference::partial(schema.as_str(), table.as_str()),
        [catalog, schema, table] => {
            TableReference::full(catalog.as_str(), schema.as_str(), table.as_str())
        }
        _ => return Err(Failure::analysis(format!("`{text}` names no table"))),
    })
}

/// What a relation that is not there is called in Spark.
fn name_of(relation: &RelType) -> &'static str {
    match relation {
        RelType::CommonInlineUserDefinedTableFunction(_) => "a user-defined table function",
        RelType::CommonInlineUserDefinedDataSource(_) => "a Python data source",
        RelType::AsOfJoin(_) => "an as-of join",
        RelType::LateralJoin(_) => "a lateral join",
        RelType::Transpose(_) => "transpose",
        RelType::UnresolvedTableValuedFunction(_) => "a table-valued function",
        RelType::RelationChanges(_) => "a change feed",
        RelType::NearestByJoin(_) => "a nearest-by join",
        RelType::Zip(_) => "zip",
        RelType::MlRelation(_) => "machine learning",
        _ => "of an extension",
    }
}
