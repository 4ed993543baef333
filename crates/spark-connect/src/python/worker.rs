//! A Python process that runs a function of the user: one of the worker modules of PySpark.
//!
//! The process connects back, proves itself with a secret, gets the pickled function, and then
//! answers one message after the other. Whole numbers are big-endian, texts are a length and UTF-8
//! (`pyspark/serializers.py`).

use super::process;
use super::wire::{answer, lost, read_int, read_text, write_bytes, write_text};
use crate::artifacts::module_archives;
use onefold_types::{Error, Result};
use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How long a process may take to connect.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take to unpickle the function and attach to the session.
const BEGIN_WITHIN: Duration = Duration::from_secs(300);

/// What to run and with what.
#[derive(Debug, Clone)]
pub(crate) struct WorkerSpec {
    /// The Python that runs it.
    pub(crate) python: String,
    /// The module: `pyspark.sql.connect.streaming.worker.foreach_batch_worker`.
    pub(crate) module: &'static str,
    /// Where the worker reaches this server: `sc://127.0.0.1:15002/;user_id=…`.
    pub(crate) url: String,
    /// The session that it works in.
    pub(crate) session: String,
    /// The client's Python version, which must be the worker's.
    pub(crate) version: String,
    /// The pickled function.
    pub(crate) command: Vec<u8>,
    /// Where the client's modules are.
    pub(crate) files: PathBuf,
}

/// The path of modules with those of the client first.
fn python_path(files: &Path) -> OsString {
    let archives = module_archives(files).into_iter().map(|archive| files.join(archive));
    let own = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let before = std::env::split_paths(&own).filter(|path| !path.as_os_str().is_empty());
    let all = std::iter::once(files.to_owned()).chain(archives).chain(before);
    // A folder whose name has a colon cannot be on a path.
    std::env::join_paths(all).unwrap_or(own)
}

/// A running worker. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct PythonWorker {
    child: Child,
    stream: TcpStream,
}

impl Drop for PythonWorker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl PythonWorker {
    /// Starts a worker and waits until it has the function. Blocks.
    ///
    /// # Errors
    /// Unavailable: Python cannot be started or does not connect in time. Invalid, with the
    /// traceback: the function cannot be unpickled.
    pub(crate) fn start(spec: &WorkerSpec) -> Result<PythonWorker> {
        let mut worker = PythonWorker::launch(
            &spec.python,
            spec.module,
            &spec.files,
            &[("SPARK_CONNECT_LOCAL_URL", spec.url.as_str())],
        )?;
        worker.hand_over(spec)?;
        Ok(worker)
    }

    /// Starts a module of PySpark, which finds the client's modules, and waits until it has
    /// connected. Blocks.
    ///
    /// # Errors
    /// Unavailable: Python cannot be started or does not connect in time.
    pub(super) fn launch(
        python: &str,
        module: &str,
        files: &Path,
        environment: &[(&str, &str)],
    ) -> Result<PythonWorker> {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .map_err(|error| Error::unavailable("no port for a Python worker").because(error))?;
        let port = listener.local_addr().map(|address| address.port()).map_err(lost)?;
        let secret = Uuid::new_v4().to_string();
        let mut command = process::attended(python, module, &secret);
        command
            .envs(environment.iter().copied())
            .env("PYTHONPATH", python_path(files))
            .env("PYTHON_WORKER_FACTORY_PORT", port.to_string());
        let child = process::spawn(&mut command)?;
        let mut child = ChildGuard(Some(child));
        let stream = accept(&listener, child.0.as_mut())?;
        let child = child.0.take().ok_or_else(|| Error::internal("a worker without a process"))?;
        let mut worker = PythonWorker { child, stream };
        worker.greet(&secret)?;
        worker.stream.set_read_timeout(None).map_err(lost)?;
        Ok(worker)
    }

    /// The connection to it.
    pub(super) fn stream(&self) -> Result<TcpStream> {
        self.stream.try_clone().map_err(lost)
    }

    /// Gives it a moment to end by itself.
    pub(super) fn wait_to_end(&mut self) {
        for _ in 0..100 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    fn greet(&mut self, secret: &str) -> Result<()> {
        self.stream.set_read_timeout(Some(CONNECT_WITHIN)).map_err(lost)?;
        if read_text(&mut self.stream).map_err(lost)? != secret {
            return Err(Error::unavailable("another process connected in a Python worker's place"));
        }
        write_text(&mut self.stream, "ok").map_err(lost)?;
        // Its process id, which is known already.
        read_int(&mut self.stream).map_err(lost)?;
        Ok(())
    }

    fn hand_over(&mut self, spec: &WorkerSpec) -> Result<()> {
        write_text(&mut self.stream, &spec.version).map_err(lost)?;
        write_text(&mut self.stream, &spec.session).map_err(lost)?;
        write_bytes(&mut self.stream, &spec.command).map_err(lost)?;
        self.stream.flush().map_err(lost)?;
        self.stream.set_read_timeout(Some(BEGIN_WITHIN)).map_err(lost)?;
        answer(&mut self.stream)?;
        // The user's function takes the time it takes.
        self.stream.set_read_timeout(None).map_err(lost)
    }

    /// What ends a call that is under way: the worker is lost then.
    pub(crate) fn switch(&self) -> Option<TcpStream> {
        self.stream.try_clone().ok()
    }

    /// Calls the function with a batch: the name under which the session has its rows, and its
    /// number. Blocks until the function returns.
    ///
    /// # Errors
    /// Invalid, with the traceback, when the function raises.
    pub(crate) fn call(&mut self, relation: &str, batch: i64) -> Result<()> {
        write_text(&mut self.stream, relation).map_err(lost)?;
        self.stream.write_all(&batch.to_be_bytes()).map_err(lost)?;
        self.stream.flush().map_err(lost)?;
        answer(&mut self.stream)
    }
}

/// Ends the process unless it is handed on.
struct ChildGuard(Option<Child>);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for the worker to connect, as long as its process lives.
fn accept(listener: &TcpListener, child: Option<&mut Child>) -> Result<TcpStream> {
    listener.set_nonblocking(true).map_err(lost)?;
    let deadline = Instant::now() + CONNECT_WITHIN;
    let mut child = child;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(lost)?;
                stream.set_nodelay(true).map_err(lost)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(lost(error)),
        }
        let ended = child.as_deref_mut().and_then(|child| child.try_wait().ok().flatten());
        if let Some(status) = ended {
            return Err(Error::unavailable(format!(
                "the Python worker ended before it connected ({status}); is pyspark with its \
                 Connect packages installed for the Python of spark.pyspark.python?"
            )));
        }
        if Instant::now() >= deadline {
            return Err(Error::unavailable(format!(
                "the Python worker did not connect within {} s",
                CONNECT_WITHIN.as_secs()
            )));
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
