//! What one client has: an engine session with its settings, views, queries and operations.

use crate::artifacts::Artifacts;
use crate::conf;
use crate::failure::{Failure, Outcome};
use crate::limits::{self, Limits};
use crate::listener::ListenerStream;
use crate::operation::{Asked, Operation, OperationIds};
use crate::persisted::Persisted;
use crate::python::Calls;
use crate::python::data_source::DataSourceClass;
use crate::python::memory::{MEMORY, allowed};
use crate::python::pool::PythonPool;
use datafusion::logical_expr::LogicalPlan;
use onefold_engine::{BatchWrites, Session, StreamingQuery};
use spark_connect_proto::fetch_error_details_response::Error as Detail;
use std::collections::{HashMap, VecDeque};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Errors whose details are kept for the client to ask.
const DETAILS_MAX: usize = 100;
/// Ended operations that are remembered, so that a late call gets the right answer.
const ABANDONED_MAX: usize = 10_000;
/// Stopped queries stay addressable for this long, as in Spark.
const STOPPED_KEPT: Duration = Duration::from_secs(3_600);

/// One client's session.
pub(crate) struct ClientSession {
    pub(crate) id: String,
    /// The server's own name for it: a client notices by it that the server restarted.
    pub(crate) server_id: String,
    pub(crate) engine: Session,
    local_url: Option<String>,
    operations: Mutex<Operations>,
    details: Mutex<VecDeque<(String, Detail)>>,
    queries: Mutex<Vec<Known>>,
    remote: Mutex<HashMap<String, LogicalPlan>>,
    /// What the calls of `foreachBatch` functions that run write, by function.
    batch_writes: Mutex<HashMap<String, Arc<BatchWrites>>>,
    /// What the client uploaded.
    pub(crate) artifacts: Artifacts,
    /// The frames that the client wants to be kept.
    pub(crate) persisted: Persisted,
    limits: Limits,
    python: Mutex<Option<Arc<PythonPool>>>,
    /// Data sources in Python, by their names in lower case.
    data_sources: Mutex<HashMap<String, DataSourceClass>>,
    /// The stream of listener events, while a client has one.
    pub(crate) listeners: Mutex<Option<ListenerStream>>,
    used: Mutex<Instant>,
}

#[derive(Default)]
struct Operations {
    live: HashMap<String, Arc<Operation>>,
    abandoned: VecDeque<String>,
}

struct Known {
    query: StreamingQuery,
    /// What ends the call of a function of the query.
    switch: Option<TcpStream>,
    /// The calls of other functions of the query.
    calls: Calls,
    ended: Option<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change to what is behind these is one call: a panic leaves them usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientSession {
    pub(crate) fn new(
        id: String,
        engine: Session,
        local_url: Option<String>,
        limits: Limits,
        now: Instant,
    ) -> Self {
        let folder = std::env::temp_dir().join(format!("onefold-session-{}", Uuid::new_v4()));
        ClientSession {
            id,
            server_id: Uuid::new_v4().to_string(),
            engine,
            local_url,
            operations: Mutex::default(),
            details: Mutex::default(),
            queries: Mutex::default(),
            remote: Mutex::default(),
            batch_writes: Mutex::default(),
            artifacts: Artifacts::new(folder, limits.artifacts),
            persisted: Persisted::default(),
            limits,
            python: Mutex::default(),
            data_sources: Mutex::default(),
            listeners: Mutex::new(None),
            used: Mutex::new(now),
        }
    }

    /// Where Python workers of this session reach the server, if there may be any.
    pub(crate) fn local_url(&self) -> Option<String> {
        self.local_url.clone()
    }

    /// Notes what the running call of a `foreachBatch` function writes, or that it is over.
    pub(crate) fn set_batch_writes(&self, function: &str, writes: Option<Arc<BatchWrites>>) {
        let mut known = lock(&self.batch_writes);
        match writes {
            Some(writes) => known.insert(function.to_owned(), writes),
            None => known.remove(function),
        };
    }

    /// What the running call of a `foreachBatch` function writes.
    pub(crate) fn batch_writes(&self, function: &str) -> Option<Arc<BatchWrites>> {
        lock(&self.batch_writes).get(function).cloned()
    }

    /// Notes that a client asked for something.
    pub(crate) fn touch(&self, now: Instant) {
        *lock(&self.used) = now;
    }

    /// Whether nobody asked for so long, nobody waits for an answer, and no query runs.
    pub(crate) fn idle(&self, now: Instant) -> bool {
        now.saturating_duration_since(*lock(&self.used)) > self.limits.idle
            && !self.operations().iter().any(|operation| operation.is_attached())
            && self.engine.streams().active().is_empty()
    }

    /// Ends operations whose clients are gone for good.
    pub(crate) fn forget_operations(&self, now: Instant) {
        for operation in self.operations() {
            if operation.is_forgotten(now, self.limits.detached) {
                self.release(&operation.ids.operation);
            }
        }
    }

    /// Begins an operation under the client's id for it, or one of our own.
    pub(crate) fn begin(&self, id: Option<String>, asked: Asked) -> Outcome<Arc<Operation>> {
        let id = id.unwrap_or_else(|| Uuid::new_v4().to_string());
        if Uuid::parse_str(&id).is_err() {
            return Err(Failure::handle("FORMAT", &id));
        }
        let mut operations = lock(&self.operations);
        let (now, detached) = (Instant::now(), self.limits.detached);
        operations.live.retain(|_, known| known.reattachable || !known.is_forgotten(now, detached));
        if operations.live.contains_key(&id) {
            return Err(Failure::handle("OPERATION_ALREADY_EXISTS", &id));
        }
        if operations.abandoned.contains(&id) {
            return Err(Failure::handle("OPERATION_ABANDONED", &id));
        }
        if operations.live.len() >= self.limits.operations {
            return Err(Failure::limit(
                &format!("a session may have {} operations", self.limits.operations),
                limits::OPERATIONS,
            ));
        }
        let ids = OperationIds {
            session: self.id.clone(),
            server_session: self.server_id.clone(),
            operation: id.clone(),
        };
        let operation = Operation::new(ids, asked);
        operations.live.insert(id, Arc::clone(&operation));
        Ok(operation)
    }

    /// The operation with this id.
    pub(crate) fn operation(&self, id: &str) -> Outcome<Arc<Operation>> {
        let operations = lock(&self.operations);
        match operations.live.get(id) {
            Some(operation) => Ok(Arc::clone(operation)),
            None if operations.abandoned.iter().any(|known| known == id) => {
                Err(Failure::handle("OPERATION_ABANDONED", id))
            }
            None => Err(Failure::handle("OPERATION_NOT_FOUND", id)),
        }
    }

    /// All operations that are not released.
    pub(crate) fn operations(&self) -> Vec<Arc<Operation>> {
        lock(&self.operations).live.values().cloned().collect()
    }

    /// Forgets an operation; it is told to stop if it still runs.
    pub(crate) fn release(&self, id: &str) {
        let mut operations = lock(&self.operations);
        if let Some(operation) = operations.live.remove(id) {
            operation.cancel();
            operations.abandoned.push_back(id.to_owned());
            if operations.abandoned.len() > ABANDONED_MAX {
                operations.abandoned.pop_front();
            }
        }
    }

    /// Keeps the details of an error; the id under which they can be asked once.
    pub(crate) fn keep_details(&self, failure: &Failure) -> String {
        let id = Uuid::new_v4().to_string();
        let mut details = lock(&self.details);
        details.push_back((id.clone(), failure.details()));
        if details.len() > DETAILS_MAX {
            details.pop_front();
        }
        id
    }

    /// The details kept under an id; they are given once.
    pub(crate) fn take_details(&self, id: &str) -> Option<Detail> {
        let mut details = lock(&self.details);
        let place = details.iter().position(|(known, _)| known == id)?;
        details.remove(place).map(|(_, detail)| detail)
    }

    /// Remembers a query that this client started.
    pub(crate) fn keep_query(
        &self,
        query: StreamingQuery,
        switch: Option<TcpStream>,
        calls: Calls,
        now: Instant,
    ) {
        let mut queries = lock(&self.queries);
        for known in queries.iter_mut() {
            if known.ended.is_none() && !known.query.is_active() {
                known.switch = None;
                known.ended = Some(now);
            }
        }
        queries.retain(|known| {
            known.ended.is_none_or(|ended| now.saturating_duration_since(ended) < STOPPED_KEPT)
        });
        queries.push(Known { query, switch, calls, ended: None });
    }

    /// Ends the calls of functions in Python that are noted here: their processes are ended.
    pub(crate) fn end_calls(&self, calls: &Calls) {
        let python = lock(&self.python).clone();
        if let Some(python) = python {
            calls.end(&python);
        }
    }

    /// Ends the calls of functions that a query waits for: their processes are ended.
    pub(crate) fn interrupt(&self, query: &StreamingQuery) {
        let python = lock(&self.python).clone();
        for known in lock(&self.queries).iter() {
            if known.query.run_id() != query.run_id() {
                continue;
            }
            if let Some(switch) = &known.switch {
                // A worker that is gone already needs no end.
                let _ = switch.shutdown(std::net::Shutdown::Both);
            }
            if let Some(python) = &python {
                known.calls.end(python);
            }
        }
    }

    /// The query with these ids, running or stopped not long ago.
    pub(crate) fn query(&self, id: &str, run_id: &str) -> Outcome<StreamingQuery> {
        lock(&self.queries)
            .iter()
            .map(|known| &known.query)
            .find(|query| query.id().to_string() == id && query.run_id().to_string() == run_id)
            .cloned()
            .ok_or_else(|| Failure::no_query(id))
    }

    /// A plan that the client knows by a name of ours.
    pub(crate) fn remote(&self, id: &str) -> Option<LogicalPlan> {
        lock(&self.remote).get(id).cloned()
    }

    /// Gives a plan a name that the client can use.
    pub(crate) fn keep_remote(&self, id: String, plan: LogicalPlan) {
        lock(&self.remote).insert(id, plan);
    }

    /// Forgets a named plan.
    pub(crate) fn forget_remote(&self, id: &str) {
        lock(&self.remote).remove(id);
    }

    /// The Python that runs the client's functions.
    pub(crate) fn python_command(&self) -> String {
        conf::value(&self.engine, "spark.pyspark.python")
            .or_else(|| std::env::var("PYSPARK_PYTHON").ok())
            .unwrap_or_else(|| "python3".to_owned())
    }

    /// The processes that run the client's functions.
    ///
    /// # Errors
    /// The server does not run functions of clients.
    pub(crate) fn python(&self) -> Outcome<Arc<PythonPool>> {
        if self.local_url.is_none() {
            return Err(Failure::no_python());
        }
        let mut python = lock(&self.python);
        let command = self.python_command();
        let files = self.artifacts.folder().to_owned();
        if let Some(pool) = python.as_ref() {
            return Ok(Arc::clone(pool));
        }
        let memory = conf::value(&self.engine, MEMORY).map(|text| allowed(&text)).transpose()?;
        let pool = Arc::new(PythonPool::new(command, memory, files));
        Ok(Arc::clone(python.insert(pool)))
    }

    /// Registers a data source in Python, in place of one of its name.
    ///
    /// # Errors
    /// The server does not run code of clients.
    pub(crate) fn register_data_source(&self, class: DataSourceClass) -> Outcome<()> {
        if self.local_url.is_none() {
            return Err(Failure::no_python());
        }
        lock(&self.data_sources).insert(class.name.to_lowercase(), class);
        Ok(())
    }

    /// The data source in Python that a format names.
    pub(crate) fn data_source(&self, format: &str) -> Option<DataSourceClass> {
        lock(&self.data_sources).get(&format.to_lowercase()).cloned()
    }

    /// Takes over what another session is: settings, views, functions, data
    /// sources, uploads. Blocks.
    ///
    /// # Errors
    /// A setting that this session does not take, or a disk that fails.
    pub(crate) fn take_from(&self, other: &ClientSession) -> Outcome<()> {
        for (name, value) in other.engine.conf().all() {
            self.engine.conf().set(name, value)?;
        }
        let functions = other.engine.context().state().scalar_functions().clone();
        let known = self.engine.context().state().scalar_functions().clone();
        for (name, function) in functions {
            if !known.contains_key(&name) {
                self.engine.context().register_udf(function.as_ref().clone());
            }
        }
        for (name, plan) in crate::catalog::views(other) {
            self.engine.frame(plan).create_or_replace_temp_view(&name)?;
        }
        let sources = lock(&other.data_sources).clone();
        lock(&self.data_sources).extend(sources);
        other.artifacts.copy_to(&self.artifacts)
    }

    /// Stops all queries, and the functions that they wait for. Blocks until they are still.
    ///
    /// # Errors
    /// A query did not end in time.
    pub(crate) fn stop_queries(&self) -> Outcome<()> {
        for query in self.engine.streams().active() {
            query.ask_to_stop();
            self.interrupt(&query);
        }
        Ok(self.engine.stop()?)
    }

    /// Ends everything: operations, then queries. Blocks until the queries are still.
    pub(crate) fn close(&self) {
        for operation in self.operations() {
            operation.cancel();
        }
        lock(&self.listeners).take();
        if let Err(failure) = self.stop_queries() {
            tracing::warn!("a query of session {} did not stop: {}", self.id, failure.message());
        }
        let python = lock(&self.python).take();
        if let Some(python) = python {
            python.close();
        }
        self.artifacts.clear();
    }
}
