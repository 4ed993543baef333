//! What a pipeline file says.

use arrow::datatypes::SchemaRef;
use onefold_types::OptionMap;

/// A place in the user's file; both count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

/// A parsed file.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// The statements in order.
    pub statements: Vec<Statement>,
}

/// One statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `SET key = value`: holds for the statements after it.
    Set {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// Where the statement begins.
        place: Place,
    },
    /// `CREATE TEMPORARY VIEW`.
    View(View),
    /// `CREATE STREAMING TABLE`: one query.
    Table(StreamingTable),
}

/// `CREATE TEMPORARY VIEW name AS query`.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// Its name as written.
    pub name: String,
    /// Its comment.
    pub comment: Option<String>,
    /// What it stands for.
    pub query: Query,
    /// Where the statement begins.
    pub place: Place,
}

/// `CREATE STREAMING TABLE name … AS query`.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamingTable {
    /// Its name as written; parts joined with dots.
    pub name: String,
    /// `OR REFRESH` was given. It changes nothing: a table continues from its checkpoint.
    pub or_refresh: bool,
    /// `IF NOT EXISTS` was given.
    pub if_not_exists: bool,
    /// The columns, where they were declared.
    pub columns: Option<SchemaRef>,
    /// The sink's format after `USING`, in lower case.
    pub format: String,
    /// Columns of `PARTITIONED BY`.
    pub partition_by: Vec<String>,
    /// `LOCATION`.
    pub location: Option<String>,
    /// `OPTIONS`.
    pub options: OptionMap,
    /// `TBLPROPERTIES`.
    pub properties: OptionMap,
    /// `COMMENT`.
    pub comment: Option<String>,
    /// The query.
    pub query: Query,
    /// Where the statement begins.
    pub place: Place,
}

/// A query and the streams that it reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The query as sqlparser reads it. Streams stand as tables named
    /// `__onefold_stream_0`, `__onefold_stream_1` … in the order of `streams`.
    pub(crate) ast: Box<datafusion::sql::sqlparser::ast::Query>,
    /// The streams.
    pub streams: Vec<StreamReference>,
}

/// What stands after `STREAM`.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamReference {
    /// `STREAM read_files(…)`, or another format by its own name: `STREAM rate(…)`.
    Read(StreamRead),
    /// `STREAM(name)` or `STREAM name`: another table of the file.
    Table {
        /// Its name as written.
        name: String,
        /// Where it stands.
        place: Place,
    },
}

/// A source with its options.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamRead {
    /// The format, in lower case; `None` when `read_files` was given none.
    pub format: Option<String>,
    /// The paths.
    pub paths: Vec<String>,
    /// The schema, if given.
    pub schema: Option<SchemaRef>,
    /// The source's name, if given.
    pub name: Option<String>,
    /// All other options.
    pub options: OptionMap,
    /// Where it stands.
    pub place: Place,
}
