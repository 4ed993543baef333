//! Exact numbers of rows and bytes for each family and key group.

use crate::place::Place;
use crate::{KEY_GROUPS, KeyGroup, OperatorSpec};
use std::ops::Range;

/// Rows and bytes (of keys and values).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// How a count changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) rows: i64,
    pub(crate) bytes: i64,
}

impl Change {
    /// The change by a row of `key` bytes going from a value of `old` bytes (or none) to `new`.
    pub(crate) fn of(key: usize, old: Option<usize>, new: Option<usize>) -> Self {
        let size = |value: Option<usize>| value.map_or(0, |value| signed(key + value));
        Change {
            rows: i64::from(new.is_some()) - i64::from(old.is_some()),
            bytes: size(new) - size(old),
        }
    }

    pub(crate) fn add(&mut self, other: Change) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

impl Count {
    pub(crate) fn change(&mut self, change: Change) {
        self.rows = self.rows.saturating_add_signed(change.rows);
        self.bytes = self.bytes.saturating_add_signed(change.bytes);
    }
}

/// No row is nearly as long as an `i64` can tell.
fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The counts of one family, one for each key group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FamilyCounts {
    groups: Vec<Count>,
}

impl Default for FamilyCounts {
    fn default() -> Self {
        FamilyCounts { groups: vec![Count::default(); KEY_GROUPS as usize] }
    }
}

impl FamilyCounts {
    pub(crate) fn group(&self, group: KeyGroup) -> Count {
        self.groups.get(usize::from(group)).copied().unwrap_or_default()
    }

    #[cfg(feature = "rocksdb")]
    pub(crate) fn set(&mut self, group: KeyGroup, count: Count) {
        if let Some(slot) = self.groups.get_mut(usize::from(group)) {
            *slot = count;
        }
    }

    pub(crate) fn change(&mut self, group: KeyGroup, change: Change) {
        if let Some(count) = self.groups.get_mut(usize::from(group)) {
            count.change(change);
        }
    }

    /// The sum over key groups.
    pub(crate) fn total(&self, groups: Range<u32>) -> Count {
        let wanted = groups.filter_map(|group| u8::try_from(group).ok());
        wanted.map(|group| self.group(group)).fold(Count::default(), |sum, count| Count {
            rows: sum.rows + count.rows,
            bytes: sum.bytes + count.bytes,
        })
    }

    pub(crate) fn all(&self) -> Count {
        self.total(0..KEY_GROUPS)
    }
}

/// The counts of all families of all operators, by place in the specs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    operators: Vec<Vec<FamilyCounts>>,
}

impl Counts {
    pub(crate) fn empty(operators: &[OperatorSpec]) -> Self {
        let families = |spec: &OperatorSpec| vec![FamilyCounts::default(); spec.families.len()];
        Counts { operators: operators.iter().map(families).collect() }
    }

    pub(crate) fn clear(&mut self) {
        self.operators.iter_mut().flatten().for_each(|family| *family = FamilyCounts::default());
    }

    /// Takes changes over.
    pub(crate) fn change_all(&mut self, changes: &[(Place, KeyGroup, Change)]) {
        for (place, group, change) in changes {
            if let Some(family) = self.family_mut(place.operator, place.family) {
                family.change(*group, *change);
            }
        }
    }

    pub(crate) fn family(&self, operator: usize, family: usize) -> Option<&FamilyCounts> {
        self.operators.get(operator)?.get(family)
    }

    pub(crate) fn family_mut(
        &mut self,
        operator: usize,
        family: usize,
    ) -> Option<&mut FamilyCounts> {
        self.operators.get_mut(operator)?.get_mut(family)
    }
}
