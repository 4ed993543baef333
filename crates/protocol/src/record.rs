//! The records that stand in a checkpoint, and their exact bytes.
//!
//! Each has `parse` and `encode`. None ends with a newline, as in Spark.

mod commit;
mod effects;
mod generation;
mod intent;
mod metadata;
mod prepared;
mod text;

pub use commit::Commit;
pub use effects::{EffectsMark, EffectsName, EffectsRecord, RecordedReply, merged};
pub use generation::GenerationRecord;
pub use intent::{Intent, IntentVersion};
pub use metadata::Metadata;
pub use prepared::{Prepared, SinkOutput};
