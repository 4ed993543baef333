//! The project's own automation: `cargo xtask COMMAND`.
//!
//! *Why separate:* checks that need more than a line of shell are ordinary, tested Rust.
//! *What it is not:* no crate depends on it and no user runs it.
//! *Where to start:* [`ci`] for what must hold before a change lands, [`layers`] for who may
//! depend on whom.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to its terminal")]

mod bench;
mod ci;
mod crash;
mod layers;
mod run;
mod spark_suite;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci [--quick]        every gate in order; --quick leaves out docs, deny and the end-to-end tests
  e2e [PYTEST ARGS]   builds the onefold command and runs the end-to-end tests
  bench files [PART]  throughput and cost of a batch, beside plain DataFusion, in a release build
  bench state [CASE]  stateful queries, beside PySpark
  bench connect [PART]
                      what programs of PySpark wait for, against onefold serve
  bench http [PART]   calls a second to a receiver on this machine
  bench databases [PART]
                      into a real PostgreSQL, beside COPY and beside PySpark
  bench kafka [PART]  a real broker: the source, a pipeline beside PySpark, latency
  crash kafka [KILLS]
                      a million records from Kafka to Kafka through SIGKILLs (300 unless told),
                      counted by Kafka's own client
  crash databases [KILLS]
                      streams into PostgreSQL, MariaDB and SQLite through SIGKILLs, counted by the
                      databases' own clients
  spark-suite DIR [MODULE…]
                      Spark's own Python tests, of a checkout in DIR, against onefold serve
  layers              refuses a dependency that the design does not allow";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", args.as_slice()),
    };
    let result = match command {
        "bench" => bench::run(rest),
        "ci" => ci::gates(rest),
        "crash" => crash::run(rest),
        "e2e" => ci::end_to_end(rest),
        "layers" => layers::check(),
        "spark-suite" => spark_suite::run(rest),
        _ => Err(format!("{USAGE}\n\nno such command: '{command}'")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
