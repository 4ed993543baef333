//! Runs other programs and says which one failed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder that holds the workspace's `Cargo.toml`.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The cargo that runs us, without what it told us of our own package: build scripts that look at
/// those variables would see others than in a build by hand, and everything on them be built again.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// Cargo for builds with the feature `rocksdb`: they link the ready-made library of
/// `scripts/rocksdb.sh`, unless `ROCKSDB_LIB_DIR` names another.
///
/// What cargo runs finds the library by the linker's search path: cargo itself adds only folders
/// below `debug` and `release`.
///
/// # Errors
/// When the library cannot be brought.
pub fn cargo_with_rocksdb() -> Result<Command, String> {
    let folder = match std::env::var_os(ROCKSDB) {
        Some(folder) => PathBuf::from(folder),
        None => {
            let printed = output(&mut Command::new(root().join("scripts/rocksdb.sh")))?;
            PathBuf::from(printed.trim_end())
        }
    };
    let searched = std::env::var_os(SEARCH_PATH).unwrap_or_default();
    let searched = std::env::split_paths(&searched).filter(|path| !path.as_os_str().is_empty());
    let path = std::env::join_paths(std::iter::once(folder.clone()).chain(searched))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = cargo();
    command.env(ROCKSDB, folder).env(SEARCH_PATH, path);
    Ok(command)
}

const ROCKSDB: &str = "ROCKSDB_LIB_DIR";

/// Where the dynamic linker looks first.
const SEARCH_PATH: &str =
    if cfg!(target_os = "macos") { "DYLD_LIBRARY_PATH" } else { "LD_LIBRARY_PATH" };

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
