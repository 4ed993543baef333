//! Reading a table or a query of a database, once, or a table that only grows as a stream.
//!
//! *Where to start:* `options` says what is read, `split` how it is cut into partitions, `filters`
//! which conditions the database checks already, `scan` is the plan; `stream`
//! chooses ranges.

mod filters;
mod options;
mod scan;
mod split;
mod stream;

use super::database::{Column, Database};
use super::failure::Failure;
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{
    LatestOffset, ReadLimit, ScanRequest, Source, SourceContext, SourceDefinition, SourceRequest,
    SourceSpec,
};
use onefold_types::{Error, Offset, OffsetRange, Replay, Result};
use options::ReadOptions;
use std::sync::Arc;

/// Tables of databases.
pub static SPEC: SourceSpec = SourceSpec {
    name: "jdbc",
    summary: "Reads tables and queries of PostgreSQL, MySQL, MariaDB and SQLite, and follows tables that \
              only grow.",
    options: &[super::options::COMMON, options::READ],
    define: |request| Box::pin(define(request)),
};

/// What is read.
#[derive(Debug)]
pub(super) struct Definition {
    database: Arc<dyn Database>,
    options: ReadOptions,
    /// What stands behind FROM.
    from: String,
    columns: Vec<Column>,
    schema: SchemaRef,
    /// Of a stream: the column that grows.
    growing: Option<Column>,
}

impl Definition {
    /// For people.
    fn what(&self) -> String {
        format!("{} of {}", self.options.shown(), self.database.place())
    }
}

/// The column of a stream.
fn growing(options: &ReadOptions, columns: &[Column]) -> Result<Column> {
    let Some(name) = &options.growing else {
        return Err(Error::invalid(
            "a table as a stream needs a column that grows with each row that is added, such as an \
             id or a time; name it in option onefold.jdbc.growingColumn. Rows that change or go are \
             not seen: read these from a log such as Kafka",
        ));
    };
    if !options.is_table() {
        return Err(Error::invalid("a stream reads a table; give it in dbtable, and not a query"));
    }
    let own = columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
    match own.filter(|column| stream::fits(&column.data_type)) {
        Some(column) => Ok(column.clone()),
        None => Err(Error::invalid(format!(
            "option onefold.jdbc.growingColumn names `{name}`, which is no column of whole numbers, \
             dates or times"
        ))),
    }
}

async fn define(request: SourceRequest) -> Result<Arc<dyn SourceDefinition>> {
    let SourceRequest { options, schema, paths, whole, .. } = request;
    let database = super::open(&options)?;
    let options = ReadOptions::read(&options, paths)?;
    if schema.is_some() {
        return Err(Error::invalid(
            "a schema was given for a table of a database, which has columns of its own; leave it \
             out, and cast in option `query`",
        ));
    }
    let from = options.from(database.dialect());
    let place = database.place();
    let failed = |failure: Failure| failure.nothing_done(format!("{} of {place}", options.shown()));
    let mut session = database.connect().await.map_err(failed)?;
    let columns =
        session.describe(&format!("SELECT * FROM {from} LIMIT 1")).await.map_err(failed)?;
    let fields: Vec<Field> = columns
        .iter()
        .map(|column| Field::new(&column.name, column.data_type.clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let growing = if whole { None } else { Some(growing(&options, &columns)?) };
    let definition = Definition { database, options, from, columns, schema, growing };
    Ok(Arc::new(Shared(Arc::new(definition))))
}

/// A definition that its sources share.
#[derive(Debug)]
struct Shared(Arc<Definition>);

#[async_trait]
impl SourceDefinition for Shared {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.schema)
    }

    fn replay(&self) -> Replay {
        match &self.0.growing {
            None => Replay::None { why: "rows of a table change without a trace".to_owned() },
            Some(column) => Replay::Exact {
                how: format!(
                    "a range of column `{}` is read again, as long as rows are only added, each with \
                     a larger value; rows that change, go, come with a smaller value or with NULL are \
                     not seen",
                    column.name
                ),
            },
        }
    }

    fn description(&self) -> String {
        format!("JdbcSource[{}, {}]", self.0.database.place(), self.0.options.shown())
    }

    async fn open(&self, _: SourceContext) -> Result<Arc<dyn Source>> {
        Ok(match self.0.growing {
            None => Arc::new(Once(Arc::clone(&self.0))),
            Some(_) => Arc::new(stream::Growing::new(Arc::clone(&self.0))),
        })
    }
}

/// A table that is read once.
#[derive(Debug)]
struct Once(Arc<Definition>);

#[async_trait]
impl Source for Once {
    async fn pin_available(&self) -> Result<()> {
        Ok(())
    }

    async fn latest_offset(&self, _: Option<&Offset>, _: ReadLimit) -> Result<LatestOffset> {
        Ok(LatestOffset { end: Some(Offset::new("\"now\"")), latest: None, note: None })
    }

    async fn read(
        &self,
        _: &OffsetRange,
        request: ScanRequest<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        scan::plan(&self.0, request.projection, request.filters, None)
    }

    async fn release(&self, _: &OffsetRange) -> Result<()> {
        Ok(())
    }
}
