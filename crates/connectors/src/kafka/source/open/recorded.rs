//! A range of an intent as it is to be read, which may be one that an earlier run chose.

use super::KafkaSource;
use crate::kafka::source::loss::Loss;
use crate::kafka::source::note::Note;
use crate::kafka::source::offsets::{self, Positions, TopicPartition};
use crate::kafka::source::split::Split;
use crate::kafka::source::topology::{Look, TopicIds};
use onefold_types::{OffsetRange, Result};

impl KafkaSource {
    /// What of a recorded range is to be read, partition by partition.
    pub(super) async fn recorded(&self, range: &OffsetRange) -> Result<(Vec<Split>, Vec<Loss>)> {
        let Some(end) = &range.end else { return Ok((Vec::new(), Vec::new())) };
        let ends = offsets::parse_logged(end.json())?;
        let note = Note::of(range, self.checkpoint.as_ref()).await?;
        let mut state = self.state.lock().await;
        let known = state.planned.as_ref() == Some(end);
        let look = if known && (range.start.is_some() || state.initial.is_some()) {
            Look::default()
        } else {
            self.look().await?
        };
        let mut starts = self.stand(&mut state, range.start.as_ref(), &look).await?;
        drop(state);
        starts.extend(note.starts);
        self.reading.pool.epochs().learn_all(&starts, &note.epochs);
        starts.retain(|at, _| ends.contains_key(at));
        let mut losses = note.losses;
        if !known {
            let seen = self.seen_again(&mut starts, &ends, &note.ids, look).await?;
            losses.extend(seen);
        }
        let splits = ends.into_iter().filter_map(|(at, end)| {
            let start = starts.get(&at).copied()?;
            Some(Split { at, start, end })
        });
        Ok((splits.filter(|split| split.end > split.start).collect(), losses))
    }

    /// A range that was chosen by an earlier run: checks that the brokers still have it.
    async fn seen_again(
        &self,
        starts: &mut Positions,
        ends: &Positions,
        ids: &TopicIds,
        look: Look,
    ) -> Result<Vec<Loss>> {
        let (look, compared) = self.compared(starts, ids, look).await?;
        let (_, at_end) = self.compared(ends, ids, look.clone()).await?;
        // An end that is before the first record is no loss of its own.
        let of_end = |loss: &Loss| loss.to.is_none_or(|to| to < loss.from);
        let mut losses = compared.losses;
        losses.retain(|loss| {
            ends.contains_key(&TopicPartition::new(loss.topic.as_str(), loss.partition))
        });
        for loss in at_end.losses.into_iter().filter(of_end) {
            let same = |it: &Loss| it.topic == loss.topic && it.partition == loss.partition;
            if !losses.iter().any(same) {
                losses.push(loss);
            }
        }
        let losses = self.choice.loss.allow(losses)?;
        for loss in &losses {
            tracing::warn!(
                topic = loss.topic,
                partition = loss.partition,
                from = loss.from,
                reason = loss.reason,
                "records of a batch that runs again are lost"
            );
            let at = TopicPartition::new(loss.topic.as_str(), loss.partition);
            let made_again = ids.get(&at.topic).is_some_and(|id| {
                look.topics.get(&at.topic).and_then(|topic| topic.id.as_ref()) != Some(id)
            });
            let end = ends.get(&at).copied().unwrap_or(0);
            let start = if made_again { end } else { loss.to.unwrap_or(end) };
            starts.insert(at, start.min(end).max(0));
        }
        // Partitions of which the intent of another engine does not say where they begin.
        for (at, start) in compared.starts {
            if ends.contains_key(&at) {
                starts.entry(at).or_insert(start);
            }
        }
        Ok(losses)
    }
}
