//! What the commands on a checkpoint do, as functions over a [`Store`](onefold_storage::Store).
//!
//! *What always holds:* reading never changes anything and never fails because of one bad record;
//! what changes a checkpoint decides first and acts after, and keeps what it removes.
//! *What it is not:* it opens no sink and no store (the caller does) and prints nothing.
//! *Where to start:* [`Contents::gather`], then [`Overview`] (`show`), [`check`] (`verify`),
//! [`compare`] (checkpoint and sink), [`plan_rewind`], [`fork`], [`export`].

mod archive;
mod check;
mod compare;
mod contents;
mod effects;
mod hadoop_crc;
mod relocate;
mod rewind;
mod show;
mod sink_rewind;
mod state_plan;
mod state_read;
mod text_log;

pub use archive::{Archive, ArchivedFile, Fork, export, fork, mark_empty_output};
pub use check::{Finding, Severity, Structure, check};
pub use compare::{Comparison, Difference, NotComparable, compare};
pub use contents::{Contents, Depth, Layout, Record, SourceEntry, SourceLog};
pub use effects::effects_to_look_at;
pub use onefold_state::StateReader;
pub use relocate::Relocation;
pub use rewind::{LaterMarks, RewindPlan, apply_rewind, plan_rewind, take_generation};
pub use show::{
    Batch, Driver, Ids, Overview, Restart, Setting, SinkMark, SourceFolder, SourceRange,
    StateFolder, Unreadable,
};
pub use sink_rewind::{SinkRewind, apply_sink_rewind, newest_manifest_batch, plan_sink_rewind};
pub use state_plan::{OperatorPlan, StatePlan, accept_state_plan, plan_state};
pub use state_read::{
    FamilyState, OperatorState, StateOverview, keeps_none, open_state, state_overview,
};
pub use text_log::TextLog;
