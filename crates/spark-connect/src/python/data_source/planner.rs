//! Short tasks of PySpark's planner modules: one question, one answer (`pyspark.sql.worker.utils`).

use crate::python::pool::PythonPool;
use crate::python::task::write_files;
use crate::python::wire::{
    lost, raised, read_int, read_text, skip, special, write_int, write_text,
};
use onefold_types::{Error, Result};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::TcpStream;

/// Largest answer, in bytes.
const ANSWER_MAX: usize = 1 << 30;

/// A truth value as one byte.
pub(super) fn flag(value: bool) -> u8 {
    u8::from(value)
}

/// Runs a module once.
#[derive(Debug)]
pub(super) struct Planner<'a> {
    pub(super) pool: &'a PythonPool,
    pub(super) module: &'static str,
    pub(super) version: &'a str,
}

impl Planner<'_> {
    /// Sends a question and reads the answer. Blocks.
    ///
    /// # Errors
    /// Invalid, with the traceback, when the user's code raises. Unavailable: no worker.
    pub(super) fn run<T>(
        &self,
        write: &dyn Fn(&mut dyn Write) -> io::Result<()>,
        read: impl FnOnce(&mut Answers) -> Result<T>,
    ) -> Result<T> {
        let stream = self.pool.take_of(self.module)?;
        let asked = self.ask(&stream, write);
        let mut answers = Answers::new(stream.try_clone().map_err(lost)?);
        // A worker that failed while it was asked says why.
        let answer = read(&mut answers)?;
        asked.map_err(lost)?;
        if answers.end()? {
            self.pool.give_back_of(self.module, stream);
        }
        Ok(answer)
    }

    fn ask(
        &self,
        stream: &TcpStream,
        write: &dyn Fn(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, stream);
        write_text(&mut out, self.version)?;
        write_files(&mut out, &self.pool.files)?;
        // Broadcast variables, then settings: none.
        out.write_all(&[0])?;
        write_int(&mut out, 0)?;
        write_int(&mut out, 0)?;
        write(&mut out)?;
        write_int(&mut out, special::END_OF_STREAM)?;
        out.flush()
    }
}

/// What a module of PySpark answers.
#[derive(Debug)]
pub(super) struct Answers(BufReader<TcpStream>);

impl Answers {
    pub(super) fn new(stream: TcpStream) -> Self {
        Answers(BufReader::with_capacity(1 << 16, stream))
    }

    /// A whole number, unless it is a traceback that follows.
    pub(super) fn int(&mut self) -> Result<i32> {
        match read_int(&mut self.0).map_err(lost)? {
            special::PYTHON_EXCEPTION => Err(raised(&read_text(&mut self.0).map_err(lost)?)),
            value => Ok(value),
        }
    }

    /// Bytes with their length before them.
    pub(super) fn bytes(&mut self) -> Result<Vec<u8>> {
        let length = usize::try_from(self.int()?).ok().filter(|length| *length <= ANSWER_MAX);
        let length = length.ok_or_else(|| {
            Error::unavailable(
                "a Python worker gave an answer of no known form; is its pyspark of version 4.2, \
                 as the client's?",
            )
        })?;
        let mut bytes = Vec::new();
        let most = u64::try_from(length).unwrap_or(0);
        self.0.by_ref().take(most).read_to_end(&mut bytes).map_err(lost)?;
        if bytes.len() < length {
            return Err(lost(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(bytes)
    }

    /// A text with its length before it.
    pub(super) fn text(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }

    /// What is read from.
    pub(super) fn stream(&mut self) -> &mut BufReader<TcpStream> {
        &mut self.0
    }

    /// Reads the end of a task: whether the worker can take another one.
    fn end(&mut self) -> Result<bool> {
        for _ in 0..self.int()? {
            let size = read_int(&mut self.0).map_err(lost)?;
            skip(&mut self.0, u64::try_from(size).unwrap_or(0)).map_err(lost)?;
        }
        Ok(read_int(&mut self.0).map_err(lost)? == special::END_OF_STREAM)
    }
}
