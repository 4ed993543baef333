//! The log records of a checkpoint and every decision about them.
//!
//! *Why separate:* it does no I/O and reads no clock, so that all crashes and all interleavings of
//! two drivers can be tried exhaustively.
//! *What always holds:* the functions of [`invariants`], in every state that the search in
//! `tests/it` reaches.
//! *What it is not:* it opens no file; the engine gathers the facts and carries out the decision.
//! *Where to start:* [`recovery::decide`], then [`record`].

#![deny(missing_docs)]

pub mod conf;
pub mod invariants;
pub mod record;
pub mod recovery;
pub mod retention;
pub mod sinks;
pub mod watermark;
