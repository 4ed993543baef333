//! A script that serves something until its input ends, and answers each line with one.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Error, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running script. What it serves ends with it, and it ends with this process.
#[derive(Debug)]
pub(crate) struct Talk {
    name: String,
    script: Child,
    /// `None` once it is to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Talk {
    /// Starts `scripts/NAME serve …`, and the line with which it tells that it serves.
    ///
    /// # Errors
    /// It failed; what it said is on the standard error.
    pub(crate) fn start(name: &str, arguments: &[OsString]) -> io::Result<(Talk, String)> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name);
        let mut script = Command::new(path)
            .arg("serve")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = script.stdin.take();
        let output = script.stdout.take().ok_or_else(|| Error::other("no standard output"))?;
        let mut talk =
            Talk { name: name.to_owned(), script, input, output: BufReader::new(output) };
        let about = talk.hear()?;
        Ok((talk, about))
    }

    fn hear(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            let text = format!("scripts/{} ended; what it said stands above", self.name);
            return Err(Error::other(text));
        }
        Ok(line.trim_end().to_owned())
    }

    /// Says a line, and hears the answer.
    ///
    /// # Errors
    /// The script has ended.
    pub(crate) fn ask(&mut self, command: &str) -> io::Result<String> {
        let input = self.input.as_mut().ok_or_else(|| Error::other("the script has ended"))?;
        writeln!(input, "{command}")?;
        input.flush()?;
        self.hear()
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.script.wait();
    }
}
