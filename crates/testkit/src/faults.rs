//! A store whose k-th durable act goes wrong in a chosen way.

use async_trait::async_trait;
use bytes::Bytes;
use onefold_storage::{
    CreateError, Created, Durability, Entry, PathTest, Staged, StagedWriter, Store,
};
use onefold_types::{Error, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a durable act goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process dies before it: it does not happen, and nothing does after it.
    Before,
    /// It happens, then the process dies.
    After,
    /// It does not happen and is known not to have.
    NotDone,
    /// It happens; the reply is lost.
    DoneButUnknown,
    /// It does not happen; whether it did is not known.
    NotDoneUnknown,
}

impl Fault {
    /// Every way, for tests that walk all of them.
    pub const ALL: &'static [Fault] = &[
        Fault::Before,
        Fault::After,
        Fault::NotDone,
        Fault::DoneButUnknown,
        Fault::NotDoneUnknown,
    ];

    fn dies(self) -> bool {
        matches!(self, Fault::Before | Fault::After)
    }

    fn happens(self) -> bool {
        matches!(self, Fault::After | Fault::DoneButUnknown)
    }

    fn unknown(self) -> bool {
        matches!(self, Fault::DoneButUnknown | Fault::NotDoneUnknown)
    }
}

/// Whether an act changed the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// It did.
    Yes,
    /// It did not.
    No,
}

/// One durable act in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// Its number, from 1, over all stores of the plan.
    pub number: u64,
    /// `create`, `create_staged`, `sync`, `finish`, `reveal`, `conceal`, `discard` or `delete`.
    pub name: &'static str,
    /// The path, or the first of several.
    pub path: String,
    /// Whether it changed the store.
    pub happened: Happened,
    /// What the caller was told: `ok`, or the error.
    pub reported: String,
}

#[derive(Debug, Default)]
struct State {
    target: Option<(u64, Fault)>,
    started: u64,
    dead: bool,
    log: Vec<Act>,
}

/// Which durable act fails and how; the log of all of them. Stores wrapped by one plan share its
/// numbers and die together, as the stores of one process do.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    state: Arc<Mutex<State>>,
}

impl FaultPlan {
    /// Nothing fails: run once with it to learn how many acts there are.
    #[must_use]
    pub fn clean() -> Self {
        Self::default()
    }

    /// The act with this number (from 1) fails in this way.
    #[must_use]
    pub fn at(number: u64, fault: Fault) -> Self {
        let plan = Self::default();
        plan.lock().target = Some((number, fault));
        plan
    }

    /// A store under this plan.
    #[must_use]
    pub fn wrap(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(FaultStore { inner: store, plan: self.clone() })
    }

    /// How many durable acts were begun.
    #[must_use]
    pub fn acts(&self) -> u64 {
        self.lock().started
    }

    /// Whether the process has died.
    #[must_use]
    pub fn dead(&self) -> bool {
        self.lock().dead
    }

    /// All durable acts so far, in the order in which they ended.
    #[must_use]
    pub fn log(&self) -> Vec<Act> {
        self.lock().log.clone()
    }

    /// The log as a timeline for a failure report.
    #[must_use]
    pub fn timeline(&self) -> String {
        let lines = self.log().into_iter().map(|act| {
            format!("{:>4} {:<13} {:?} {} {}\n", act.number, act.name, act.happened, act.path, {
                act.reported
            })
        });
        lines.collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> Result<()> {
        if self.lock().dead { Err(crashed()) } else { Ok(()) }
    }

    /// Counts an act; its number and what happens to it.
    fn begin(&self) -> Result<(u64, Option<Fault>)> {
        let mut state = self.lock();
        if state.dead {
            return Err(crashed());
        }
        state.started += 1;
        let number = state.started;
        let fault = state.target.filter(|(target, _)| *target == number).map(|(_, fault)| fault);
        state.dead = fault.is_some_and(Fault::dies);
        Ok((number, fault))
    }

    fn record(&self, number: u64, name: &'static str, path: &str, done: bool, reported: String) {
        let happened = if done { Happened::Yes } else { Happened::No };
        let path = path.to_owned();
        self.lock().log.push(Act { number, name, path, happened, reported });
    }

    async fn act<T, E: From<Planned> + std::fmt::Debug>(
        &self,
        name: &'static str,
        path: &str,
        work: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let (number, fault) = self.begin().map_err(|_| E::from(Planned::Died))?;
        let outcome = match fault {
            None => Some(work.await),
            Some(fault) if fault.happens() => Some(work.await),
            Some(_) => None,
        };
        let happened = matches!(outcome, Some(Ok(_)));
        let told = match (fault, outcome) {
            (None, Some(outcome)) => outcome,
            (Some(fault), _) if fault.dies() => Err(E::from(Planned::Died)),
            (Some(fault), _) if fault.unknown() => Err(E::from(Planned::Unknown)),
            _ => Err(E::from(Planned::NotDone)),
        };
        let reported = match &told {
            Ok(_) => "ok".to_owned(),
            Err(error) => format!("{error:?}"),
        };
        self.record(number, name, path, happened, reported);
        told
    }
}

/// What a planned fault tells its caller.
enum Planned {
    Died,
    NotDone,
    Unknown,
}

impl From<Planned> for Error {
    fn from(planned: Planned) -> Self {
        match planned {
            Planned::Died => crashed(),
            Planned::NotDone => Error::unavailable("a planned fault: nothing was done"),
            Planned::Unknown => Error::unknown("a planned fault: the reply was lost"),
        }
    }
}

impl From<Planned> for Outcome {
    fn from(planned: Planned) -> Self {
        match planned {
            Planned::Unknown => Outcome(CreateError::MaybeDone(planned.into())),
            planned => Outcome(CreateError::NotDone(planned.into())),
        }
    }
}

/// Lets [`CreateError`] take part in [`FaultPlan::act`].
#[derive(Debug)]
struct Outcome(CreateError);

fn crashed() -> Error {
    Error::internal("a planned fault: the process is dead")
}

/// A store under a [`FaultPlan`].
#[derive(Debug)]
pub struct FaultStore {
    inner: Arc<dyn Store>,
    plan: FaultPlan,
}

#[derive(Debug)]
struct FaultWriter {
    inner: Box<dyn StagedWriter>,
    path: String,
    plan: FaultPlan,
}

#[async_trait]
impl StagedWriter for FaultWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.plan.alive()?;
        self.inner.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<Staged> {
        let FaultWriter { inner, path, plan } = *self;
        plan.act("finish", &path, inner.finish()).await
    }

    async fn create_later(self: Box<Self>) -> Result<Created, CreateError> {
        let FaultWriter { inner, path, plan } = *self;
        let work = async { inner.create_later().await.map_err(Outcome) };
        plan.act("create", &path, work).await.map_err(|outcome| outcome.0)
    }

    async fn abandon(self: Box<Self>) -> Result<()> {
        self.plan.alive()?;
        self.inner.abandon().await
    }
}

impl FaultStore {
    fn writer(&self, path: &str, inner: Box<dyn StagedWriter>) -> Box<dyn StagedWriter> {
        Box::new(FaultWriter { inner, path: path.to_owned(), plan: self.plan.clone() })
    }
}

/// The path by which an act on several files goes into the log.
fn first(staged: &[Staged]) -> &str {
    staged.first().map_or("", |staged| staged.path.as_str())
}

#[async_trait]
impl Store for FaultStore {
    fn url(&self) -> &str {
        self.inner.url()
    }

    async fn create(
        &self,
        path: &str,
        bytes: Bytes,
        durability: Durability,
    ) -> Result<Created, CreateError> {
        let work = async { self.inner.create(path, bytes, durability).await.map_err(Outcome) };
        self.plan.act("create", path, work).await.map_err(|outcome| outcome.0)
    }

    async fn sync(&self, paths: &[String]) -> Result<()> {
        let first = paths.first().map_or("", String::as_str);
        self.plan.act("sync", first, self.inner.sync(paths)).await
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        self.plan.alive()?;
        self.inner.read(path).await
    }

    async fn read_range(&self, path: &str, start: u64, length: u64) -> Result<Bytes> {
        self.plan.alive()?;
        self.inner.read_range(path, start, length).await
    }

    async fn stat(&self, path: &str) -> Result<Option<Entry>> {
        self.plan.alive()?;
        self.inner.stat(path).await
    }

    async fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        self.plan.alive()?;
        self.inner.list(folder).await
    }

    async fn list_deep(&self, folder: &str, hidden: bool) -> Result<Vec<Entry>> {
        self.plan.alive()?;
        self.inner.list_deep(folder, hidden).await
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.plan.act("delete", path, self.inner.delete(path)).await
    }

    async fn delete_all(&self, paths: &[String]) -> Result<()> {
        let first = paths.first().map_or("", String::as_str);
        self.plan.act("delete", first, self.inner.delete_all(paths)).await
    }

    async fn stage(&self, path: &str, tag: &str) -> Result<Box<dyn StagedWriter>> {
        self.plan.alive()?;
        Ok(self.writer(path, self.inner.stage(path, tag).await?))
    }

    async fn stage_record(&self, path: &str, tag: &str) -> Result<Box<dyn StagedWriter>> {
        self.plan.alive()?;
        Ok(self.writer(path, self.inner.stage_record(path, tag).await?))
    }

    async fn reveal(&self, staged: &[Staged]) -> Result<()> {
        self.plan.act("reveal", first(staged), self.inner.reveal(staged)).await
    }

    async fn conceal(&self, paths: &[String]) -> Result<()> {
        let first = paths.first().map_or("", String::as_str);
        self.plan.act("conceal", first, self.inner.conceal(paths)).await
    }

    fn concealed(&self, path: &str) -> Staged {
        self.inner.concealed(path)
    }

    async fn discard(&self, staged: &[Staged]) -> Result<()> {
        self.plan.act("discard", first(staged), self.inner.discard(staged)).await
    }

    async fn abort_uploads(&self, wanted: PathTest<'_>) -> Result<u64> {
        // Nothing durable: what is ended was never seen.
        self.plan.alive()?;
        self.inner.abort_uploads(wanted).await
    }

    async fn create_staged(&self, staged: &Staged) -> Result<Created, CreateError> {
        let work = async { self.inner.create_staged(staged).await.map_err(Outcome) };
        self.plan.act("create_staged", &staged.path, work).await.map_err(|outcome| outcome.0)
    }
}
