//! The distinct join keys of a batch.

use hashbrown::HashTable;
use onefold_state::KeyGroup;
use std::hash::{BuildHasher, RandomState};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A distinct join key of the batch, by the order in which it was first seen.
pub(super) type KeyId = usize;

/// Numbers the distinct keys of both sides, whose bytes lie one after the other.
#[derive(Debug)]
pub(super) struct KeyTable {
    ids: HashTable<KeyId>,
    bytes: Vec<u8>,
    /// Where the bytes of each key end, and its group.
    keys: Vec<(usize, KeyGroup)>,
    /// So that nobody outside can choose keys that collide.
    seed: u64,
}

/// A distinct join key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) group: KeyGroup,
}

impl Default for KeyTable {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(0_u8);
        KeyTable { ids: HashTable::new(), bytes: Vec::new(), keys: Vec::new(), seed }
    }
}

impl KeyTable {
    pub(super) fn id(&mut self, key: &[u8], group: KeyGroup) -> KeyId {
        let KeyTable { ids, bytes, keys, seed } = self;
        let hash = xxh3_64_with_seed(key, *seed);
        if let Some(id) = ids.find(hash, |id| bytes_of(bytes, keys, *id) == Some(key)) {
            return *id;
        }
        let id = keys.len();
        bytes.extend_from_slice(key);
        keys.push((bytes.len(), group));
        ids.insert_unique(hash, id, |id| {
            xxh3_64_with_seed(bytes_of(bytes, keys, *id).unwrap_or_default(), *seed)
        });
        id
    }

    pub(super) fn get(&self, id: KeyId) -> Option<Key<'_>> {
        let (_, group) = *self.keys.get(id)?;
        Some(Key { bytes: bytes_of(&self.bytes, &self.keys, id)?, group })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (KeyId, Key<'_>)> {
        (0..self.keys.len()).filter_map(|id| Some((id, self.get(id)?)))
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }
}

fn bytes_of<'a>(bytes: &'a [u8], keys: &[(usize, KeyGroup)], id: KeyId) -> Option<&'a [u8]> {
    let start = id.checked_sub(1).map_or(Some(0), |before| Some(keys.get(before)?.0))?;
    bytes.get(start..keys.get(id)?.0)
}
