//! A table or stream with what is computed from it.

use crate::fault::from_datafusion;
use crate::session::Session;
use crate::writer::DataStreamWriter;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::logical_expr::LogicalPlan;
use onefold_types::{Error, Result};
use std::sync::Arc;

/// A table or stream with what is computed from it, as Spark's `DataFrame`.
#[derive(Debug, Clone)]
pub struct DataFrame {
    session: Session,
    frame: datafusion::prelude::DataFrame,
}

impl DataFrame {
    pub(crate) fn new(session: Session, frame: datafusion::prelude::DataFrame) -> Self {
        DataFrame { session, frame }
    }

    fn with(
        &self,
        frame: datafusion::error::Result<datafusion::prelude::DataFrame>,
    ) -> Result<Self> {
        let frame = frame.map_err(from_datafusion)?;
        Ok(DataFrame { session: self.session.clone(), frame })
    }

    /// These SQL expressions as columns.
    ///
    /// # Errors
    /// Invalid, when an expression does not parse or names no column.
    pub fn select_expr(&self, expressions: &[&str]) -> Result<Self> {
        self.with(self.frame.clone().select_exprs(expressions))
    }

    /// These columns.
    ///
    /// # Errors
    /// Invalid, when there is no such column.
    pub fn select(&self, columns: &[&str]) -> Result<Self> {
        self.with(self.frame.clone().select_columns(columns))
    }

    /// The rows for which a SQL condition holds.
    ///
    /// # Errors
    /// Invalid, when the condition does not parse or names no column.
    pub fn filter(&self, condition: &str) -> Result<Self> {
        let condition = self.frame.parse_sql_expr(condition).map_err(from_datafusion)?;
        self.with(self.frame.clone().filter(condition))
    }

    /// With one more column, or another one in its place.
    ///
    /// # Errors
    /// Invalid, when the expression does not parse or names no column.
    pub fn with_column(&self, name: &str, expression: &str) -> Result<Self> {
        let expression = self.frame.parse_sql_expr(expression).map_err(from_datafusion)?;
        self.with(self.frame.clone().with_column(name, expression))
    }

    /// Without these columns; those that are not there are passed over.
    ///
    /// # Errors
    /// Invalid, when no column would be left.
    pub fn drop(&self, columns: &[&str]) -> Result<Self> {
        let known: Vec<&str> = columns
            .iter()
            .copied()
            .filter(|name| self.frame.schema().has_column_with_unqualified_name(name))
            .collect();
        if known.len() == self.frame.schema().fields().len() {
            return Err(Error::invalid("no column would be left; keep at least one"));
        }
        self.with(self.frame.clone().drop_columns(&known))
    }

    /// The rows of both, columns by position.
    ///
    /// # Errors
    /// Invalid, when the columns do not fit.
    pub fn union(&self, other: &DataFrame) -> Result<Self> {
        self.with(self.frame.clone().union(other.frame.clone()))
    }

    /// Names it in the session, for [`Session::sql`].
    ///
    /// # Errors
    /// Invalid, when the name is not one.
    pub fn create_or_replace_temp_view(&self, name: &str) -> Result<()> {
        let context = &self.session.inner.context;
        let reference = datafusion::common::TableReference::bare(name);
        context.deregister_table(reference.clone()).map_err(from_datafusion)?;
        context
            .register_table(reference, self.frame.clone().into_view())
            .map_err(from_datafusion)?;
        Ok(())
    }

    /// Its columns.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(self.frame.schema().inner())
    }

    /// What is computed.
    #[must_use]
    pub fn logical_plan(&self) -> &LogicalPlan {
        self.frame.logical_plan()
    }

    /// All rows of a table that is not a stream.
    ///
    /// # Errors
    /// Invalid, for a stream: start a query with [`DataFrame::write_stream`].
    pub fn collect(&self) -> Result<Vec<RecordBatch>> {
        let frame = self.frame.clone();
        let context = self.session.inner.context.clone();
        self.session.inner.tasks.wait(async move {
            // Planned anew: the table may have got rows or columns since the frame was made.
            let plan = frame.logical_plan().clone();
            let frame = context.execute_logical_plan(plan).await.map_err(from_datafusion)?;
            frame.collect().await.map_err(from_datafusion)
        })
    }

    /// Begins to describe where the stream goes.
    #[must_use]
    pub fn write_stream(&self) -> DataStreamWriter {
        DataStreamWriter::new(self.session.clone(), self.logical_plan().clone())
    }

    /// The session that it belongs to.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }
}
