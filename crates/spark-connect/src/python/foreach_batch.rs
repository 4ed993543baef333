//! `foreachBatch` with a Python function: one worker process for each run of a query.

use super::worker::{PythonWorker, WorkerSpec};
use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use onefold_engine::{BatchWrites, DataStreamWriter};
use onefold_types::Error;
use spark_connect_proto::streaming_foreach_function::Function;
use spark_connect_proto::{PythonUdf, StreamingForeachFunction};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// The header by which requests of a function's process are known: what they write while the function
/// is called belongs to its batch.
pub(crate) const HEADER: &str = "onefold-batch-function";

const WORKER: &str = "pyspark.sql.connect.streaming.worker.foreach_batch_worker";

/// The writer with the client's function as its sink. Starts the worker, so that a function that
/// cannot be loaded is an error of `start`; and what ends a call of it. Blocks.
pub(crate) fn with_function(
    session: &Arc<ClientSession>,
    writer: DataStreamWriter,
    function: &StreamingForeachFunction,
) -> Outcome<(DataStreamWriter, Option<TcpStream>)> {
    let function = match &function.function {
        Some(Function::PythonFunction(function)) => function,
        Some(Function::ScalaFunction(_)) => {
            return Err(Failure::unsupported("a foreachBatch function of Scala"));
        }
        None => return Err(Failure::missing("function")),
    };
    let name = Uuid::new_v4().to_string();
    let spec = worker_spec(session, function, &name)?;
    let worker = PythonWorker::start(&spec).map_err(Failure::python_start)?;
    let switch = worker.switch();
    let worker = Mutex::new(Some(worker));
    // The session may go before its queries do.
    let session = Arc::downgrade(session);
    let writer = writer.foreach_batch(move |frame, batch| {
        let session = session
            .upgrade()
            .ok_or_else(|| Error::unavailable("the session of the function is closed"))?;
        let relation = Uuid::new_v4().to_string();
        session.keep_remote(relation.clone(), frame.logical_plan().clone());
        session.set_batch_writes(&name, BatchWrites::current());
        let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
        let number = i64::try_from(batch.0).unwrap_or(i64::MAX);
        let called = match worker.as_mut() {
            Some(worker) => worker.call(&relation, number),
            None => Err(Error::invalid("the Python worker has ended")),
        };
        if called.is_err() {
            // After an exception nobody knows in what state the process is.
            worker.take();
        }
        session.set_batch_writes(&name, None);
        session.forget_remote(&relation);
        called
    });
    Ok((writer, switch))
}

fn worker_spec(session: &ClientSession, function: &PythonUdf, name: &str) -> Outcome<WorkerSpec> {
    let url = session.local_url().ok_or_else(Failure::no_python)?;
    // What follows in the address and is none of the client's own settings it sends as a header.
    let url = format!("{url};{HEADER}={name}");
    Ok(WorkerSpec {
        python: session.python_command(),
        module: WORKER,
        url,
        session: session.id.clone(),
        version: function.python_ver.clone(),
        command: function.command.to_vec(),
        files: session.artifacts.folder().to_owned(),
    })
}
