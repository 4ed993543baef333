//! Where a row of state belongs.

use crate::KeyGroup;

/// A family of an operator, by their places in the specs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) operator: usize,
    pub(crate) family: usize,
}

/// A row that is there, or the fact that it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) group: KeyGroup,
    pub(crate) key: Box<[u8]>,
    /// `None`: removed.
    pub(crate) value: Option<Box<[u8]>>,
}

/// As [`Written`], borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrittenRef<'a> {
    pub(crate) group: KeyGroup,
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
    /// Whether the version before has a row of that key.
    pub(crate) existed: bool,
}

impl WrittenRef<'_> {
    /// A copy with its own bytes.
    pub(crate) fn owned(self) -> Written {
        Written { group: self.group, key: self.key.into(), value: self.value.map(Into::into) }
    }
}

impl Written {
    /// Of a row of which nothing is known but itself.
    pub(crate) fn borrow(&self) -> WrittenRef<'_> {
        let (group, key, value) = (self.group, &*self.key, self.value.as_deref());
        WrittenRef { group, key, value, existed: true }
    }
}
