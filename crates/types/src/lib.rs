//! Plain data that every crate of Onefold speaks: ids, offsets, ranges, marks, guarantees.
//!
//! *Why separate:* these words cross every border, so they depend on nothing that does I/O.
//! *What always holds:* values here are inert; building one has no effect outside.
//! *What it is not:* a place for behaviour that only one crate needs.
//! *Where to start:* [`Mark`], then [`OffsetRange`].

mod effect;
mod error;
mod guarantee;
mod ids;
mod mark;
mod offset;
mod options;
mod secret;

pub use effect::{CallKey, Reply};
pub use error::{Error, ErrorKind, Result};
pub use guarantee::{Delivery, Replay};
pub use ids::{BatchId, Generation, Nonce, QueryId, RunId};
pub use mark::{ContentHash, Mark, Published, Totals};
pub use offset::{Offset, OffsetRange};
pub use options::{NamesOnly, OptionMap};
pub use secret::Secret;
