//! A table or stream with what is computed from it.

use crate::batch_write::DataFrameWriter;
use crate::fault::from_datafusion;
use crate::grouped::GroupedData;
use crate::session::Session;
use crate::writer::DataStreamWriter;
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::catalog::view::ViewTable;
use datafusion::common::{Column, DFSchema, JoinType, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt};
use onefold_plan::sql;
use onefold_types::{Error, Result};
use std::sync::Arc;

/// A table or stream with what is computed from it, as Spark's `DataFrame`.
#[derive(Debug, Clone)]
pub struct DataFrame {
    session: Session,
    plan: LogicalPlan,
}

impl DataFrame {
    pub(crate) fn new(session: Session, plan: LogicalPlan) -> Self {
        DataFrame { session, plan }
    }

    fn with(
        &self,
        change: impl FnOnce(LogicalPlanBuilder) -> datafusion::error::Result<LogicalPlanBuilder>,
    ) -> Result<Self> {
        let plan = change(LogicalPlanBuilder::new(self.plan.clone()))
            .and_then(LogicalPlanBuilder::build)
            .map_err(from_datafusion)?;
        Ok(DataFrame { session: self.session.clone(), plan })
    }

    fn columns(&self) -> &DFSchema {
        self.plan.schema()
    }

    fn expression(&self, text: &str) -> Result<Expr> {
        sql::expression(&self.session.inner.context, self.columns(), text)
    }

    /// These SQL expressions as columns: `a`, `a + 1 AS b`, `*`.
    ///
    /// # Errors
    /// Invalid, when an expression does not parse or names no column.
    pub fn select_expr(&self, expressions: &[&str]) -> Result<Self> {
        let mut items = Vec::with_capacity(expressions.len());
        for text in expressions {
            items.extend(sql::select_items(&self.session.inner.context, self.columns(), text)?);
        }
        self.with(|plan| plan.project(items))
    }

    /// These columns; names compare without case.
    ///
    /// # Errors
    /// Invalid, when there is no such column.
    pub fn select(&self, columns: &[&str]) -> Result<Self> {
        let items: Vec<Expr> =
            columns.iter().map(|name| sql::column(self.columns(), name)).collect::<Result<_>>()?;
        self.with(|plan| plan.project(items))
    }

    /// The rows for which a SQL condition holds.
    ///
    /// # Errors
    /// Invalid, when the condition does not parse or names no column.
    pub fn filter(&self, condition: &str) -> Result<Self> {
        let condition = self.expression(condition)?;
        self.with(|plan| plan.filter(condition))
    }

    /// With one more column, or another one in its place.
    ///
    /// # Errors
    /// Invalid, when the expression does not parse or names no column.
    pub fn with_column(&self, name: &str, expression: &str) -> Result<Self> {
        let mut added = Some(self.expression(expression)?.alias(name));
        let mut items = Vec::with_capacity(self.columns().fields().len().saturating_add(1));
        for (qualifier, field) in self.columns().iter() {
            if !same(field.name(), name) {
                items.push(Expr::from((qualifier, field)));
            } else if let Some(added) = added.take() {
                items.push(added);
            }
        }
        items.extend(added);
        self.with(|plan| plan.project(items))
    }

    /// Without these columns; those that are not there are passed over.
    ///
    /// # Errors
    /// Invalid, when no column would be left.
    pub fn drop(&self, columns: &[&str]) -> Result<Self> {
        let items: Vec<Expr> = self
            .columns()
            .iter()
            .filter(|(_, field)| !columns.iter().any(|name| same(field.name(), name)))
            .map(Expr::from)
            .collect();
        if items.is_empty() {
            return Err(Error::invalid("no column would be left; keep at least one"));
        }
        self.with(|plan| plan.project(items))
    }

    /// The rows of both, columns by position.
    ///
    /// # Errors
    /// Invalid, when the columns do not fit.
    pub fn union(&self, other: &DataFrame) -> Result<Self> {
        let (own, other) = onefold_plan::sql::alike(self.plan.clone(), other.plan.clone())?;
        DataFrame::new(self.session.clone(), own).with(|plan| plan.union(other))
    }

    /// Says that rows come at most `delay` later than the newest event time in `column`: state
    /// older than that is let go, and rows older than that are late. `delay` is a span such as
    /// `10 minutes`.
    ///
    /// # Errors
    /// Invalid, when there is no such column, it holds no times, or the delay is negative or none.
    pub fn with_watermark(&self, column: &str, delay: &str) -> Result<Self> {
        self.planned(onefold_plan::stream::with_watermark(self.plan.clone(), column, delay))
    }

    /// Groups by these expressions: `k`, `window(ts, '1 minute')`. None is one group of all rows.
    #[must_use]
    pub fn group_by(&self, group: &[&str]) -> GroupedData {
        GroupedData::new(self.clone(), group)
    }

    /// Aggregates over all rows, as `group_by(&[]).agg(…)`.
    ///
    /// # Errors
    /// As [`GroupedData::agg`].
    pub fn agg(&self, aggregates: &[&str]) -> Result<Self> {
        self.group_by(&[]).agg(aggregates)
    }

    /// The first row of those that are equal in these columns, or in all when none is named.
    ///
    /// # Errors
    /// Invalid, when there is no such column.
    pub fn drop_duplicates(&self, columns: &[&str]) -> Result<Self> {
        let columns = (!columns.is_empty()).then_some(columns);
        self.planned(onefold_plan::stream::drop_duplicates(self.plan.clone(), columns, false))
    }

    /// As [`DataFrame::drop_duplicates`], but keys are forgotten once the watermark has passed
    /// their row's event time by the watermark's delay.
    ///
    /// # Errors
    /// Invalid, when there is no such column, or no watermark.
    pub fn drop_duplicates_within_watermark(&self, columns: &[&str]) -> Result<Self> {
        let columns = (!columns.is_empty()).then_some(columns);
        self.planned(onefold_plan::stream::drop_duplicates(self.plan.clone(), columns, true))
    }

    /// Each row once, as `drop_duplicates(&[])`.
    ///
    /// # Errors
    /// As [`DataFrame::drop_duplicates`].
    pub fn distinct(&self) -> Result<Self> {
        self.drop_duplicates(&[])
    }

    /// Gives it a name, so that its columns can be told from another frame's: `a.id`.
    ///
    /// # Errors
    /// Invalid, when the planner refuses the name.
    pub fn alias(&self, name: &str) -> Result<Self> {
        self.with(|plan| plan.alias(name))
    }

    /// Joins with another frame on a condition (`"a.id = b.id"`) or on columns that both have
    /// (`["id"]`, which the result has once). `how` as in Spark: `inner`, `left`, `right`, `full`,
    /// `left_semi`, `left_anti`, `cross`, and their other names.
    ///
    /// # Errors
    /// Invalid, when the condition does not parse, a column is not there or in both, or there is
    /// no such kind of join.
    pub fn join<'a>(
        &self,
        other: &DataFrame,
        on: impl Into<JoinOn<'a>>,
        how: &str,
    ) -> Result<Self> {
        let kind = join_type(how)?;
        let other = &other.apart_from(self)?;
        let right = other.plan.clone();
        match on.into() {
            JoinOn::Condition(text) => {
                let both = self.columns().join(other.columns()).map_err(from_datafusion)?;
                let on = sql::expression(&self.session.inner.context, &both, text)?;
                self.with(|plan| plan.join_on(right, kind, [on]))
            }
            JoinOn::Columns(names) => {
                let columns: Vec<Column> =
                    names.iter().map(|name| Column::from_name(name.as_str())).collect();
                self.with(|plan| plan.join_using(right, kind, columns))
            }
        }
    }

    /// Without the hidden columns that the other one has too: nobody could tell them apart.
    fn apart_from(&self, other: &DataFrame) -> Result<Self> {
        let same = |(qualifier, field): &(Option<&TableReference>, &FieldRef)| {
            onefold_plan::stream::hidden(field)
                && other.columns().has_column(&Column::from((*qualifier, *field)))
        };
        if !self.columns().iter().any(|column| same(&column)) {
            return Ok(self.clone());
        }
        let kept = self.columns().iter().filter(|column| !same(column)).map(Expr::from);
        let kept: Vec<Expr> = kept.collect();
        self.with(|plan| plan.project(kept))
    }

    /// At most so many rows, over all batches.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn limit(&self, rows: usize) -> Result<Self> {
        self.with(|plan| plan.limit(0, Some(rows)))
    }

    /// Sorted by these expressions, each with ` DESC` behind it if wanted. A stream can be sorted
    /// only after an aggregation in complete mode.
    ///
    /// # Errors
    /// Invalid, when an expression does not parse or names no column.
    pub fn order_by(&self, keys: &[&str]) -> Result<Self> {
        self.planned(sql::order_by(&self.session.inner.context, self.plan.clone(), keys))
    }

    fn planned(&self, plan: Result<LogicalPlan>) -> Result<Self> {
        Ok(DataFrame { session: self.session.clone(), plan: plan? })
    }

    /// Names it in the session, for [`Session::sql`].
    ///
    /// # Errors
    /// Invalid, when the session refuses the name.
    pub fn create_or_replace_temp_view(&self, name: &str) -> Result<()> {
        let context = &self.session.inner.context;
        let reference = TableReference::bare(name);
        let view = Arc::new(ViewTable::new(self.plan.clone(), None));
        context.deregister_table(reference.clone()).map_err(from_datafusion)?;
        context.register_table(reference, view).map_err(from_datafusion)?;
        Ok(())
    }

    /// Its columns.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        onefold_plan::stream::visible_schema(self.plan.schema().as_arrow())
    }

    /// What is computed.
    #[must_use]
    pub fn logical_plan(&self) -> &LogicalPlan {
        &self.plan
    }

    /// The rows of a table that is not a stream, as they are computed, in the order of its partitions.
    ///
    /// # Errors
    /// Invalid, when the plan does not hold; those of computing the rows come with them.
    pub async fn stream(&self) -> Result<SendableRecordBatchStream> {
        let (context, plan) = (&self.session.inner.context, self.plan.clone());
        rows(context, plan, Some(ROWS_OF_A_RESULT)).await.map_err(from_datafusion)
    }

    /// All rows of a table that is not a stream.
    ///
    /// # Errors
    /// Invalid, for a stream: start a query with [`DataFrame::write_stream`].
    pub fn collect(&self) -> Result<Vec<RecordBatch>> {
        let (context, plan) = (self.session.inner.context.clone(), self.plan.clone());
        self.session.inner.tasks.wait(async move {
            let rows = rows(&context, plan, None).await.map_err(from_datafusion)?;
            rows.try_collect().await.map_err(from_datafusion)
        })
    }

    /// Gives the rows of a table that is not a stream, a piece at a time.
    ///
    /// # Errors
    /// Those of computing the rows.
    pub fn each_batch(&self, mut each: impl FnMut(&RecordBatch)) -> Result<()> {
        let (context, plan) = (self.session.inner.context.clone(), self.plan.clone());
        let (send, mut receive) = tokio::sync::mpsc::channel(2);
        self.session.inner.tasks.spawn(async move {
            let mut rows = match rows(&context, plan, None).await {
                Ok(rows) => rows,
                Err(error) => {
                    let _ = send.send(Err(error)).await;
                    return;
                }
            };
            while let Some(batch) = rows.next().await {
                if send.send(batch).await.is_err() {
                    return;
                }
            }
        });
        while let Some(batch) = futures::executor::block_on(receive.recv()) {
            each(&batch.map_err(from_datafusion)?);
        }
        Ok(())
    }

    /// What is computed, after the optimizer's rules.
    ///
    /// # Errors
    /// Invalid, when the plan does not hold.
    pub fn optimized_plan(&self) -> Result<LogicalPlan> {
        self.session.inner.context.state().optimize(&self.plan).map_err(from_datafusion)
    }

    /// The physical plan, as text.
    ///
    /// # Errors
    /// Invalid, when the plan cannot be made.
    pub fn physical_plan(&self) -> Result<String> {
        let (context, plan) = (self.session.inner.context.clone(), self.plan.clone());
        self.session.inner.tasks.wait(async move {
            let state = context.state();
            let physical = state.create_physical_plan(&plan).await.map_err(from_datafusion)?;
            Ok(datafusion::physical_plan::displayable(physical.as_ref()).indent(false).to_string())
        })
    }

    /// Begins to describe where the table goes.
    #[must_use]
    pub fn write(&self) -> DataFrameWriter {
        DataFrameWriter::new(self.clone())
    }

    /// Begins to describe where the stream goes.
    #[must_use]
    pub fn write_stream(&self) -> DataStreamWriter {
        DataStreamWriter::new(self.session.clone(), self.plan.clone())
    }

    /// The session that it belongs to.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }
}

/// Rows of a batch of a result that goes far: fewer and larger ones cost less on the way.
const ROWS_OF_A_RESULT: usize = 64 << 10;

/// The rows of a plan in the order in which Spark gives them: partition by partition; so many in a
/// batch, if not as the session has it.
async fn rows(
    context: &SessionContext,
    plan: LogicalPlan,
    at_once: Option<usize>,
) -> datafusion::error::Result<SendableRecordBatchStream> {
    let frame = context.execute_logical_plan(plan).await?;
    let mut task = frame.task_ctx();
    if let Some(rows) = at_once {
        let config = task.session_config().clone().with_batch_size(rows);
        task = task.with_session_config(config);
    }
    onefold_plan::in_order(frame.create_physical_plan().await?).execute(0, Arc::new(task))
}

/// What two frames are joined on.
#[derive(Debug, Clone)]
pub enum JoinOn<'a> {
    /// A condition in SQL.
    Condition(&'a str),
    /// Columns of the same name on both sides.
    Columns(Vec<String>),
}

impl<'a> From<&'a str> for JoinOn<'a> {
    fn from(condition: &'a str) -> Self {
        JoinOn::Condition(condition)
    }
}

impl From<&[&str]> for JoinOn<'_> {
    fn from(columns: &[&str]) -> Self {
        JoinOn::Columns(columns.iter().map(|&name| name.to_owned()).collect())
    }
}

impl<const N: usize> From<[&str; N]> for JoinOn<'_> {
    fn from(columns: [&str; N]) -> Self {
        columns.as_slice().into()
    }
}

/// Spark's names of joins, without case and underscores.
fn join_type(how: &str) -> Result<JoinType> {
    match how.to_ascii_lowercase().replace('_', "").as_str() {
        "inner" | "cross" => Ok(JoinType::Inner),
        "left" | "leftouter" => Ok(JoinType::Left),
        "right" | "rightouter" => Ok(JoinType::Right),
        "outer" | "full" | "fullouter" => Ok(JoinType::Full),
        "semi" | "leftsemi" => Ok(JoinType::LeftSemi),
        "anti" | "leftanti" => Ok(JoinType::LeftAnti),
        _ => Err(Error::invalid(format!(
            "there is no join `{how}`; there are inner, cross, left, right, full, left_semi, \
             left_anti"
        ))),
    }
}

fn same(left: &str, right: &str) -> bool {
    left.to_lowercase() == right.to_lowercase()
}
