//! Runs one operator over batches, with its state in a plain map: restarts, other numbers of
//! partitions and batches that are given up are one call each.

use crate::{EmitMode, OperatorContext, OperatorMetrics};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result as PlanResult;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, collect};
use onefold_state::{
    Access, BatchState, KeyGroup, OperatorId, OperatorSpec, PartitionState, RowVisitor, StateRow,
    groups_of,
};
use onefold_types::{Error, Result};
use std::collections::{BTreeMap, HashSet};
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex};

type Bytes = Box<[u8]>;
/// By family, key group and key.
type Table = BTreeMap<(usize, KeyGroup, Bytes), Bytes>;

/// The state of one operator between batches.
#[derive(Debug)]
pub(crate) struct Harness {
    spec: OperatorSpec,
    pub(crate) partitions: u32,
    table: Table,
    pub(crate) late_ms: Option<i64>,
    pub(crate) evict_ms: Option<i64>,
    pub(crate) batch_time_ms: i64,
    /// Of the last batch.
    pub(crate) metrics: Arc<OperatorMetrics>,
}

impl Harness {
    pub(crate) fn new(spec: OperatorSpec, partitions: u32) -> Self {
        Harness {
            spec,
            partitions,
            table: Table::new(),
            late_ms: None,
            evict_ms: None,
            batch_time_ms: 0,
            metrics: Arc::default(),
        }
    }

    /// Runs a batch and keeps what it wrote.
    pub(crate) fn batch(
        &mut self,
        plan: impl FnOnce(OperatorContext) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> PlanResult<Vec<RecordBatch>> {
        let state = self.begin();
        let rows = self.run(&state, plan)?;
        self.table = state.table.lock().unwrap().clone();
        Ok(rows)
    }

    /// Runs a batch and forgets what it wrote.
    pub(crate) fn abandoned(
        &mut self,
        plan: impl FnOnce(OperatorContext) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> PlanResult<Vec<RecordBatch>> {
        let state = self.begin();
        self.run(&state, plan)
    }

    fn begin(&mut self) -> Arc<TestBatch> {
        self.metrics = Arc::default();
        Arc::new(TestBatch {
            spec: self.spec.clone(),
            partitions: if self.spec.single { 1 } else { self.partitions },
            table: Arc::new(Mutex::new(self.table.clone())),
            opened: Mutex::default(),
        })
    }

    fn run(
        &self,
        state: &Arc<TestBatch>,
        plan: impl FnOnce(OperatorContext) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> PlanResult<Vec<RecordBatch>> {
        let context = OperatorContext {
            id: self.spec.id,
            state: Arc::clone(state) as Arc<dyn BatchState>,
            late_ms: self.late_ms,
            evict_ms: self.evict_ms,
            batch_time_ms: self.batch_time_ms,
            mode: EmitMode::Append,
            metrics: Arc::clone(&self.metrics),
            late_rows: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let plan = plan(context).map_err(crate::failure::external)?;
        let rows = runtime.block_on(collect(plan, Arc::new(TaskContext::default())));
        drop(runtime);
        if rows.is_ok() {
            assert_eq!(self.metrics.partitions(), u64::from(state.partitions));
        }
        rows
    }

    /// Rows of a family.
    pub(crate) fn rows(&self, family: &str) -> usize {
        let place = self.spec.families.iter().position(|own| own.name == family).unwrap();
        self.table.keys().filter(|(family, ..)| *family == place).count()
    }

    /// Rows of all families.
    pub(crate) fn all_rows(&self) -> usize {
        self.table.len()
    }
}

/// Rows as an input of as many partitions as there are lists.
pub(crate) fn input(schema: &SchemaRef, rows: &[Vec<RecordBatch>]) -> Arc<dyn ExecutionPlan> {
    MemorySourceConfig::try_new_exec(rows, Arc::clone(schema), None).unwrap()
}

/// Rows as text, sorted.
pub(crate) fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch.columns().iter().collect();
        let columns: Vec<_> = columns
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let values: Vec<_> =
                columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(values.join(" "));
        }
    }
    rows.sort();
    rows
}

#[derive(Debug)]
struct TestBatch {
    spec: OperatorSpec,
    partitions: u32,
    table: Arc<Mutex<Table>>,
    opened: Mutex<HashSet<u32>>,
}

impl BatchState for TestBatch {
    fn partitions(&self) -> u32 {
        self.partitions
    }

    fn open(&self, operator: OperatorId, partition: u32) -> Result<Box<dyn PartitionState>> {
        assert_eq!(operator, self.spec.id);
        assert!(partition < self.partitions);
        assert!(self.opened.lock().unwrap().insert(partition), "opened twice");
        let groups = groups_of(partition, self.partitions);
        let groups = if self.spec.single { 0..256 } else { groups };
        let whole = self.table.lock().unwrap();
        let own = whole.iter().filter(|((_, group, _), _)| groups.contains(&u32::from(*group)));
        Ok(Box::new(TestPartition {
            spec: self.spec.clone(),
            table: own.map(|(key, value)| (key.clone(), value.clone())).collect(),
            groups,
            whole: Arc::clone(&self.table),
        }))
    }
}

#[derive(Debug)]
struct TestPartition {
    spec: OperatorSpec,
    groups: Range<u32>,
    table: Table,
    whole: Arc<Mutex<Table>>,
}

impl TestPartition {
    fn check(&self, family: usize, group: KeyGroup) -> Result<()> {
        if family >= self.spec.families.len() || !self.groups.contains(&u32::from(group)) {
            return Err(Error::internal(format!("family {family}, key group {group}")));
        }
        Ok(())
    }
}

impl Drop for TestPartition {
    fn drop(&mut self) {
        let mut whole = self.whole.lock().unwrap();
        whole.retain(|(_, group, _), _| !self.groups.contains(&u32::from(*group)));
        whole.append(&mut self.table);
    }
}

impl PartitionState for TestPartition {
    fn groups(&self) -> Range<u32> {
        self.groups.clone()
    }

    fn get(&mut self, family: usize, keys: &[(KeyGroup, &[u8])]) -> Result<Vec<Option<Bytes>>> {
        let found = keys.iter().map(|(group, key)| {
            self.check(family, *group)?;
            Ok(self.table.get(&(family, *group, (*key).into())).cloned())
        });
        found.collect()
    }

    fn put(&mut self, family: usize, group: KeyGroup, key: &[u8], value: &[u8]) -> Result<()> {
        self.check(family, group)?;
        self.table.insert((family, group, key.into()), value.into());
        Ok(())
    }

    fn remove(&mut self, family: usize, group: KeyGroup, key: &[u8]) -> Result<()> {
        self.check(family, group)?;
        self.table.remove(&(family, group, key.into()));
        Ok(())
    }

    fn scan(
        &mut self,
        family: usize,
        group: KeyGroup,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Vec<StateRow>> {
        self.check(family, group)?;
        assert_eq!(self.spec.families[family].access, Access::Ordered);
        let place = |key: &[u8]| (family, group, Bytes::from(key));
        let from = match from {
            Bound::Included(key) => Bound::Included(place(key)),
            Bound::Excluded(key) => Bound::Excluded(place(key)),
            Bound::Unbounded => Bound::Included(place(&[])),
        };
        let within = |key: &[u8]| match to {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        };
        let rows = self.table.range((from, Bound::Unbounded));
        let rows =
            rows.take_while(|((own, at, key), _)| *own == family && *at == group && within(key));
        let rows = rows
            .take(limit)
            .map(|((_, _, key), value)| StateRow { key: key.clone(), value: value.clone() });
        Ok(rows.collect())
    }

    fn for_each(&mut self, family: usize, each: &mut RowVisitor<'_>) -> Result<()> {
        for ((_, group, key), value) in self.table.iter().filter(|((own, ..), _)| *own == family) {
            each(*group, key, value)?;
        }
        Ok(())
    }

    fn rows(&self, family: usize) -> u64 {
        self.table.keys().filter(|(own, ..)| *own == family).count() as u64
    }

    fn rows_in(&self, family: usize, group: KeyGroup) -> u64 {
        self.table.keys().filter(|(own, at, _)| *own == family && *at == group).count() as u64
    }
}
