//! Spark's own Python tests, run against `onefold serve`.
//!
//! The tests are brought for the run and never committed: `cargo xtask spark-suite DIR` takes the
//! root of a checkout of Spark that has `python/pyspark/sql/tests`, `python/pyspark/tests`,
//! `python/pyspark/testing` and `python/test_support`. The client is the PySpark of the end-to-end
//! tests; the server ends its streams of responses early, so that each test attaches again.

use crate::{ci, run};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Modules of `pyspark.sql.tests.connect` that are run when none is named.
const MODULES: &[&str] = &[
    "streaming.test_parity_streaming",
    "streaming.test_parity_foreach_batch",
    "streaming.test_parity_foreach",
    "streaming.test_parity_listener",
    "test_parity_python_streaming_datasource",
    "pandas.streaming.test_parity_pandas_grouped_map_with_state",
    "pandas.streaming.test_parity_transform_with_state",
    "pandas.streaming.test_parity_transform_with_state_state_variable",
    "pandas.streaming.test_parity_pandas_transform_with_state",
    "pandas.streaming.test_parity_pandas_transform_with_state_state_variable",
    "test_connect_basic",
    "test_connect_function",
    "test_connect_column",
    "test_connect_readwriter",
];

/// Modules that compare a Connect session with a classic one, in a JVM of the tests' process.
const BESIDE_CLASSIC: &[&str] = &[
    "test_connect_basic",
    "test_connect_function",
    "test_connect_column",
    "test_connect_readwriter",
];

const PREFIX: &str = "pyspark.sql.tests.connect.";

/// A server that ends with this.
struct Server {
    child: Child,
    remote: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a run needs.
struct Suite {
    checkout: PathBuf,
    /// Logs, tables and the folder from which `pyspark` is imported.
    work: PathBuf,
    python: PathBuf,
    command: PathBuf,
}

/// What became of a module.
#[derive(Default)]
struct Counts {
    by_outcome: BTreeMap<String, usize>,
    bad: Vec<(String, String)>,
    whole: bool,
}

/// Runs modules: `DIR [MODULE…]`, names below `pyspark.sql.tests.connect`.
///
/// # Errors
/// When something cannot be started. Tests that fail are counted and named, not an error.
pub fn run(args: &[String]) -> Result<(), String> {
    let Some((checkout, named)) = args.split_first() else {
        return Err("spark-suite takes the root of a checkout of Spark".to_owned());
    };
    let modules: Vec<String> = match named {
        [] => MODULES.iter().map(|&module| module.to_owned()).collect(),
        named => named.to_vec(),
    };
    let suite = Suite::prepared(Path::new(checkout))?;
    println!("| module | passed | skipped | failed | s |\n|---|---|---|---|---|");
    let mut bad = Vec::new();
    for module in &modules {
        let started = Instant::now();
        let counts = suite.module(module)?;
        let count = |what: &str| counts.by_outcome.get(what).copied().unwrap_or(0);
        let (ok, skipped) = (count("ok"), count("skip"));
        let note = if counts.whole { "" } else { " (did not end)" };
        let failed = count("fail") + count("error");
        let took = started.elapsed().as_secs();
        println!("| {module}{note} | {ok} | {skipped} | {failed} | {took} |");
        bad.extend(counts.bad.into_iter().map(|(test, why)| (module.clone(), test, why)));
    }
    for (module, test, why) in bad {
        println!("{module} {test}: {why}");
    }
    println!("logs are in {}", suite.work.display());
    Ok(())
}

impl Suite {
    fn prepared(checkout: &Path) -> Result<Suite, String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", checkout.display());
        let checkout = checkout.canonicalize().map_err(wrong)?;
        let tests = checkout.join("python/pyspark/sql/tests");
        if !tests.is_dir() {
            return Err(format!("{} is not there", tests.display()));
        }
        let python = ci::python_folder()?.join("bin/python");
        let command = match std::env::var_os("ONEFOLD_BIN") {
            Some(command) => PathBuf::from(command),
            None => {
                ci::build()?;
                ci::target_folder()?.join("debug/onefold")
            }
        };
        let work = std::env::temp_dir().join(format!("spark-suite-{}", std::process::id()));
        let suite = Suite { checkout, work, python, command };
        suite.make_site()?;
        Ok(suite)
    }

    /// A folder to import from: the installed PySpark, with the tests of the checkout in it.
    fn make_site(&self) -> Result<(), String> {
        let find = "import os, pyspark; print(os.path.dirname(pyspark.__file__))";
        let installed = run::output(Command::new(&self.python).args(["-c", find]))?;
        let installed = PathBuf::from(installed.trim_end());
        let site = self.site().join("pyspark");
        let made = (|| {
            std::fs::create_dir_all(site.join("sql"))?;
            for (from, to) in
                [(installed.clone(), site.clone()), (installed.join("sql"), site.join("sql"))]
            {
                for entry in std::fs::read_dir(from)? {
                    let entry = entry?;
                    let name = entry.file_name();
                    let link = to.join(&name);
                    if name != "__pycache__" && !link.exists() {
                        std::os::unix::fs::symlink(entry.path(), link)?;
                    }
                }
            }
            let tests = self.checkout.join("python/pyspark");
            std::os::unix::fs::symlink(tests.join("sql/tests"), site.join("sql/tests"))?;
            std::os::unix::fs::symlink(tests.join("tests"), site.join("tests"))
        })();
        made.map_err(|error: std::io::Error| format!("{}: {error}", site.display()))
    }

    fn site(&self) -> PathBuf {
        self.work.join("site")
    }

    fn environment(&self, command: &mut Command) {
        command
            .current_dir(&self.checkout)
            .env("PYTHONPATH", self.site())
            .env("SPARK_TESTING", "1")
            .env("SPARK_HOME", &self.checkout)
            .env("SPARK_SKIP_CONNECT_COMPAT_TESTS", "1")
            .env("SPARK_SKIP_JVM_REQUIRED_TESTS", "1");
    }

    fn serve(&self, module: &str) -> Result<Server, String> {
        let warehouse = self.work.join(format!("warehouse-{module}"));
        let log = self.log(module, "server.log")?;
        let mut command = Command::new(&self.command);
        self.environment(&mut command);
        command
            .args(["serve", "--bind", "127.0.0.1:0"])
            .args(["--conf", "spark.connect.execute.reattachable.senderMaxStreamDuration=1s"])
            .args(["--conf", "spark.connect.execute.reattachable.senderMaxStreamSize=123"])
            .args(["--conf", &format!("spark.sql.warehouse.dir={}", warehouse.display())])
            .args(["--conf", "spark.sql.shuffle.partitions=4"])
            .env("PYSPARK_PYTHON", &self.python)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut child = command.spawn().map_err(|error| format!("onefold serve: {error}"))?;
        let output = child.stdout.take();
        let mut server = Server { child, remote: String::new() };
        let lines = output.map(|output| BufReader::new(output).lines());
        let first = lines.and_then(|mut lines| lines.next()).and_then(Result::ok);
        let remote = first.as_deref().and_then(|line| line.strip_prefix("listening on "));
        remote.ok_or("onefold serve did not say where it listens")?.clone_into(&mut server.remote);
        Ok(server)
    }

    fn log(&self, module: &str, kind: &str) -> Result<std::fs::File, String> {
        let path = self.work.join(format!("{module}.{kind}"));
        let options = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        options.map_err(|error| format!("{}: {error}", path.display()))
    }

    fn module(&self, module: &str) -> Result<Counts, String> {
        let server = self.serve(module)?;
        let mut command = Command::new(&self.python);
        self.environment(&mut command);
        if BESIDE_CLASSIC.contains(&module) {
            command
                .env("ONEFOLD_BESIDE_CLASSIC", "1")
                .env_remove("SPARK_SKIP_CONNECT_COMPAT_TESTS")
                .env_remove("SPARK_SKIP_JVM_REQUIRED_TESTS");
        }
        let mut child = command
            .arg(run::root().join("tests/spark_suite/run_module.py"))
            .arg(format!("{PREFIX}{module}"))
            .env("SPARK_CONNECT_TESTING_REMOTE", &server.remote)
            .env("SPARK_CONNECT_MODE_ENABLED", "1")
            .env_remove("SPARK_CONNECT_AUTHENTICATE_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(self.log(module, "log")?)
            .spawn()
            .map_err(|error| format!("{module}: {error}"))?;
        let mut counts = Counts::default();
        if let Some(output) = child.stdout.take() {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                counts.take(&line);
            }
        }
        child.wait().map_err(|error| format!("{module}: {error}"))?;
        Ok(counts)
    }
}

impl Counts {
    fn take(&mut self, line: &str) {
        let mut parts = line.split('\t');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("RESULT"), Some(outcome), Some(test), why) => {
                *self.by_outcome.entry(outcome.to_owned()).or_default() += 1;
                if outcome == "fail" || outcome == "error" {
                    self.bad.push((test.to_owned(), why.unwrap_or_default().to_owned()));
                }
            }
            (Some("DONE"), ..) => self.whole = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn lines_of_a_module_are_counted_and_others_passed_over() {
        let mut counts = Counts::default();
        for line in ["RESULT\tok\ta\t", "printed by a test", "RESULT\tfail\tb\twhy", "DONE\t2"] {
            counts.take(line);
        }
        assert_eq!(counts.by_outcome.get("ok"), Some(&1));
        assert_eq!(counts.bad, [("b".to_owned(), "why".to_owned())]);
        assert!(counts.whole);
    }
}
