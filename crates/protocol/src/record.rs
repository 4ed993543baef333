//! The records that stand in a checkpoint, and their exact bytes.

mod commit;
mod generation;
mod intent;
mod metadata;
mod prepared;

pub use commit::Commit;
pub use generation::GenerationRecord;
pub use intent::{Intent, IntentVersion};
pub use metadata::Metadata;
pub use prepared::Prepared;
