//! Versioned keyed state of streaming operators.
//!
//! An operator declares its [`families`](FamilySpec) of key-value rows in an [`OperatorSpec`]. In
//! a batch it opens the [`PartitionState`] of each of its partitions from the batch's
//! [`BatchState`]; what it writes is seen by itself at once and by nobody else until the batch is
//! over.
//!
//! # Invariants
//! - Version `v` of the state is what batch `v - 1` left; version 0 is empty.
//! - Keys and values are bytes. Keys of one family compare bytewise; an operator encodes them so
//!   that equal keys have equal bytes and ordered scans have a meaning.
//! - Every row belongs to one of [`KEY_GROUPS`] key groups, chosen by the operator from the
//!   grouping key alone ([`key_group`]); key groups map onto partitions ([`partition_of`]), so that
//!   the number of partitions may change at any restart without a rewrite.

mod access;
mod arena;
mod base;
mod batch;
mod budget;
mod changelog;
mod config;
mod counts;
mod durable;
mod format;
mod groups;
mod layered;
mod merge;
mod order;
mod overlay;
mod partition;
mod piece;
mod place;
mod reader;
mod restore;
mod rows;
mod schema;
mod snapshot;
mod spec;
mod state_ref;
mod store;
mod verify;

pub use access::{BatchState, PartitionState, RowVisitor, StateRow};
pub use batch::StateBatch;
pub use budget::{MEMORY_LIMIT_OPTION, MemoryBudget};
pub use config::{Provider, StateConfig, plan};
pub use groups::{KEY_GROUPS, KeyGroup, groups_of, key_group, partition_of};
pub use reader::{StateReader, StateRows};
pub use schema::{Change, OperatorChange, compare, layout_name};
pub use snapshot::SnapshotPolicy;
pub use spec::{Access, FamilySpec, OperatorId, OperatorSpec};
pub use state_ref::StateRef;
pub use store::{FamilyReport, OperatorReport, StateStore};
pub use verify::{CheckedFiles, DamagedFile, check_files};
