//! One run of the stream in a process of its own.

use super::place::{Place, cannot};
use crate::exit::Failure;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the last run may take.
pub const DRAIN_PATIENCE: Duration = Duration::from_secs(120);

/// How often a running process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// No batch yet.
const NONE: u64 = u64::MAX;

/// How a run ended.
pub enum End {
    /// By SIGKILL.
    Killed,
    /// By itself, with this code.
    Exited(Option<i32>),
    /// It still runs, and patience is over.
    Outlived,
    /// It still runs, and the user asked to stop.
    Interrupted,
}

/// A run.
pub struct Child {
    process: std::process::Child,
    last_batch: Arc<AtomicU64>,
    log: std::path::PathBuf,
}

impl Child {
    /// Starts `onefold run` on the pipeline.
    ///
    /// # Errors
    /// Failed, when the process cannot be started.
    pub fn start(place: &Place, crash_at: Option<String>, more: &[&str]) -> Result<Child, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("this program is not found: {error}")))?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&place.log)
            .map_err(|error| cannot("be opened", &place.log, error))?;
        let mut command = Command::new(&program);
        command.arg("run").arg(&place.pipeline).arg("--checkpoint").arg(place.checkpoints());
        command.args(more).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        command.env_remove("ONEFOLD_CRASH_AT");
        if let Some(value) = crash_at {
            command.env("ONEFOLD_CRASH_AT", value);
        }
        let mut process = command.spawn().map_err(|error| cannot("be started", &program, error))?;
        let last_batch = Arc::new(AtomicU64::new(NONE));
        if let Some(stdout) = process.stdout.take() {
            let seen = Arc::clone(&last_batch);
            std::thread::spawn(move || follow(BufReader::new(stdout), &seen));
        }
        Ok(Child { process, last_batch, log: place.log.clone() })
    }

    /// The newest batch that the run said was over.
    pub fn last_batch(&self) -> Option<u64> {
        Some(self.last_batch.load(Ordering::SeqCst)).filter(|batch| *batch != NONE)
    }

    /// Waits until the process is dead, patience is over or the user asks to stop.
    ///
    /// # Errors
    /// Failed, when the process cannot be waited for.
    pub fn until_dead(
        &mut self,
        patience: Duration,
        asked_to_stop: &AtomicBool,
        mut on_batch: impl FnMut(u64),
    ) -> Result<End, Failure> {
        let began = Instant::now();
        let mut shown = None;
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(match status.signal() {
                    Some(9) => End::Killed,
                    _ => End::Exited(status.code()),
                });
            }
            if asked_to_stop.load(Ordering::SeqCst) {
                return Ok(End::Interrupted);
            }
            if began.elapsed() > patience {
                return Ok(End::Outlived);
            }
            let batch = self.last_batch();
            if batch != shown
                && let Some(batch) = batch
            {
                on_batch(batch);
                shown = Some(batch);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn try_wait(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.process
            .try_wait()
            .map_err(|error| Failure::failed(format!("the run cannot be waited for: {error}")))
    }

    /// Kills the process by SIGKILL, if it still runs.
    ///
    /// # Errors
    /// Failed, when it cannot be killed.
    pub fn kill(&mut self) -> Result<(), Failure> {
        self.process
            .kill()
            .and_then(|()| self.process.wait())
            .map(|_| ())
            .map_err(|error| Failure::failed(format!("the run cannot be killed: {error}")))
    }

    /// The run ended by itself where it should not have.
    pub fn failure(&self, code: Option<i32>) -> Failure {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last = text.lines().rev().take(5).collect::<Vec<_>>();
        let said: Vec<&str> = last.into_iter().rev().collect();
        let code = code.map_or("a signal".to_owned(), |code| format!("code {code}"));
        Failure::failed(format!("the run ended with {code} and said:\n{}", said.join("\n")))
    }
}

impl Drop for Child {
    /// No run outlives the demonstration.
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// Reads progress, one JSON object a line.
fn follow(lines: impl BufRead, seen: &AtomicU64) {
    for line in lines.lines() {
        let Ok(line) = line else { return };
        let progress: Option<serde_json::Value> = serde_json::from_str(&line).ok();
        let batch = progress.as_ref().and_then(|progress| progress.get("batchId")?.as_u64());
        if let Some(batch) = batch {
            seen.store(batch, Ordering::SeqCst);
        }
    }
}
