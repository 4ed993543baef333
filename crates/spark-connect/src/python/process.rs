//! How a Python process that runs functions is started.

use onefold_types::{Error, Result};
use std::io;
use std::process::{Child, Command, Stdio};

/// A Python with the arguments and the environment that PySpark's worker modules want; the secret
/// is what it proves itself with when it connects.
pub(super) fn command(python: &str, modules: &[&str], secret: &str) -> Command {
    let mut command = Command::new(python);
    command
        .arg("-m")
        .args(modules)
        .env("PYTHON_WORKER_FACTORY_SECRET", secret)
        .env("PYTHON_UNIX_DOMAIN_ENABLED", "False")
        .env("SPARK_AUTH_SOCKET_TIMEOUT", "15")
        .env("SPARK_BUFFER_SIZE", "65536")
        .env("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
        .env("PYTHONUNBUFFERED", "YES")
        .env_remove("SPARK_REMOTE")
        .stdin(Stdio::null())
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
