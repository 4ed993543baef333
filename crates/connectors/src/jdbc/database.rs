//! What a database must do for the rest of this folder: run statements, take rows in bulk, give rows.

use super::cell::Cell;
use super::dialect::Dialect;
use super::failure::Failure;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use futures::stream::BoxStream;
use std::fmt::Debug;
use std::sync::Arc;

/// A database that can be reached.
#[async_trait]
pub trait Database: Debug + Send + Sync {
    /// How it wants to be spoken to.
    fn dialect(&self) -> &'static dyn Dialect;

    /// Where it is, without secrets: `jdbc:postgresql://host:5432/db`.
    fn place(&self) -> String;

    /// A new session.
    ///
    /// # Errors
    /// Refused: it does not let us in. Lost: nobody answers.
    async fn connect(&self) -> Result<Box<dyn Session>, Failure>;
}

/// A column as the database has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type that its values have here.
    pub data_type: DataType,
    /// Its type in the database's words, for casts.
    pub declared: String,
    /// Its values travel as text, and are cast to and from its type by the database.
    pub by_text: bool,
}

/// A session. Between two calls no transaction is open, unless a statement began one.
#[async_trait]
pub trait Session: Debug + Send {
    /// Runs one statement; how many rows it touched.
    ///
    /// # Errors
    /// What the database said, or that it is gone.
    async fn execute(&mut self, sql: &str, values: &[Cell]) -> Result<u64, Failure>;

    /// Runs one statement that gives few rows.
    ///
    /// # Errors
    /// As [`Session::execute`].
    async fn query(&mut self, sql: &str, values: &[Cell]) -> Result<Vec<Vec<Cell>>, Failure>;

    /// The columns that a query would give.
    ///
    /// # Errors
    /// As [`Session::execute`]; `NoTable` where a table is missing.
    async fn describe(&mut self, sql: &str) -> Result<Vec<Column>, Failure>;

    /// Puts rows into a table, outside of any transaction. Columns of rows and `columns` fit by
    /// place.
    ///
    /// # Errors
    /// As [`Session::execute`], with the row (counted in `rows`) and the column if they are known.
    async fn load(
        &mut self,
        table: &str,
        columns: &[Column],
        rows: &RecordBatch,
    ) -> Result<(), Failure>;

    /// Runs a query whose rows come as batches of about `fetch` rows. The session ends with it.
    fn read(
        self: Box<Self>,
        sql: String,
        values: Vec<Cell>,
        columns: Arc<Vec<Column>>,
        schema: SchemaRef,
        fetch: usize,
    ) -> BoxStream<'static, Result<RecordBatch, Failure>>;
}
