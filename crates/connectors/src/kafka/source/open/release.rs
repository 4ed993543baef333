//! What outlives the intents of a batch: the records that it lost.

use super::KafkaSource;
use crate::kafka::source::losses;
use crate::kafka::source::note::Note;
use onefold_types::{OffsetRange, Result};
use std::sync::PoisonError;

impl KafkaSource {
    /// Writes down what a committed batch lost.
    ///
    /// # Errors
    /// Those of the checkpoint; the batch is released again then.
    pub(super) async fn keep_losses(&self, range: &OffsetRange) -> Result<()> {
        let mut all = Note::of(range, self.checkpoint.as_ref()).await?.losses;
        let met = {
            let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let counts = &self.reading.counts.losses;
            let read = counts.lock().unwrap_or_else(PoisonError::into_inner);
            // Of another range they are another batch's.
            let own = told.read.as_ref() == Some(range);
            let met = told.losses.iter().chain(read.iter());
            met.filter(|_| own).cloned().collect::<Vec<_>>()
        };
        for loss in met {
            if !all.contains(&loss) {
                all.push(loss);
            }
        }
        if all.is_empty() {
            return Ok(());
        }
        let place = (super::own_id(&self.log_folder), self.clock.now_ms());
        losses::keep(self.checkpoint.as_ref(), place, range, &all).await
    }
}
