//! Speed: figures as ratios and costs taken in one run, never a gate.

use crate::{ci, run};
use std::process::Command;

/// Builds the bench in release mode and runs one of its suites; what follows the suite's name
/// picks cases of it.
///
/// # Errors
/// When no suite or an unknown one is named, or the build or the run fails.
pub fn run(args: &[String]) -> Result<(), String> {
    let Some(suite) = args
        .first()
        .filter(|suite| ["files", "state", "connect", "kafka", "http"].contains(&suite.as_str()))
    else {
        return Err(
            "bench takes the name of a suite: files, state, connect, kafka or http".to_owned()
        );
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
    if suite == "kafka" {
        let jars =
            run::output(Command::new(run::root().join("scripts/kafka.sh")).arg("spark-jars"))?;
        bench.env("ONEFOLD_BENCH_SPARK_KAFKA", jars.trim_end());
    }
    bench.args(what).args(["--features", "rocksdb", "--"]).args(args);
    bench.env("ONEFOLD_BENCH_PYTHON", ci::python_folder()?.join("bin/python"));
    run::succeed(&mut bench)
}
