//! Running a pipeline file: one query a streaming table or flow.

mod apart;
mod places;
mod resolver;

use crate::explain::Explanation;
use crate::query::StreamingQuery;
use crate::session::Session;
use crate::trigger::Trigger;
use crate::writer::DataStreamWriter;
use datafusion::logical_expr::LogicalPlan;
use onefold_connector::OutputMode;
use onefold_plan::pipeline::{Pipeline, Statement, StreamingTable, parse, plan_table};
use onefold_state::OperatorSpec;
use onefold_types::{Error, Result};
use places::{also_into, checkpoint, output};
use resolver::Resolver;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError};

/// How a pipeline runs.
#[derive(Debug, Clone, Default)]
pub struct PipelineOptions {
    /// When its queries look for data.
    pub trigger: Trigger,
    /// The folder (path or URL) for tables without `LOCATION`, each in its own folder below, and
    /// for checkpoints.
    pub storage: Option<String>,
    /// The folder for checkpoints, each in its own folder below, by the table's name; by default
    /// `_checkpoints` below `storage`.
    pub checkpoint: Option<String>,
}

/// Starts the queries of a pipeline file: one a streaming table, in the file's order, but a table
/// that others of the file read comes before them. With a trigger that ends, a table that reads
/// another one starts when that one's query has ended, so that it sees all of it.
///
/// # Errors
/// Invalid, with line and column, when the text does not parse or a table cannot be planned;
/// otherwise as [`DataStreamWriter::start`]. Queries that were started already are stopped then.
pub fn start(
    session: &Session,
    text: &str,
    options: &PipelineOptions,
) -> Result<Vec<StreamingQuery>> {
    let planned = plan(session, text, options, true)?;
    let writers = writers(&planned, session, options)?;
    let mut running: BTreeMap<String, StreamingQuery> = BTreeMap::new();
    let mut queries = Vec::with_capacity(planned.len());
    for (table, (_, writer)) in planned.iter().zip(writers) {
        let started = wait_for(table, &running, options.trigger)
            .and_then(|()| writer.start_default())
            .and_then(|query| of_its_own(table, query, &running));
        match started {
            Ok(query) => {
                running.insert(table.key(), query.clone());
                queries.push(query);
            }
            Err(error) => {
                for query in &queries {
                    if let Err(error) = query.stop() {
                        tracing::warn!("{}", error.chain());
                    }
                }
                return Err(error);
            }
        }
    }
    Ok(queries)
}

/// What the queries of a pipeline file would do, without starting them.
///
/// # Errors
/// As [`start`], as far as no checkpoint is needed.
pub fn explain(
    session: &Session,
    text: &str,
    options: &PipelineOptions,
) -> Result<Vec<Explanation>> {
    let planned = plan(session, text, options, false)?;
    let writers = writers(&planned, session, options)?;
    writers.iter().map(|(_, writer)| writer.explain()).collect()
}

/// The queries of all tables, checked against each other.
fn writers<'a>(
    planned: &'a [PlannedTable],
    session: &Session,
    options: &PipelineOptions,
) -> Result<Vec<(&'a StreamingTable, DataStreamWriter)>> {
    let writer = |it: &'a PlannedTable| Ok((&it.table, it.writer(session, options)?));
    let writers = planned.iter().map(writer).collect::<Result<Vec<_>>>()?;
    apart::check(&writers)?;
    Ok(writers)
}

/// Two tables with one checkpoint are one query, and the later one has stopped the earlier one: also
/// where the folders do not look like one.
fn of_its_own(
    table: &PlannedTable,
    query: StreamingQuery,
    running: &BTreeMap<String, StreamingQuery>,
) -> Result<StreamingQuery> {
    let Some((other, _)) = running.iter().find(|(_, other)| other.id() == query.id()) else {
        return Ok(query);
    };
    if let Err(error) = query.stop() {
        tracing::warn!("{}", error.chain());
    }
    let StreamingTable { name, place, .. } = &table.table;
    Err(Error::invalid(format!(
        "line {}, column {}: tables `{name}` and `{other}` have one checkpoint, that of query {}; \
         give each its own by OPTIONS ('checkpointLocation' = '…')",
        place.line,
        place.column,
        query.id()
    )))
}

/// A table of a pipeline with what its query's operators keep.
#[derive(Debug, Clone)]
pub struct TableState {
    /// The table's name.
    pub name: String,
    /// The folder or URL of its checkpoint, if that outlives the query.
    pub checkpoint: Option<String>,
    /// Its stateful operators.
    pub operators: Vec<OperatorSpec>,
}

/// What the queries of a pipeline file keep of state, without starting them.
///
/// # Errors
/// As [`explain`].
pub fn state(session: &Session, text: &str, options: &PipelineOptions) -> Result<Vec<TableState>> {
    let planned = plan(session, text, options, false)?;
    let state = |table: &PlannedTable| {
        let (checkpoint, operators) = table.writer(session, options)?.state()?;
        Ok(TableState { name: table.table.name.clone(), checkpoint, operators })
    };
    planned.iter().map(state).collect()
}

fn wait_for(
    table: &PlannedTable,
    running: &BTreeMap<String, StreamingQuery>,
    trigger: Trigger,
) -> Result<()> {
    if trigger.ends() {
        for name in &table.reads {
            if let Some(query) = running.get(name) {
                query.await_termination(None)?;
            }
        }
    }
    Ok(())
}

/// A table with the plan of its query.
struct PlannedTable {
    table: StreamingTable,
    plan: LogicalPlan,
    settings: BTreeMap<String, String>,
    /// Tables of the file that it reads, in lower case.
    reads: Vec<String>,
}

impl PlannedTable {
    fn key(&self) -> String {
        self.table.name.to_lowercase()
    }

    fn writer(&self, session: &Session, options: &PipelineOptions) -> Result<DataStreamWriter> {
        let table = &self.table;
        let partition_by: Vec<&str> = table.partition_by.iter().map(String::as_str).collect();
        let mut writer = DataStreamWriter::new(session.clone(), self.plan.clone())
            .format(&table.format)
            .query_name(&table.name)
            .output_mode(table.output_mode.unwrap_or(OutputMode::Append))
            .partition_by(&partition_by)
            .trigger(options.trigger)
            .options(table.options.iter())
            .settings(self.settings.clone());
        for sink in table.sinks.iter().skip(1) {
            writer = also_into(writer, sink, options)?;
        }
        if let Some(path) = output(table, options)? {
            writer = writer.option("path", path);
        }
        if table.options.get("checkpointLocation").is_none()
            && let Some(folder) = checkpoint(table, options)
        {
            writer = writer.option("checkpointLocation", folder);
        }
        Ok(writer)
    }
}

/// Plans every table, each after those that it reads: a table that names one not planned yet is put
/// off.
fn plan(
    session: &Session,
    text: &str,
    options: &PipelineOptions,
    make_folders: bool,
) -> Result<Vec<PlannedTable>> {
    let pipeline = Arc::new(parse(text)?);
    pipeline.statements.iter().try_for_each(check_setting)?;
    let mut done: Vec<PlannedTable> = Vec::new();
    let mut open: VecDeque<StreamingTable> = pipeline.tables().cloned().collect();
    open.iter().try_for_each(apart::check_clauses)?;
    if open.is_empty() {
        return Err(Error::invalid(
            "the file has no CREATE STREAMING TABLE or CREATE FLOW, so nothing would run",
        ));
    }
    let mut put_off = 0;
    while let Some(table) = open.pop_front() {
        let resolver = Resolver::new(session, &done, options, make_folders)?;
        match plan_one(session, &pipeline, table.clone(), resolver)? {
            Attempt::Planned(planned) => {
                done.push(*planned);
                put_off = 0;
            }
            Attempt::Needs { name, error } => {
                let named = |it: &StreamingTable| it.name.to_lowercase() == name;
                if !open.iter().any(named) || put_off >= open.len() {
                    return Err(error);
                }
                open.push_back(table);
                put_off += 1;
            }
        }
    }
    Ok(done)
}

/// A setting that nobody knows is told where it stands, not where a table first uses it.
fn check_setting(statement: &Statement) -> Result<()> {
    let Statement::Set { key, value, place } = statement else { return Ok(()) };
    crate::conf::check(key, value).map_err(|error| {
        let text = format!("line {}, column {}: {}", place.line, place.column, error.chain());
        Error::new(error.kind(), text)
    })
}

/// What planning a table led to.
enum Attempt {
    Planned(Box<PlannedTable>),
    /// It reads a table that is not planned.
    Needs {
        name: String,
        error: Error,
    },
}

fn plan_one(
    session: &Session,
    pipeline: &Arc<Pipeline>,
    table: StreamingTable,
    resolver: Resolver,
) -> Result<Attempt> {
    let settings = pipeline.settings(&table);
    let (context, pipeline) = (session.context_with(&settings)?, Arc::clone(pipeline));
    session.inner.tasks.wait(async move {
        let plan = plan_table(&context, &pipeline, &table, &resolver).await;
        let Resolver { missing, reads, .. } = resolver;
        let missing = missing.into_inner().unwrap_or_else(PoisonError::into_inner);
        let reads = reads.into_inner().unwrap_or_else(PoisonError::into_inner);
        match (plan, missing) {
            (Ok(plan), _) => {
                Ok(Attempt::Planned(Box::new(PlannedTable { table, plan, settings, reads })))
            }
            (Err(error), Some(name)) => Ok(Attempt::Needs { name, error }),
            (Err(error), None) => Err(error),
        }
    })
}
