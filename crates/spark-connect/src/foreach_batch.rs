//! `foreachBatch` with a Python function: one worker process for each run of a query.

use crate::client_session::ClientSession;
use crate::conf;
use crate::failure::{Failure, Outcome};
use crate::python_worker::{PythonWorker, WorkerSpec};
use onefold_engine::DataStreamWriter;
use onefold_types::Error;
use spark_connect_proto::streaming_foreach_function::Function;
use spark_connect_proto::{PythonUdf, StreamingForeachFunction};
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

const WORKER: &str = "pyspark.sql.connect.streaming.worker.foreach_batch_worker";

/// The writer with the client's function as its sink. Starts the worker, so that a function that
/// cannot be loaded is an error of `start`. Blocks.
pub(crate) fn with_function(
    session: &Arc<ClientSession>,
    writer: DataStreamWriter,
    function: &StreamingForeachFunction,
) -> Outcome<DataStreamWriter> {
    let function = match &function.function {
        Some(Function::PythonFunction(function)) => function,
        Some(Function::ScalaFunction(_)) => {
            return Err(Failure::unsupported("a foreachBatch function of Scala"));
        }
        None => return Err(Failure::missing("function")),
    };
    let spec = worker_spec(session, function)?;
    let worker = PythonWorker::start(&spec).map_err(Failure::python_start)?;
    let worker = Mutex::new(Some(worker));
    // The session may go before its queries do.
    let session = Arc::downgrade(session);
    Ok(writer.foreach_batch(move |frame, batch| {
        let session = session
            .upgrade()
            .ok_or_else(|| Error::unavailable("the session of the function is closed"))?;
        let relation = Uuid::new_v4().to_string();
        session.keep_remote(relation.clone(), frame.logical_plan().clone());
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
        session.forget_remote(&relation);
        called
    }))
}

fn worker_spec(session: &ClientSession, function: &PythonUdf) -> Outcome<WorkerSpec> {
    let url = session
        .local_url()
        .ok_or_else(|| Failure::unsupported("Python functions on a server without an address"))?;
    let python = conf::value(&session.engine, "spark.pyspark.python")
        .or_else(|| std::env::var("PYSPARK_PYTHON").ok())
        .unwrap_or_else(|| "python3".to_owned());
    Ok(WorkerSpec {
        python,
        module: WORKER,
        url,
        session: session.id.clone(),
        version: function.python_ver.clone(),
        command: function.command.to_vec(),
    })
}
