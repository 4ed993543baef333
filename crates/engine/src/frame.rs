//! A table or stream with what is computed from it.

use crate::fault::from_datafusion;
use crate::session::Session;
use crate::writer::DataStreamWriter;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::catalog::view::ViewTable;
use datafusion::common::{DFSchema, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
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
        self.with(|plan| plan.union(other.plan.clone()))
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

    /// All rows of a table that is not a stream.
    ///
    /// # Errors
    /// Invalid, for a stream: start a query with [`DataFrame::write_stream`].
    pub fn collect(&self) -> Result<Vec<RecordBatch>> {
        let (context, plan) = (self.session.inner.context.clone(), self.plan.clone());
        self.session.inner.tasks.wait(async move {
            let frame = context.execute_logical_plan(plan).await.map_err(from_datafusion)?;
            frame.collect().await.map_err(from_datafusion)
        })
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

fn same(left: &str, right: &str) -> bool {
    left.to_lowercase() == right.to_lowercase()
}
