//! A checkpoint, a state in it, and a plain map that says what the state must be.

use crate::specs::operators;
use onefold_state::{
    BatchState, MemoryBudget, OperatorSpec, PartitionState, Provider, SnapshotPolicy, StateBatch,
    StateConfig, StateRef, StateStore, partition_of,
};
use onefold_storage::Store;
use onefold_testkit::MemoryStore;
use onefold_types::{BatchId, Generation, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Operator, family, key group, key.
pub type Row = (u32, usize, u8, Vec<u8>);

/// What must be there.
pub type Model = BTreeMap<Row, Vec<u8>>;

pub fn config(store: Arc<dyn Store>, generation: u64) -> StateConfig {
    StateConfig {
        store,
        operators: operators(),
        partitions: 2,
        generation: Generation(generation),
        provider: Provider::Memory,
        budget: MemoryBudget::unlimited(),
        local_dir: None,
        snapshots: SnapshotPolicy { changelogs: 3, bytes: 1 << 40 },
        discard: Vec::new(),
        start: 0,
    }
}

/// Which partition of an operator a key group is in.
pub fn partition(specs: &[OperatorSpec], operator: u32, group: u8, partitions: u32) -> u32 {
    let spec = specs.iter().find(|spec| spec.id == operator).unwrap();
    if spec.single { 0 } else { partition_of(group, partitions) }
}

/// All partitions of a batch, opened when first needed.
pub struct Opened<'a> {
    pub batch: &'a StateBatch,
    specs: Vec<OperatorSpec>,
    open: BTreeMap<(u32, u32), Box<dyn PartitionState>>,
}

impl<'a> Opened<'a> {
    pub fn new(batch: &'a StateBatch, specs: Vec<OperatorSpec>) -> Self {
        Opened { batch, specs, open: BTreeMap::new() }
    }

    pub fn at(&mut self, operator: u32, group: u8) -> &mut dyn PartitionState {
        let partition = partition(&self.specs, operator, group, self.batch.partitions());
        let open = || self.batch.open(operator, partition).unwrap();
        self.open.entry((operator, partition)).or_insert_with(open).as_mut()
    }

    pub fn write(&mut self, row: &Row, value: Option<&[u8]>) -> Result<()> {
        let (operator, family, group, key) = row;
        let state = self.at(*operator, *group);
        match value {
            Some(value) => state.put(*family, *group, key, value),
            None => state.remove(*family, *group, key),
        }
    }
}

/// All rows of a state, read partition by partition in a batch that is then dropped.
pub fn contents(store: &StateStore, specs: &[OperatorSpec]) -> Result<Model> {
    let batch = store.begin(BatchId(store.version()))?;
    let mut model = Model::new();
    for spec in specs {
        let partitions = if spec.single { 1 } else { batch.partitions() };
        for partition in 0..partitions {
            let mut state = batch.open(spec.id, partition)?;
            for family in 0..spec.families.len() {
                let mut rows = 0;
                state.for_each(family, &mut |group, key, value| {
                    let row = (spec.id, family, group, key.to_vec());
                    assert!(model.insert(row, value.to_vec()).is_none(), "a row came twice");
                    rows += 1;
                    Ok(())
                })?;
                assert_eq!(state.rows(family), rows);
            }
        }
    }
    Ok(model)
}

/// A query that keeps counters: each batch writes some rows.
pub struct World {
    pub store: MemoryStore,
    pub config: StateConfig,
    pub state: StateStore,
    pub model: Model,
    pub refs: Vec<StateRef>,
}

impl World {
    pub async fn new() -> Self {
        let store = MemoryStore::default();
        let config = config(Arc::new(store.clone()), 1);
        let state = StateStore::open(config.clone(), None).await.unwrap();
        World { store, config, state, model: Model::new(), refs: Vec::new() }
    }

    /// Runs a batch that makes these changes.
    pub async fn batch(&mut self, changes: &[(Row, Option<&[u8]>)]) {
        let batch = self.state.begin(BatchId(self.state.version())).unwrap();
        let mut opened = Opened::new(&batch, self.config.operators.clone());
        for (row, value) in changes {
            opened.write(row, *value).unwrap();
            match value {
                Some(value) => self.model.insert(row.clone(), value.to_vec()),
                None => self.model.remove(row),
            };
        }
        drop(opened);
        self.refs.push(self.state.prepare(&batch).await.unwrap());
        self.state.apply(&batch).await.unwrap();
    }

    /// Runs so many batches, each of which touches 20 rows of some 60.
    pub async fn batches(&mut self, count: u64) {
        for _ in 0..count {
            let number = self.state.version();
            let value = format!("of batch {number}").into_bytes();
            let change = |step: u64| {
                let key = (number * 7 + step * 3) % 60;
                let group = u8::try_from(key * 4).unwrap();
                let family = usize::try_from(key % 2).unwrap();
                let row = (0, family, group, format!("key {key}").into_bytes());
                (row, (step % 5 != 4).then_some(&*value))
            };
            let mut changes: Vec<_> = (0..20).map(change).collect();
            changes.push(((1, 0, 200, b"total".to_vec()), Some(&*value)));
            self.batch(&changes).await;
        }
    }

    /// Starts again from the newest version, as a new driver.
    pub async fn restart(&mut self) -> Result<()> {
        self.config.generation = self.config.generation.next();
        self.state = StateStore::open(self.config.clone(), self.refs.last()).await?;
        Ok(())
    }

    pub fn check(&self) {
        let found = contents(&self.state, &self.config.operators).unwrap();
        assert_eq!(found, self.model);
        let (rows, bytes) = self.model.iter().fold((0, 0), |(rows, bytes), (row, value)| {
            (rows + 1, bytes + (row.3.len() + value.len()) as u64)
        });
        let report = self.state.report();
        assert_eq!(report.iter().map(|it| it.rows).sum::<u64>(), rows);
        assert_eq!(report.iter().map(|it| it.bytes).sum::<u64>(), bytes);
    }
}
