//! How a Python process that runs functions is started.

use onefold_types::{Error, Result};
use std::io;
use std::process::{Child, Command, Stdio};

/// Runs a module, and ends with the process that started it: that one alone holds the other end of
/// the standard input. A function that waits for a server that is gone would go on for minutes.
const ATTENDED: &str = "\
import os, runpy, sys, threading

def attend():
    os.read(0, 1)
    os._exit(1)

threading.Thread(target=attend, daemon=True).start()
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)
";

/// As [`command`], of one module that ends with this process, also where this one is killed.
pub(super) fn attended(python: &str, module: &str, secret: &str) -> Command {
    let mut command = prepared(python, secret);
    command.args(["-c", ATTENDED, module]).stdin(Stdio::piped());
    command
}

/// A Python with the arguments and the environment that PySpark's worker modules want; the secret
/// is what it proves itself with when it connects.
pub(super) fn command(python: &str, modules: &[&str], secret: &str) -> Command {
    let mut command = prepared(python, secret);
    command.arg("-m").args(modules).stdin(Stdio::null());
    command
}

fn prepared(python: &str, secret: &str) -> Command {
    let mut command = Command::new(python);
    command
        .env("PYTHON_WORKER_FACTORY_SECRET", secret)
        .env("PYTHON_UNIX_DOMAIN_ENABLED", "False")
        .env("SPARK_AUTH_SOCKET_TIMEOUT", "15")
        .env("SPARK_BUFFER_SIZE", "65536")
        .env("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
        .env("PYTHONUNBUFFERED", "YES")
        .env_remove("SPARK_REMOTE")
        // What functions print is seen where the server runs.
        .stdout(Stdio::from(io::stderr()));
    command
}

/// Starts it.
///
/// # Errors
/// Unavailable: there is no such Python; names the setting.
pub(super) fn spawn(command: &mut Command) -> Result<Child> {
    command.spawn().map_err(|error| {
        Error::unavailable(format!(
            "Python cannot be started as `{}`; set spark.pyspark.python to the Python that has the \
             client's pyspark",
            command.get_program().to_string_lossy()
        ))
        .because(error)
    })
}
