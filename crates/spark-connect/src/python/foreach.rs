//! `foreach` with a Python writer: one task for each batch, over all of its rows.

use super::calls::Calls;
use super::function::{PythonFunction, eval};
use super::pickle;
use super::task::Task;
use super::wire::{special, write_bytes, write_int};
use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::rows::{plain_batch, plain_schema};
use onefold_engine::DataStreamWriter;
use onefold_types::{Error, Result};
use spark_connect_proto::StreamingForeachFunction;
use spark_connect_proto::streaming_foreach_function::Function;
use std::io::Write;
use std::sync::Arc;

/// Rows that are pickled at once.
const ROWS_AT_ONCE: usize = 1_000;

/// The writer with the client's `foreach` as its sink.
pub(crate) fn with_writer(
    session: &Arc<ClientSession>,
    writer: DataStreamWriter,
    function: &StreamingForeachFunction,
    calls: &Calls,
) -> Outcome<DataStreamWriter> {
    let function = match &function.function {
        Some(Function::PythonFunction(function)) => function,
        Some(Function::ScalaFunction(_)) => {
            return Err(Failure::unsupported("a foreach writer of Scala"));
        }
        None => return Err(Failure::missing("function")),
    };
    let function = PythonFunction::writer(session, function);
    let function = PythonFunction { eval_type: eval::PLAIN_ROWS, calls: calls.clone(), ..function };
    let pool = session.python()?;
    let sink = writer.foreach_batch(move |frame, batch| {
        let rows: Vec<Vec<u8>> = pickled(&frame.collect()?)?;
        let task = Task {
            function: &function,
            partition: 0,
            batch: Some(batch.0),
            arguments: None,
            eval_conf: Vec::new(),
        };
        let input = |out: &mut dyn Write| {
            for rows in &rows {
                write_bytes(&mut &mut *out, rows)?;
            }
            write_int(&mut &mut *out, special::END_OF_DATA)
        };
        task.run(&pool, &input).map(|_| ())
    });
    Ok(sink.sink_called("foreach"))
}

fn pickled(batches: &[arrow::record_batch::RecordBatch]) -> Result<Vec<Vec<u8>>> {
    let wrong = |failure: Failure| Error::invalid(failure.message().to_owned());
    let mut all = Vec::new();
    for batch in batches {
        let batch = plain_batch(batch, &plain_schema(&batch.schema())).map_err(wrong)?;
        let mut from = 0;
        while from < batch.num_rows() {
            let count = ROWS_AT_ONCE.min(batch.num_rows() - from);
            all.push(pickle::rows(&batch.slice(from, count)).map_err(wrong)?);
            from += count;
        }
    }
    Ok(all)
}
