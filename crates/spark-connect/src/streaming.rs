//! Streaming queries: starting them, and what a client asks of them.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::python::{data_source, foreach, foreach_batch, with_calls};
use crate::relation::Planner;
use onefold_engine::{
    BatchObserver, DataStreamWriter, OutputMode, SETTINGS, StreamingQuery, TableDefinition,
    Trigger, WRITER_OPTIONS,
};
use spark_connect_proto::streaming_query_command::Command as QueryCommand;
use spark_connect_proto::streaming_query_command_result as result;
use spark_connect_proto::streaming_query_command_result::ResultType;
use spark_connect_proto::streaming_query_manager_command::Command as ManagerCommand;
use spark_connect_proto::streaming_query_manager_command_result as managed;
use spark_connect_proto::streaming_query_manager_command_result::ResultType as Managed;
use spark_connect_proto::write_stream_operation_start as start;
use spark_connect_proto::{
    StreamingQueryCommand, StreamingQueryCommandResult, StreamingQueryInstanceId,
    StreamingQueryManagerCommand, StreamingQueryManagerCommandResult, WriteStreamOperationStart,
    WriteStreamOperationStartResult,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn ids(query: &StreamingQuery) -> StreamingQueryInstanceId {
    StreamingQueryInstanceId { id: query.id().to_string(), run_id: query.run_id().to_string() }
}

/// Starts a query. Blocks until it has begun.
pub(crate) fn start(
    session: &Arc<ClientSession>,
    mut request: WriteStreamOperationStart,
) -> Outcome<WriteStreamOperationStartResult> {
    let python = session.data_source(&request.format).map(|class| (class, options_of(&request)));
    if python.is_some() {
        // The others are the data source's.
        request.options.retain(|name, _| is_own_option(name));
    }
    let input = request.input.as_ref().ok_or_else(|| Failure::missing("input"))?;
    let mut planner = Planner::new(session);
    let plan = planner.plan(input)?;
    let calls = planner.calls;
    let plan = with_calls(plan, &calls)?;
    let observers = planner.observers.into_iter();
    let observers = observers.map(|it| it as Arc<dyn BatchObserver>).collect();
    let columns = crate::analyze::rows_schema(&plan);
    let mut writer = session.engine.frame(plan).write_stream().observers(observers);
    if !request.format.is_empty() {
        writer = writer.format(&request.format);
    }
    writer = described(writer, &request)?;
    if let Some((class, options)) = python {
        let complete = output_mode(&request.output_mode)? == OutputMode::Complete;
        writer = writer.sink(data_source::sink(session, class, options, complete)?);
    }
    let mut switch = None;
    if let Some(function) = &request.foreach_batch {
        (writer, switch) = foreach_batch::with_function(session, writer, function)?;
    }
    if let Some(function) = &request.foreach_writer {
        writer = foreach::with_writer(session, writer, function, &calls)?;
    }
    let started = session.started_events();
    let query = match &request.sink_destination {
        Some(start::SinkDestination::Path(path)) if !path.is_empty() => {
            writer.start(path.as_str()).map_err(Failure::from)
        }
        Some(start::SinkDestination::TableName(name)) if !name.is_empty() => {
            to_table(session, writer, &request, name, &columns)
        }
        _ => writer.start_default().map_err(Failure::from),
    }?;
    session.keep_query(query.clone(), switch, calls, Instant::now());
    let query_id = Some(ids(&query));
    let event = started.take(&query);
    Ok(WriteStreamOperationStartResult {
        query_id,
        name: query.name().unwrap_or_default().to_owned(),
        query_started_event_json: event,
    })
}

/// All options, the path among them.
fn options_of(request: &WriteStreamOperationStart) -> BTreeMap<String, String> {
    let mut options: BTreeMap<String, String> = request.options.clone().into_iter().collect();
    if let Some(start::SinkDestination::Path(path)) = &request.sink_destination {
        options.insert("path".to_owned(), path.clone());
    }
    options
}

/// Whether an option is the query's own.
fn is_own_option(name: &str) -> bool {
    let own = WRITER_OPTIONS.iter().chain(SETTINGS).map(|row| row.name);
    own.into_iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Starts a query whose files are those of a table, which is made if it is not there.
fn to_table(
    session: &ClientSession,
    writer: DataStreamWriter,
    request: &WriteStreamOperationStart,
    name: &str,
    columns: &arrow::datatypes::Schema,
) -> Outcome<StreamingQuery> {
    if let Some(there) = session.engine.table_definition(name)? {
        let files = session.engine.table_files(name, &there)?;
        return Ok(writer.format(&there.format).start(files)?);
    }
    let path = request.options.iter().find(|(key, _)| key.eq_ignore_ascii_case("path"));
    let format = if request.format.is_empty() { "parquet" } else { request.format.as_str() };
    let definition = TableDefinition {
        format: format.to_lowercase(),
        schema: onefold_plan::schema::schema_ddl(columns),
        partition_by: request.partitioning_column_names.clone(),
        cluster_by: request.clustering_column_names.clone(),
        location: path.map(|(_, path)| path.clone()),
        ..TableDefinition::default()
    };
    let query = writer.to_table(name)?;
    session.engine.create_table(name, &definition)?;
    Ok(query)
}

fn described(
    mut writer: DataStreamWriter,
    request: &WriteStreamOperationStart,
) -> Outcome<DataStreamWriter> {
    let options = request.options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    writer = writer.options(options);
    let partitioning: Vec<&str> =
        request.partitioning_column_names.iter().map(String::as_str).collect();
    writer = writer.partition_by(&partitioning);
    if !request.query_name.is_empty() {
        writer = writer.query_name(&request.query_name);
    }
    writer = writer.output_mode(output_mode(&request.output_mode)?);
    Ok(match &request.trigger {
        None => writer,
        Some(start::Trigger::ProcessingTimeInterval(text)) => {
            let trigger = text.parse::<Trigger>().map_err(|_| {
                Failure::invalid(format!("Interval '{text}' of the trigger is no span of time"))
            })?;
            writer.trigger(trigger)
        }
        Some(start::Trigger::AvailableNow(_)) => writer.trigger(Trigger::AvailableNow),
        Some(start::Trigger::Once(_)) => writer.trigger(Trigger::Once),
        Some(start::Trigger::ContinuousCheckpointInterval(_)) => {
            return Err(Failure::unsupported("the continuous trigger"));
        }
        Some(start::Trigger::RealTimeBatchDuration(_)) => {
            return Err(Failure::no_real_time());
        }
    })
}

pub(crate) fn output_mode(text: &str) -> Outcome<OutputMode> {
    match text.to_lowercase().as_str() {
        "" | "append" => Ok(OutputMode::Append),
        "update" => Ok(OutputMode::Update),
        "complete" => Ok(OutputMode::Complete),
        _ => Err(Failure::invalid(format!(
            "Unknown output mode {text}. Accepted output modes are 'append', 'complete', 'update'"
        ))),
    }
}

/// Answers a question about one query. Blocks for as long as the client wants to wait.
pub(crate) fn command(
    session: &ClientSession,
    request: StreamingQueryCommand,
) -> Outcome<StreamingQueryCommandResult> {
    let asked = request.query_id.ok_or_else(|| Failure::missing("query_id"))?;
    let query = session.query(&asked.id, &asked.run_id)?;
    let command = request.command.ok_or_else(|| Failure::missing("command"))?;
    let result_type = match command {
        QueryCommand::Status(_) => {
            let status = query.status();
            Some(ResultType::Status(result::StatusResult {
                status_message: status.message,
                is_data_available: status.is_data_available,
                is_trigger_active: status.is_trigger_active,
                is_active: query.is_active(),
            }))
        }
        QueryCommand::LastProgress(_) => {
            let last = query.last_progress().map(|progress| progress.json());
            Some(progress(last.into_iter().collect()))
        }
        QueryCommand::RecentProgress(_) => {
            Some(progress(query.recent_progress().iter().map(|it| it.json()).collect()))
        }
        QueryCommand::Stop(_) => {
            query.ask_to_stop();
            session.interrupt(&query);
            query.stop()?;
            None
        }
        QueryCommand::ProcessAllAvailable(_) => {
            query.process_all_available().map_err(|_| failed(&query))?;
            None
        }
        QueryCommand::Explain(asked) => {
            let explanation = query.explain();
            let text = explained(&explanation, asked.extended);
            Some(ResultType::Explain(result::ExplainResult { result: text }))
        }
        QueryCommand::Exception(_) => {
            let exception = query.exception().map(|_| {
                let failure = failed(&query);
                result::ExceptionResult {
                    exception_message: Some(failure.message().to_owned()),
                    error_class: failure.error_class().map(str::to_owned),
                    stack_trace: None,
                }
            });
            Some(ResultType::Exception(exception.unwrap_or_default()))
        }
        QueryCommand::AwaitTermination(asked) => {
            let limit = asked.timeout_ms.and_then(milliseconds);
            let terminated = query.await_termination(limit).map_err(|_| failed(&query))?;
            Some(ResultType::AwaitTermination(result::AwaitTerminationResult { terminated }))
        }
    };
    Ok(StreamingQueryCommandResult { query_id: Some(ids(&query)), result_type })
}

fn milliseconds(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

fn progress(recent_progress_json: Vec<String>) -> ResultType {
    ResultType::RecentProgress(result::RecentProgressResult { recent_progress_json })
}

/// The failure by which a query ended.
fn failed(query: &StreamingQuery) -> Failure {
    let message = query.exception().map(|exception| exception.message).unwrap_or_default();
    Failure::stream_failed(&query.id().to_string(), &query.run_id().to_string(), &message)
}

fn explained(explanation: &onefold_engine::Explanation, extended: bool) -> String {
    let mut text = String::new();
    if extended {
        text.push_str("== Logical Plan ==\n");
        text.push_str(&explanation.logical_plan);
        text.push('\n');
    }
    match &explanation.physical_plan {
        Some(plan) => {
            text.push_str("== Physical Plan ==\n");
            text.push_str(plan);
        }
        None => text.push_str("No physical plan. Waiting for data."),
    }
    text
}

/// Answers a question about the queries of a session.
pub(crate) fn manage(
    session: &ClientSession,
    request: StreamingQueryManagerCommand,
) -> Outcome<StreamingQueryManagerCommandResult> {
    let command = request.command.ok_or_else(|| Failure::missing("command"))?;
    let streams = session.engine.streams();
    let instance = |query: &StreamingQuery| managed::StreamingQueryInstance {
        id: Some(ids(query)),
        name: query.name().map(str::to_owned),
    };
    let result_type = match command {
        ManagerCommand::Active(_) => {
            let active_queries = streams.active().iter().map(instance).collect();
            Some(Managed::Active(managed::ActiveResult { active_queries }))
        }
        ManagerCommand::GetQuery(id) => {
            let active = streams.active();
            let found = active.iter().find(|query| query.id().to_string() == id);
            found.map(|query| Managed::Query(instance(query)))
        }
        ManagerCommand::AwaitAnyTermination(asked) => {
            let limit = asked.timeout_ms.and_then(milliseconds);
            let terminated = streams
                .await_any_termination(limit)
                .map_err(|error| Failure::stream_failed("", "", &error.chain()))?;
            Some(Managed::AwaitAnyTermination(managed::AwaitAnyTerminationResult { terminated }))
        }
        ManagerCommand::ResetTerminated(_) => {
            streams.reset_terminated();
            Some(Managed::ResetTerminated(true))
        }
        ManagerCommand::AddListener(_) | ManagerCommand::RemoveListener(_) => {
            return Err(Failure::unsupported("a listener that runs in the server"));
        }
        ManagerCommand::ListListeners(_) => {
            Some(Managed::ListListeners(managed::ListStreamingQueryListenerResult {
                listener_ids: Vec::new(),
            }))
        }
    };
    Ok(StreamingQueryManagerCommandResult { result_type })
}
