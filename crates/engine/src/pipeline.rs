//! Running a pipeline file: one query a streaming table.

use crate::trigger::Trigger;

/// How a pipeline runs.
#[derive(Debug, Clone, Default)]
pub struct PipelineOptions {
    /// When its queries look for data.
    pub trigger: Trigger,
    /// The folder (path or URL) for tables without `LOCATION`, each in its own folder below, and
    /// for checkpoints.
    pub storage: Option<String>,
    /// The folder for checkpoints, each in its own folder below, by the table's name; by default
    /// `_checkpoints` below `storage`.
    pub checkpoint: Option<String>,
}
