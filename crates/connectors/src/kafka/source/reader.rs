//! A consumer that stays assigned from batch to batch, so that the next records are often there
//! before they are asked for.

use super::epochs::KnownEpochs;
use super::offsets::TopicPartition;
use super::split::Split;
use crate::kafka::client::Listener;
use crate::kafka::errors;
use crate::kafka::native::{Queue, Record, SharedConsumer, set_leader_epoch};
use onefold_types::{Error, Result};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The first wait for a record, and the longest: control records end no wait, so that it is short.
const WAITS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(64));

/// One partition as a consumer has it.
struct Part {
    queue: Queue,
    /// Everything before it was handed out.
    next: i64,
    /// Everything before it was handed out, is held by the queue, or is not there: a control record,
    /// a record of an aborted transaction, a gap that compaction left.
    reached: i64,
    /// The epoch of the leader that took the last record that was handed out.
    epoch: Option<i32>,
}

/// A consumer with the partitions that it is assigned.
pub(crate) struct Reader {
    // Before the consumer, which their records must not outlive.
    parts: HashMap<TopicPartition, Part>,
    consumer: SharedConsumer,
    arrival: Arc<Notify>,
    epochs: KnownEpochs,
}

/// How reading a split ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// All of it was handed out.
    Whole,
    /// Nobody wants more.
    Stopped,
    /// The brokers no longer have the records from this offset on.
    Gone(i64),
}

/// When to give up.
pub(crate) struct Until<'a> {
    /// Without a record for so long, something is wrong.
    pub(crate) patience: Duration,
    /// Nobody wants more.
    pub(crate) stopped: &'a dyn Fn() -> bool,
}

impl Reader {
    /// A consumer without partitions. `arrival` is told when something comes.
    ///
    /// # Errors
    /// Invalid, when its settings do not fit.
    pub(crate) fn new(
        config: &ClientConfig,
        listener: Listener,
        arrival: &Arc<Notify>,
        epochs: &KnownEpochs,
    ) -> Result<Reader> {
        let consumer: BaseConsumer<Listener> = config
            .create_with_context(listener)
            .map_err(|error| errors::reading("the Kafka consumer could not be made", error))?;
        let (consumer, arrival) = (Arc::new(consumer), Arc::clone(arrival));
        Ok(Reader { parts: HashMap::new(), consumer, arrival, epochs: epochs.clone() })
    }

    /// Sees to it that each split is the next that comes of its partition.
    ///
    /// # Errors
    /// Those of the library: use another reader then.
    pub(crate) fn prepare(&mut self, splits: &[Split], timeout: Duration) -> Result<()> {
        let mut new = TopicPartitionList::new();
        let mut moved = TopicPartitionList::new();
        let failed = |error| errors::reading("a Kafka consumer could not be assigned", error);
        for split in splits {
            let (topic, partition) = (&*split.at.topic, split.at.partition);
            let list = match self.parts.get_mut(&split.at) {
                Some(part) if part.next == split.start => continue,
                Some(part) => {
                    part.queue.clear();
                    &mut moved
                }
                None => {
                    let queue = Queue::new(&self.consumer, topic, partition, &self.arrival);
                    let queue = queue.ok_or_else(|| {
                        Error::invalid(format!("`{topic}` is not a name of a topic"))
                    })?;
                    let (start, epoch) = (split.start, None);
                    let part = Part { queue, next: start, reached: start, epoch };
                    self.parts.insert(split.at.clone(), part);
                    &mut new
                }
            };
            let start = Offset::Offset(split.start);
            list.add_partition_offset(topic, partition, start).map_err(failed)?;
            if let Some(epoch) = self.epochs.before(&split.at, split.start) {
                set_leader_epoch(list, topic, partition, epoch);
            }
        }
        if moved.count() > 0 {
            let sought = self.consumer.seek_partitions(moved, timeout).map_err(failed)?;
            for element in sought.elements() {
                element.error().map_err(failed)?;
            }
            for split in splits {
                if let Some(part) = self.parts.get_mut(&split.at).filter(|p| p.next != split.start)
                {
                    (part.next, part.reached) = (split.start, split.start);
                }
            }
        }
        if new.count() > 0 {
            self.consumer.incremental_assign(&new).map_err(failed)?;
        }
        Ok(())
    }

    /// Whether the next of a partition that comes is at this offset.
    pub(crate) fn stands_at(&self, at: &TopicPartition, offset: i64) -> bool {
        self.parts.get(at).is_some_and(|part| part.next == offset)
    }

    /// Whether a record is there at or after an offset.
    pub(crate) fn has(&mut self, at: &TopicPartition, offset: i64) -> bool {
        self.parts.get_mut(at).is_some_and(|part| part.has(offset))
    }

    /// The offset after the last record of a partition that is held; `None` when there may be more,
    /// or something else than records has come.
    pub(crate) fn held(&mut self, at: &TopicPartition) -> Option<i64> {
        self.parts.get_mut(at).and_then(Part::held)
    }

    /// Hands out the records of a split that was prepared, in order, until `take` has enough.
    ///
    /// # Errors
    /// Unavailable, when none comes for too long; those of `take`.
    pub(crate) fn read(
        &mut self,
        split: &Split,
        until: &Until<'_>,
        mut take: impl FnMut(&Record<'_>) -> Result<bool>,
    ) -> Result<Ended> {
        let Some(part) = self.parts.get_mut(&split.at) else {
            return Err(Error::internal(format!("{} was not assigned", split.at)));
        };
        let mut progress = Instant::now();
        let mut wait = WAITS.0;
        loop {
            match part.hand_out(split, &mut take)? {
                Some(Ended::Whole) => {
                    part.next = split.end;
                    if let Some(epoch) = part.epoch {
                        self.epochs.learn(&split.at, split.end, epoch);
                    }
                    return Ok(Ended::Whole);
                }
                Some(ended) => return Ok(ended),
                None => (),
            }
            // Those that are there; then what control records left; then whatever comes.
            if part.queue.fill(Duration::ZERO) > 0 || part.advanced() {
                (progress, wait) = (Instant::now(), WAITS.0);
                continue;
            }
            if (until.stopped)() {
                return Ok(Ended::Stopped);
            }
            if progress.elapsed() >= until.patience {
                return Err(late(&self.consumer, split, part.next, until.patience));
            }
            // Serves the library's log lines and complaints.
            while self.consumer.poll(Duration::ZERO).is_some() {}
            part.queue.fill(wait);
            wait = (wait * 2).min(WAITS.1);
        }
    }
}

fn late(consumer: &SharedConsumer, split: &Split, next: i64, patience: Duration) -> Error {
    let why = consumer.context().complaint();
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    Error::unavailable(format!(
        "{}: no record came in {} ms at offset {next} of {}..{}{why}; \
         kafkaConsumer.pollTimeoutMs says how long to wait",
        split.at,
        patience.as_millis(),
        split.start,
        split.end
    ))
}

impl Part {
    /// Hands out what the queue holds; `None` when more must come.
    fn hand_out(
        &mut self,
        split: &Split,
        take: &mut impl FnMut(&Record<'_>) -> Result<bool>,
    ) -> Result<Option<Ended>> {
        while let Some(record) = self.queue.peek() {
            let offset = record.offset();
            if let Some(code) = record.event() {
                if let Some(ended) = self.event(split, code, offset)? {
                    return Ok(Some(ended));
                }
            } else if offset >= split.end {
                // It is kept for the next batch.
                return Ok(Some(Ended::Whole));
            } else if offset >= self.next {
                let more = take(&record)?;
                self.next = offset.saturating_add(1);
                self.epoch = record.leader_epoch().or(self.epoch);
                self.reached = self.reached.max(self.next);
                if !more {
                    self.queue.advance();
                    return Ok(Some(Ended::Stopped));
                }
            }
            self.queue.advance();
        }
        Ok((self.reached >= split.end).then_some(Ended::Whole))
    }

    /// Whether a record is there at or after an offset. Other events wait for who reads; the end of
    /// the partition would stand in the way of what comes after it.
    fn has(&mut self, offset: i64) -> bool {
        while self.queue.fill(Duration::ZERO) > 0 {
            let Some(record) = self.queue.peek() else { return false };
            match record.event() {
                Some(RDKafkaErrorCode::PartitionEOF) => {
                    self.reached = self.reached.max(record.offset());
                    self.queue.advance();
                }
                Some(_) => return true,
                None => return record.offset() >= offset,
            }
        }
        false
    }

    fn held(&mut self) -> Option<i64> {
        if !self.queue.gather() {
            return None;
        }
        let mut end = self.next;
        for record in self.queue.all() {
            match record.event() {
                None => end = end.max(record.offset().saturating_add(1)),
                Some(RDKafkaErrorCode::PartitionEOF) => {}
                Some(_) => return None,
            }
        }
        Some(end)
    }

    /// An event in place of a record.
    fn event(
        &mut self,
        split: &Split,
        code: RDKafkaErrorCode,
        offset: i64,
    ) -> Result<Option<Ended>> {
        match code {
            // There is nothing more before this offset.
            RDKafkaErrorCode::PartitionEOF => {
                self.reached = self.reached.max(offset);
                Ok(None)
            }
            RDKafkaErrorCode::OffsetOutOfRange | RDKafkaErrorCode::AutoOffsetReset => {
                Ok(Some(Ended::Gone(self.next)))
            }
            code => {
                let text = self.queue.peek().map(|record| record.event_text()).unwrap_or_default();
                match errors::kind_of_code(code) {
                    // The library tries again by itself.
                    None => {
                        tracing::debug!(partition = %split.at, ?code, "{text}");
                        Ok(None)
                    }
                    Some(kind) => Err(Error::new(
                        kind,
                        format!("{} cannot be read at offset {}: {text}", split.at, self.next),
                    )),
                }
            }
        }
    }

    /// Takes over what control records left behind, the queue being empty; whether that is news.
    fn advanced(&mut self) -> bool {
        let position = self.queue.position().unwrap_or(self.reached);
        let news = position > self.reached;
        self.reached = self.reached.max(position);
        news
    }
}
