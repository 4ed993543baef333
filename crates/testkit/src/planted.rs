//! Proof that tests can fail: each runs once more, in a process of its own, with a rule of the
//! protocol broken on purpose (`ONEFOLD_PLANTED`), and must not pass.

use std::fmt::Debug;
use std::process::{Command, Stdio};

/// Runs tests of the very test program that calls this, by their full names, each with its fault
/// planted.
///
/// # Panics
/// When one of them passes or is not there, or when a fault of `wanted` has no test.
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn all_seen<B: Debug + PartialEq>(
    wanted: impl IntoIterator<Item = B>,
    failing: impl IntoIterator<Item = (B, impl AsRef<str>)>,
) {
    let mut seen: Vec<B> = Vec::new();
    for (bug, test) in failing {
        if let Err(why) = sees(test.as_ref(), &bug) {
            panic!("{} with {bug:?} planted: {why}", test.as_ref());
        }
        seen.push(bug);
    }
    let unseen: Vec<B> = wanted.into_iter().filter(|bug| !seen.contains(bug)).collect();
    assert!(unseen.is_empty(), "no test fails with {unseen:?}");
}

fn sees<B: Debug>(test: &str, bug: &B) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let outcome = Command::new(program)
        .args([test, "--exact"])
        .env("ONEFOLD_PLANTED", format!("{bug:?}"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&outcome.stdout);
    match (said.contains("running 1 test\n"), outcome.status.success()) {
        (false, _) => Err("there is no such test".to_owned()),
        (true, true) => Err("it passes".to_owned()),
        (true, false) => Ok(()),
    }
}
