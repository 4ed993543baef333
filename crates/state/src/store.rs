//! The state of a query from batch to batch.

use crate::base::{Base, BaseVersion, MemoryBase};
use crate::batch::partitions_of;
use crate::budget::MemoryBudget;
use crate::{KEY_GROUPS, OperatorId, OperatorSpec, StateBatch};
use onefold_types::{BatchId, Error, Result};
use std::sync::Arc;

/// The state of all operators of a query, at the version that the last batch left.
#[derive(Debug)]
pub struct StateStore {
    operators: Arc<Vec<OperatorSpec>>,
    partitions: u32,
    budget: MemoryBudget,
    at: BaseVersion,
    base: Arc<dyn Base>,
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
        Ok(StateStore { operators, partitions, budget, at: BaseVersion::default(), base })
    }

    /// The version of the state: the number of the next batch.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.at.version
    }

    /// Starts a batch on the newest version.
    ///
    /// # Errors
    /// Internal, when the state is not what the batch before left.
    pub fn begin(&self, batch: BatchId) -> Result<Arc<StateBatch>> {
        if batch.0 != self.at.version {
            let version = self.at.version;
            let text = format!("batch {batch} cannot start from version {version} of the state");
            return Err(Error::internal(text));
        }
        let operators = Arc::clone(&self.operators);
        let base = Arc::clone(&self.base);
        let budget = self.budget.clone();
        Ok(Arc::new(StateBatch::new(batch, self.partitions, operators, budget, base)))
    }

    /// Makes what a batch wrote the newest version.
    ///
    /// # Errors
    /// Internal, when the batch is not the next one, was applied, or is still open somewhere.
    pub async fn apply(&mut self, batch: &StateBatch) -> Result<()> {
        if batch.batch().0 != self.at.version {
            let (batch, version) = (batch.batch(), self.at.version);
            let text = format!("batch {batch} does not follow version {version} of the state");
            return Err(Error::internal(text));
        }
        let writes = batch.finish()?;
        let next = BaseVersion { version: self.at.version + 1, ..self.at.clone() };
        let base = Arc::get_mut(&mut self.base)
            .ok_or_else(|| Error::internal("another batch still reads the state"))?;
        base.apply(writes, &next)?;
        self.at = next;
        Ok(())
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

/// # Errors
/// Invalid, when there are no or too many partitions.
fn check_partitions(partitions: u32) -> Result<()> {
    if (1..=KEY_GROUPS).contains(&partitions) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "state cannot have {partitions} partitions; set spark.sql.shuffle.partitions to 1 to \
         {KEY_GROUPS}"
    )))
}
