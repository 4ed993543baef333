//! Measures Onefold beside plain DataFusion and PySpark: every figure is a ratio or a cost taken in one run.
//!
//! Each measured thing runs in a child process of its own (this program with a hidden
//! subcommand), so that peak memory is its own and nothing is warm from the one before.
//!
//! *What it is not:* a test. Nothing fails because a machine is slow; a target that is missed is
//! printed as missed.
//! *Where to start:* [`files`], [`state`], [`connect`], [`kafka`], [`databases`], [`http`].

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to its terminal")]

mod connect;
mod connect_client;
mod data;
mod databases;
mod files;
mod http;
mod kafka;
mod measure;
mod plain;
mod state;
mod state_data;
mod stateful;
mod stream;

use stateful::Place;
use std::process::ExitCode;
use std::time::Instant;

/// What any step can fail with: a bench reports the text and stops.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// As the command has it.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const USAGE: &str = "usage: onefold-bench files|state|connect|kafka|databases|http [PART …]";

fn main() -> ExitCode {
    let started = Instant::now();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["files", parts @ ..] => files::run(parts),
        ["state", cases @ ..] => state::run(cases),
        ["connect", parts @ ..] => connect::run(parts),
        ["kafka", parts @ ..] => kafka::run(parts),
        ["databases", parts @ ..] => databases::run(parts),
        ["child-database", url, table, input, checkpoint, each, keys] => {
            databases::own::drain((url, table), (input, checkpoint), each, keys)
        }
        ["http", parts @ ..] => http::run(parts),
        ["child-http", part, url, input, folder] => http::drain(part, url, input, folder),
        ["child-make-rows", folder] => connect::make_rows(folder),
        ["child-plain-ipc", folder] => connect::plain_ipc(folder),
        ["child-connect-client", remote, folder] => connect_client::drain(remote, folder),
        ["child-plain", input, output] => plain::run(input, output),
        ["child-stream", input, output, checkpoint] => stream::drain(input, output, checkpoint),
        ["child-batches", input, output, checkpoint] => stream::batches(input, output, checkpoint),
        ["child-restart", input, output, checkpoint] => {
            stream::restart(started, input, output, checkpoint)
        }
        ["child-state", case, input, output, checkpoint, provider] => {
            stateful::run(case, &Place { input, output, checkpoint, provider })
        }
        ["child-kafka-plain", bootstrap, topic, records] => {
            kafka::plain::drain(bootstrap, topic, records)
        }
        ["child-kafka-source", bootstrap, topic, checkpoint] => {
            kafka::own::source(bootstrap, topic, checkpoint)
        }
        ["child-kafka-drain", bootstrap, from, to, checkpoint] => {
            kafka::own::drain((bootstrap, from, to, checkpoint))
        }
        ["child-kafka-follow", bootstrap, from, to, checkpoint] => {
            kafka::own::follow((bootstrap, from, to, checkpoint))
        }
        ["child-plain-aggregate", input] => stateful::plain_aggregate(input),
        [child, input, output, checkpoint, provider] => {
            let place = Place { input, output, checkpoint, provider };
            match *child {
                "child-aggregate" => stateful::aggregate(&place),
                "child-touched" => stateful::touched(&place),
                "child-flat" => stateful::flat(&place),
                _ => Err(USAGE.into()),
            }
        }
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
