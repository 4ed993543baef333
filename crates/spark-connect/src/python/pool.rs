//! The worker processes of one session: a daemon of PySpark forks them, and those that are free are
//! used again.

use super::process;
use super::state_socket::SocketFolder;
use super::wire::{lost, read_int, read_text, write_int, write_text};
use onefold_types::{Error, Result};
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use uuid::Uuid;

/// How long a worker may take to begin: it imports PySpark.
const BEGIN_WITHIN: Duration = Duration::from_secs(120);
/// Free workers that are kept.
const FREE_MAX: usize = 8;

/// The workers of a session.
#[derive(Debug)]
pub(crate) struct PythonPool {
    python: String,
    /// What a process may take, in MiB.
    memory: Option<u64>,
    /// Where files of the client are.
    pub(super) files: PathBuf,
    state: Mutex<State>,
    sockets: OnceLock<SocketFolder>,
    turns: Turns,
}

/// How many long tasks may run at once.
#[derive(Debug)]
struct Turns {
    left: Mutex<usize>,
    given_back: Condvar,
}

impl Default for Turns {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
        Turns { left: Mutex::new(cores), given_back: Condvar::new() }
    }
}

/// A turn to run a long task, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}

/// By module of PySpark, what runs it.
type State = HashMap<&'static str, Workers>;

#[derive(Debug, Default)]
struct Workers {
    daemon: Option<Daemon>,
    free: Vec<TcpStream>,
    /// Process ids, by the ports of our ends of the connections.
    ids: HashMap<u16, i32>,
}

/// The module that runs functions.
const WORKER: &str = "pyspark.worker";

#[derive(Debug)]
struct Daemon {
    child: Child,
    /// The daemon ends, and its workers with it, when this closes.
    input: Option<ChildStdin>,
    port: u16,
    secret: String,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends by itself then; one that hangs is ended.
        for _ in 0..50 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl PythonPool {
    /// No process is started before the first function is called.
    pub(crate) fn new(python: String, memory: Option<u64>, files: PathBuf) -> Self {
        PythonPool {
            python,
            memory,
            files,
            state: Mutex::default(),
            sockets: OnceLock::new(),
            turns: Turns::default(),
        }
    }

    /// Where sockets are over which workers ask for state.
    ///
    /// # Errors
    /// Unavailable: the folder cannot be made.
    pub(super) fn sockets(&self) -> Result<&SocketFolder> {
        if self.sockets.get().is_none() {
            // Of two at once, one is dropped again.
            let _ = self.sockets.set(SocketFolder::new()?);
        }
        self.sockets.get().ok_or_else(|| Error::internal("a folder for sockets is gone"))
    }

    /// Waits for a turn to run a long task. Blocks.
    pub(super) fn turn(&self) -> Turn<'_> {
        let turns = &self.turns;
        let left = turns.left.lock().unwrap_or_else(PoisonError::into_inner);
        let left = turns.given_back.wait_while(left, |left| *left == 0);
        *left.unwrap_or_else(PoisonError::into_inner) -= 1;
        Turn(turns)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one call: a panic leaves it usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Python that they run in.
    pub(super) fn python(&self) -> &str {
        &self.python
    }

    /// A worker that waits for a function. Blocks.
    ///
    /// # Errors
    /// Unavailable: Python cannot be started, or is without PySpark.
    pub(super) fn take(&self) -> Result<TcpStream> {
        self.take_of(WORKER)
    }

    /// A worker of a module that waits for a task. Blocks.
    ///
    /// # Errors
    /// As [`PythonPool::take`].
    pub(super) fn take_of(&self, module: &'static str) -> Result<TcpStream> {
        loop {
            let free = self.state().get_mut(module).and_then(|workers| workers.free.pop());
            let Some(free) = free else { break };
            if waits(&free) {
                return Ok(free);
            }
        }
        let (port, secret) = {
            let mut state = self.state();
            let workers = state.entry(module).or_default();
            let ended = workers
                .daemon
                .as_mut()
                .is_none_or(|daemon| !matches!(daemon.child.try_wait(), Ok(None)));
            if ended {
                workers.daemon = Some(self.daemon(module)?);
            }
            let daemon = workers.daemon.as_ref();
            let daemon = daemon.ok_or_else(|| Error::internal("no daemon was started"))?;
            (daemon.port, daemon.secret.clone())
        };
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(lost)?;
        stream.set_nodelay(true).map_err(lost)?;
        stream.set_read_timeout(Some(BEGIN_WITHIN)).map_err(lost)?;
        let id = read_int(&mut stream).map_err(lost)?;
        write_text(&mut stream, &secret).map_err(lost)?;
        if read_text(&mut stream).map_err(lost)? != "ok" {
            return Err(Error::unavailable("the Python worker does not take our secret"));
        }
        // The user's function takes the time it takes.
        stream.set_read_timeout(None).map_err(lost)?;
        let own = stream.local_addr().map_err(lost)?.port();
        let mut state = self.state();
        // Who had the port before is gone.
        for workers in state.values_mut() {
            workers.ids.remove(&own);
        }
        state.entry(module).or_default().ids.insert(own, id);
        drop(state);
        Ok(stream)
    }

    /// Gives a worker back that can be used again.
    pub(super) fn give_back(&self, stream: TcpStream) {
        self.give_back_of(WORKER, stream);
    }

    /// Gives a worker of a module back that can be used again.
    pub(super) fn give_back_of(&self, module: &'static str, stream: TcpStream) {
        let mut state = self.state();
        let workers = state.entry(module).or_default();
        if workers.free.len() < FREE_MAX {
            workers.free.push(stream);
        }
    }

    /// Ends a worker, whatever it does: the call that waits for it fails.
    pub(super) fn kill(&self, worker: &TcpStream) {
        // A worker that is gone already needs no end.
        let _ = worker.shutdown(Shutdown::Both);
        let Ok(own) = worker.local_addr() else { return };
        for workers in self.state().values_mut() {
            let input = workers.daemon.as_mut().and_then(|daemon| daemon.input.as_mut());
            if let (Some(id), Some(input)) = (workers.ids.remove(&own.port()), input) {
                // The daemon kills a worker of its own whose id it reads.
                let _ = write_int(input, id).and_then(|()| input.flush());
            }
        }
    }

    /// Ends all workers.
    pub(crate) fn close(&self) {
        let ended = std::mem::take(&mut *self.state());
        drop(ended);
    }

    fn daemon(&self, module: &str) -> Result<Daemon> {
        let secret = Uuid::new_v4().to_string();
        let mut command = process::command(&self.python, &["pyspark.daemon", module], &secret);
        if let Some(memory) = self.memory {
            // The worker sets it as its limit of address space.
            command.env("PYSPARK_EXECUTOR_MEMORY_MB", memory.to_string());
        }
        command.env("SPARK_REUSE_WORKER", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process::spawn(&mut command)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut daemon = Daemon { child, input, port: 0, secret };
        let mut output = output.ok_or_else(|| Error::internal("a process without an output"))?;
        let port = read_int(&mut output).ok().and_then(|port| u16::try_from(port).ok());
        daemon.port = port.ok_or_else(|| {
            Error::unavailable(format!(
                "`{} -m pyspark.daemon` does not start; is the client's pyspark installed for it?",
                self.python
            ))
        })?;
        // What functions print is seen where the server runs.
        std::thread::spawn(move || io::copy(&mut output, &mut io::stderr()));
        Ok(daemon)
    }
}

/// Whether a free worker still is there: it neither says something nor ended.
fn waits(stream: &TcpStream) -> bool {
    let mut byte = [0];
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    let quiet = matches!(
        stream.peek(&mut byte),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock
    );
    quiet && stream.set_nonblocking(false).is_ok()
}
