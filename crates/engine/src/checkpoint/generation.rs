//! Taking a checkpoint over, and noticing that another driver did.

use super::read_record;
use async_trait::async_trait;
use bytes::Bytes;
use onefold_connector::Fence;
use onefold_protocol::record::GenerationRecord;
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_storage::planted::{Bug, planted};
use onefold_storage::{Durability, Recorded, Store, create_record};
use onefold_types::{Error, Generation, Nonce, Result};
use serde_json::Value;
use std::sync::Arc;

const FOLDER: &str = "_onefold/generations";

/// How often a driver tries for the next number while others take it.
const TRIES: usize = 100;

fn path(generation: Generation) -> String {
    format!("{FOLDER}/{generation}")
}

/// The machine's name.
#[derive(Debug, Clone)]
pub(crate) struct HostName(pub(crate) String);

impl HostName {
    pub(crate) fn of_this_machine() -> Self {
        let name = rustix::system::uname();
        HostName(name.nodename().to_string_lossy().into_owned())
    }
}

/// What a driver says of itself when it takes over.
#[derive(Debug, Clone)]
pub(crate) struct Takeover {
    pub(crate) host: HostName,
    pub(crate) now_ms: i64,
    pub(crate) definition: Value,
    /// The mark of this run, by which it knows its own records.
    pub(crate) nonce: Nonce,
    /// The generation that this process held before, when it tries again: only its successor may
    /// be taken, since a larger one means that another driver runs.
    pub(crate) before: Option<Generation>,
}

/// A driver in office.
#[derive(Debug, Clone)]
pub(crate) struct Driver {
    pub(crate) generation: Generation,
    pub(crate) nonce: Nonce,
    /// Numbers that exist, ascending, this one included.
    pub(crate) numbers: Vec<Generation>,
    pub(crate) fence: Arc<GenerationFence>,
}

/// Step S0: creates the next generation, which fences all before it.
///
/// # Errors
/// Fenced, when this process held a generation and another driver has come since.
pub(crate) async fn take_over(store: &Arc<dyn Store>, takeover: &Takeover) -> Result<Driver> {
    for _ in 0..TRIES {
        let mut numbers = numbers(store.as_ref()).await?;
        let newest = numbers.last().copied();
        if let (Some(before), Some(newest)) = (takeover.before, newest)
            && newest > before
            && !own(store.as_ref(), newest, takeover.nonce).await?
        {
            return Err(fenced(store.as_ref(), newest).await);
        }
        let generation = newest.map_or(Generation::FIRST, Generation::next);
        let record = GenerationRecord {
            generation,
            nonce: takeover.nonce,
            host: takeover.host.0.clone(),
            pid: std::process::id(),
            since_ms: takeover.now_ms,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            definition: takeover.definition.clone(),
        };
        let bytes = Bytes::from(record.encode());
        let name = path(generation);
        match create_record(store.as_ref(), &name, bytes, Durability::Now).await? {
            Recorded::Theirs(_) => continue,
            Recorded::Mine => {}
        }
        crash_point(CrashPoint::GenerationCreated);
        if takeover.before.is_none() {
            say_whom(store.as_ref(), newest, generation).await;
        }
        numbers.push(generation);
        let fence = Arc::new(GenerationFence { store: Arc::clone(store), generation });
        return Ok(Driver { generation, nonce: record.nonce, numbers, fence });
    }
    Err(Error::unavailable(format!(
        "{TRIES} other drivers took {}/{FOLDER} one after another; find out what starts them",
        store.url()
    )))
}

/// Whether this run created a generation itself, by a try whose outcome it never learned.
async fn own(store: &dyn Store, generation: Generation, nonce: Nonce) -> Result<bool> {
    let record = read_record(store, &path(generation), GenerationRecord::parse).await?;
    Ok(record.is_some_and(|record| record.nonce == nonce))
}

/// Tells the newcomer whom it fenced.
async fn say_whom(store: &dyn Store, newest: Option<Generation>, ours: Generation) {
    let Some(newest) = newest else { return };
    if let Ok(Some(record)) = read_record(store, &path(newest), GenerationRecord::parse).await {
        tracing::info!(
            "generation {ours} takes {} over from {}; if that driver still runs, it is fenced",
            store.url(),
            who(&record)
        );
    }
}

fn who(record: &GenerationRecord) -> String {
    format!(
        "generation {} on host {}, pid {}, since {}",
        record.generation,
        record.host,
        record.pid,
        crate::progress::iso_ms(record.since_ms)
    )
}

async fn numbers(store: &dyn Store) -> Result<Vec<Generation>> {
    let mut numbers: Vec<Generation> = store
        .list(FOLDER)
        .await?
        .iter()
        .filter_map(|entry| entry.path.rsplit('/').next())
        .filter_map(|name| name.parse().ok().map(Generation))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

async fn fenced(store: &dyn Store, newest: Generation) -> Error {
    let url = store.url();
    match read_record(store, &path(newest), GenerationRecord::parse).await {
        Ok(Some(record)) => Error::fenced(format!(
            "fenced by {}, which runs the same checkpoint {url} now; let one of them run",
            who(&record)
        )),
        _ => Error::fenced(format!(
            "fenced by generation {newest}, which runs the same checkpoint {url} now; let one of \
             them run"
        )),
    }
}

/// Tells whether a generation is still the newest.
#[derive(Debug)]
pub(crate) struct GenerationFence {
    store: Arc<dyn Store>,
    generation: Generation,
}

#[async_trait]
impl Fence for GenerationFence {
    /// Looks for the next generation, and for one's own: old generations are purged in ascending
    /// order, so that a driver whose own is gone was fenced long ago.
    async fn check(&self) -> Result<()> {
        if planted(Bug::NoFence) {
            return Ok(());
        }
        let (next, own) = (path(self.generation.next()), path(self.generation));
        let store = self.store.as_ref();
        let (next, own) = futures::future::try_join(store.stat(&next), store.stat(&own)).await?;
        if next.is_none() && own.is_some() {
            return Ok(());
        }
        match numbers(store).await?.last() {
            Some(newest) if *newest > self.generation => Err(fenced(store, *newest).await),
            _ => Err(Error::corrupt(format!(
                "{}/{} is gone while its driver runs; was the checkpoint deleted?",
                store.url(),
                path(self.generation)
            ))),
        }
    }
}

/// Paths of generations too old to matter, ascending: all but the newest `keep`.
pub(crate) fn outdated(numbers: &[Generation], keep: usize) -> Vec<String> {
    let drop = numbers.len().saturating_sub(keep);
    numbers.iter().take(drop).map(|generation| path(*generation)).collect()
}
