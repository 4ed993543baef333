//! The source: follows a table's log, and reads a table as of a version.
//!
//! A stream begins with the table's rows, or at a version, and goes on with the files that each
//! commit brought. Commits that took rows away, or changed them, stop it unless an option says what
//! they mean.
//!
//! *Where to start:* `position` is an offset, `changes` decides what a commit means to a stream,
//! `walk` chooses what a batch takes; `open` is the source of one query, `scan` the plan of a batch.

mod changes;
mod define;
mod open;
mod options;
mod position;
mod scan;
mod walk;

use onefold_connector::SourceSpec;

/// Rows of Delta tables.
pub static SPEC: SourceSpec = SourceSpec {
    name: "delta",
    summary: "Reads a Delta table: its rows as of a version, or what its commits bring.",
    options: &[options::READ],
    define: |request| Box::pin(define::define(request)),
};
