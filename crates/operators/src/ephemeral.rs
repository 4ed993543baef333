//! State that lives as long as one run over static rows: what an operator with state works on
//! where there is no stream.

use onefold_state::{
    BatchState, KeyGroup, OperatorId, PartitionState, RowVisitor, StateRow, groups_of,
};
use onefold_types::Result;
use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, Range};

/// Empty state in memory, which nobody keeps.
#[derive(Debug)]
pub struct EphemeralState {
    partitions: u32,
}

impl EphemeralState {
    /// State of that many partitions, at least one.
    #[must_use]
    pub fn new(partitions: u32) -> Self {
        EphemeralState { partitions: partitions.max(1) }
    }
}

impl BatchState for EphemeralState {
    fn partitions(&self) -> u32 {
        self.partitions
    }

    fn open(&self, _: OperatorId, partition: u32) -> Result<Box<dyn PartitionState>> {
        let groups = groups_of(partition, self.partitions);
        Ok(Box::new(Partition { groups, tables: HashMap::new() }))
    }
}

type Table = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// One partition; its tables are by family and key group.
#[derive(Debug)]
struct Partition {
    groups: Range<u32>,
    tables: HashMap<(usize, KeyGroup), Table>,
}

impl PartitionState for Partition {
    fn groups(&self) -> Range<u32> {
        self.groups.clone()
    }

    fn get(&mut self, family: usize, keys: &[(KeyGroup, &[u8])]) -> Result<Vec<Option<Box<[u8]>>>> {
        let found = |(group, key): &(KeyGroup, &[u8])| {
            self.tables.get(&(family, *group)).and_then(|table| table.get(*key)).cloned()
        };
        Ok(keys.iter().map(found).collect())
    }

    fn put(&mut self, family: usize, group: KeyGroup, key: &[u8], value: &[u8]) -> Result<()> {
        self.tables.entry((family, group)).or_default().insert(key.into(), value.into());
        Ok(())
    }

    fn remove(&mut self, family: usize, group: KeyGroup, key: &[u8]) -> Result<()> {
        if let Some(table) = self.tables.get_mut(&(family, group)) {
            table.remove(key);
        }
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
        let Some(table) = self.tables.get(&(family, group)) else { return Ok(Vec::new()) };
        let below = |key: &[u8]| match to {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        };
        let rows = table.range::<[u8], _>((from, Bound::Unbounded));
        let rows = rows.take_while(|(key, _)| below(key)).take(limit);
        Ok(rows.map(|(key, value)| StateRow { key: key.clone(), value: value.clone() }).collect())
    }

    fn for_each(&mut self, family: usize, each: &mut RowVisitor<'_>) -> Result<()> {
        for ((own, group), table) in &self.tables {
            if *own == family {
                for (key, value) in table {
                    each(*group, key, value)?;
                }
            }
        }
        Ok(())
    }

    fn rows(&self, family: usize) -> u64 {
        let tables = self.tables.iter().filter(|((own, _), _)| *own == family);
        tables.map(|(_, table)| size(table)).sum()
    }

    fn rows_in(&self, family: usize, group: KeyGroup) -> u64 {
        self.tables.get(&(family, group)).map_or(0, size)
    }
}

fn size(table: &Table) -> u64 {
    u64::try_from(table.len()).unwrap_or(u64::MAX)
}
