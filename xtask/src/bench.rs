//! Speed: figures as ratios and costs taken in one run, never a gate.

use crate::run;

/// Builds the bench in release mode and runs one of its suites.
///
/// # Errors
/// When no suite or an unknown one is named, or the build or the run fails.
pub fn run(args: &[String]) -> Result<(), String> {
    let [suite] = args else {
        return Err("bench takes the name of a suite: files".to_owned());
    };
    run::succeed(run::cargo().args(["run", "--release", "--package", "onefold-bench", "--", suite]))
}
