//! Snapshots: several files merged into one, in the background.
//!
//! A snapshot need not be of the whole state. Files are merged the newest first, and an older
//! snapshot joins only when it is not much larger than what is merged into it: so each row is
//! written again a number of times that grows with the logarithm of the state, not with the state,
//! and a restart reads few files. A large changelog is as good as a snapshot: few small ones behind
//! it are no reason to write it again.

use crate::OperatorSpec;
use crate::changelog::Heading;
use crate::format::{BlockBuilder, FOOTER_LENGTH, FileWriter, Finished, Footer};
use crate::merge::{Pieces, Wanted};
use crate::piece::ReadError;
use crate::place::Place;
use crate::restore::Conversions;
use crate::state_ref::{Hash, OperatorRef, Piece, snapshot_name};
use bytes::Bytes;
use onefold_storage::{CreateError, Created, Staged, StagedWriter, Store};
use onefold_types::{Error, Generation, Result};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

/// An older snapshot, or large changelog, joins a merge when it has at most so many times the bytes of what is newer.
const RATIO: u64 = 2;

/// Bytes handed to the store at a time.
const CHUNK: usize = 1 << 20;

/// How often a create of unknown outcome is looked into.
const TRIES: usize = 5;

/// When changelogs are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotPolicy {
    /// When there are so many (`spark.sql.streaming.stateStore.minDeltasForSnapshot`).
    pub changelogs: usize,
    /// Or when they have so many bytes together. One that has so many alone counts as a snapshot.
    pub bytes: u64,
}

impl Default for SnapshotPolicy {
    fn default() -> Self {
        SnapshotPolicy { changelogs: 10, bytes: 64 << 20 }
    }
}

/// From which file on, oldest first, the files are to be merged now; `None`: not yet.
pub(crate) fn due(pieces: &[Piece], policy: SnapshotPolicy) -> Option<usize> {
    let is_small = |piece: &&Piece| piece.is_changelog() && piece.size < policy.bytes;
    let small = pieces.iter().rev().take_while(is_small).count();
    let newest = pieces.last().filter(|piece| piece.is_changelog())?;
    // A large changelog is merged at once with what is not much larger than itself.
    let first = pieces.len() - small.max(1);
    let mut bytes = match small {
        0 => newest.size,
        _ => pieces.iter().skip(first).map(|piece| piece.size).sum(),
    };
    if small > 0 && (small < 2 || (small < policy.changelogs && bytes < policy.bytes)) {
        return None;
    }
    let mut start = first;
    for (index, older) in pieces.iter().enumerate().take(first).rev() {
        if older.size > bytes.saturating_mul(RATIO) {
            break;
        }
        bytes += older.size;
        start = index;
    }
    (start + 1 < pieces.len()).then_some(start)
}

/// A merge to carry out.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) pieces: Vec<Piece>,
    /// Whether nothing is older than these, so that removed rows can be forgotten.
    pub(crate) oldest: bool,
    pub(crate) partitions: u32,
    pub(crate) generation: Generation,
    pub(crate) schema: Hash,
    pub(crate) specs: Arc<Vec<OperatorSpec>>,
    pub(crate) operators: Vec<OperatorRef>,
}

impl Job {
    fn versions(&self) -> Option<(u64, u64)> {
        Some((self.pieces.first()?.from, self.pieces.last()?.to))
    }

    /// Path of the result, below the folder of state: the same for the same input.
    pub(crate) fn name(&self) -> Result<String> {
        let (from, to) = self.versions().ok_or_else(|| Error::internal("nothing to merge"))?;
        let mut input: Vec<u8> = self.schema.0.to_le_bytes().to_vec();
        self.pieces.iter().for_each(|piece| input.extend(piece.hash.0.to_le_bytes()));
        for operator in &self.operators {
            input.extend_from_slice(operator.label.as_bytes());
            input.extend(operator.since.to_le_bytes());
        }
        Ok(snapshot_name(from, to, self.generation.0, xxh3_128(&input)))
    }

    /// Merges, and makes the result durable.
    pub(crate) async fn run(self) -> Result<Piece, ReadError> {
        let path = self.name()?;
        let place = format!("{}/{path}", crate::state_ref::FOLDER);
        let tag = format!("g{}", self.generation);
        let mut staged = self.store.stage_record(&place, &tag).await?;
        let finished = match self.write(staged.as_mut()).await {
            Ok(finished) => finished,
            Err(error) => {
                // What is left is found by the next start; the first error is what matters.
                let _ = staged.abandon().await;
                return Err(error);
            }
        };
        let staged = staged.finish().await?;
        create(self.store.as_ref(), &staged, finished.hash).await?;
        let (from, to) = self.versions().unwrap_or_default();
        let chain = self.pieces.last().map(|piece| piece.chain).unwrap_or_default();
        let plain = |piece: Piece| Piece { made_from: Vec::new(), ..piece };
        Ok(Piece {
            path,
            from,
            to,
            size: finished.size,
            rows: finished.rows,
            hash: Hash(finished.hash),
            chain,
            schema: self.schema,
            made_from: self.pieces.into_iter().map(plain).collect(),
        })
    }

    async fn write(&self, out: &mut dyn StagedWriter) -> Result<Finished, ReadError> {
        let (from, to) = self.versions().unwrap_or_default();
        let heading = Heading {
            versions: from..to,
            generation: self.generation.0,
            schema: self.schema.0,
            operators: &self.specs,
        };
        let mut writer = heading.writer();
        let store = &self.store;
        let conversions = Conversions::load(store, &self.pieces, self.schema, &self.specs).await?;
        let pieces = Pieces::open(store, &self.pieces, self.partitions).await?;
        for (operator, (spec, of)) in self.specs.iter().zip(&self.operators).enumerate() {
            for (family, named) in spec.families.iter().enumerate() {
                let place = Place { operator, family };
                let wanted = Wanted { label: &spec.label, family: &named.name, since: of.since };
                let mut merge = pieces
                    .merge(wanted, !self.oldest, |schema| conversions.of(schema, place))
                    .await?;
                let mut builder = BlockBuilder::new(place);
                while let Some(row) = merge.next().await? {
                    if let Some(block) = builder.add(row.group, row.key, row.value) {
                        writer.push(block);
                        hand_over(&mut writer, out, CHUNK).await?;
                        // Batches come first.
                        tokio::task::yield_now().await;
                    }
                }
                builder.finish().into_iter().for_each(|block| writer.push(block));
            }
        }
        hand_over(&mut writer, out, 1).await?;
        let mut finished = writer.finish();
        out.write(Bytes::from(std::mem::take(&mut finished.bytes))).await?;
        Ok(finished)
    }
}

async fn hand_over(
    writer: &mut FileWriter,
    out: &mut dyn StagedWriter,
    least: usize,
) -> Result<()> {
    if writer.waiting() >= least {
        out.write(Bytes::from(writer.take())).await?;
    }
    Ok(())
}

/// Gives the file its name. A name that is taken is our own earlier try, or damaged.
async fn create(store: &dyn Store, staged: &Staged, hash: u128) -> Result<()> {
    let mut doubt = Error::internal("no try was made");
    for _ in 0..TRIES {
        match store.create_staged(staged).await {
            Ok(Created::New) => return Ok(()),
            Ok(Created::Exists(bytes)) if is_same(&bytes, staged.size, hash) => return Ok(()),
            Ok(Created::Exists(_)) => {
                let path = &staged.path;
                let text = format!("{}/{path} is there with other bytes", store.url());
                return Err(Error::corrupt(text));
            }
            Err(CreateError::NotDone(error)) => return Err(error),
            Err(CreateError::MaybeDone(error)) => doubt = error,
        }
    }
    Err(doubt)
}

fn is_same(bytes: &Bytes, size: u64, hash: u128) -> bool {
    let same = || {
        let end = bytes.len().checked_sub(usize::try_from(FOOTER_LENGTH).ok()?)?;
        let footer = Footer::decode(bytes.get(end..)?, size)?;
        let start = usize::try_from(footer.offset).ok()?;
        Some(xxh3_128(bytes.get(start..end)?) == hash)
    };
    bytes.len() as u64 == size && same() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::{SnapshotPolicy, due};
    use crate::state_ref::{Hash, Piece};

    fn pieces(sizes: &[(&str, u64)]) -> Vec<Piece> {
        let piece = |(folder, size): &(&str, u64)| Piece {
            path: format!("{folder}/x"),
            from: 0,
            to: 1,
            size: *size,
            rows: 0,
            hash: Hash(0),
            chain: Hash(0),
            schema: Hash(0),
            made_from: Vec::new(),
        };
        sizes.iter().map(piece).collect()
    }

    #[test]
    fn changelogs_are_merged_when_they_are_many_or_large() {
        let policy = SnapshotPolicy { changelogs: 3, bytes: 100 };
        assert_eq!(due(&[], policy), None);
        assert_eq!(due(&pieces(&[("changes", 500)]), policy), None);
        assert_eq!(due(&pieces(&[("changes", 5), ("changes", 5)]), policy), None);
        assert_eq!(due(&pieces(&[("changes", 50), ("changes", 50)]), policy), Some(0));
        let three = [("changes", 1), ("changes", 1), ("changes", 1)];
        assert_eq!(due(&pieces(&three), policy), Some(0));
    }

    #[test]
    fn a_snapshot_joins_only_if_it_is_not_much_larger_than_what_is_newer() {
        let policy = SnapshotPolicy { changelogs: 2, bytes: 1 << 40 };
        let new = [("changes", 10), ("changes", 10)];
        let with = |older: &[(&'static str, u64)]| pieces(&[older, &new].concat());
        assert_eq!(due(&with(&[("snapshots", 40)]), policy), Some(0));
        assert_eq!(due(&with(&[("snapshots", 41)]), policy), Some(1));
        assert_eq!(due(&with(&[("snapshots", 120), ("snapshots", 40)]), policy), Some(0));
        assert_eq!(due(&with(&[("snapshots", 121), ("snapshots", 40)]), policy), Some(1));
    }

    #[test]
    fn a_large_changelog_is_not_written_again_for_few_small_ones() {
        let policy = SnapshotPolicy { changelogs: 3, bytes: 100 };
        let of = |sizes: &[u64]| {
            let sizes: Vec<_> = sizes.iter().map(|size| ("changes", *size)).collect();
            due(&pieces(&sizes), policy)
        };
        assert_eq!(of(&[500, 1]), None);
        assert_eq!(of(&[500, 1, 1]), None);
        assert_eq!(of(&[500, 1, 1, 1]), Some(1));
        assert_eq!(of(&[150, 50, 50]), Some(0));
        // Large ones are merged like snapshots.
        assert_eq!(of(&[500, 400]), Some(0));
        assert_eq!(of(&[500, 100]), None);
        assert_eq!(of(&[500, 100, 100]), Some(1));
        assert_eq!(of(&[500, 1, 100]), Some(1));
    }

    #[test]
    fn large_changelogs_alone_stay_few_files() {
        let policy = SnapshotPolicy { changelogs: 10, bytes: 100 };
        let mut all = Vec::new();
        let mut written = 0;
        for _ in 0..1_000 {
            all.extend(pieces(&[("changes", 100)]));
            if let Some(start) = due(&all, policy) {
                let size = all.drain(start..).map(|piece| piece.size).sum();
                all.extend(pieces(&[("snapshots", size)]));
                written += size;
            }
            assert!(all.len() < 12, "{} files", all.len());
        }
        // Each row is written again about as often as the state has doubled.
        assert!(written < 100_000 * 12, "{written}");
    }

    #[test]
    fn bytes_written_grow_with_the_changes_and_not_with_the_state() {
        let policy = SnapshotPolicy::default();
        let mut all = pieces(&[("snapshots", 1_000_000)]);
        let mut written = 0;
        for _ in 0..1_000 {
            all.extend(pieces(&[("changes", 100)]));
            if let Some(start) = due(&all, policy) {
                let size = all.drain(start..).map(|piece| piece.size).sum();
                all.extend(pieces(&[("snapshots", size)]));
                written += size;
            }
            assert!(all.len() < 20, "{} files", all.len());
        }
        // 100,000 bytes of changes in a state of a million.
        assert!(written < 500_000, "{written}");
    }
}
