//! Runs other programs and says which one failed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder that holds the workspace's `Cargo.toml`.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The cargo that runs us.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Cargo for builds with the feature `rocksdb`: they link the ready-made library of
/// `scripts/rocksdb.sh`, unless `ROCKSDB_LIB_DIR` names another.
///
/// # Errors
/// When the library cannot be brought.
pub fn cargo_with_rocksdb() -> Result<Command, String> {
    let mut command = cargo();
    if std::env::var_os(ROCKSDB).is_none() {
        let folder = output(&mut Command::new(root().join("scripts/rocksdb.sh")))?;
        command.env(ROCKSDB, folder.trim_end());
    }
    Ok(command)
}

const ROCKSDB: &str = "ROCKSDB_LIB_DIR";

/// Runs a program to its end, its output going to ours.
///
/// # Errors
/// When it cannot be started or does not succeed; names its command line.
pub fn succeed(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{}: {status}", line(command))),
        Err(error) => Err(format!("{}: {error}", line(command))),
    }
}

/// Runs a program to its end and gives what it wrote to standard output.
///
/// # Errors
/// As [`succeed`], or when the output is not UTF-8.
pub fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{}: {error}", line(command)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", line(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{}: {error}", line(command)))
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
