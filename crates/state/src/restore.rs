//! Reading a version of the state into a base.

use crate::OperatorSpec;
use crate::base::{Base, BaseVersion, Writes, WrittenRows};
use crate::counts::{Change, Counts};
use crate::merge::{Pieces, Wanted};
use crate::piece::ReadError;
use crate::place::{Place, Written, WrittenRef};
use crate::schema::{Convert, read_schema};
use crate::state_ref::{Hash, OperatorRef, Piece, StateRef};
use onefold_storage::Store;
use onefold_types::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A base that lags by more than this is built anew.
const CATCH_UP_BYTES: u64 = 256 << 20;

/// How rows of older schemas become rows of the present one.
#[derive(Debug, Default)]
pub(crate) struct Conversions {
    by_schema: BTreeMap<(u128, Place), Arc<Convert>>,
}

impl Conversions {
    /// Reads the older schemas among those of some files.
    pub(crate) async fn load(
        store: &Arc<dyn Store>,
        pieces: &[Piece],
        present: Hash,
        specs: &[OperatorSpec],
    ) -> Result<Self> {
        let mut conversions = Conversions::default();
        let mut older: Vec<Hash> = pieces.iter().map(|piece| piece.schema).collect();
        older.sort_unstable();
        older.dedup();
        for schema in older.into_iter().filter(|schema| *schema != present) {
            conversions.add(schema, &read_schema(store.as_ref(), schema).await?, specs)?;
        }
        Ok(conversions)
    }

    fn add(&mut self, schema: Hash, old: &[OperatorSpec], new: &[OperatorSpec]) -> Result<()> {
        for (operator, spec) in new.iter().enumerate() {
            let Some(old) = old.iter().find(|old| old.label == spec.label) else { continue };
            for (family, named) in spec.families.iter().enumerate() {
                let Some(old) = old.families.iter().find(|old| old.name == named.name) else {
                    continue;
                };
                if let Some(convert) = Convert::new(old, named)? {
                    let place = Place { operator, family };
                    self.by_schema.insert((schema.0, place), Arc::new(convert));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn of(&self, schema: u128, place: Place) -> Option<Arc<Convert>> {
        self.by_schema.get(&(schema, place)).cloned()
    }

    fn is_empty(&self) -> bool {
        self.by_schema.is_empty()
    }
}

/// What is read, and for whom.
#[derive(Debug)]
pub(crate) struct Restore<'a> {
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) at: &'a StateRef,
    pub(crate) schema: Hash,
    pub(crate) specs: &'a [OperatorSpec],
    /// The same operators, with the versions from which on their rows count.
    pub(crate) operators: &'a [OperatorRef],
}

impl Restore<'_> {
    /// Fills an empty base. A damaged snapshot is replaced by the files that it was made from; the
    /// files that were good are the answer.
    ///
    /// # Errors
    /// Corrupt, when a damaged file cannot be replaced; Invalid, when the memory does not suffice.
    pub(crate) async fn run(&self, base: &mut dyn Base) -> Result<Vec<Piece>> {
        let mut pieces = self.at.pieces.clone();
        loop {
            base.clear()?;
            match self.fill(base, &pieces).await {
                Ok(()) => return Ok(pieces),
                Err(ReadError::Damaged { path, error }) => replace(&mut pieces, &path, error)?,
                Err(ReadError::Other(error)) => return Err(error),
            }
        }
    }

    /// Brings a base that holds an earlier version, from an earlier process, up to this one.
    /// `false`: it is of no use and is to be filled anew.
    pub(crate) async fn catch_up(&self, base: &mut dyn Base) -> bool {
        let Some(held) = base.held().cloned() else { return false };
        let Some(newer) = newer_than(&self.at.pieces, held.chain) else { return false };
        if newer.iter().map(|piece| piece.size).sum::<u64>() > CATCH_UP_BYTES {
            return false;
        }
        match self.add(base, &newer).await.and_then(|()| Ok(self.check(base.counts(), true)?)) {
            Ok(()) => true,
            Err(error) => {
                let error = Error::from(error).chain();
                tracing::warn!("the local state cannot catch up, building it anew: {error}");
                false
            }
        }
    }

    /// Adds what some files changed, oldest first, to a base.
    async fn add(&self, base: &mut dyn Base, pieces: &[Piece]) -> Result<(), ReadError> {
        for piece in pieces {
            let rows = self.rows_of(piece).await?;
            let mut changes = Vec::with_capacity(rows.len());
            let mut borrowed = Vec::with_capacity(rows.len());
            for (place, row) in &rows {
                let old = base.value_length(*place, row.group, &row.key)?;
                let new = row.value.as_ref().map(|value| value.len());
                changes.push((*place, row.group, Change::of(row.key.len(), old, new)));
                borrowed.push((*place, WrittenRef { existed: old.is_some(), ..row.borrow() }));
            }
            let writes = Writes { rows: WrittenRows::File(&borrowed), changes: &changes };
            base.apply(writes, &BaseVersion { version: piece.to, chain: piece.chain.0 })?;
        }
        // Batches that wrote nothing have no file.
        if base.held().is_some_and(|held| held.version != self.at.version) {
            let version = BaseVersion { version: self.at.version, chain: self.at.chain() };
            base.apply(Writes { rows: WrittenRows::File(&[]), changes: &[] }, &version)?;
        }
        Ok(())
    }

    async fn rows_of(&self, piece: &Piece) -> Result<Vec<(Place, Written)>, ReadError> {
        let pieces = std::slice::from_ref(piece);
        let conversions = Conversions::load(self.store, pieces, self.schema, self.specs).await?;
        let open = Pieces::open(self.store, pieces, self.at.partitions).await?;
        let mut rows = Vec::new();
        for (operator, (spec, of)) in self.specs.iter().zip(self.operators).enumerate() {
            for (family, named) in spec.families.iter().enumerate() {
                let place = Place { operator, family };
                let wanted = Wanted { label: &spec.label, family: &named.name, since: of.since };
                let convert = |schema| conversions.of(schema, place);
                let mut merge = open.merge(wanted, true, convert).await?;
                while let Some(row) = merge.next().await? {
                    rows.push((place, row.owned()));
                }
            }
        }
        Ok(rows)
    }

    async fn fill(&self, base: &mut dyn Base, pieces: &[Piece]) -> Result<(), ReadError> {
        let conversions = Conversions::load(self.store, pieces, self.schema, self.specs).await?;
        let open = Pieces::open(self.store, pieces, self.at.partitions).await?;
        for (operator, (spec, of)) in self.specs.iter().zip(self.operators).enumerate() {
            for (family, named) in spec.families.iter().enumerate() {
                let place = Place { operator, family };
                let wanted = Wanted { label: &spec.label, family: &named.name, since: of.since };
                let convert = |schema| conversions.of(schema, place);
                let mut merge = open.merge(wanted, false, convert).await?;
                while let Some(row) = merge.next().await? {
                    base.load(place, row)?;
                }
            }
        }
        self.check(base.counts(), conversions.is_empty())?;
        Ok(())
    }

    /// Compares the numbers of rows and bytes with those that were written.
    fn check(&self, counts: &Counts, same_bytes: bool) -> Result<()> {
        for (operator, (of, spec)) in self.operators.iter().zip(self.specs).enumerate() {
            let written = self
                .at
                .operators
                .iter()
                .find(|written| written.label == of.label && written.since == of.since);
            let Some(written) = written else { continue };
            for (family, named) in spec.families.iter().enumerate() {
                let found = counts.family(operator, family).map(|counts| counts.all());
                let expected = written.families.iter().find(|written| written.name == named.name);
                let (Some(found), Some(expected)) = (found, expected) else { continue };
                if found.rows != expected.rows || (same_bytes && found.bytes != expected.bytes) {
                    return Err(Error::corrupt(format!(
                        "state of operator '{}', family '{}' at version {} has {} rows and {} \
                         bytes instead of {} and {}; go back to an older batch with 'onefold \
                         checkpoint rewind'",
                        of.label,
                        named.name,
                        self.at.version,
                        found.rows,
                        found.bytes,
                        expected.rows,
                        expected.bytes
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The files that hold what came after a version, oldest first. `None`: they hold more or less than
/// that.
fn newer_than(pieces: &[Piece], chain: u128) -> Option<Vec<Piece>> {
    let mut newer = Vec::new();
    for piece in pieces.iter().rev() {
        if piece.chain.0 == chain {
            newer.reverse();
            return Some(newer);
        }
        // The version may lie inside of what a snapshot was made from.
        if let Some(held) = piece.made_from.iter().position(|part| part.chain.0 == chain) {
            newer.extend(piece.made_from.iter().skip(held + 1).rev().cloned());
            newer.reverse();
            return Some(newer);
        }
        newer.push(piece.clone());
    }
    None
}

/// Puts the files that a damaged one was made from in its place.
pub(crate) fn replace(pieces: &mut Vec<Piece>, path: &str, error: Error) -> Result<()> {
    let index = pieces.iter().position(|piece| piece.path == path);
    let parts = index.and_then(|index| pieces.get(index)).map(|piece| piece.made_from.clone());
    match (index, parts) {
        (Some(index), Some(parts)) if !parts.is_empty() => {
            tracing::warn!(
                "{}; reading the {} files that it was made from instead",
                error.chain(),
                parts.len()
            );
            pieces.splice(index..=index, parts);
            Ok(())
        }
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::newer_than;
    use crate::state_ref::{Hash, Piece};

    fn piece(path: &str, chain: u128, made_from: Vec<Piece>) -> Piece {
        Piece {
            path: path.into(),
            from: 0,
            to: 0,
            size: 0,
            rows: 0,
            hash: Hash(0),
            chain: Hash(chain),
            schema: Hash(0),
            made_from,
        }
    }

    #[test]
    fn what_a_lagging_base_lacks_is_found_even_inside_a_snapshot() {
        let log = |chain: u128| piece(&format!("changes/{chain}"), chain, Vec::new());
        let snapshot = piece("snapshots/5", 5, vec![log(3), log(4), log(5)]);
        let pieces = [piece("snapshots/2", 2, vec![log(1), log(2)]), snapshot, log(6)];
        let found = |chain| {
            let newer = newer_than(&pieces, chain)?;
            Some(newer.iter().map(|piece| piece.path.clone()).collect::<Vec<_>>())
        };
        assert_eq!(found(6), Some(Vec::new()));
        assert_eq!(found(5).unwrap(), ["changes/6"]);
        assert_eq!(found(4).unwrap(), ["changes/5", "changes/6"]);
        assert_eq!(found(2).unwrap(), ["snapshots/5", "changes/6"]);
        assert_eq!(found(1).unwrap(), ["changes/2", "snapshots/5", "changes/6"]);
        assert_eq!(found(0), None);
        assert_eq!(newer_than(&[], 7), None);
    }
}
