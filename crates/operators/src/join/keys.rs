//! The distinct join keys of a batch.

use datafusion::common::HashMap;
use onefold_state::KeyGroup;

/// A distinct join key of the batch, by the order in which it was first seen.
pub(super) type KeyId = usize;

/// Numbers the distinct keys of both sides.
#[derive(Debug, Default)]
pub(super) struct KeyTable {
    ids: HashMap<Box<[u8]>, KeyId>,
    keys: Vec<Key>,
}

/// A distinct join key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) bytes: Box<[u8]>,
    pub(super) group: KeyGroup,
}

impl KeyTable {
    pub(super) fn id(&mut self, bytes: &[u8], group: KeyGroup) -> KeyId {
        if let Some(id) = self.ids.get(bytes) {
            return *id;
        }
        let id = self.keys.len();
        self.ids.insert(bytes.into(), id);
        self.keys.push(Key { bytes: bytes.into(), group });
        id
    }

    pub(super) fn get(&self, id: KeyId) -> Option<&Key> {
        self.keys.get(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (KeyId, &Key)> {
        self.keys.iter().enumerate()
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }
}
