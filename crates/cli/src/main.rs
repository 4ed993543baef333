//! The `onefold` command.
//!
//! *Why separate:* configuration, wiring, signals and exit codes are here and nowhere else.
//! *What always holds:* standard output carries results, standard error all else; an error is one
//! line that says what to do; the exit code says what kind it was ([`exit`]).
//! *What it is not:* it decides nothing about queries; programs use the crate `onefold`.
//! *Where to start:* [`args`], then [`run`].

mod args;
mod checkpoint;
mod command_config;
mod connectors;
mod demo;
mod exit;
mod explain;
mod option_table;
mod pipeline_file;
mod run;
mod serve;
mod settings;
mod signals;
mod sink_lookup;
mod state;
mod table;
mod terminal;
mod time;
mod verify;

use args::{Args, Command};
use clap::Parser;
use exit::Failure;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;
use tracing_subscriber::EnvFilter;

/// Streams allocate and free large pieces from many threads. This allocator gives them back sooner
/// than the system's, which keeps some for each thread; `.cargo/config.toml` says how it is set.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What is logged unless ONEFOLD_LOG says otherwise: warnings, and from whom a driver takes over.
const LOGGED: &str = "warn,onefold_engine::checkpoint=info";

/// How long a process waits at its end for clients that end.
const CLIENTS_END: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::DONE };
            // Nothing can be said where the terminal is gone.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let filter = EnvFilter::try_from_env("ONEFOLD_LOG").unwrap_or_else(|_| EnvFilter::new(LOGGED));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let done = dispatch(args.command);
    onefold_connectors::kafka::wait_for_clients(CLIENTS_END);
    match done {
        Ok(()) => ExitCode::from(exit::DONE),
        Err(failure) => {
            if let Some(text) = failure.text() {
                terminal::error(text);
            }
            ExitCode::from(failure.code())
        }
    }
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Checkpoint(command) => checkpoint::checkpoint(&command),
        Command::State(command) => state::state(&command),
        Command::Verify(args) => verify::verify(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Connectors(args) => connectors::list(&args),
        Command::Settings(args) => settings::list(&args),
        Command::CrashPoints => {
            for point in onefold_storage::crash::CrashPoint::ALL {
                terminal::line(point.name());
            }
            Ok(())
        }
    }
}
