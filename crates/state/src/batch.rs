//! What one batch does to the state, until it is applied or dropped.

use crate::base::Base;
use crate::budget::MemoryBudget;
use crate::overlay::Overlay;
use crate::partition::OpenPartition;
use crate::state_ref::Piece;
use crate::{
    BatchState, KEY_GROUPS, OperatorId, OperatorSpec, PartitionState, StateRef, groups_of,
};
use onefold_types::{BatchId, Error, Result};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the overlay of one operator in one partition is.
#[derive(Debug)]
enum Slot {
    /// Not opened yet.
    Unopened,
    /// With an operator.
    Open,
    /// Handed back.
    Done(Overlay),
}

/// The slots of a batch, by operator and partition.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Mutex<Vec<Slot>>,
}

impl Slots {
    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn give_back(&self, slot: usize, overlay: Overlay) {
        if let Some(slot) = self.lock().get_mut(slot) {
            *slot = Slot::Done(overlay);
        }
    }
}

/// The state of a batch: the version it starts from and its own writes. Dropping it, unapplied,
/// forgets the writes.
#[derive(Debug)]
pub struct StateBatch {
    batch: BatchId,
    partitions: u32,
    operators: Arc<Vec<OperatorSpec>>,
    budget: MemoryBudget,
    slots: Arc<Slots>,
    /// The first slot of each operator.
    first: Vec<usize>,
    /// `None` once the batch is over.
    base: Mutex<Option<Arc<dyn Base>>>,
    prepared: Mutex<Option<Prepared>>,
}

/// What was made durable of a batch.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) state: StateRef,
    /// Its changelog; `None` if it wrote nothing.
    pub(crate) piece: Option<Piece>,
}

/// What a batch wrote, to be looked at.
#[derive(Debug)]
pub(crate) struct Overlays {
    slots: Arc<Slots>,
}

impl Overlays {
    pub(crate) fn with<T>(&self, look: impl FnOnce(Vec<&Overlay>) -> T) -> T {
        let slots = self.slots.lock();
        let done = slots.iter().filter_map(|slot| match slot {
            Slot::Done(overlay) => Some(overlay),
            Slot::Unopened | Slot::Open => None,
        });
        look(done.collect())
    }
}

/// How many partitions an operator has.
pub(crate) fn partitions_of(spec: &OperatorSpec, partitions: u32) -> u32 {
    if spec.single { 1 } else { partitions }
}

impl StateBatch {
    pub(crate) fn new(
        batch: BatchId,
        partitions: u32,
        operators: Arc<Vec<OperatorSpec>>,
        budget: MemoryBudget,
        base: Arc<dyn Base>,
    ) -> Self {
        let mut first = Vec::with_capacity(operators.len());
        let mut slots = Vec::new();
        for spec in operators.iter() {
            first.push(slots.len());
            slots.extend((0..partitions_of(spec, partitions)).map(|_| Slot::Unopened));
        }
        let slots = Arc::new(Slots { slots: Mutex::new(slots) });
        let base = Mutex::new(Some(base));
        let prepared = Mutex::new(None);
        StateBatch { batch, partitions, operators, budget, slots, first, base, prepared }
    }

    /// The batch's number, which is also the version of the state that it starts from.
    #[must_use]
    pub fn batch(&self) -> BatchId {
        self.batch
    }

    fn base(&self) -> MutexGuard<'_, Option<Arc<dyn Base>>> {
        self.base.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The overlays of the partitions that were opened.
    ///
    /// # Errors
    /// Internal, while an operator has one open, or when the batch is over.
    pub(crate) fn overlays(&self) -> Result<Overlays> {
        if self.base().is_none() {
            return Err(self.over());
        }
        if self.slots.lock().iter().any(|slot| matches!(slot, Slot::Open)) {
            return Err(self.still_open());
        }
        Ok(Overlays { slots: Arc::clone(&self.slots) })
    }

    /// What [`StateStore::prepare`](crate::StateStore::prepare) made of it.
    pub(crate) fn prepared(&self) -> Option<Prepared> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From here on nothing may be written.
    pub(crate) fn set_prepared(&self, prepared: Prepared) {
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = Some(prepared);
    }

    /// Ends the batch and takes its writes.
    ///
    /// # Errors
    /// As [`StateBatch::overlays`].
    pub(crate) fn finish(&self) -> Result<Vec<Overlay>> {
        let mut base = self.base();
        if base.is_none() {
            return Err(self.over());
        }
        let mut slots = self.slots.lock();
        if slots.iter().any(|slot| matches!(slot, Slot::Open)) {
            return Err(self.still_open());
        }
        *base = None;
        let taken = slots.drain(..).filter_map(|slot| match slot {
            Slot::Done(overlay) => Some(overlay),
            Slot::Unopened | Slot::Open => None,
        });
        Ok(taken.collect())
    }

    fn over(&self) -> Error {
        Error::internal(format!("the state of batch {} was applied already", self.batch))
    }

    fn still_open(&self) -> Error {
        Error::internal(format!("an operator still has state of batch {} open", self.batch))
    }
}

impl BatchState for StateBatch {
    fn partitions(&self) -> u32 {
        self.partitions
    }

    fn open(&self, operator: OperatorId, partition: u32) -> Result<Box<dyn PartitionState>> {
        let found = self.operators.iter().enumerate().find(|(_, spec)| spec.id == operator);
        let missing = || Error::internal(format!("no stateful operator {operator}"));
        let (index, spec) = found.ok_or_else(missing)?;
        let partitions = partitions_of(spec, self.partitions);
        if partition >= partitions {
            let text = format!("operator {operator} has {partitions} partitions, no {partition}");
            return Err(Error::internal(text));
        }
        let base = self.base().clone().ok_or_else(|| self.over())?;
        if self.prepared().is_some() {
            return Err(Error::internal(format!("batch {} was prepared already", self.batch)));
        }
        let number = self.first.get(index).copied().unwrap_or(0) + partition as usize;
        match self.slots.lock().get_mut(number) {
            Some(slot @ Slot::Unopened) => *slot = Slot::Open,
            _ => {
                let text = format!("partition {partition} of operator {operator} was opened twice");
                return Err(Error::internal(text));
            }
        }
        let groups = groups(partition, partitions);
        let overlay = Overlay::new(index, spec, groups, self.budget.share());
        let slots = Arc::clone(&self.slots);
        Ok(Box::new(OpenPartition::new(base, spec.clone(), slots, number, overlay)))
    }
}

/// The key groups of a partition; a single partition has all.
fn groups(partition: u32, partitions: u32) -> Range<u32> {
    if partitions == 1 { 0..KEY_GROUPS } else { groups_of(partition, partitions) }
}
