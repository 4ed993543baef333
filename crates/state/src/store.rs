//! The state of a query from batch to batch.

use crate::base::{Base, BaseVersion, MemoryBase, Writes, WrittenRows};
use crate::batch::{Prepared, partitions_of};
use crate::budget::MemoryBudget;
use crate::changelog::{self, Heading};
use crate::counts::Change;
use crate::durable::Durable;
use crate::overlay::Overlay;
use crate::place::Place;
use crate::state_ref::{OperatorRef, operator_refs};
use crate::{KEY_GROUPS, KeyGroup, OperatorId, OperatorSpec, StateBatch, StateRef};
use onefold_types::{BatchId, Error, Result};
use std::sync::Arc;

/// The state of all operators of a query, at the version that the last batch left.
///
/// For each batch: [`begin`](StateStore::begin), let the operators work,
/// [`prepare`](StateStore::prepare), keep the [`StateRef`] in the prepared record, publish, commit,
/// [`apply`](StateStore::apply). A batch that fails is dropped instead.
#[derive(Debug)]
pub struct StateStore {
    operators: Arc<Vec<OperatorSpec>>,
    partitions: u32,
    budget: MemoryBudget,
    at: BaseVersion,
    base: Arc<dyn Base>,
    /// `None`: in memory only.
    durable: Option<Durable>,
}

/// What an operator's state amounts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorReport {
    /// The operator's number.
    pub id: OperatorId,
    /// Its stable name.
    pub label: String,
    /// Rows of its counted families.
    pub rows: u64,
    /// Bytes of keys and values of all its families.
    pub bytes: u64,
    /// Partitions that it has in this run.
    pub partitions: u32,
    /// Its families.
    pub families: Vec<FamilyReport>,
}

/// What a family amounts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyReport {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

impl StateStore {
    /// An empty state that lives in memory only and forgets all at the end of the process: for
    /// tests of operators.
    ///
    /// # Errors
    /// Invalid, when there are no or too many partitions.
    pub fn in_memory(operators: Vec<OperatorSpec>, partitions: u32) -> Result<Self> {
        check_partitions(partitions)?;
        let budget = MemoryBudget::unlimited();
        let base = Arc::new(MemoryBase::new(&operators, &budget));
        let operators = Arc::new(operators);
        let at = BaseVersion::default();
        Ok(StateStore { operators, partitions, budget, at, base, durable: None })
    }

    pub(crate) fn with(
        durable: Durable,
        budget: MemoryBudget,
        at: BaseVersion,
        base: Arc<dyn Base>,
    ) -> Self {
        let operators = Arc::clone(&durable.specs);
        let partitions = durable.partitions;
        StateStore { operators, partitions, budget, at, base, durable: Some(durable) }
    }

    /// The version of the state: the number of the next batch.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.at.version
    }

    /// Starts a batch on the newest version.
    ///
    /// # Errors
    /// Internal, when the state is not what the batch before left; Invalid, when state in memory has
    /// grown over the budget.
    pub fn begin(&self, batch: BatchId) -> Result<Arc<StateBatch>> {
        if batch.0 != self.at.version {
            let version = self.at.version;
            let text = format!("batch {batch} cannot start from version {version} of the state");
            return Err(Error::internal(text));
        }
        self.base.has_room()?;
        let operators = Arc::clone(&self.operators);
        let base = Arc::clone(&self.base);
        let budget = self.budget.clone();
        Ok(Arc::new(StateBatch::new(batch, self.partitions, operators, budget, base)))
    }

    /// Makes what a batch wrote durable (S4), before it is published: one file, or none if it wrote
    /// nothing. Calling it again gives the same answer.
    ///
    /// # Errors
    /// Internal, when the batch is not the next one or is still open somewhere. Otherwise the
    /// store's; Unknown needs a new generation, under which the batch runs again.
    pub async fn prepare(&self, batch: &StateBatch) -> Result<StateRef> {
        self.check_next(batch)?;
        if let Some(prepared) = batch.prepared() {
            return Ok(prepared.state);
        }
        let version = self.at.version + 1;
        let operators = self.counts_with(batch)?;
        let (state, piece) = match &self.durable {
            None => {
                let schema = crate::state_ref::Hash::default();
                let (partitions, pieces) = (self.partitions, Vec::new());
                (StateRef { version, partitions, schema, operators, pieces }, None)
            }
            Some(durable) => {
                let piece = match self.encode(durable, batch).await? {
                    Some(file) => Some(durable.write(version, file).await?),
                    None => {
                        durable.write_schema().await?;
                        None
                    }
                };
                (durable.state_ref(version, operators, piece.clone()), piece)
            }
        };
        batch.set_prepared(Prepared { state: state.clone(), piece });
        Ok(state)
    }

    /// Sorting and packing many rows takes a while, so a thread of its own does it.
    async fn encode(
        &self,
        durable: &Durable,
        batch: &StateBatch,
    ) -> Result<Option<crate::format::Finished>> {
        let overlays = batch.overlays()?;
        let specs = Arc::clone(&self.operators);
        let versions = self.at.version..self.at.version + 1;
        let (generation, schema) = (durable.generation.0, durable.schema.hash.0);
        let work = tokio::task::spawn_blocking(move || {
            let heading = Heading { versions, generation, schema, operators: &specs };
            overlays.with(|overlays| changelog::encode(&overlays, &heading))
        });
        work.await.map_err(|error| {
            Error::internal("packing the changes of the state ended early").because(error)
        })
    }

    /// The numbers of rows and bytes once the batch is applied.
    fn counts_with(&self, batch: &StateBatch) -> Result<Vec<OperatorRef>> {
        let mut counts = self.base.counts().clone();
        for (place, group, change) in batch.overlays()?.with(|overlays| changes(&overlays)) {
            if let Some(family) = counts.family_mut(place.operator, place.family) {
                family.change(group, change);
            }
        }
        let since = |label: &str| {
            let refs = self.durable.iter().flat_map(|durable| &durable.operators);
            refs.into_iter().find(|of| of.label == label).map_or(0, |of| of.since)
        };
        let mut operators = operator_refs(&self.operators, since);
        for (index, operator) in operators.iter_mut().enumerate() {
            for (number, family) in operator.families.iter_mut().enumerate() {
                let count = counts.family(index, number).map(|counts| counts.all());
                let count = count.unwrap_or_default();
                (family.rows, family.bytes) = (count.rows, count.bytes);
            }
        }
        Ok(operators)
    }

    fn check_next(&self, batch: &StateBatch) -> Result<()> {
        if batch.batch().0 == self.at.version {
            return Ok(());
        }
        let (batch, version) = (batch.batch(), self.at.version);
        Err(Error::internal(format!(
            "batch {batch} does not follow version {version} of the state"
        )))
    }

    /// Makes what a batch wrote the newest version, after its commit. Starts a snapshot in the
    /// background when one is due.
    ///
    /// # Errors
    /// Internal, when the batch is not the next one, was applied or not prepared, or is still open
    /// somewhere. Otherwise of the base; the state must then be opened anew.
    pub async fn apply(&mut self, batch: &StateBatch) -> Result<()> {
        self.check_next(batch)?;
        let prepared = batch.prepared();
        if self.durable.is_some() && prepared.is_none() {
            let text = format!("batch {} was not prepared", batch.batch());
            return Err(Error::internal(text));
        }
        let (mut chain, mut piece) = (self.at.chain, None);
        if let Some(prepared) = prepared.filter(|_| self.durable.is_some()) {
            chain = prepared.piece.as_ref().map_or(chain, |piece| piece.chain.0);
            piece = prepared.piece;
        }
        let next = BaseVersion { version: self.at.version + 1, chain };
        let overlays = batch.finish()?;
        let base = Arc::get_mut(&mut self.base)
            .ok_or_else(|| Error::internal("another batch still reads the state"))?;
        let changes = changes(&overlays.iter().collect::<Vec<_>>());
        let rows = WrittenRows::Batch(overlays);
        base.apply(Writes { rows, changes: &changes }, &next)?;
        self.at = next;
        if let Some(durable) = &mut self.durable {
            durable.advance(self.at.version, piece).await;
        }
        Ok(())
    }

    /// Waits for the snapshot that is being made, if any.
    pub async fn finish_snapshot(&mut self) {
        if let Some(durable) = &mut self.durable {
            durable.finish_merge(self.at.version).await;
        }
    }

    /// Removes the files that none of these versions needs. Give all that must stay readable: those
    /// of the batches whose records are kept. What belongs to a batch after the newest of them
    /// stays, since it may not be decided yet.
    ///
    /// # Errors
    /// The store's; calling again later goes on.
    pub async fn purge(&mut self, keep: &[StateRef]) -> Result<()> {
        match &mut self.durable {
            Some(durable) => durable.purge(keep).await,
            None => Ok(()),
        }
    }

    /// Rows and bytes of each operator.
    #[must_use]
    pub fn report(&self) -> Vec<OperatorReport> {
        let report = |(index, spec): (usize, &OperatorSpec)| self.report_of(index, spec);
        self.operators.iter().enumerate().map(report).collect()
    }

    fn report_of(&self, index: usize, spec: &OperatorSpec) -> OperatorReport {
        let mut report = OperatorReport {
            id: spec.id,
            label: spec.label.clone(),
            rows: 0,
            bytes: 0,
            partitions: partitions_of(spec, self.partitions),
            families: Vec::with_capacity(spec.families.len()),
        };
        for (number, family) in spec.families.iter().enumerate() {
            let counts = self.base.counts().family(index, number);
            let count = counts.map(|counts| counts.all()).unwrap_or_default();
            report.rows += if family.counted { count.rows } else { 0 };
            report.bytes += count.bytes;
            let name = family.name.clone();
            report.families.push(FamilyReport { name, rows: count.rows, bytes: count.bytes });
        }
        report
    }
}

/// How a batch changes the numbers of rows and bytes.
fn changes(overlays: &[&Overlay]) -> Vec<(Place, KeyGroup, Change)> {
    let mut changes = Vec::new();
    for overlay in overlays {
        for family in 0..overlay.families() {
            let place = Place { operator: overlay.operator(), family };
            let changed =
                overlay.changes(family).filter(|(_, change)| *change != Change::default());
            changes.extend(changed.map(|(group, change)| (place, group, change)));
        }
    }
    changes
}

/// # Errors
/// Invalid, when there are no or too many partitions.
pub(crate) fn check_partitions(partitions: u32) -> Result<()> {
    if (1..=KEY_GROUPS).contains(&partitions) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "state cannot have {partitions} partitions; set spark.sql.shuffle.partitions to 1 to \
         {KEY_GROUPS}"
    )))
}
