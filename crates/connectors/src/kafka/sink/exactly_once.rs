//! The sink whose batches are transactions.
//!
//! # Invariants
//! - A transaction holds rows of one attempt, and its mark is in it.
//! - Once a commit was asked for, only its clean reply lets this sink go on; else the sink is opened
//!   anew, which ends what is open and reads the mark.

use super::cluster::{Cluster, Failure, Producer, Record};
use super::columns::Columns;
use super::letters::Letters;
use super::mark::MarkRecord;
use super::row::Row;
use super::transaction::{self, Call, Next, Trouble};
use crate::file_sink::plan_failed;
use async_trait::async_trait;
use futures::StreamExt;
use onefold_connector::{Attempt, Fence, RowStream, Sink, StagedOutput};
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_types::{BatchId, Error, ErrorKind, Generation, Published, QueryId, Result, Totals};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex;

/// How long a stage waits for room before it looks again.
const NO_ROOM: Duration = Duration::from_millis(2);

/// Longest text of offsets that goes into a mark, in bytes: brokers take records of a megabyte.
const MOST_OFFSETS: usize = 500_000;

/// Dead letters came to a sink that was given no topic for them.
pub(super) fn no_topic() -> Error {
    Error::internal("dead letters were sent to a sink that takes none")
}

/// Who opened the sink.
#[derive(Debug, Clone)]
pub(crate) struct Opener {
    pub(crate) query: QueryId,
    pub(crate) generation: Generation,
    pub(crate) last_commit: Option<BatchId>,
    /// Whether it only looks.
    pub(crate) looks: bool,
    pub(crate) letters: Option<Letters>,
}

/// A Kafka sink opened by one query.
#[derive(Debug)]
pub(crate) struct ExactlyOnce {
    cluster: Arc<dyn Cluster>,
    columns: Columns,
    opener: Opener,
    retry_backoff: Duration,
    state: Mutex<State>,
    /// Where an attempt's batch ends in the sources.
    ends: std::sync::Mutex<Option<(Attempt, serde_json::Value)>>,
}

/// Where the transaction stands.
#[derive(Debug)]
enum State {
    /// This sink only looks, or its producer is gone: it is to be opened anew.
    Gone,
    /// The producer may begin.
    Ready(Arc<dyn Producer>),
    /// Its last transaction ended well, but a stray request may be under way: a new one takes its
    /// place before the next transaction.
    Stale,
    /// Rows of an attempt are handed over.
    Open(Attempt, Arc<dyn Producer>),
    /// The brokers ended the transaction of an attempt: nothing of it can ever be seen.
    Void(Attempt, String),
}

impl ExactlyOnce {
    /// Takes the transactional id over, unless it only looks.
    ///
    /// # Errors
    /// Unavailable: the brokers do not answer. Invalid: they refuse the transactional id.
    pub(crate) async fn open(
        cluster: Arc<dyn Cluster>,
        columns: Columns,
        opener: Opener,
        retry_backoff: Duration,
    ) -> Result<ExactlyOnce> {
        let state = if opener.looks { State::Gone } else { State::Ready(taken(&*cluster).await?) };
        let state = Mutex::new(state);
        let ends = std::sync::Mutex::default();
        let sink = ExactlyOnce { cluster, columns, opener, retry_backoff, state, ends };
        sink.adopt().await?;
        Ok(sink)
    }

    /// Committed batches, but no driver of ours before this one: another engine published them, which
    /// keeps no marks. From here on there is one.
    async fn adopt(&self) -> Result<()> {
        let Opener { query, generation, last_commit, looks, .. } = self.opener;
        let first = !looks && generation == Generation::FIRST;
        let Some(batch) = last_commit.filter(|_| first) else { return Ok(()) };
        if self.cluster.newest_mark(query, true).await?.is_some() {
            return Ok(());
        }
        let attempt = Attempt { query, batch, generation };
        match self.begin(&attempt).await? {
            Some(producer) => {
                self.commit(&attempt, &producer, Totals::default(), &Newest).await.map(drop)
            }
            None => Err(self.void(&attempt, &Newest).await),
        }
    }

    /// The producer with an open transaction for an attempt; `None` when that one is void.
    async fn begin(&self, attempt: &Attempt) -> Result<Option<Arc<dyn Producer>>> {
        let mut state = self.state.lock().await;
        if let State::Stale = *state {
            *state = State::Ready(taken(&*self.cluster).await?);
        }
        match &*state {
            State::Open(open, producer) if open == attempt => Ok(Some(Arc::clone(producer))),
            State::Void(void, _) if void == attempt => Ok(None),
            State::Ready(producer) => {
                let producer = Arc::clone(producer);
                // Other partitions wait for the lock until the transaction is open.
                *state = begun(attempt, &producer).await?;
                let open = matches!(*state, State::Open(..));
                drop(state);
                let open = open && self.announce(attempt, &producer).await?;
                Ok(open.then_some(producer))
            }
            State::Gone | State::Stale => Err(Error::unknown(
                "the transaction before this one did not end cleanly; the sink is opened anew",
            )),
            State::Open(other, _) | State::Void(other, _) => Err(Error::internal(format!(
                "batch {} is staged while batch {} of generation {} still is",
                attempt.batch, other.batch, other.generation
            ))),
        }
    }

    /// Makes a call, again where that may help; false when the attempt is void.
    async fn make(
        &self,
        attempt: &Attempt,
        producer: &Arc<dyn Producer>,
        call: Call,
    ) -> Result<bool> {
        let mut tries = 1;
        loop {
            let Err(failure) = producer.call(call).await else { return Ok(true) };
            if !self.troubled(attempt, producer, (call, tries), failure).await? {
                return Ok(false);
            }
            tries += 1;
        }
    }

    /// Hands a record over, once there is room; false when the attempt is void.
    async fn send(
        &self,
        attempt: &Attempt,
        producer: &Arc<dyn Producer>,
        record: &Record<'_>,
    ) -> Result<bool> {
        let mut tries = 1;
        loop {
            match producer.send(record) {
                Ok(true) => return Ok(true),
                Ok(false) => until_room().await,
                Err(failure) => {
                    if !self.troubled(attempt, producer, (Call::Send, tries), failure).await? {
                        return Ok(false);
                    }
                    tries += 1;
                }
            }
        }
    }

    /// Hands rows over, whose columns are these.
    async fn hand_over(
        &self,
        attempt: &Attempt,
        partition: u32,
        mut rows: RowStream,
        columns: &Columns,
    ) -> Result<StagedOutput> {
        let mut producer = self.begin(attempt).await?;
        let mut totals = Totals::default();
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(plan_failed)?;
            let rows = columns.rows(&batch)?;
            let mut room = Vec::new();
            for at in 0..batch.num_rows() {
                let row = Row::of(&rows, at, &mut room, (partition, totals.rows))?;
                totals = totals.plus(row.totals());
                if let Some(open) = &producer
                    && !self.send(attempt, open, &row.record).await?
                {
                    producer = None;
                }
            }
            if totals.rows > 0 {
                crash_point(CrashPoint::StageDuring);
            }
        }
        if let Some(open) = &producer
            && self.make(attempt, open, Call::Flush).await?
        {
            self.check_taken(attempt, open).await?;
        }
        Ok(StagedOutput { partition, totals, detail: serde_json::Value::Null })
    }

    /// After trouble before the commit: true to make the call again, false when the attempt is void.
    async fn troubled(
        &self,
        attempt: &Attempt,
        producer: &Arc<dyn Producer>,
        (call, tries): (Call, u32),
        failure: Failure,
    ) -> Result<bool> {
        let Failure { trouble, error } = failure;
        match transaction::after(call, trouble, tries) {
            Next::CallAgain => Ok(true),
            Next::Void => {
                *self.state.lock().await = State::Void(*attempt, error.chain());
                Ok(false)
            }
            Next::GiveUp { abort, kind } => {
                let before = std::mem::replace(&mut *self.state.lock().await, State::Gone);
                // Another partition may have met the same.
                let open = matches!(&before, State::Open(open, _) if open == attempt);
                if open && abort {
                    abort_quietly(producer).await;
                }
                Err(not_written(attempt, kind, error))
            }
        }
    }

    /// Gives the transaction of an attempt up.
    async fn give_up(&self, attempt: &Attempt) -> Result<()> {
        let mut state = self.state.lock().await;
        match &*state {
            State::Open(open, producer) if open == attempt => {
                let producer = Arc::clone(producer);
                *state = State::Gone;
                // Otherwise the next producer ends it.
                if let Ok(took) = producer.call(Call::Abort).await {
                    *state = self.ended(producer, took, 1);
                }
                Ok(())
            }
            State::Void(void, _) if void == attempt => {
                *state = State::Gone;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn ended(&self, producer: Arc<dyn Producer>, took: Duration, tries: u32) -> State {
        if transaction::begins_again(took, tries, self.retry_backoff) {
            State::Ready(producer)
        } else {
            State::Stale
        }
    }

    /// The mark, then the commit.
    async fn commit(
        &self,
        attempt: &Attempt,
        producer: &Arc<dyn Producer>,
        totals: Totals,
        fence: &dyn Fence,
    ) -> Result<Published> {
        let Attempt { query, batch, generation } = *attempt;
        let offsets = self.end_of(attempt);
        let mark = MarkRecord::new((query, batch, generation), totals, producer.written(), offsets);
        if !self.send_mark(attempt, producer, &mark).await? {
            return Err(self.void(attempt, fence).await);
        }
        self.check_taken(attempt, producer).await?;
        crash_point(CrashPoint::PublishBeforeMark);
        // From here on the transaction is beyond this sink, should the caller stop waiting.
        *self.state.lock().await = State::Gone;
        let mut tries = 1;
        let took = loop {
            let Failure { trouble, error } = match producer.call(Call::Commit).await {
                Ok(took) => break took,
                Err(failure) => failure,
            };
            match transaction::after(Call::Commit, trouble, tries) {
                Next::CallAgain => tries += 1,
                Next::Void | Next::GiveUp { .. } => {
                    return Err(self.unknown(batch, error, fence).await);
                }
            }
        };
        crash_point(CrashPoint::PublishMarked);
        *self.state.lock().await = self.ended(Arc::clone(producer), took, tries);
        Ok(mark.published())
    }

    /// Where an attempt's batch ends, if that is known and a mark has room for it.
    fn end_of(&self, attempt: &Attempt) -> Option<serde_json::Value> {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (_, offsets) = ends.filter(|(of, _)| of == attempt)?;
        (offsets.to_string().len() <= MOST_OFFSETS).then_some(offsets)
    }

    /// Lets the transaction have the partition of marks from its beginning, while rows are made, so
    /// that the mark need not wait for that: with a record that is none, under a key of its own.
    /// False when the attempt is void.
    async fn announce(&self, attempt: &Attempt, producer: &Arc<dyn Producer>) -> Result<bool> {
        let Some((topic, partition)) = self.cluster.progress(attempt.query) else {
            return Ok(true);
        };
        let key = format!("{}/begun", attempt.query);
        let (key, value) = (Some(key.as_bytes()), None);
        let record = Record { topic, partition, key, value, headers: &[] };
        self.send(attempt, producer, &record).await
    }

    /// Hands the mark over and waits until it is written; false when the attempt is void.
    async fn send_mark(
        &self,
        attempt: &Attempt,
        producer: &Arc<dyn Producer>,
        mark: &MarkRecord,
    ) -> Result<bool> {
        let Some((topic, partition)) = self.cluster.progress(attempt.query) else {
            return Ok(true);
        };
        let (key, value) = (attempt.query.to_string(), mark.to_bytes()?);
        let (key, value) = (Some(key.as_bytes()), Some(value.as_slice()));
        let record = Record { topic, partition, key, value, headers: &[] };
        Ok(self.send(attempt, producer, &record).await?
            && self.make(attempt, producer, Call::Flush).await?)
    }

    /// Whether all records handed over were written.
    async fn check_taken(&self, attempt: &Attempt, producer: &Arc<dyn Producer>) -> Result<()> {
        match producer.rejected() {
            None => Ok(()),
            Some(Failure { trouble, error }) => {
                let trouble =
                    if trouble == Trouble::Refused { trouble } else { Trouble::MustAbort };
                let failure = Failure { trouble, error };
                self.troubled(attempt, producer, (Call::Flush, 1), failure).await.map(drop)
            }
        }
    }

    /// A commit whose outcome is not known. A driver that was fenced meanwhile says so.
    async fn unknown(&self, batch: BatchId, error: Error, fence: &dyn Fence) -> Error {
        match fence.check().await {
            Err(fenced) if fenced.kind() == ErrorKind::Fenced => fenced.because(error),
            _ => Error::unknown(format!(
                "whether Kafka has batch {batch} is not known; its mark tells"
            ))
            .because(error),
        }
    }

    /// Why a void attempt is not published: a newer driver, or else the brokers' time limit.
    async fn void(&self, attempt: &Attempt, fence: &dyn Fence) -> Error {
        let why = match std::mem::replace(&mut *self.state.lock().await, State::Gone) {
            State::Void(_, why) => why,
            _ => String::new(),
        };
        match fence.check().await {
            Err(fenced) if fenced.kind() == ErrorKind::Fenced => fenced,
            _ => Error::unavailable(format!(
                "the brokers ended the transaction of batch {}: it took longer than \
                 kafka.transaction.timeout.ms, or another process used its transactional id; raise \
                 the limit, or make batches smaller",
                attempt.batch
            ))
            .because(Error::unavailable(why)),
        }
    }
}

/// For what is done before the engine can be asked: nothing of a batch depends on it.
#[derive(Debug)]
struct Newest;

#[async_trait]
impl Fence for Newest {
    async fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// Waits until there may be room for a record.
pub(crate) async fn until_room() {
    tokio::time::sleep(NO_ROOM).await;
}

/// Begins the transaction of an attempt.
async fn begun(attempt: &Attempt, producer: &Arc<dyn Producer>) -> Result<State> {
    let mut tries = 1;
    loop {
        let Err(Failure { trouble, error }) = producer.call(Call::Begin).await else {
            return Ok(State::Open(*attempt, Arc::clone(producer)));
        };
        match transaction::after(Call::Begin, trouble, tries) {
            Next::CallAgain => tries += 1,
            Next::Void => return Ok(State::Void(*attempt, error.chain())),
            Next::GiveUp { kind, .. } => return Err(not_written(attempt, kind, error)),
        }
    }
}

async fn abort_quietly(producer: &Arc<dyn Producer>) {
    if let Err(failure) = producer.call(Call::Abort).await {
        let why = failure.error.chain();
        tracing::warn!("readers wait until the transaction's time is over: {why}");
    }
}

/// The error of a batch that Kafka has nothing of.
pub(crate) fn not_written(attempt: &Attempt, kind: ErrorKind, error: Error) -> Error {
    let what = format!("batch {} was not written to Kafka", attempt.batch);
    Error::new(kind, what).because(error)
}

/// A producer that owns the transactional id: every older one is fenced, and what it left open has
/// ended.
async fn taken(cluster: &dyn Cluster) -> Result<Arc<dyn Producer>> {
    let producer = cluster.producer().await?;
    let mut tries = 1;
    loop {
        let Err(Failure { trouble, error }) = producer.call(Call::Init).await else {
            return Ok(producer);
        };
        match transaction::after(Call::Init, trouble, tries) {
            Next::CallAgain => tries += 1,
            Next::Void => return Err(error),
            Next::GiveUp { kind, .. } => {
                let what = "the transactional id of the query could not be taken over";
                return Err(Error::new(kind, what).because(error));
            }
        }
    }
}

#[async_trait]
impl Sink for ExactlyOnce {
    async fn last_mark(&self) -> Result<Option<Published>> {
        let Opener { query, looks, .. } = self.opener;
        let mark = self.cluster.newest_mark(query, !looks).await?;
        Ok(mark.map(|mark| mark.published()))
    }

    async fn conceal(&self, _: BatchId) -> Result<()> {
        // Taking over the transactional id ended what older drivers left open.
        Ok(())
    }

    async fn stage(
        &self,
        attempt: &Attempt,
        partition: u32,
        rows: RowStream,
    ) -> Result<StagedOutput> {
        if self.opener.letters.as_ref().is_some_and(|it| it.alone) {
            return self.stage_dead_letters(attempt, partition, rows).await;
        }
        self.hand_over(attempt, partition, rows, &self.columns).await
    }

    async fn stage_dead_letters(
        &self,
        attempt: &Attempt,
        partition: u32,
        letters: RowStream,
    ) -> Result<StagedOutput> {
        let to = self.opener.letters.as_ref().ok_or_else(no_topic)?;
        let (records, columns) = to.records(letters)?;
        self.hand_over(attempt, partition, records, &columns).await
    }

    fn ends_at(&self, attempt: &Attempt, offsets: &serde_json::Value) {
        let ends = Some((*attempt, offsets.clone()));
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner) = ends;
    }

    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        fence: &dyn Fence,
    ) -> Result<Published> {
        let totals = outputs.iter().fold(Totals::default(), |sum, it| sum.plus(it.totals));
        let producer = self.begin(attempt).await?;
        if let Err(error) = fence.check().await {
            let _ = self.give_up(attempt).await;
            return Err(error);
        }
        match producer {
            Some(producer) => self.commit(attempt, &producer, totals, fence).await,
            None => Err(self.void(attempt, fence).await),
        }
    }

    async fn settle(&self, _: &Published) -> Result<()> {
        Ok(())
    }

    async fn discard(&self, attempt: &Attempt) -> Result<()> {
        self.give_up(attempt).await
    }

    async fn audit(&self, batch: BatchId) -> Result<Option<Totals>> {
        match self.cluster.mark_of(self.opener.query, batch).await? {
            Some(mark) => self.cluster.sum(&mark.written, mark.rows).await,
            None => Ok(None),
        }
    }

    fn tells_totals(&self) -> bool {
        true
    }
}
