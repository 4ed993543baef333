//! Speed: figures as ratios and costs taken in one run, never a gate.

use crate::{ci, run};
use std::process::Command;

const SUITES: [&str; 6] = ["files", "state", "connect", "kafka", "databases", "http"];

/// Builds the bench in release mode and runs one of its suites; what follows the suite's name
/// picks cases of it.
///
/// # Errors
/// When no suite or an unknown one is named, or the build or the run fails.
pub fn run(args: &[String]) -> Result<(), String> {
    let Some(suite) = args.first().filter(|suite| SUITES.contains(&suite.as_str())) else {
        return Err(format!("bench takes the name of a suite: {}", SUITES.join(", ")));
    };
    let what = ["run", "--release", "--locked", "--package", "onefold-bench"];
    if suite == "files" || suite == "http" {
        return run::succeed(run::cargo().args(what).arg("--").args(args));
    }
    let mut bench = run::cargo_with_rocksdb()?;
    if suite == "connect" {
        let build = ["build", "--release", "--locked", "--package", "onefold-cli"];
        run::succeed(run::cargo_with_rocksdb()?.args(build))?;
        bench.env("ONEFOLD_BENCH_BINARY", ci::target_folder()?.join("release/onefold"));
    }
    let jars = match suite.as_str() {
        "kafka" => Some(("kafka.sh", "ONEFOLD_BENCH_SPARK_KAFKA")),
        "databases" => Some(("postgres.sh", "ONEFOLD_BENCH_SPARK_POSTGRES")),
        _ => None,
    };
    if let Some((script, name)) = jars {
        let script = run::root().join("scripts").join(script);
        let jars = run::output(Command::new(script).arg("spark-jars"))?;
        bench.env(name, jars.trim_end());
    }
    bench.args(what).args(["--features", "rocksdb", "--"]).args(args);
    bench.env("ONEFOLD_BENCH_PYTHON", ci::python_folder()?.join("bin/python"));
    run::succeed(&mut bench)
}
