//! One task of a worker: a function over the rows of a batch (`pyspark/worker.py` of 4.2).

use super::function::PythonFunction;
use super::pool::PythonPool;
use super::wire::{
    lost, raised, read_int, read_text, skip, special, write_bytes, write_count, write_int,
    write_text,
};
use crate::artifacts::module_archives;
use arrow::ipc::reader::StreamReader;
use arrow::record_batch::RecordBatch;
use onefold_types::{Error, Result};
use serde_json::json;
use std::io::{self, BufReader, BufWriter, Write};
use std::net::TcpStream;
use std::path::Path;

/// What a task does beside its function.
pub(super) struct Task<'a> {
    pub(super) function: &'a PythonFunction,
    /// What the worker calls the partition.
    pub(super) partition: i32,
    /// The batch of the stream, for functions that ask.
    pub(super) batch: Option<u64>,
    /// The columns that the function takes, each with its name if it is given by name; `None` for a
    /// function that takes rows as they come.
    pub(super) arguments: Option<Vec<(i32, Option<String>)>>,
    /// Further settings of this kind of function.
    pub(super) eval_conf: Vec<(String, String)>,
}

/// Waits for a worker, which may take long: other work of this thread goes elsewhere meanwhile.
pub(super) fn aside<T>(work: impl FnOnce() -> T) -> T {
    let can_move = tokio::runtime::Handle::try_current()
        .is_ok_and(|handle| handle.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread);
    if can_move { tokio::task::block_in_place(work) } else { work() }
}

/// Writes where a worker finds the client's files, and which of them go on the path of modules.
pub(super) fn write_files(out: &mut impl Write, files: &Path) -> io::Result<()> {
    write_text(out, &files.to_string_lossy())?;
    let archives = module_archives(files);
    write_count(out, archives.len())?;
    archives.iter().try_for_each(|archive| write_text(out, archive))
}

/// Writes what the function reads.
pub(super) type Input<'a> = &'a (dyn Fn(&mut dyn Write) -> io::Result<()> + Sync);

impl Task<'_> {
    /// Runs it in a worker of the pool: the batches that the function gives. Blocks.
    ///
    /// # Errors
    /// Invalid, with the traceback, when the function raises. Unavailable: no worker.
    pub(super) fn run(&self, pool: &PythonPool, input: Input<'_>) -> Result<Vec<RecordBatch>> {
        let stream = pool.take()?;
        let running = self.function.calls.begin(&stream)?;
        let reading = stream.try_clone().map_err(lost)?;
        // The worker writes while it reads: both must go on at once.
        let (written, read) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let written = self.write(&stream, &pool.files, input);
                if written.is_err() {
                    // The worker would wait for the rest for ever.
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                }
                written
            });
            let read = read_results(reading);
            if read.is_err() {
                // A worker that failed reads no more.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
            (writer.join(), read)
        });
        let (batches, reusable) = read?;
        written
            .unwrap_or_else(|_| Err(io::Error::other("the writing thread panicked")))
            .map_err(lost)?;
        drop(running);
        if reusable {
            pool.give_back(stream);
        }
        Ok(batches)
    }

    fn write(&self, stream: &TcpStream, files: &Path, input: Input<'_>) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, stream);
        let function = self.function;
        write_int(&mut out, self.partition)?;
        write_text(&mut out, &function.version)?;
        write_text(&mut out, &self.context())?;
        write_files(&mut out, files)?;
        // Broadcast variables: none.
        out.write_all(&[0])?;
        write_int(&mut out, 0)?;
        write_int(&mut out, function.eval_type)?;
        for pairs in [&function.settings, &self.eval_conf] {
            write_count(&mut out, pairs.len())?;
            for (name, value) in pairs {
                write_text(&mut out, name)?;
                write_text(&mut out, value)?;
            }
        }
        if let Some(arguments) = &self.arguments {
            // One function.
            write_int(&mut out, 1)?;
            write_count(&mut out, arguments.len())?;
            for (column, name) in arguments {
                write_int(&mut out, *column)?;
                out.write_all(&[u8::from(name.is_some())])?;
                if let Some(name) = name {
                    write_text(&mut out, name)?;
                }
            }
            // A chain of one.
            write_int(&mut out, 1)?;
            write_bytes(&mut out, &function.command)?;
            out.write_all(&0_i64.to_be_bytes())?;
        } else {
            write_bytes(&mut out, &function.command)?;
        }
        input(&mut out)?;
        write_int(&mut out, special::END_OF_STREAM)?;
        out.flush()
    }

    fn context(&self) -> String {
        let batch = self.batch.map(|batch| batch.to_string());
        let properties = batch.map(|batch| json!({ "streaming.sql.batchId": batch }));
        json!({
            "isBarrier": false,
            "connInfo": -1,
            "secret": "",
            "stageId": 0,
            "partitionId": self.partition,
            "attemptNumber": 0,
            "taskAttemptId": 0,
            "cpus": 1,
            "resources": {},
            "localProperties": properties.unwrap_or_else(|| json!({})),
        })
        .to_string()
    }
}

/// Reads all that a worker gives for a task, and whether it can take another one.
fn read_results(stream: TcpStream) -> Result<(Vec<RecordBatch>, bool)> {
    let mut from = BufReader::with_capacity(1 << 16, stream);
    let mut batches = Vec::new();
    loop {
        match read_int(&mut from).map_err(lost)? {
            special::START_ARROW => {
                let broken = |error| Error::internal("a worker's rows do not parse").because(error);
                let reader = StreamReader::try_new(&mut from, None).map_err(broken)?;
                for batch in reader {
                    batches.push(batch.map_err(|error| interrupted(&error))?);
                }
            }
            // When it began and ended, and what it kept on disk.
            special::TIMING => skip(&mut from, 6 * 8).map_err(lost)?,
            special::PYTHON_EXCEPTION => {
                return Err(raised(&read_text(&mut from).map_err(lost)?));
            }
            special::END_OF_DATA => {
                for _ in 0..read_int(&mut from).map_err(lost)? {
                    let size = read_int(&mut from).map_err(lost)?;
                    skip(&mut from, u64::try_from(size).unwrap_or(0)).map_err(lost)?;
                }
                let reusable = read_int(&mut from).map_err(lost)? == special::END_OF_STREAM;
                return Ok((batches, reusable));
            }
            size => match u64::try_from(size) {
                // Pickled values, which nobody asked for.
                Ok(size) => skip(&mut from, size).map_err(lost)?,
                Err(_) => {
                    return Err(Error::unavailable(format!(
                        "the Python worker answered {size}; is its pyspark of version 4.2, as the \
                         client's?"
                    )));
                }
            },
        }
    }
}

/// A worker that raises after its first rows breaks the stream of rows off.
fn interrupted(error: &arrow::error::ArrowError) -> Error {
    Error::invalid(format!("a Python function failed while it gave rows: {error}"))
}
