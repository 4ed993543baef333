//! What a pipeline file says.

use arrow::datatypes::SchemaRef;
use onefold_connector::OutputMode;
use onefold_types::OptionMap;
use std::collections::BTreeMap;

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
    /// `CREATE SINK`: a place that flows write into.
    Sink(Sink),
    /// `CREATE FLOW`: one query, which writes into a sink of the file.
    Flow(StreamingTable),
}

impl Statement {
    /// The name that it gives to a table or view.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Statement::Set { .. } => None,
            Statement::View(view) => Some(&view.name),
            Statement::Table(table) | Statement::Flow(table) => Some(&table.name),
            Statement::Sink(sink) => Some(&sink.name),
        }
    }

    /// Where it begins.
    #[must_use]
    pub fn place(&self) -> Place {
        match self {
            Statement::Set { place, .. } => *place,
            Statement::View(view) => view.place,
            Statement::Table(table) | Statement::Flow(table) => table.place,
            Statement::Sink(sink) => sink.place,
        }
    }
}

impl Pipeline {
    /// The tables and flows, each of which is a query of its own.
    pub fn tables(&self) -> impl Iterator<Item = &StreamingTable> {
        self.statements.iter().filter_map(|statement| match statement {
            Statement::Table(table) | Statement::Flow(table) => Some(table),
            _ => None,
        })
    }

    /// The sinks, each of which some flow writes into.
    pub fn sinks(&self) -> impl Iterator<Item = &Sink> {
        self.statements.iter().filter_map(|statement| match statement {
            Statement::Sink(sink) => Some(sink),
            _ => None,
        })
    }

    /// The settings that hold for a table: those of `SET` statements before it, last one wins.
    #[must_use]
    pub fn settings(&self, table: &StreamingTable) -> BTreeMap<String, String> {
        self.statements
            .iter()
            .filter_map(|statement| match statement {
                Statement::Set { key, value, place } if *place < table.place => {
                    Some((key.clone(), value.clone()))
                }
                _ => None,
            })
            .collect()
    }
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

/// `CREATE SINK name USING format …`: a place to write to, with no query of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Sink {
    /// Its name as written; parts joined with dots.
    pub name: String,
    /// The format after `USING`, in lower case.
    pub format: String,
    /// Columns of `PARTITIONED BY`.
    pub partition_by: Vec<String>,
    /// `LOCATION`.
    pub location: Option<String>,
    /// `OPTIONS`.
    pub options: OptionMap,
    /// What each batch gives, where `OPTIONS` say it.
    pub output_mode: Option<OutputMode>,
    /// `COMMENT`.
    pub comment: Option<String>,
    /// Where the statement begins.
    pub place: Place,
}

/// One query and where it writes: `CREATE STREAMING TABLE name … AS query`, or `CREATE FLOW name AS
/// INSERT INTO sink query`.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamingTable {
    /// Its name as written; parts joined with dots.
    pub name: String,
    /// The sinks that a flow writes into; none for a table. The fields below are the first one's
    /// then, with the flow's own options over them; the others get the same rows.
    pub sinks: Vec<Sink>,
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
    /// What each batch gives: `outputMode` of `OPTIONS` or `TBLPROPERTIES`; append if not said.
    pub output_mode: Option<OutputMode>,
    /// `COMMENT`.
    pub comment: Option<String>,
    /// The query.
    pub query: Query,
    /// Where the statement begins.
    pub place: Place,
}

impl StreamingTable {
    /// What a person calls it: `table` or `flow`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        if self.sinks.is_empty() { "table" } else { "flow" }
    }

    /// The name of what is written: the sink's, or the table's own.
    #[must_use]
    pub fn output_name(&self) -> &str {
        self.sinks.first().map_or(&self.name, |sink| &sink.name)
    }
}

/// A query and the streams that it reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The query as sqlparser reads it. Streams stand as tables named
    /// `__onefold_stream_0`, `__onefold_stream_1` … in the order of `streams`, and what is read as
    /// a whole as `__onefold_whole_0` … in the order of `wholes`.
    pub(crate) ast: Box<datafusion::sql::sqlparser::ast::Query>,
    /// The streams.
    pub streams: Vec<StreamReference>,
    /// `read_files(…)` without STREAM: read as a whole in each batch.
    pub wholes: Vec<StreamRead>,
    /// Tables and queries in brackets that have a watermark.
    pub(crate) watermarked: Vec<crate::sql::watermark_clause::Watermarked>,
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
