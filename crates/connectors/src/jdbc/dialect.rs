//! How the databases differ: quoting, types, and the few statements that they spell in their own way.

mod mysql;
mod postgres;
mod sqlite;

use super::cell::Cell;
use super::names::TableName;
use arrow::datatypes::DataType;
use std::fmt::Debug;

/// PostgreSQL.
pub static POSTGRESQL: &dyn Dialect = &postgres::PostgreSql;
/// MySQL and MariaDB.
pub static MYSQL: &dyn Dialect = &mysql::MySql;
/// SQLite.
pub static SQLITE: &dyn Dialect = &sqlite::Sqlite;

/// Spark's words for how much transactions see of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// What others committed.
    ReadCommitted,
    /// What was there when the transaction began.
    RepeatableRead,
    /// As if there were no others.
    Serializable,
}

/// The newest rows of a batch that bring a table up to date.
#[derive(Debug)]
pub struct Upsert<'a> {
    /// The table, quoted.
    pub table: &'a str,
    /// A query in parentheses that gives each key once, with all columns.
    pub rows: &'a str,
    /// Columns that tell which row is which, quoted.
    pub keys: &'a [String],
    /// All columns that are written, quoted.
    pub columns: &'a [String],
}

impl Upsert<'_> {
    /// The columns that are no keys.
    fn others(&self) -> impl Iterator<Item = &String> {
        self.columns.iter().filter(|column| !self.keys.contains(column))
    }
}

/// A query for names that begin with a text.
#[derive(Debug)]
pub struct Like {
    /// The query. Its first value is the pattern of LIKE.
    pub sql: String,
    /// Its second value, where it has one.
    pub more: Option<Cell>,
}

/// A database's ways.
pub trait Dialect: Debug + Send + Sync {
    /// Its name for messages.
    fn name(&self) -> &'static str;
    /// What stands around names.
    fn quote(&self) -> &'static str;
    /// The n-th value of a statement, counted from 1.
    fn placeholder(&self, at: usize) -> String;
    /// The type of a new column; `None` if it has none for these values. A key may need a type that
    /// can be indexed.
    fn type_of(&self, data_type: &DataType, key: bool) -> Option<String>;
    /// The type of names and ids in the table of marks.
    fn short_text(&self) -> &'static str {
        "VARCHAR(255)"
    }
    /// Whether tables that are made or dropped in a transaction come and go with it.
    fn tables_in_transactions(&self) -> bool;
    /// Statements that begin a transaction.
    fn begin(&self, isolation: Isolation) -> Vec<String>;
    /// What a query ends with so that its rows stay as they are until the transaction ends.
    fn for_update(&self) -> &'static str {
        " FOR UPDATE"
    }
    /// What stands between CREATE and TABLE for a table that may be lost with the server. It is
    /// only used where the rows are counted before they are moved.
    fn fleeting(&self) -> &'static str {
        ""
    }
    /// What a new table's statement ends with where the user says nothing.
    fn table_options(&self) -> &'static str {
        ""
    }
    /// A query for the names of tables that begin with a text, in the schema of another table or
    /// the current one.
    fn tables_like(&self, schema: Option<&str>) -> Like;
    /// Statements that bring a table up to date.
    fn upsert(&self, upsert: &Upsert<'_>) -> Vec<String>;
    /// Statements that put a table in the place of another one, which goes. Where tables take no part in
    /// transactions, what was done before is committed.
    fn take_place(&self, new: &TableName, old: &TableName) -> Vec<String>;
    /// Empties a table within a transaction.
    fn empty(&self, table: &str, truncate: bool) -> String;
    /// Whether a table can take part in transactions: a query for its engine by schema (or NULL) and
    /// name, where there are several.
    fn engine_of(&self) -> Option<&'static str> {
        None
    }
    /// A column of a query, as text if it travels so.
    fn as_text(&self, column: &str) -> String {
        format!("CAST({column} AS CHAR)")
    }
    /// A staging table's column for values that travel as text.
    fn text_column(&self) -> &'static str {
        "CAST(NULL AS CHAR)"
    }
    /// A value that travelled as text in the column's own type.
    fn typed(&self, column: &str, declared: &str) -> String {
        format!("CAST({column} AS {declared})")
    }
    /// A condition for rows that no transaction which is still open may come before in the order of a
    /// sequence; empty where there is none.
    fn settled_rows(&self) -> &'static str {
        ""
    }
    /// A staging table's column for booleans.
    fn no_flag(&self) -> &'static str {
        "NULLIF(1, 1)"
    }
    /// The place of a staged row among its partition's.
    fn zero(&self) -> &'static str {
        "0"
    }
}
