//! Running a query: a term of office after another until it ends or may not be tried again.
//!
//! # Invariants
//! - A failed batch is not tried again in the same term: a new generation is taken, and recovery
//!   decides from what is durable.
//! - Only what an outside failure caused is tried again, and only so often.

mod batch;
mod beside;
pub(crate) mod definition;
mod fan_out;
pub(crate) mod folders;
mod halt;
mod launch;
mod operators;
mod phases;
mod plan;
mod report;
pub(crate) mod sinks;
pub(crate) mod stage;
pub(crate) mod state;
mod term;
mod timed;
mod watermark;

pub(crate) use launch::launch;

use crate::checkpoint;
use crate::listener::{QueryIdle, QueryTerminated};
use crate::progress::{StreamingQueryProgress, iso_ms};
use crate::query::StreamingQuery;
use crate::session::Session;
use crate::trigger::Trigger;
use halt::Halt;
use onefold_connector::{Fence, Source};
use onefold_protocol::recovery::{Next, StopReason};
use onefold_types::{Error, ErrorKind, Generation, Result};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use term::{Surroundings, Term};

/// Longest pause between two looks of a back-to-back query without data.
const IDLE_PAUSE_MAX_MS: i64 = 100;

/// The same where sources notice by themselves what arrives: looks are for what they do not notice,
/// such as new partitions.
const NOTICED_PAUSE_MS: i64 = 1_000;

/// Decisions in a row that met a changed checkpoint, before this counts as two drivers at odds.
const DECISIONS_MAX: usize = 10;

/// Runs one query.
pub(crate) struct Runner {
    session: Session,
    around: Surroundings,
    /// Batches committed by this run.
    committed: AtomicU64,
    looks: Mutex<Looks>,
    idle_event_ms: AtomicI64,
}

/// When looks for data began, milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default)]
struct Looks {
    before: Option<i64>,
    current: Option<i64>,
}

/// What a look led to.
enum Did {
    /// A batch that was left by an earlier driver.
    OldBatch,
    /// A batch that was planned now.
    NewBatch,
    /// Nothing: there is no new data.
    Nothing,
}

impl Runner {
    fn new(session: Session, around: Surroundings) -> Self {
        Runner {
            session,
            around,
            committed: AtomicU64::new(0),
            looks: Mutex::default(),
            idle_event_ms: AtomicI64::new(i64::MIN),
        }
    }

    /// Runs until the query ends; gives the error by which it did. `opened` is called once, when
    /// the first term is open or will be tried again later.
    async fn run(&self, mut opened: impl AsyncFnMut()) -> Result<()> {
        let (mut tries, mut before) = (1, None);
        loop {
            let committed = self.committed.load(Ordering::Relaxed);
            let error = match self.term(&mut before, &mut opened).await {
                Ok(()) | Err(Halt::Stopped) => return Ok(()),
                Err(Halt::Failed(error)) => error,
                Err(Halt::DecideAgain) => at_odds(&self.around),
            };
            if self.committed.load(Ordering::Relaxed) > committed {
                tries = 1;
            }
            if !self.worth_retrying(&error, tries)? {
                let outside = matches!(
                    error.kind(),
                    ErrorKind::Invalid | ErrorKind::Unavailable | ErrorKind::Unknown
                );
                if outside && self.around.query.stop_asked() {
                    // What ran was interrupted; whatever else it was, the next start meets it.
                    let id = self.around.query.id;
                    tracing::info!("query {id} stopped in a batch: {}", error.chain());
                    return Ok(());
                }
                return Err(error);
            }
            if self.around.query.stop_asked() {
                return Ok(());
            }
            opened().await;
            if self.back_off(&error, tries).await? {
                return Ok(());
            }
            tries += 1;
        }
    }

    fn worth_retrying(&self, error: &Error, tries: u64) -> Result<bool> {
        let max = self.around.definition.conf.count("onefold.retry.maxAttempts")?;
        Ok(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown) && tries < max)
    }

    /// Waits before the next try; true when the user stops the query meanwhile.
    async fn back_off(&self, error: &Error, tries: u64) -> Result<bool> {
        let conf = &self.around.definition.conf;
        let first = conf.duration_ms("onefold.retry.initialBackoff")?;
        let longest = conf.duration_ms("onefold.retry.maxBackoff")?;
        let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(u32::MAX).min(32);
        let pause = first.saturating_mul(1_i64 << doublings).min(longest);
        let max = conf.count("onefold.retry.maxAttempts")?;
        tracing::warn!(
            "query {} failed (try {tries} of {max}) and is tried again in {pause} ms: {}",
            self.around.query.id,
            error.chain()
        );
        let said = format!("Waiting to try again after: {}", error.chain());
        self.around.query.say(&said, false);
        Ok(self.wait_until(self.around.timer.now_ms().saturating_add(pause)).await)
    }

    /// One term: opens and works until something fails.
    async fn term(
        &self,
        before: &mut Option<Generation>,
        opened: &mut impl AsyncFnMut(),
    ) -> Result<(), Halt> {
        let mut term =
            halt::unless_stopped(&self.around.query, Term::open(&self.around, before)).await?;
        if let Next::Stop(reason) = &term.next {
            return Err(stopped(&term, reason).await);
        }
        opened().await;
        let done = self.work(&mut term).await;
        let done = fenced_first(&term, done).await;
        term.close().await;
        done
    }

    async fn work(&self, term: &mut Term) -> Result<(), Halt> {
        self.sweep(term).await;
        if self.around.definition.trigger == Trigger::AvailableNow {
            for it in &term.sources {
                it.source.pin_available().await?;
            }
        }
        if let Next::Plan { .. } = term.next {
            // A driver that died in recovery may have put files of the newest batch out of sight
            // just before another one published and committed it.
            term.sinks.settle_last(&term.facts).await?;
            // The driver before may have died between its last commit and the release.
            batch::release(term, &term.last_ranges()).await;
        }
        let (mut decisions, mut pause) = (0, None);
        loop {
            if self.around.query.stop_asked() {
                return Err(Halt::Stopped);
            }
            let look = self.begin_look();
            let did = match self.act(term).await {
                Err(Halt::DecideAgain) if decisions < DECISIONS_MAX => {
                    decisions += 1;
                    term.decide_again(&self.around).await?;
                    continue;
                }
                done => done?,
            };
            decisions = 0;
            match did {
                Did::OldBatch => continue,
                Did::NewBatch if self.around.definition.trigger == Trigger::Once => return Ok(()),
                Did::NewBatch => pause = None,
                Did::Nothing => {
                    self.idle(look);
                    if self.around.definition.trigger.ends() {
                        return Ok(());
                    }
                    pause = Some(self.next_pause(pause)?);
                }
            }
            if self.wait_for_trigger(term, pause).await {
                return Err(Halt::Stopped);
            }
        }
    }

    async fn act(&self, term: &mut Term) -> Result<Did, Halt> {
        match term.next.clone() {
            Next::Plan { batch } => {
                let found = self.plan_batch(term, batch).await?;
                Ok(if found { Did::NewBatch } else { Did::Nothing })
            }
            Next::RunAgain { batch } => {
                self.run_again(term, batch).await?;
                Ok(Did::OldBatch)
            }
            Next::AdoptCommit { batch, published, unpublished, commit } => {
                self.adopt(term, batch, (published, unpublished), *commit).await?;
                Ok(Did::OldBatch)
            }
            Next::Stop(reason) => Err(stopped(term, &reason).await),
        }
    }

    /// What earlier drivers left of batches long over. Failures leave garbage at most.
    async fn sweep(&self, term: &Term) {
        let (store, numbers) = (term.store.as_ref(), &term.driver.numbers);
        let swept = async {
            store.delete_all(&term.left_behind).await?;
            term.effects.sweep(term.retained.from).await?;
            checkpoint::sweep(store, term.retained.from, numbers).await
        };
        if let Err(error) = swept.await {
            tracing::warn!("old records were not all deleted: {}", error.chain());
        }
    }

    fn begin_look(&self) -> u64 {
        {
            let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
            looks.before = looks.current;
            looks.current = Some(self.around.timer.now_ms());
        }
        let mut number = 0;
        self.around.query.signal(|now| {
            now.looks += 1;
            number = now.looks;
        });
        number
    }

    fn looked_before_ms(&self) -> Option<i64> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).before
    }

    fn look_began_ms(&self) -> i64 {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.current.unwrap_or_else(|| self.around.timer.now_ms())
    }

    /// A look found nothing: tells those who wait for that, and listeners now and then.
    fn idle(&self, look: u64) {
        let query = &self.around.query;
        query.signal(|now| now.idle_look = look);
        query.say("Waiting for data to arrive", false);
        let interval = self
            .around
            .definition
            .conf
            .duration_ms("spark.sql.streaming.noDataProgressEventInterval")
            .unwrap_or(i64::MAX);
        let now_ms = self.around.timer.now_ms();
        let last = self.idle_event_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(interval) >= last {
            self.idle_event_ms.store(now_ms, Ordering::Relaxed);
            let (id, run_id) = (query.id, query.run_id);
            let event = QueryIdle { id, run_id, timestamp: iso_ms(now_ms) };
            self.session.inner.streams.listeners.idle(event);
        }
    }

    /// The pause of a back-to-back query without data: short at first, twice as long each time.
    fn next_pause(&self, before: Option<i64>) -> Result<i64> {
        let conf = &self.around.definition.conf;
        let first = conf.duration_ms("spark.sql.streaming.pollingDelay")?.max(1);
        Ok(before.map_or(first, |ms| ms.saturating_mul(2)).min(first.max(IDLE_PAUSE_MAX_MS)))
    }

    /// Waits until it is time for the next look; true when the user stops the query meanwhile.
    async fn wait_for_trigger(&self, term: &Term, pause: Option<i64>) -> bool {
        let now_ms = self.around.timer.now_ms();
        let trigger = self.around.definition.trigger;
        let at_ms = match trigger {
            Trigger::ProcessingTime(Duration::ZERO) => match pause {
                Some(pause) if self.all_is_noticed(term) => {
                    return self.wait_for_arrival(term, now_ms, pause).await;
                }
                Some(pause) => now_ms.saturating_add(pause),
                None => return self.around.query.stop_asked(),
            },
            Trigger::ProcessingTime(_) => trigger.next_look_ms(self.look_began_ms(), now_ms),
            Trigger::AvailableNow | Trigger::Once => return self.around.query.stop_asked(),
        };
        if pause.is_none() {
            self.around.query.say("Waiting for next trigger", false);
        }
        self.wait_until(at_ms).await
    }

    /// Whether sources notice all that an idle query waits for. State may wait for time to pass.
    fn all_is_noticed(&self, term: &Term) -> bool {
        let definition = &self.around.definition;
        self.around.operators.is_empty()
            && definition.plan.watermarks().is_empty()
            && term.sources.iter().all(|it| it.source.notices_arrivals())
    }

    /// Waits for the shortest pause, then until something arrives, but not for long; true when the
    /// user stops the query meanwhile.
    async fn wait_for_arrival(&self, term: &Term, now_ms: i64, pause: i64) -> bool {
        if self.wait_until(now_ms.saturating_add(pause)).await {
            return true;
        }
        let arrivals = term.sources.iter().map(|it| it.source.arrival());
        tokio::select! {
            stopped = self.wait_until(now_ms.saturating_add(NOTICED_PAUSE_MS)) => stopped,
            _ = futures::future::select_all(arrivals) => self.around.query.stop_asked(),
        }
    }

    /// Waits for a time, or until somebody waits for all available data to be processed; true when
    /// the user stops the query meanwhile.
    async fn wait_until(&self, at_ms: i64) -> bool {
        let query = &self.around.query;
        let mut signals = query.signals();
        let hurried = async {
            let _ = signals.wait_for(|now| now.hurry > now.idle_look).await;
        };
        let due = async {
            while self.around.timer.now_ms() < at_ms {
                self.around.timer.wait_until(at_ms).await;
            }
        };
        tokio::select! {
            biased;
            () = query.until_stop() => true,
            () = hurried => false,
            () = due => false,
        }
    }

    /// A batch is over: counts it and tells what it did.
    fn tell(&self, progress: StreamingQueryProgress) {
        self.committed.fetch_add(1, Ordering::Relaxed);
        self.idle_event_ms.store(self.around.timer.now_ms(), Ordering::Relaxed);
        let progress = Arc::new(progress);
        self.around.query.push_progress(Arc::clone(&progress));
        self.session.inner.streams.listeners.progress(progress);
    }

    /// The last acts of a run that had started.
    fn finish(&self, outcome: Result<()>) {
        let query = &self.around.query;
        let error = outcome.err();
        self.remove_temporary(error.is_some());
        let exception = error.as_ref().map(|error| query.exception_of(error));
        self.session.inner.streams.deregister(query, error.as_ref(), true);
        let message = exception.as_ref().map(|it| it.message.clone());
        let event = QueryTerminated { id: query.id, run_id: query.run_id, exception: message };
        // A listener that asks the query why it ended finds the answer.
        query.end(exception);
        self.session.inner.streams.listeners.terminated(event);
    }

    /// The checkpoint of a query that has none goes with it; a failed one keeps it for people to
    /// look at.
    fn remove_temporary(&self, failed: bool) {
        let definition = &self.around.definition;
        let Some(folder) = &definition.checkpoint.temporary else { return };
        let force = "spark.sql.streaming.forceDeleteTempCheckpointLocation";
        if failed && !definition.conf.flag(force) {
            return;
        }
        if let Err(error) = std::fs::remove_dir_all(folder)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            let folder = folder.display();
            tracing::warn!("the temporary checkpoint {folder} was not deleted: {error}");
        }
    }

    fn handle(&self) -> StreamingQuery {
        StreamingQuery { session: self.session.clone(), shared: Arc::clone(&self.around.query) }
    }
}

/// What a newer driver takes out of sight looks like damage to the older one: so the fence is asked
/// before another error is given out.
async fn fenced_first(term: &Term, done: Result<(), Halt>) -> Result<(), Halt> {
    match done {
        Err(Halt::Failed(error)) if error.kind() != ErrorKind::Fenced => {
            match term.driver.fence.check().await {
                Err(fenced) if fenced.kind() == ErrorKind::Fenced => Err(Halt::Failed(fenced)),
                _ => Err(Halt::Failed(error)),
            }
        }
        done => done,
    }
}

/// Why recovery stops. Logs that were read before a newer driver's batches, and a mark that was read
/// after them, do not fit either: so the fence is asked first.
async fn stopped(term: &Term, reason: &StopReason) -> Halt {
    match term.driver.fence.check().await {
        Ok(()) => checkpoint::stop(term.store.as_ref(), reason).into(),
        Err(error) => error.into(),
    }
}

fn at_odds(around: &Surroundings) -> Error {
    Error::corrupt(format!(
        "checkpoint {} changes under this driver though no newer generation is there; does another \
         engine run on it?",
        around.definition.checkpoint.store.url()
    ))
}
