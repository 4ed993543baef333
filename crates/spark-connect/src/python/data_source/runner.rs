//! The process that answers for a stream reader of Python
//! (`pyspark.sql.streaming.python_streaming_source_runner`).

use super::planner::Answers;
use super::{Instance, Setting};
use crate::python::task::write_files;
use crate::python::wire::{lost, special, write_bytes, write_int, write_text};
use crate::python::worker::PythonWorker;
use arrow::ipc::reader::StreamReader;
use arrow::record_batch::RecordBatch;
use onefold_plan::schema::schema_json;
use onefold_types::{Error, Result};
use std::io::{BufWriter, Write};
use std::net::TcpStream;

const MODULE: &str = "pyspark.sql.streaming.python_streaming_source_runner";

/// What the process is asked, by number.
mod ask {
    pub(super) const INITIAL_OFFSET: i32 = 884;
    pub(super) const LATEST_OFFSET: i32 = 885;
    pub(super) const PARTITIONS: i32 = 886;
    pub(super) const COMMIT: i32 = 887;
    pub(super) const FEATURES: i32 = 888;
    pub(super) const PREPARE_AVAILABLE_NOW: i32 = 889;
    pub(super) const LATEST_OFFSET_WITHIN: i32 = 890;
    pub(super) const DEFAULT_LIMIT: i32 = 891;
    pub(super) const REPORT_LATEST: i32 = 892;
}

/// Takes all there is.
const ALL: &str = r#"{"_type": "ReadAllAvailable"}"#;

/// The partitions of a range, and its rows if the reader has them already.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) partitions: Vec<Vec<u8>>,
    pub(super) rows: Option<Vec<RecordBatch>>,
}

/// A running process. Dropping it ends the process, after it had time to stop its reader.
#[derive(Debug)]
pub(super) struct Runner {
    worker: PythonWorker,
    out: BufWriter<TcpStream>,
    answers: Answers,
    /// Whether it takes a start and a limit.
    pub(super) admits: bool,
    /// Whether it pins what is there for a run that ends by itself.
    pub(super) pins: bool,
    limit: String,
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.out.get_ref().shutdown(std::net::Shutdown::Both);
        self.worker.wait_to_end();
    }
}

impl Runner {
    /// Starts it and makes the reader. Blocks.
    ///
    /// # Errors
    /// Unavailable: Python cannot be started. Invalid, with the traceback: the reader raises.
    pub(super) fn start(setting: &Setting, instance: &Instance) -> Result<Runner> {
        let worker = PythonWorker::launch(setting.pool.python(), MODULE, &setting.pool.files, &[])?;
        let stream = worker.stream()?;
        let mut runner = Runner {
            out: BufWriter::new(stream.try_clone().map_err(lost)?),
            answers: Answers::new(stream),
            worker,
            admits: false,
            pins: false,
            limit: ALL.to_owned(),
        };
        let begin = |out: &mut BufWriter<TcpStream>| {
            write_text(out, &setting.class.version)?;
            write_files(out, &setting.pool.files)?;
            write_bytes(out, &instance.pickled)?;
            write_text(out, &schema_json(&instance.schema))?;
            write_int(out, setting.rows_at_once())?;
            out.flush()
        };
        begin(&mut runner.out).map_err(lost)?;
        runner.answers.int()?;
        runner.ask(ask::FEATURES, &[])?;
        let features = runner.answers.int()?;
        runner.admits = features & 1 != 0;
        runner.pins = features & 2 != 0;
        if runner.admits {
            runner.ask(ask::DEFAULT_LIMIT, &[])?;
            runner.limit = runner.answers.text()?;
        }
        Ok(runner)
    }

    fn ask(&mut self, what: i32, arguments: &[&str]) -> Result<()> {
        let send = |out: &mut BufWriter<TcpStream>| {
            write_int(out, what)?;
            for argument in arguments {
                write_text(out, argument)?;
            }
            out.flush()
        };
        send(&mut self.out).map_err(lost)
    }

    /// Where the stream begins, as JSON.
    pub(super) fn initial(&mut self) -> Result<String> {
        self.ask(ask::INITIAL_OFFSET, &[])?;
        self.answers.text()
    }

    /// Where the next batch ends.
    pub(super) fn latest(&mut self, start: &str, all: bool) -> Result<String> {
        if self.admits {
            let limit = if all { ALL.to_owned() } else { self.limit.clone() };
            self.ask(ask::LATEST_OFFSET_WITHIN, &[start, &limit])?;
        } else {
            self.ask(ask::LATEST_OFFSET, &[])?;
        }
        self.answers.text()
    }

    /// The newest offset there is, if the reader tells.
    pub(super) fn newest(&mut self) -> Result<Option<String>> {
        self.ask(ask::REPORT_LATEST, &[])?;
        Ok(Some(self.answers.text()?).filter(|text| !text.is_empty()))
    }

    /// Pins what is there.
    pub(super) fn pin(&mut self) -> Result<()> {
        self.ask(ask::PREPARE_AVAILABLE_NOW, &[])?;
        self.answers.int().map(|_| ())
    }

    /// The partitions of a range.
    pub(super) fn partitions(&mut self, start: &str, end: &str) -> Result<Planned> {
        self.ask(ask::PARTITIONS, &[start, end])?;
        let mut partitions = Vec::new();
        for _ in 0..self.answers.int()? {
            partitions.push(self.answers.bytes()?);
        }
        let rows = match self.answers.int()? {
            0 => None,
            2 => Some(Vec::new()),
            _ => Some(self.rows()?),
        };
        Ok(Planned { partitions, rows })
    }

    fn rows(&mut self) -> Result<Vec<RecordBatch>> {
        if self.answers.int()? != special::START_ARROW {
            return Err(Error::unavailable("a stream reader sent its rows in an unknown form"));
        }
        let broken = |error| Error::internal("a reader's rows do not parse").because(error);
        let reader = StreamReader::try_new(self.answers.stream(), None).map_err(broken)?;
        reader.collect::<std::result::Result<_, _>>().map_err(broken)
    }

    /// Everything before an offset is committed.
    pub(super) fn commit(&mut self, end: &str) -> Result<()> {
        self.ask(ask::COMMIT, &[end])?;
        self.answers.int().map(|_| ())
    }
}
