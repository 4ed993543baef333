//! Opening the state of a query.

use crate::base::{Base, BaseVersion, MemoryBase};
use crate::durable::{Durable, Parts};
use crate::restore::Restore;
use crate::schema::{StateSchema, read_schema};
use crate::state_ref::{OperatorRef, operator_refs};
use crate::store::check_partitions;
use crate::{
    Change, MemoryBudget, OperatorChange, OperatorSpec, SnapshotPolicy, StateRef, StateStore,
    compare,
};
use onefold_storage::Store;
use onefold_types::{Error, Generation, Result};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// Where the rows of the newest version are while a query runs. Files of the checkpoint are the
/// same for all, so that it may be changed at any start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Provider {
    /// In the memory of the process.
    #[default]
    Memory,
    /// In a RocksDB in a local folder, for state larger than memory. Needs the feature `rocksdb`.
    RocksDb,
}

impl FromStr for Provider {
    type Err = Error;

    /// Understands `memory` and `rocksdb`, and Spark's class names, in any case.
    fn from_str(text: &str) -> Result<Self> {
        let name = text.rsplit('.').next().unwrap_or(text).to_ascii_lowercase();
        match name.as_str() {
            "memory" | "hdfsbackedstatestoreprovider" => Ok(Provider::Memory),
            "rocksdb" | "rocksdbstatestoreprovider" => Ok(Provider::RocksDb),
            _ => Err(Error::invalid(format!(
                "no state store '{text}'; set spark.sql.streaming.stateStore.providerClass to \
                 memory or rocksdb"
            ))),
        }
    }
}

/// What opening a state needs.
#[derive(Debug, Clone)]
pub struct StateConfig {
    /// The checkpoint. Files of state are in `_onefold/state/`.
    pub store: Arc<dyn Store>,
    /// The stateful operators of the query.
    pub operators: Vec<OperatorSpec>,
    /// Partitions of keyed operators, `1..=256`; may be another number at each start.
    pub partitions: u32,
    /// The driver.
    pub generation: Generation,
    /// Where rows are meanwhile.
    pub provider: Provider,
    /// The memory that state may take, shared by the queries of the process.
    pub budget: MemoryBudget,
    /// The folder of the RocksDB, of this query alone. It holds nothing that is not in the
    /// checkpoint; if it is kept, the next start is quick.
    pub local_dir: Option<PathBuf>,
    /// When changelogs are merged.
    pub snapshots: SnapshotPolicy,
    /// Labels of operators whose incompatible state may be dropped, so that they start empty.
    pub discard: Vec<String>,
    /// The version of the empty state when it is opened at no version: the number of the batch with
    /// which the query becomes one with state.
    pub start: u64,
}

impl StateStore {
    /// Opens the state at a version; without one, an empty state at version `start`.
    ///
    /// State of operators that are not in the query any more is left behind, and that of operators
    /// whose spec changed compatibly is read as the new spec says.
    ///
    /// # Errors
    /// Invalid, when an operator cannot go on with its state, or memory does not suffice. Corrupt,
    /// when files are missing or damaged and nothing can take their place.
    pub async fn open(config: StateConfig, at: Option<&StateRef>) -> Result<StateStore> {
        check_partitions(config.partitions)?;
        check_labels(&config.operators)?;
        let schema = StateSchema::of(&config.operators)?;
        let started_empty = match at {
            Some(at) => check_compatible(&config, at).await?,
            None => Vec::new(),
        };
        let since = |label: &str| {
            let Some(at) = at else { return 0 };
            let known = at.operators.iter().find(|of| of.label == label);
            let goes_on = known.filter(|_| !started_empty.iter().any(|empty| empty == label));
            goes_on.map_or(at.version, |of| of.since)
        };
        let operators = operator_refs(&config.operators, since);
        let mut base = new_base(&config, &schema, &operators)?;
        let mut lineage = Vec::new();
        let mut version = BaseVersion { version: config.start, chain: 0 };
        if let Some(at) = at {
            let specs = &config.operators;
            let (store, schema, operators) = (&config.store, schema.hash, &operators);
            let restore = Restore { store, at, schema, specs, operators };
            lineage = match restore.catch_up(base.as_mut()).await {
                true => at.pieces.clone(),
                false => restore.run(base.as_mut()).await?,
            };
            version = BaseVersion { version: at.version, chain: at.chain() };
        }
        if at.is_none() {
            base.clear()?;
        }
        base.loaded(&version)?;
        let StateConfig { store, partitions, generation, budget, snapshots, .. } = config;
        let specs = Arc::new(config.operators);
        let policy = snapshots;
        let parts =
            Parts { store, generation, schema, partitions, specs, operators, lineage, policy };
        let durable = Durable::new(parts).await?;
        Ok(StateStore::with(durable, budget, version, base.into()))
    }
}

fn new_base(
    config: &StateConfig,
    schema: &StateSchema,
    operators: &[OperatorRef],
) -> Result<Box<dyn Base>> {
    match config.provider {
        Provider::Memory => Ok(Box::new(MemoryBase::new(&config.operators, &config.budget))),
        Provider::RocksDb => rocks_base(config, schema, operators),
    }
}

#[cfg(feature = "rocksdb")]
fn rocks_base(
    config: &StateConfig,
    schema: &StateSchema,
    operators: &[OperatorRef],
) -> Result<Box<dyn Base>> {
    let folder = config.local_dir.as_ref().ok_or_else(|| {
        Error::invalid("a RocksDB needs a local folder; set onefold.state.localDir")
    })?;
    let mut layout = schema.hash.to_string();
    operators.iter().for_each(|of| layout.push_str(&format!(" {}", of.since)));
    let base = crate::base::RocksBase::open(folder, layout, &config.operators, &config.budget)?;
    Ok(Box::new(base))
}

#[cfg(not(feature = "rocksdb"))]
fn rocks_base(_: &StateConfig, _: &StateSchema, _: &[OperatorRef]) -> Result<Box<dyn Base>> {
    Err(Error::invalid(
        "this build has no RocksDB; build with the feature rocksdb, or set \
         spark.sql.streaming.stateStore.providerClass to memory",
    ))
}

fn check_labels(operators: &[OperatorSpec]) -> Result<()> {
    for (index, spec) in operators.iter().enumerate() {
        if operators.iter().skip(index + 1).any(|other| other.label == spec.label) {
            return Err(Error::invalid(format!(
                "two stateful operators are named '{}'; give each its own name",
                spec.label
            )));
        }
    }
    Ok(())
}

/// What became of each operator's state between a version and the operators that are to go on
/// with it.
///
/// # Errors
/// Corrupt, when the schema file of that version is missing or damaged.
pub async fn plan(
    store: &dyn Store,
    at: &StateRef,
    new: &[OperatorSpec],
) -> Result<Vec<OperatorChange>> {
    Ok(compare(&read_schema(store, at.schema).await?, new))
}

/// The labels of operators whose old state is to be dropped.
async fn check_compatible(config: &StateConfig, at: &StateRef) -> Result<Vec<String>> {
    let mut empty = Vec::new();
    let mut refused = Vec::new();
    for change in plan(config.store.as_ref(), at, &config.operators).await? {
        match change.change {
            Change::Incompatible(_) if config.discard.contains(&change.label) => {
                empty.push(change.label);
            }
            Change::Incompatible(why) => {
                refused.push(format!("operator '{}': {}", change.label, why.join("; ")));
            }
            Change::Added | Change::Unchanged | Change::Compatible(_) | Change::Removed => {}
        }
    }
    if refused.is_empty() {
        return Ok(empty);
    }
    Err(Error::invalid(format!(
        "the state of the checkpoint does not fit the query any more ({}); run the query as it was, \
         look at 'onefold checkpoint plan', or accept that the state of these operators is dropped",
        refused.join("), (")
    )))
}

#[cfg(test)]
mod tests {
    use super::Provider;

    #[test]
    fn short_names_and_class_names_choose_the_provider() {
        let spark = "org.apache.spark.sql.execution.streaming.state";
        let of = |name: &str| name.parse::<Provider>().unwrap();
        assert_eq!(of("RocksDB"), Provider::RocksDb);
        assert_eq!(of(&format!("{spark}.RocksDBStateStoreProvider")), Provider::RocksDb);
        assert_eq!(of(&format!("{spark}.HDFSBackedStateStoreProvider")), Provider::Memory);
        assert!("leveldb".parse::<Provider>().unwrap_err().to_string().contains("rocksdb"));
    }
}
