//! The source as one query has it open: chooses ranges, reads them, tells how far it is.

mod held;
mod recorded;
mod release;

use super::bounds::{self, End};
use super::broker::Broker;
use super::group::Reporter;
use super::initial;
use super::limits;
use super::loss::Loss;
use super::note::Note;
use super::offsets::{self, Positions, TopicPartition};
use super::options::{Choice, Topics};
use super::progress;
use super::rewind::{self, Rewind, RewindTo};
use super::scan::{self, Reading};
use super::split::{self, Lane, Split};
use super::topology::{Compared, Look, Stand, TopicIds, compare};
use async_trait::async_trait;
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{Clock, LatestOffset, ReadLimit, ScanRequest, Source, SourceContext};
use onefold_storage::Store;
use onefold_types::{Error, Offset, OffsetRange, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the brokers are looked at again when a log ends before the query's position, and the
/// pause before that: a broker that just became leader may say so for a moment.
const SETTLING: (u32, Duration) = (20, Duration::from_millis(100));

/// What a query has open.
#[derive(Debug)]
pub(crate) struct KafkaSource {
    choice: Arc<Choice>,
    whole: bool,
    broker: Arc<Broker>,
    reading: Arc<Reading>,
    report: Option<Reporter>,
    checkpoint: Arc<dyn Store>,
    log_folder: String,
    clock: Arc<dyn Clock>,
    state: tokio::sync::Mutex<State>,
    told: Mutex<Told>,
    /// On how many lanes a batch is read.
    width: AtomicUsize,
}

#[derive(Debug)]
struct State {
    /// Where the first batch begins, once known.
    initial: Option<Positions>,
    /// An intent of the past has an end, so that the beginning must have been decided.
    began: bool,
    ids: TopicIds,
    /// What the brokers told last, and when.
    looked: Option<(i64, Look)>,
    /// Where an available-now run ends.
    pinned: Option<Positions>,
    /// When there was a batch last.
    batch_ms: Option<i64>,
    /// The end that was chosen last: its range was compared with the brokers.
    planned: Option<Offset>,
    /// Where the newest batch ended after which topics are to be read from elsewhere, and from where.
    rewinds: Option<(Offset, Vec<Rewind>)>,
}

/// For progress, and for who waits.
#[derive(Debug, Default)]
struct Told {
    latest: Positions,
    losses: Vec<Loss>,
    /// The range that these were met in.
    read: Option<OffsetRange>,
    /// Where the query stands, when a look found nothing: whatever comes is after that.
    idle_at: Option<Positions>,
}

/// Whether all that there is was read.
fn latest_is(starts: &Positions, latest: &Positions) -> bool {
    starts.iter().all(|(at, start)| latest.get(at) == Some(start))
}

/// The source's id, which its folder's name ends with.
fn own_id(log_folder: &str) -> &str {
    log_folder.rsplit('/').next().unwrap_or("0")
}

impl KafkaSource {
    /// Adopts what the checkpoint says.
    ///
    /// # Errors
    /// Corrupt, when its own files do not fit.
    pub(crate) async fn open(
        choice: Arc<Choice>,
        whole: bool,
        broker: Arc<Broker>,
        reading: Reading,
        report: Option<Reporter>,
        context: SourceContext,
    ) -> Result<KafkaSource> {
        let store = context.checkpoint.as_ref();
        let initial = initial::load(store, &context.log_folder).await?;
        let ids = match context.history.last() {
            Some((_, range)) => Note::of(range, store).await?.ids,
            None => TopicIds::new(),
        };
        let began = context.history.iter().any(|(_, range)| range.end.is_some());
        let rewinds = match context.history.last() {
            Some((batch, OffsetRange { end: Some(end), .. })) => {
                let wishes = rewind::wishes(store, own_id(&context.log_folder), *batch).await?;
                (!wishes.is_empty()).then(|| (end.clone(), wishes))
            }
            _ => None,
        };
        let state = State {
            rewinds,
            initial,
            began,
            ids,
            looked: None,
            pinned: None,
            batch_ms: None,
            planned: None,
        };
        Ok(KafkaSource {
            choice,
            whole,
            broker,
            reading: Arc::new(reading),
            report,
            checkpoint: context.checkpoint,
            log_folder: context.log_folder,
            clock: context.clock,
            state: tokio::sync::Mutex::new(state),
            told: Mutex::default(),
            width: AtomicUsize::new(std::thread::available_parallelism().map_or(1, usize::from)),
        })
    }

    /// Calls the brokers without holding a thread of the runtime up.
    async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Broker, &Choice) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (broker, choice) = (Arc::clone(&self.broker), Arc::clone(&self.choice));
        tokio::task::spawn_blocking(move || call(&broker, &choice))
            .await
            .map_err(|error| Error::internal("asking the brokers stopped").because(error))?
    }

    async fn look(&self) -> Result<Look> {
        self.blocking(|broker, choice| broker.look(&choice.topics)).await
    }

    /// Where the query stands: at the end of its last batch, or at its beginning.
    async fn stand(
        &self,
        state: &mut State,
        start: Option<&Offset>,
        look: &Look,
    ) -> Result<Positions> {
        if let Some(start) = start {
            return offsets::parse_logged(start.json());
        }
        if let Some(initial) = &state.initial {
            return Ok(initial.clone());
        }
        if state.began {
            return Err(Error::corrupt(format!(
                "{}/0 in {} is missing, so it is not known where the first batch begins; run \
                 `onefold checkpoint verify`",
                self.log_folder,
                self.checkpoint.url()
            )));
        }
        self.check_asked(look, &Positions::new())?;
        let asked = look.clone();
        let mut initial = self
            .blocking(move |broker, choice| bounds::resolve(choice, End::Start, &asked, broker))
            .await?;
        if !self.whole {
            let store = self.checkpoint.as_ref();
            initial = initial::decide(store, &self.log_folder, initial).await?;
        }
        state.initial = Some(initial.clone());
        Ok(initial)
    }

    /// Where the query stands once the wishes of a user are followed.
    async fn rewound(&self, state: &State, stand: &Positions, look: &Look) -> Result<Positions> {
        let mut next = stand.clone();
        let Some((_, wishes)) = &state.rewinds else { return Ok(next) };
        for wish in wishes {
            rewind::check(wish, &look.latest)?;
            let own = look.latest.iter().filter(|(at, _)| *at.topic == *wish.topic);
            let found: Positions = match &wish.to {
                RewindTo::Earliest => own
                    .map(|(at, _)| (at.clone(), look.earliest.get(at).copied().unwrap_or(0)))
                    .collect(),
                RewindTo::Latest => own.map(|(at, end)| (at.clone(), *end)).collect(),
                RewindTo::Timestamp(ms) => {
                    let times: Positions = own.map(|(at, _)| (at.clone(), *ms)).collect();
                    let mut found = self.blocking(move |broker, _| broker.offsets(&times)).await?;
                    for (at, offset) in found.iter_mut().filter(|(_, offset)| **offset < 0) {
                        *offset = look.latest.get(at).copied().unwrap_or(0);
                    }
                    found
                }
                RewindTo::Offsets(wanted) => own
                    .filter_map(|(at, _)| Some((at.clone(), *wanted.get(&at.partition)?)))
                    .collect(),
            };
            tracing::info!(topic = wish.topic, to = offsets::text(&found), "a topic is rewound");
            if !matches!(wish.to, RewindTo::Offsets(_)) {
                next.retain(|at, _| *at.topic != *wish.topic || found.contains_key(at));
            }
            next.extend(found);
        }
        Ok(next)
    }

    /// Compares with the brokers, waiting for logs that end too early.
    async fn compared(
        &self,
        next: &Positions,
        ids: &TopicIds,
        mut look: Look,
    ) -> Result<(Look, Compared)> {
        let assigned = self.choice.assigned();
        for tried in 0..=SETTLING.0 {
            let stand = Stand { next, ids, assigned };
            let compared = compare(stand, &look, tried == SETTLING.0);
            if compared.behind.is_empty() {
                return Ok((look, compared));
            }
            tokio::time::sleep(SETTLING.1).await;
            look = self.look().await?;
        }
        Err(Error::internal("a settled comparison left partitions behind"))
    }

    /// Topics that were asked for by name must be there, unless the query has read them before: then
    /// they are a loss.
    fn check_asked(&self, look: &Look, next: &Positions) -> Result<()> {
        let missing: Vec<String> = match &self.choice.topics {
            Topics::Subscribe(topics) => {
                let read = |topic: &&String| next.keys().any(|at| *at.topic == ***topic);
                let there = |topic: &&String| look.topics.contains_key(topic.as_str());
                topics.iter().filter(|topic| !there(topic) && !read(topic)).cloned().collect()
            }
            Topics::Assign(all) => {
                let absent = |at: &&TopicPartition| {
                    !look.latest.contains_key(*at) && !next.contains_key(*at)
                };
                all.iter().filter(absent).map(TopicPartition::to_string).collect()
            }
            Topics::Pattern { .. } => Vec::new(),
        };
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "the Kafka brokers do not know {}; create it, or correct the option that names it",
            missing.join(", ")
        )))
    }

    /// Where the batch ends that begins at `starts`.
    async fn choose(
        &self,
        state: &State,
        starts: &Positions,
        look: &Look,
        limit: ReadLimit,
    ) -> Result<Positions> {
        if self.whole {
            return self.last_ends(starts, look).await;
        }
        let latest = match &state.pinned {
            Some(pinned) => pinned,
            None => &look.latest,
        };
        let patience = self.choice.patience.filter(|_| state.pinned.is_none());
        let (limit, patience) = match limit {
            ReadLimit::Options => (self.choice.limit, patience),
            ReadLimit::All => (None, None),
        };
        let waiting = limits::waiting(starts, latest);
        if patience.is_some_and(|it| it.waits(waiting, self.clock.now_ms(), state.batch_ms)) {
            return Ok(starts.clone());
        }
        Ok(limits::ends(starts, latest, limit))
    }

    /// Where a table ends.
    async fn last_ends(&self, starts: &Positions, look: &Look) -> Result<Positions> {
        let asked = look.clone();
        let ends = self
            .blocking(move |broker, choice| bounds::resolve(choice, End::Last, &asked, broker))
            .await?;
        for (at, end) in &ends {
            let latest = look.latest.get(at).copied().unwrap_or(*end);
            if *end > latest {
                return Err(Error::invalid(format!(
                    "endingOffsets says {end} for {at}, but its log ends at {latest}"
                )));
            }
        }
        let last = |(at, start): (&TopicPartition, &i64)| {
            let end = ends.get(at).copied().unwrap_or(*start);
            (at.clone(), end.max(*start))
        };
        Ok(starts.iter().map(last).collect())
    }

    /// Sees to it that what comes is heard of while the query waits. Where it cannot be, the brokers
    /// are asked more often.
    async fn listen(&self, stand: &Positions) {
        if self.whole || self.divided() || self.reading.pool.hears(stand) {
            return;
        }
        let all: Vec<TopicPartition> = stand.keys().cloned().collect();
        let splits =
            stand.iter().map(|(at, offset)| Split { at: at.clone(), start: *offset, end: *offset });
        let width = self.width.load(Ordering::Relaxed);
        let lanes = split::lanes(splits.collect(), &all, width, false);
        let reading = Arc::clone(&self.reading);
        let listening = tokio::task::spawn_blocking(move || reading.pool.listen(&lanes)).await;
        if let Ok(Err(error)) = listening {
            tracing::debug!("what comes is not heard of: {}", error.chain());
        }
    }

    /// Whether partitions are read in parts.
    fn divided(&self) -> bool {
        let wish = self.choice.wish;
        wish.at_least.is_some() || wish.records_max.is_some()
    }

    fn lanes(&self, splits: Vec<Split>, all: &[TopicPartition], width: usize) -> Vec<Lane> {
        split::lanes(split::split(splits, self.choice.wish), all, width, self.divided())
    }

    fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[async_trait]
impl Source for KafkaSource {
    async fn pin_available(&self) -> Result<()> {
        let look = self.look().await?;
        self.state.lock().await.pinned = Some(look.latest);
        Ok(())
    }

    async fn latest_offset(
        &self,
        start: Option<&Offset>,
        limit: ReadLimit,
    ) -> Result<LatestOffset> {
        let mut state = self.state.lock().await;
        let look = match self.held(&state, start)? {
            Some(look) => look,
            None => {
                let look = self.look().await?;
                state.looked = Some((self.clock.now_ms(), look.clone()));
                look
            }
        };
        let stand = self.stand(&mut state, start, &look).await?;
        self.check_asked(&look, &stand)?;
        // Once the query has moved on they are followed, though it may end there again.
        state.rewinds = state.rewinds.take().filter(|(end, _)| Some(end) == start);
        let next = self.rewound(&state, &stand, &look).await?;
        let mut ids = state.ids.clone();
        if let Some((_, wishes)) = state.rewinds.as_ref().filter(|_| next != stand) {
            // Whatever the topic was, it is read from where the user says.
            ids.retain(|topic, _| wishes.iter().all(|wish| **topic != *wish.topic));
        }
        let (look, compared) = self.compared(&next, &ids, look).await?;
        let losses = self.choice.loss.allow(compared.losses)?;
        let mut starts = compared.starts;
        if let Some(pinned) = &state.pinned {
            // What came after the run began is for the next one.
            starts.retain(|at, _| stand.contains_key(at) || pinned.contains_key(at));
        }
        let ends = self.choose(&state, &starts, &look, limit).await?;
        let ends = rewind::distinct(&stand, &starts, ends);
        self.tell(|told| told.latest.clone_from(&look.latest));
        let mut latest = look.latest.clone();
        latest.retain(|at, _| starts.contains_key(at));
        let latest = Some(Offset::new(offsets::text(&latest)));
        let nothing = losses.is_empty() && ends == starts && next == stand;
        self.tell(|told| {
            told.idle_at = (nothing && starts == stand && latest_is(&starts, &look.latest))
                .then(|| starts.clone());
        });
        if nothing {
            self.listen(&starts).await;
            return Ok(LatestOffset { end: start.cloned(), latest, note: None });
        }
        state.ids.extend(look.ids());
        let ids = &state.ids;
        let used = |(topic, id): (&Arc<str>, &String)| {
            let used = starts.keys().any(|at| at.topic == *topic);
            used.then(|| (Arc::clone(topic), id.clone()))
        };
        let changed = |(at, start): (&TopicPartition, &i64)| {
            (stand.get(at) != Some(start)).then(|| (at.clone(), *start))
        };
        let note = Note {
            ids: ids.iter().filter_map(used).collect(),
            starts: starts.iter().filter_map(changed).collect(),
            losses: losses.clone(),
            epochs: self.reading.pool.epochs().of(&starts),
        };
        for loss in &losses {
            let reason = &loss.reason;
            tracing::warn!(
                topic = loss.topic,
                partition = loss.partition,
                from = loss.from,
                reason
            );
        }
        let folder = format!("_onefold/sources/{}", own_id(&self.log_folder));
        let note = note.keep(self.checkpoint.as_ref(), &folder).await?;
        let end = Offset::new(offsets::text(&ends));
        state.batch_ms = Some(self.clock.now_ms());
        state.planned = Some(end.clone());
        Ok(LatestOffset { end: Some(end), latest, note: Some(note) })
    }

    async fn read(
        &self,
        range: &OffsetRange,
        scan: ScanRequest<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (splits, losses) =
            if range.empty() { (Vec::new(), Vec::new()) } else { self.recorded(range).await? };
        self.tell(|told| (told.losses, told.read) = (losses, Some(range.clone())));
        self.reading.counts.losses.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let all = match &range.end {
            Some(end) => offsets::parse_logged(end.json())?.into_keys().collect(),
            None => Vec::new(),
        };
        let width = scan.session.config().target_partitions();
        self.width.store(width, Ordering::Relaxed);
        let lanes = self.lanes(splits, &all, width);
        let full = super::rows::schema(self.choice.headers);
        let wanted: Vec<usize> = match scan.projection {
            Some(wanted) => wanted.clone(),
            None => (0..full.fields().len()).collect(),
        };
        let schema = full
            .project(&wanted)
            .map_err(|error| Error::internal("a column of Kafka is missing").because(error))?;
        scan::plan(&self.reading, lanes, Arc::new(schema), &wanted)
    }

    fn notices_arrivals(&self) -> bool {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.idle_at.as_ref().is_some_and(|stand| self.reading.pool.hears(stand))
    }

    async fn arrival(&self) {
        let stand = {
            let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.idle_at.clone()
        };
        if let Some(stand) = stand {
            self.reading.pool.arrival(&stand).await;
        }
    }

    async fn release(&self, range: &OffsetRange) -> Result<()> {
        self.keep_losses(range).await?;
        if let (Some(report), Some(end)) = (&self.report, &range.end) {
            report.report(&offsets::parse_logged(end.json())?).await;
        }
        Ok(())
    }

    fn metrics(&self, range: &OffsetRange) -> BTreeMap<String, String> {
        let consumed = range.end.as_ref().and_then(|end| offsets::parse(end.json()));
        let counts = &self.reading.counts;
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut losses = told.losses.clone();
        losses.extend(counts.losses.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        let consumed = consumed.unwrap_or_default();
        progress::metrics(&told.latest, &consumed, counts, &losses, self.clock.now_ms())
    }
}
