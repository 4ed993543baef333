//! Starting a query: checks, registers, opens, and only then tells the world.

use super::Runner;
use super::definition::QueryDefinition;
use super::term::Surroundings;
use crate::checkpoint;
use crate::fault::from_datafusion;
use crate::listener::QueryStarted;
use crate::progress::iso_ms;
use crate::query::{QueryShared, StreamingQuery};
use crate::session::Session;
use crate::streams::Taken;
use datafusion::common::TableReference;
use datafusion::execution::session_state::SessionState;
use onefold_state::OperatorSpec;
use onefold_types::{Error, Nonce, QueryId, Result, RunId};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use tokio::sync::oneshot;
use uuid::Uuid;

/// Whether a query came to run.
enum Opened {
    /// It runs; it waits until its start was told.
    Running(oneshot::Sender<()>),
    /// It never will.
    Failed(Error),
}

/// Starts a query. When this returns, its checkpoint is taken over, its sources and its sink are
/// open (or will be tried again), and listeners know of it.
///
/// # Errors
/// What [`crate::DataStreamWriter::start`] says.
pub(crate) fn launch(session: &Session, definition: QueryDefinition) -> Result<StreamingQuery> {
    definition.check_required()?;
    definition.check_folders()?;
    let store = Arc::clone(&definition.checkpoint.store);
    let id = session.inner.tasks.wait(async move { checkpoint::identity(&store).await })?;
    let mut state = session.inner.context.state();
    definition.conf.zone_of(state.config_mut());
    if let Some(make) = session.inner.connectors.calls {
        // A query calls under the settings of its start.
        let conf = definition.conf.clone();
        let calls = make(Arc::new(move |name| conf.text(name).map(str::to_owned)));
        onefold_plan::functions::calls_of(state.config_mut(), calls);
    }
    let operators: Arc<[OperatorSpec]> = definition.plan.operators(&state)?.into();
    for warning in definition.plan.warnings() {
        tracing::warn!("query {id}: {warning}");
    }
    let query = Arc::new(shared(&definition, id, &operators)?);
    register(session, &definition, &query)?;
    let opened = publish_table(session, &definition)
        .and_then(|()| open(session, definition, &query, (state, operators)));
    if opened.is_err() {
        session.inner.streams.deregister(&query, None, false);
    }
    opened
}

fn open(
    session: &Session,
    definition: QueryDefinition,
    query: &Arc<QueryShared>,
    (state, operators): (SessionState, Arc<[OperatorSpec]>),
) -> Result<StreamingQuery> {
    let around = Surroundings {
        definition: Arc::new(definition),
        query: Arc::clone(query),
        state: Arc::new(state),
        operators,
        state_budget: session.inner.state_budget.clone(),
        timer: Arc::clone(&session.inner.timer),
        nonce: Nonce(Uuid::new_v4()),
    };
    let runner = Arc::new(Runner::new(session.clone(), around));
    let handle = runner.handle();
    let (send, receive) = sync_channel(1);
    session.inner.tasks.spawn(supervise(runner, send));
    match receive.recv() {
        Ok(Opened::Running(go)) => {
            let event = QueryStarted {
                id: query.id,
                run_id: query.run_id,
                name: query.name.clone(),
                timestamp: iso_ms(session.inner.timer.now_ms()),
            };
            session.inner.streams.listeners.started(&event);
            let _ = go.send(());
            Ok(handle)
        }
        Ok(Opened::Failed(error)) => Err(error),
        Err(_) => Err(Error::internal("the task of the query ended before it began")),
    }
}

/// Runs the query in a task of its own, so that even a panic of it ends the query properly.
async fn supervise(runner: Arc<Runner>, send: SyncSender<Opened>) {
    let mut started = false;
    let outcome = {
        let (begun_send, mut begun) = tokio::sync::watch::channel(false);
        let inner = Arc::clone(&runner);
        let opened_send = send.clone();
        let mut task = tokio::spawn(async move {
            let mut first = Some((opened_send, begun_send));
            inner
                .run(async move || {
                    if let Some((opened, begun)) = first.take() {
                        let (go, wait) = oneshot::channel();
                        begun.send_replace(true);
                        let _ = opened.send(Opened::Running(go));
                        // Nothing of the run is told before its start was.
                        let _ = wait.await;
                    }
                })
                .await
        });
        let outcome = match (&mut task).await {
            Ok(outcome) => outcome,
            Err(error) => Err(Error::internal("the query panicked").because(error)),
        };
        started |= *begun.borrow_and_update();
        outcome
    };
    if started {
        runner.finish(outcome);
        return;
    }
    let error = outcome.err().unwrap_or_else(|| Error::internal("the query ended before it began"));
    runner.remove_temporary(false);
    runner.around.query.end(Some(runner.around.query.exception_of(&error)));
    let _ = send.send(Opened::Failed(error));
}

fn shared(
    definition: &QueryDefinition,
    id: QueryId,
    operators: &[OperatorSpec],
) -> Result<QueryShared> {
    let conf = &definition.conf;
    let stop_ms = u64::try_from(conf.duration_ms("spark.sql.streaming.stopTimeout")?).unwrap_or(0);
    let stop_limit = (stop_ms > 0).then(|| Duration::from_millis(stop_ms));
    let recent = conf.count("spark.sql.streaming.numRecentProgressUpdates")?;
    let recent = usize::try_from(recent).unwrap_or(usize::MAX);
    let run = RunId(Uuid::new_v4());
    let name = definition.name.clone();
    Ok(QueryShared::new(id, run, name, (stop_limit, recent), definition.explanation(operators)))
}

/// Takes the query into the session; an older run of it is stopped first, if settings allow.
fn register(
    session: &Session,
    definition: &QueryDefinition,
    query: &Arc<QueryShared>,
) -> Result<()> {
    loop {
        match session.inner.streams.register(query, session) {
            Ok(()) => return Ok(()),
            Err(Taken::Name(error)) => return Err(error),
            Err(Taken::Id(older)) => {
                if !definition.conf.flag("spark.sql.streaming.stopActiveRunOnRestart") {
                    return Err(Error::invalid(format!(
                        "another query with same id is already active in this process: query {}, \
                         run {}{}, has the checkpoint {}; stop that run first, choose another \
                         checkpointLocation, or set spark.sql.streaming.stopActiveRunOnRestart",
                        older.id(),
                        older.run_id(),
                        older.name().map(|name| format!(", `{name}`")).unwrap_or_default(),
                        definition.checkpoint.store.url()
                    )));
                }
                tracing::warn!(
                    "query {} starts anew: its run {} is stopped",
                    older.id(),
                    older.run_id()
                );
                older.stop()?;
            }
        }
    }
}

/// What the sink holds becomes a table of the session under the query's name.
fn publish_table(session: &Session, definition: &QueryDefinition) -> Result<()> {
    let Some(name) = &definition.name else { return Ok(()) };
    let further = definition
        .further_sinks
        .iter()
        .map(|it| (it.sink.table(), format!("{name}_{}", it.table_suffix())));
    for (table, name) in std::iter::once((definition.sink.table(), name.clone())).chain(further) {
        let Some(table) = table else { continue };
        let reference = TableReference::bare(name.as_str());
        let context = &session.inner.context;
        context.deregister_table(reference.clone()).map_err(from_datafusion)?;
        context.register_table(reference, table).map_err(from_datafusion)?;
    }
    Ok(())
}
