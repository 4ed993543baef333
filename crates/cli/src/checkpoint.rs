//! `onefold checkpoint …`: looking into checkpoints, checking, rewinding and copying them.

mod copy;
mod losses;
mod plan;
mod repair;
mod rewind;
mod rewind_topic;
mod show;
mod structure;

use crate::args::CheckpointCommand;
use crate::exit::Failure;

/// Runs one of the commands on a checkpoint.
///
/// # Errors
/// With the exit codes of [`crate::exit`].
pub fn checkpoint(command: &CheckpointCommand) -> Result<(), Failure> {
    match command {
        CheckpointCommand::Show(args) => show::show(args),
        CheckpointCommand::Plan(args) => plan::plan(args),
        CheckpointCommand::Verify(args) => structure::verify(args),
        CheckpointCommand::Losses(args) => losses::list(args),
        CheckpointCommand::Repair(args) => repair::repair(args),
        CheckpointCommand::Rewind(args) => rewind::rewind(args),
        CheckpointCommand::Fork(args) => copy::fork(args),
        CheckpointCommand::Export(args) => copy::export(args),
        CheckpointCommand::Import(args) => copy::import(args),
    }
}
