//! Executing a plan: rows of a relation, or what a command does.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::observe::Observer;
use crate::operation::Operation;
use crate::python::data_source::DataSourceClass;
use crate::python::with_calls;
use crate::relation::Planner;
use crate::{
    apart, catalog, message, observed, result_rows, service, sql_command, streaming, write,
    write_to,
};
use onefold_types::Error;
use spark_connect_proto::command::CommandType;
use spark_connect_proto::execute_plan_response::ResponseType;
use spark_connect_proto::plan::OpType;
use spark_connect_proto::plan::compressed_operation::OpType as CompressedKind;
use spark_connect_proto::{Command, CompressionCodec, Plan, Relation};
use std::sync::Arc;

/// Largest plan after decompression, in bytes.
const PLAN_MAX: usize = 1 << 30;

/// Runs an operation to its end, which its responses tell.
pub(crate) async fn run(
    session: Arc<ClientSession>,
    operation: Arc<Operation>,
    plan: Option<Plan>,
) {
    let result = apart::run(until_cancelled(Arc::clone(&session), Arc::clone(&operation), plan));
    let result = result.await;
    operation.finish(result.map_err(|failure| service::status_of(&session, failure)));
}

async fn until_cancelled(
    session: Arc<ClientSession>,
    operation: Arc<Operation>,
    plan: Option<Plan>,
) -> Outcome<()> {
    // A task of its own: a function in Python holds the one that waits for it.
    let work = tokio::spawn({
        let (session, operation) = (Arc::clone(&session), Arc::clone(&operation));
        async move { execute(&session, &operation, plan).await }
    });
    let abort = work.abort_handle();
    tokio::select! {
        result = work => result.unwrap_or_else(|error| {
            tracing::error!(%error, "a request panicked");
            Err(Failure::execution(&Error::internal(
                "the request met a bug in Onefold; please report it with the query",
            )))
        }),
        () = operation.until_cancelled() => {
            abort.abort();
            session.end_calls(&operation.calls);
            Err(Failure::cancelled())
        }
    }
}

async fn execute(
    session: &Arc<ClientSession>,
    operation: &Arc<Operation>,
    plan: Option<Plan>,
) -> Outcome<()> {
    match opened(plan)? {
        OpType::Root(relation) => {
            let calls = operation.calls.clone();
            let planned = blocking(session, move |session| {
                let mut planner = Planner::new(session);
                let plan = planner.plan(&relation)?;
                Ok((with_calls(plan, &calls)?, planner.observers))
            });
            let (plan, observers) = planned.await?;
            result_rows::send(session, operation, plan).await?;
            send_observed(operation, &observers).await
        }
        OpType::Command(command) => run_command(session, operation, command).await,
        OpType::CompressedOperation(_) => Err(Failure::invalid("a plan is compressed twice")),
    }
}

/// Does what may block (planning, waiting for queries) off the server's threads.
pub(crate) async fn blocking<T: Send + 'static>(
    session: &Arc<ClientSession>,
    work: impl FnOnce(&Arc<ClientSession>) -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    let session = Arc::clone(session);
    let done = tokio::task::spawn_blocking(move || work(&session)).await;
    done.unwrap_or_else(|error| {
        tracing::error!(%error, "a request panicked");
        Err(Failure::execution(&Error::internal(
            "the request met a bug in Onefold; please report it with the query",
        )))
    })
}

/// As [`blocking`], for what may write: inside a `foreachBatch` function it belongs to the batch.
async fn writing<T: Send + 'static>(
    session: &Arc<ClientSession>,
    operation: &Operation,
    work: impl FnOnce(&Arc<ClientSession>) -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    let function = operation.batch_function.as_deref();
    let writes = function.and_then(|function| session.batch_writes(function));
    blocking(session, move |session| match writes {
        Some(writes) => writes.within(|| work(session)),
        None => work(session),
    })
    .await
}

/// A plan out of its compression.
pub(crate) fn opened(plan: Option<Plan>) -> Outcome<OpType> {
    let kind = plan.and_then(|plan| plan.op_type).ok_or_else(|| Failure::missing("plan"))?;
    let OpType::CompressedOperation(compressed) = kind else { return Ok(kind) };
    if compressed.compression_codec() != CompressionCodec::Zstd {
        return Err(Failure::invalid("the plan is compressed with a codec other than ZSTD"));
    }
    let wrong = |what: String| Failure::invalid(format!("the compressed plan is damaged: {what}"));
    let bytes = unpacked(&compressed.data).map_err(|error| wrong(error.to_string()))?;
    match compressed.op_type() {
        CompressedKind::Relation => message::decode::<Relation>(bytes.into()).map(OpType::Root),
        CompressedKind::Command => message::decode::<Command>(bytes.into()).map(OpType::Command),
        CompressedKind::Unspecified => Err(Failure::missing("op_type")),
    }
}

/// Decompresses at most [`PLAN_MAX`] bytes.
fn unpacked(data: &[u8]) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let decoder = zstd::stream::read::Decoder::new(data)?;
    let limit = u64::try_from(PLAN_MAX).unwrap_or(u64::MAX);
    decoder.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > PLAN_MAX {
        return Err(std::io::Error::other(format!("it has more than {PLAN_MAX} bytes")));
    }
    Ok(bytes)
}

/// Sends what was observed of the rows that passed.
async fn send_observed(operation: &Arc<Operation>, observers: &[Arc<Observer>]) -> Outcome<()> {
    if observers.is_empty() {
        return Ok(());
    }
    let mut observed_metrics = Vec::with_capacity(observers.len());
    for observer in observers {
        observed_metrics.push(observed::metrics(observer).await?);
    }
    let mut response = operation.blank();
    response.observed_metrics = observed_metrics;
    operation.send_whole(response).await;
    Ok(())
}

async fn run_command(
    session: &Arc<ClientSession>,
    operation: &Arc<Operation>,
    command: Command,
) -> Outcome<()> {
    let kind = command.command_type.ok_or_else(|| Failure::missing("command"))?;
    match kind {
        CommandType::SqlCommand(command) => {
            let work = move |session: &Arc<ClientSession>| sql_command::run(session, command);
            let result = writing(session, operation, work).await?;
            operation.send(ResponseType::SqlCommandResult(result)).await;
        }
        CommandType::CreateDataframeView(view) => {
            blocking(session, move |session| {
                let input = view.input.as_ref().ok_or_else(|| Failure::missing("input"))?;
                let plan = Planner::new(session).plan(input)?;
                match view.is_global {
                    true => catalog::create_global_view(session, &view.name, plan, view.replace),
                    false => catalog::create_view(session, &view.name, plan, view.replace),
                }
            })
            .await?;
        }
        CommandType::WriteOperation(write) => {
            let calls = operation.calls.clone();
            let work = move |session: &Arc<ClientSession>| write::write(session, &write, &calls);
            let written = writing(session, operation, work).await?;
            send_observed(operation, &written).await?;
        }
        CommandType::WriteOperationV2(write) => {
            let calls = operation.calls.clone();
            let work = move |session: &Arc<ClientSession>| write_to::write(session, &write, &calls);
            writing(session, operation, work).await?;
        }
        CommandType::WriteStreamOperationStart(start) => {
            let result = blocking(session, move |session| streaming::start(session, start)).await?;
            operation.send(ResponseType::WriteStreamOperationStartResult(result)).await;
        }
        CommandType::StreamingQueryCommand(command) => {
            let result =
                blocking(session, move |session| streaming::command(session, command)).await?;
            operation.send(ResponseType::StreamingQueryCommandResult(result)).await;
        }
        CommandType::StreamingQueryManagerCommand(command) => {
            let result =
                blocking(session, move |session| streaming::manage(session, command)).await?;
            operation.send(ResponseType::StreamingQueryManagerCommandResult(result)).await;
        }
        CommandType::StreamingQueryListenerBusCommand(command) => {
            crate::listener::serve(session, operation, command).await?;
        }
        CommandType::GetResourcesCommand(_) => {
            let result = spark_connect_proto::GetResourcesCommandResult::default();
            operation.send(ResponseType::GetResourcesCommandResult(result)).await;
        }
        CommandType::RemoveCachedRemoteRelationCommand(command) => {
            if let Some(relation) = command.relation {
                session.forget_remote(&relation.relation_id);
            }
        }
        CommandType::CheckpointCommand(command) => {
            let result = blocking(session, move |session| {
                let input =
                    command.relation.as_ref().ok_or_else(|| Failure::missing("relation"))?;
                let plan = Planner::new(session).plan(input)?;
                let id = uuid::Uuid::new_v4().to_string();
                let held = session.engine.frame(plan.clone()).collect()?;
                let schema = Arc::new(plan.schema().as_arrow().clone());
                session.keep_remote(id.clone(), crate::relation::of_batches(schema, held)?);
                Ok(spark_connect_proto::CheckpointCommandResult {
                    relation: Some(spark_connect_proto::CachedRemoteRelation { relation_id: id }),
                })
            })
            .await?;
            operation.send(ResponseType::CheckpointCommandResult(result)).await;
        }
        CommandType::RegisterFunction(function) => {
            blocking(session, move |session| crate::functions::register_named(session, &function))
                .await?;
        }
        CommandType::RegisterDataSource(source) => {
            session.register_data_source(DataSourceClass::of(&source)?)?;
        }
        other => return Err(Failure::unsupported(command_name(&other))),
    }
    Ok(())
}

fn command_name(command: &CommandType) -> &'static str {
    match command {
        CommandType::RegisterTableFunction(_) => "a user-defined table function",
        CommandType::CreateResourceProfileCommand(_) => "a resource profile",
        CommandType::MergeIntoTableCommand(_) => "mergeInto",
        CommandType::MlCommand(_) => "machine learning",
        CommandType::ExecuteExternalCommand(_) => "an external command",
        CommandType::PipelineCommand(_) => "a declarative pipeline over Connect",
        _ => "this command",
    }
}
