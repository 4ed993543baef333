//! A world in memory: a store, a source, a sink and a clock, all of which can be told to fail.

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use onefold_connector::{
    Attempt, Clock, Fence, LatestOffset, ReadLimit, RowStream, ScanRequest, Sink, SinkContext,
    SinkDefinition, Source, SourceContext, SourceDefinition, StagedOutput,
};
use onefold_engine::{Connectors, DataFrame, DataStreamWriter, Process, Session, Timer, Trigger};
use onefold_storage::{CreateError, Created, Durability, Entry, Staged, StagedWriter, Store};
use onefold_types::{
    BatchId, ContentHash, Delivery, Error, Mark, Offset, OffsetRange, Published, Replay, Result,
    Totals,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// How a durable call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process dies before the call.
    DieBefore,
    /// The process dies after the call.
    DieAfter,
    /// It happened, but the answer was lost; the process lives on.
    ReplyLost,
    /// It did not happen, but nobody knows; the process lives on.
    NotDoneUnknown,
    /// It did not happen, and that is known.
    Unavailable,
}

impl Fault {
    pub const ALL: [Fault; 5] = [
        Fault::DieBefore,
        Fault::DieAfter,
        Fault::ReplyLost,
        Fault::NotDoneUnknown,
        Fault::Unavailable,
    ];

    pub fn dies(self) -> bool {
        matches!(self, Fault::DieBefore | Fault::DieAfter)
    }
}

/// Which durable call goes wrong, and how.
#[derive(Debug, Default)]
pub struct Faults {
    plan: Mutex<Option<(u64, Fault)>>,
    calls: AtomicU64,
    dead: AtomicBool,
    met: AtomicBool,
}

/// What a call does.
enum Verdict {
    Do,
    /// Do it, then say this.
    DoAndSay(Error),
    /// Leave it, and say this.
    Say(Error),
    Unsure(Error),
}

impl Faults {
    pub fn arm(&self, call: u64, fault: Fault) {
        *self.plan.lock().unwrap() = Some((call, fault));
        self.calls.store(0, Ordering::SeqCst);
        self.dead.store(false, Ordering::SeqCst);
        self.met.store(false, Ordering::SeqCst);
    }

    pub fn disarm(&self) {
        *self.plan.lock().unwrap() = None;
        self.dead.store(false, Ordering::SeqCst);
    }

    pub fn met(&self) -> bool {
        self.met.load(Ordering::SeqCst)
    }

    fn alive(&self) -> Result<()> {
        if self.dead.load(Ordering::SeqCst) {
            return Err(Error::unavailable("the process is dead"));
        }
        Ok(())
    }

    fn call(&self) -> Verdict {
        if let Err(error) = self.alive() {
            return Verdict::Say(error);
        }
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let Some((_, fault)) = self.plan.lock().unwrap().filter(|(call, _)| *call == number) else {
            return Verdict::Do;
        };
        self.met.store(true, Ordering::SeqCst);
        self.dead.store(fault.dies(), Ordering::SeqCst);
        let lost = Error::unknown("the reply was lost");
        match fault {
            Fault::DieBefore | Fault::Unavailable => {
                Verdict::Say(Error::unavailable("it did not happen"))
            }
            Fault::DieAfter | Fault::ReplyLost => Verdict::DoAndSay(lost),
            Fault::NotDoneUnknown => Verdict::Unsure(lost),
        }
    }

    fn run<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.call() {
            Verdict::Do => act(),
            Verdict::DoAndSay(error) => {
                act()?;
                Err(error)
            }
            Verdict::Say(error) | Verdict::Unsure(error) => Err(error),
        }
    }
}

/// Files in memory.
#[derive(Debug, Default)]
pub struct Memory {
    pub files: Mutex<BTreeMap<String, Bytes>>,
    pub lists: AtomicU64,
    /// Another driver's file that appears just before ours of the same name is created.
    pub overtaker: Mutex<Option<(String, Bytes)>>,
    faults: Arc<Faults>,
}

impl Memory {
    pub fn names(&self, folder: &str) -> Vec<String> {
        let prefix = format!("{folder}/");
        let files = self.files.lock().unwrap();
        files.keys().filter_map(|name| name.strip_prefix(&prefix)).map(str::to_owned).collect()
    }

    fn entry(path: &str, bytes: &Bytes) -> Entry {
        Entry { path: path.to_owned(), size: bytes.len() as u64, modified_ms: 0, etag: None }
    }
}

/// What paths in a folder begin with.
fn below(folder: &str) -> String {
    if folder.is_empty() { String::new() } else { format!("{folder}/") }
}

fn unused<T>() -> Result<T> {
    Err(Error::internal("the engine stages nothing in a checkpoint"))
}

#[async_trait]
impl Store for Memory {
    fn url(&self) -> &str {
        "memory:///checkpoint"
    }

    async fn create(
        &self,
        path: &str,
        bytes: Bytes,
        _durability: Durability,
    ) -> Result<Created, CreateError> {
        let act = || {
            let mut files = self.files.lock().unwrap();
            let overtaker = self.overtaker.lock().unwrap().take_if(|(name, _)| name == path);
            files.extend(overtaker);
            match files.get(path) {
                Some(found) => Created::Exists(found.clone()),
                None => {
                    files.insert(path.to_owned(), bytes);
                    Created::New
                }
            }
        };
        match self.faults.call() {
            Verdict::Do => Ok(act()),
            Verdict::DoAndSay(error) => {
                act();
                Err(CreateError::MaybeDone(error))
            }
            Verdict::Say(error) => Err(CreateError::NotDone(error)),
            Verdict::Unsure(error) => Err(CreateError::MaybeDone(error)),
        }
    }

    async fn sync(&self, _paths: &[String]) -> Result<()> {
        self.faults.run(|| Ok(()))
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        self.faults.alive()?;
        Ok(self.files.lock().unwrap().get(path).cloned())
    }

    async fn read_range(&self, path: &str, start: u64, length: u64) -> Result<Bytes> {
        self.faults.alive()?;
        let files = self.files.lock().unwrap();
        let found = files.get(path).ok_or_else(|| Error::corrupt(format!("no {path}")))?;
        let (start, length) = (usize::try_from(start).unwrap(), usize::try_from(length).unwrap());
        Ok(found.slice(start..start + length))
    }

    async fn stat(&self, path: &str) -> Result<Option<Entry>> {
        self.faults.alive()?;
        Ok(self.files.lock().unwrap().get(path).map(|bytes| Self::entry(path, bytes)))
    }

    async fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        self.faults.alive()?;
        self.lists.fetch_add(1, Ordering::SeqCst);
        let prefix = below(folder);
        let files = self.files.lock().unwrap();
        let inside = files
            .iter()
            .filter(|(path, _)| path.strip_prefix(&prefix).is_some_and(|name| !name.contains('/')));
        Ok(inside.map(|(path, bytes)| Self::entry(path, bytes)).collect())
    }

    async fn list_deep(&self, folder: &str, hidden: bool) -> Result<Vec<Entry>> {
        self.faults.alive()?;
        let prefix = below(folder);
        let files = self.files.lock().unwrap();
        let inside = files.iter().filter(|(path, _)| path.starts_with(&prefix));
        let wanted = inside.filter(|(path, _)| hidden || !path.contains("/."));
        Ok(wanted.map(|(path, bytes)| Self::entry(path, bytes)).collect())
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.faults.run(|| {
            self.files.lock().unwrap().remove(path);
            Ok(())
        })
    }

    async fn stage(&self, _path: &str, _tag: &str) -> Result<Box<dyn StagedWriter>> {
        unused()
    }

    async fn reveal(&self, _staged: &[Staged]) -> Result<()> {
        unused()
    }

    async fn conceal(&self, _paths: &[String]) -> Result<()> {
        unused()
    }

    fn concealed(&self, path: &str) -> Staged {
        Staged { path: path.to_owned(), held_as: String::new(), parts: Vec::new(), size: 0 }
    }

    async fn discard(&self, _staged: &[Staged]) -> Result<()> {
        unused()
    }

    async fn create_staged(&self, _staged: &Staged) -> Result<Created, CreateError> {
        unused().map_err(CreateError::NotDone)
    }
}

/// Numbers, read so many a batch. Replayable.
#[derive(Debug)]
pub struct Numbers {
    pub rows: Mutex<Vec<i64>>,
    pub per_batch: usize,
    /// After how many rows a batch ends, in ascending order; behind the last one, `per_batch`.
    pub splits: Mutex<Vec<usize>>,
    pub released: Mutex<Vec<usize>>,
    /// When set, rows come only after permits: a batch can be held while it runs.
    pub gate: Option<Arc<tokio::sync::Semaphore>>,
    /// Whether who waits is told of rows by `arrival`.
    pub notices: AtomicBool,
    pub arrival: tokio::sync::Notify,
    pinned: Mutex<Option<usize>>,
}

pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]))
}

fn count(offset: Option<&Offset>) -> usize {
    offset.map_or(0, |offset| offset.json().parse().unwrap())
}

#[derive(Debug, Clone)]
pub struct NumbersDefinition(pub Arc<Numbers>);

#[async_trait]
impl SourceDefinition for NumbersDefinition {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn replay(&self) -> Replay {
        Replay::Exact { how: "numbers stay".to_owned() }
    }

    fn description(&self) -> String {
        "Numbers".to_owned()
    }

    fn folders(&self) -> Vec<String> {
        vec!["memory:///in".to_owned()]
    }

    async fn open(&self, _context: SourceContext) -> Result<Arc<dyn Source>> {
        *self.0.pinned.lock().unwrap() = None;
        Ok(Arc::<Numbers>::clone(&self.0))
    }
}

#[async_trait]
impl Source for Numbers {
    async fn pin_available(&self) -> Result<()> {
        *self.pinned.lock().unwrap() = Some(self.rows.lock().unwrap().len());
        Ok(())
    }

    async fn latest_offset(
        &self,
        start: Option<&Offset>,
        limit: ReadLimit,
    ) -> Result<LatestOffset> {
        let all = self.rows.lock().unwrap().len();
        let all = self.pinned.lock().unwrap().map_or(all, |pinned| pinned.min(all));
        let from = count(start);
        let end = match limit {
            ReadLimit::All => all,
            ReadLimit::Options => {
                let splits = self.splits.lock().unwrap();
                let split = splits.iter().copied().find(|split| *split > from);
                all.min(split.unwrap_or(from + self.per_batch))
            }
        };
        let offset = |end: usize| (end > 0).then(|| Offset::new(end.to_string()));
        let note = (end > from).then(|| format!("{{\"to\":{end}}}"));
        Ok(LatestOffset { end: offset(end), latest: offset(all), note })
    }

    async fn read(
        &self,
        range: &OffsetRange,
        scan: ScanRequest<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (from, to) = (count(range.start.as_ref()), count(range.end.as_ref()));
        let rows = self.rows.lock().unwrap()[from..to].to_vec();
        let column: ArrayRef = Arc::new(Int64Array::from(rows));
        let batch = RecordBatch::try_new(schema(), vec![column]).unwrap();
        let plan =
            MemorySourceConfig::try_new_exec(&[vec![batch]], schema(), scan.projection.cloned());
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        Ok(plan.unwrap())
    }

    fn notices_arrivals(&self) -> bool {
        self.notices.load(Ordering::SeqCst)
    }

    async fn arrival(&self) {
        self.arrival.notified().await;
    }

    async fn release(&self, range: &OffsetRange) -> Result<()> {
        self.released.lock().unwrap().push(count(range.end.as_ref()));
        Ok(())
    }
}

/// What a sink holds, visible and not.
#[derive(Debug, Default)]
pub struct Shelf {
    /// Published batches with their rows, in order.
    pub batches: Vec<(Mark, Vec<i64>)>,
    pub staged: BTreeMap<(u64, u64, u32), Vec<i64>>,
}

/// A sink in memory whose mark stands beside its rows.
#[derive(Debug, Clone)]
pub struct Shelves {
    pub shelf: Arc<Mutex<Shelf>>,
    faults: Arc<Faults>,
    pub tells_totals: bool,
    pub keeps_marks: bool,
    pub folder: Option<String>,
    /// Why it takes no rows of this query, if it does not.
    pub refuses: Option<String>,
    /// How often it was opened.
    pub opened: Arc<AtomicU64>,
}

#[async_trait]
impl SinkDefinition for Shelves {
    fn delivery(&self) -> Delivery {
        if self.keeps_marks {
            Delivery::ExactlyOnce { how: "the mark stands beside the rows".to_owned() }
        } else {
            Delivery::AtLeastOnce { why: "it has no memory".to_owned() }
        }
    }

    fn description(&self) -> String {
        "Shelf".to_owned()
    }

    fn folder(&self) -> Option<String> {
        self.folder.clone()
    }

    async fn open(&self, _context: SinkContext) -> Result<Arc<dyn Sink>> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        self.faults.alive()?;
        if let Some(why) = &self.refuses {
            return Err(Error::invalid(why.clone()));
        }
        Ok(Arc::new(self.clone()))
    }
}

fn totals(rows: &[i64]) -> Totals {
    let hash =
        rows.iter().fold(ContentHash::default(), |sum, id| sum.with((*id as u128).wrapping_add(1)));
    Totals { rows: rows.len() as u64, hash }
}

#[async_trait]
impl Sink for Shelves {
    async fn last_mark(&self) -> Result<Option<Published>> {
        self.faults.alive()?;
        let shelf = self.shelf.lock().unwrap();
        Ok(shelf.batches.last().filter(|_| self.keeps_marks).map(|(mark, rows)| Published {
            mark: *mark,
            totals: self.tells_totals.then(|| totals(rows)),
        }))
    }

    async fn conceal(&self, _batch: BatchId) -> Result<()> {
        self.faults.run(|| Ok(()))
    }

    async fn stage(
        &self,
        attempt: &Attempt,
        partition: u32,
        mut rows: RowStream,
    ) -> Result<StagedOutput> {
        let mut ids = Vec::new();
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(onefold_engine::from_datafusion)?;
            let column = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
            ids.extend(column.values().iter().copied());
        }
        let totals = totals(&ids);
        let key = (attempt.batch.0, attempt.generation.0, partition);
        self.faults.run(|| {
            self.shelf.lock().unwrap().staged.insert(key, ids);
            Ok(())
        })?;
        Ok(StagedOutput { partition, totals, detail: serde_json::Value::Null })
    }

    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        fence: &dyn Fence,
    ) -> Result<Published> {
        fence.check().await?;
        self.faults.run(|| {
            let mut shelf = self.shelf.lock().unwrap();
            if self.keeps_marks
                && let Some((mark, _)) =
                    shelf.batches.iter().find(|(mark, _)| mark.batch == attempt.batch)
            {
                return Ok(Published { mark: *mark, totals: None });
            }
            let mut rows = Vec::new();
            for output in &outputs {
                let key = (attempt.batch.0, attempt.generation.0, output.partition);
                rows.extend(shelf.staged.remove(&key).expect("it was staged"));
            }
            let mark = Mark {
                query: Some(attempt.query),
                batch: attempt.batch,
                generation: Some(attempt.generation),
            };
            // Which partition a group of rows is in is no matter of the sink's.
            rows.sort_unstable();
            let totals = self.tells_totals.then(|| totals(&rows));
            shelf.batches.push((mark, rows));
            Ok(Published { mark, totals })
        })
    }

    async fn settle(&self, published: &Published) -> Result<()> {
        self.faults.run(|| {
            let batch = published.mark.batch.0;
            self.shelf.lock().unwrap().staged.retain(|(staged, _, _), _| *staged > batch);
            Ok(())
        })
    }

    async fn discard(&self, attempt: &Attempt) -> Result<()> {
        let (batch, generation) = (attempt.batch.0, attempt.generation.0);
        let mut shelf = self.shelf.lock().unwrap();
        shelf.staged.retain(|(b, g, _), _| (*b, *g) != (batch, generation));
        Ok(())
    }

    async fn audit(&self, _batch: BatchId) -> Result<Option<Totals>> {
        Ok(None)
    }

    fn tells_totals(&self) -> bool {
        self.tells_totals
    }
}

/// A clock that moves only when told to, or when somebody waits for it.
#[derive(Debug)]
pub struct ManualTimer {
    now: tokio::sync::watch::Sender<i64>,
    /// Waiting moves the clock.
    jumps: bool,
    pub waits: Mutex<Vec<i64>>,
    ticks: AtomicI64,
}

impl ManualTimer {
    pub fn new(jumps: bool) -> Arc<Self> {
        Arc::new(ManualTimer {
            now: tokio::sync::watch::Sender::new(1_700_000_000_000),
            jumps,
            waits: Mutex::default(),
            ticks: AtomicI64::new(0),
        })
    }

    pub fn set(&self, ms: i64) {
        self.now.send_modify(|now| *now = ms);
    }

    /// From now on each look at the clock takes a millisecond.
    pub fn tick(&self) {
        self.ticks.store(1, Ordering::SeqCst);
    }
}

impl Clock for ManualTimer {
    fn now_ms(&self) -> i64 {
        let tick = self.ticks.load(Ordering::SeqCst);
        self.now.send_modify(|now| *now += tick);
        *self.now.borrow()
    }
}

#[async_trait]
impl Timer for ManualTimer {
    async fn wait_until(&self, at_ms: i64) {
        self.waits.lock().unwrap().push(at_ms);
        if self.jumps {
            self.now.send_modify(|now| *now = (*now).max(at_ms));
            tokio::task::yield_now().await;
            return;
        }
        let mut now = self.now.subscribe();
        now.wait_for(|now| *now >= at_ms).await.unwrap();
    }
}

/// All of it.
pub struct World {
    pub place: String,
    pub session: Session,
    pub timer: Arc<ManualTimer>,
    pub store: Arc<Memory>,
    pub faults: Arc<Faults>,
    pub source: Arc<Numbers>,
    pub sink: Shelves,
}

type Places = Arc<Mutex<BTreeMap<String, Arc<Memory>>>>;

const NO_CONNECTORS: Connectors =
    Connectors { sources: &[], sinks: &[], tables: &[], registry: None, calls: None };

/// Sessions are dear; worlds of one test share one. Each host is a process of its own, unless it is
/// another's neighbour.
pub struct Host {
    session: Session,
    timer: Arc<ManualTimer>,
    places: Places,
    process: Process,
    next: AtomicU64,
}

impl Host {
    pub fn new(jumps: bool) -> Self {
        Self::of(ManualTimer::new(jumps), Places::default(), Process::default())
    }

    /// Another session of the same process.
    pub fn neighbour(&self) -> Self {
        Self::of(Arc::clone(&self.timer), Arc::clone(&self.places), self.process.clone())
    }

    fn of(timer: Arc<ManualTimer>, places: Places, process: Process) -> Self {
        let known = Arc::clone(&places);
        let session = Session::builder(NO_CONNECTORS)
            .timer(Arc::<ManualTimer>::clone(&timer))
            .threads(2)
            .process(process.clone())
            .stores(Arc::new(move |location, _| {
                let store = known.lock().unwrap().entry(location).or_default().clone();
                Box::pin(async move { Ok(store as Arc<dyn Store>) })
            }))
            .build()
            .unwrap();
        Host { session, timer, places, process, next: AtomicU64::new(0) }
    }

    /// The same checkpoint, source and sink in this host's session.
    pub fn sharing(&self, world: &World) -> World {
        World {
            place: world.place.clone(),
            session: self.session.clone(),
            timer: Arc::clone(&self.timer),
            store: Arc::clone(&world.store),
            faults: Arc::clone(&world.faults),
            source: Arc::clone(&world.source),
            sink: world.sink.clone(),
        }
    }

    /// The session that all worlds share.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// A new world with `rows` rows, of which each batch takes `per_batch`.
    pub fn world(&self, rows: i64, per_batch: usize) -> World {
        self.held_world(rows, per_batch, None)
    }

    pub fn held_world(
        &self,
        rows: i64,
        per_batch: usize,
        gate: Option<Arc<tokio::sync::Semaphore>>,
    ) -> World {
        let faults = Arc::new(Faults::default());
        let store = Arc::new(Memory { faults: Arc::clone(&faults), ..Memory::default() });
        let place = self.next.fetch_add(1, Ordering::SeqCst).to_string();
        self.places.lock().unwrap().insert(place.clone(), Arc::clone(&store));
        World {
            place,
            session: self.session.clone(),
            timer: Arc::clone(&self.timer),
            store,
            source: Arc::new(Numbers {
                rows: Mutex::new((0..rows).collect()),
                per_batch,
                splits: Mutex::default(),
                released: Mutex::default(),
                gate,
                notices: AtomicBool::new(false),
                arrival: tokio::sync::Notify::new(),
                pinned: Mutex::default(),
            }),
            sink: Shelves {
                shelf: Arc::default(),
                faults: Arc::clone(&faults),
                tells_totals: true,
                keeps_marks: true,
                folder: None,
                refuses: None,
                opened: Arc::default(),
            },
            faults,
        }
    }
}

impl Host {
    /// Opens the store of this world from now on, which may be another world's.
    pub fn adopt(&self, world: &World) {
        self.places.lock().unwrap().insert(world.place.clone(), Arc::clone(&world.store));
    }
}

impl World {
    /// A source of its own that this world's queries may read too.
    pub fn another_source(rows: std::ops::Range<i64>, per_batch: usize) -> Arc<Numbers> {
        Arc::new(Numbers {
            rows: Mutex::new(rows.collect()),
            per_batch,
            splits: Mutex::default(),
            released: Mutex::default(),
            gate: None,
            notices: AtomicBool::new(false),
            arrival: tokio::sync::Notify::new(),
            pinned: Mutex::default(),
        })
    }

    /// Runs the union of named sources over what is available.
    pub fn run_named(&self, sources: &[(&str, &Arc<Numbers>)]) -> Result<()> {
        let mut frames = sources.iter().map(|(name, source)| {
            let reader = self.session.read_stream().name(name);
            reader.load_definition(Arc::new(NumbersDefinition(Arc::clone(source)))).unwrap()
        });
        let first = frames.next().unwrap();
        let all = frames.fold(first, |union, frame| union.union(&frame).unwrap());
        all.write_stream()
            .sink(Arc::new(self.sink.clone()))
            .option("checkpointLocation", self.place.as_str())
            .trigger(Trigger::AvailableNow)
            .start_default()?
            .await_termination(None)
            .map(|ended| assert!(ended))
    }

    /// A second sink, with the faults of this world.
    pub fn second_sink(&self) -> Shelves {
        Shelves { shelf: Arc::default(), opened: Arc::default(), ..self.sink.clone() }
    }

    /// The source as a frame.
    pub fn frame(&self) -> DataFrame {
        self.session
            .read_stream()
            .load_definition(Arc::new(NumbersDefinition(Arc::clone(&self.source))))
            .unwrap()
    }

    pub fn writer(&self, trigger: Trigger) -> DataStreamWriter {
        self.writer_of(&self.frame(), trigger)
    }

    pub fn writer_of(&self, frame: &DataFrame, trigger: Trigger) -> DataStreamWriter {
        frame
            .write_stream()
            .sink(Arc::new(self.sink.clone()))
            .option("checkpointLocation", self.place.as_str())
            .trigger(trigger)
    }

    /// Runs what is available; the error by which the query could not start or ended.
    pub fn run(&self, attempts: u64) -> Result<()> {
        self.run_frame(&self.frame(), attempts)
    }

    /// As [`World::run`], with another query over the source.
    pub fn run_frame(&self, frame: &DataFrame, attempts: u64) -> Result<()> {
        self.writer_of(frame, Trigger::AvailableNow)
            .option("onefold.retry.maxAttempts", attempts.to_string())
            .start_default()?
            .await_termination(None)
            .map(|ended| assert!(ended))
    }

    /// The rows of each batch that a reader of the sink sees.
    pub fn seen(&self) -> Vec<Vec<i64>> {
        self.sink.shelf.lock().unwrap().batches.iter().map(|(_, rows)| rows.clone()).collect()
    }
}
