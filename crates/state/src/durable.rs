//! The files of a state: which there are, which are needed, and the merges that run meanwhile.

use crate::format::Finished;
use crate::piece::ReadError;
use crate::schema::StateSchema;
use crate::snapshot::{Job, SnapshotPolicy, due};
use crate::state_ref::{
    FOLDER, Hash, OperatorRef, Piece, StateRef, chain, changelog_name, parse_name, schema_path,
};
use crate::{OperatorSpec, restore};
use bytes::Bytes;
use onefold_storage::{Durability, Recorded, Store, create_record};
use onefold_types::{Error, Generation, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinHandle;

/// What stands behind a state that outlives its process.
#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) generation: Generation,
    pub(crate) schema: StateSchema,
    pub(crate) partitions: u32,
    pub(crate) specs: Arc<Vec<OperatorSpec>>,
    /// The operators of this run and since when their rows count.
    pub(crate) operators: Vec<OperatorRef>,
    /// The files of the newest version, oldest first.
    pub(crate) lineage: Vec<Piece>,
    pub(crate) policy: SnapshotPolicy,
    schema_written: AtomicBool,
    /// Files that are there, by path, with the version that they leave.
    known: BTreeMap<String, u64>,
    merging: Option<Merging>,
    /// After a failed merge: the version before which none is tried.
    not_before: u64,
}

/// A merge that runs in the background; dropped, it stops.
#[derive(Debug)]
struct Merging {
    path: String,
    task: JoinHandle<Result<Piece, ReadError>>,
}

impl Drop for Merging {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What [`Durable::new`] needs.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) generation: Generation,
    pub(crate) schema: StateSchema,
    pub(crate) partitions: u32,
    pub(crate) specs: Arc<Vec<OperatorSpec>>,
    pub(crate) operators: Vec<OperatorRef>,
    pub(crate) lineage: Vec<Piece>,
    pub(crate) policy: SnapshotPolicy,
}

impl Durable {
    /// Lists the files once, so that later none has to be searched for.
    pub(crate) async fn new(parts: Parts) -> Result<Self> {
        let mut known = BTreeMap::new();
        for entry in parts.store.list_deep(FOLDER, true).await? {
            if let Some((version, generation)) = parse_name(&entry.path) {
                // Files of newer drivers are theirs.
                if generation <= parts.generation.0 {
                    known.insert(entry.path, version);
                }
            } else if entry.path.contains("/schemas/") {
                known.insert(entry.path, 0);
            }
        }
        let Parts { store, generation, schema, partitions, specs, operators, lineage, policy } =
            parts;
        let schema_written = AtomicBool::new(known.contains_key(&schema_path(schema.hash)));
        Ok(Durable {
            store,
            generation,
            schema,
            partitions,
            specs,
            operators,
            lineage,
            policy,
            schema_written,
            known,
            merging: None,
            not_before: 0,
        })
    }

    /// Makes the changelog durable that leaves `version`.
    pub(crate) async fn write(&self, version: u64, file: Finished) -> Result<Piece> {
        self.write_schema().await?;
        let path = changelog_name(version, self.generation.0, file.hash);
        let before = self.lineage.last().map_or(0, |piece| piece.chain.0);
        let piece = Piece {
            path,
            from: version.saturating_sub(1),
            to: version,
            size: file.size,
            rows: file.rows,
            hash: Hash(file.hash),
            chain: Hash(chain(before, file.hash)),
            schema: self.schema.hash,
            made_from: Vec::new(),
        };
        self.create(&piece.full_path(), Bytes::from(file.bytes)).await?;
        Ok(piece)
    }

    pub(crate) async fn write_schema(&self) -> Result<()> {
        if !self.schema_written.load(Ordering::Acquire) {
            self.create(&schema_path(self.schema.hash), self.schema.bytes.clone()).await?;
            self.schema_written.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Creates a file whose name tells its content.
    async fn create(&self, path: &str, bytes: Bytes) -> Result<()> {
        match create_record(self.store.as_ref(), path, bytes, Durability::Now).await? {
            Recorded::Mine => Ok(()),
            Recorded::Theirs(_) => Err(Error::corrupt(format!(
                "{}/{path} does not hold what its name says; remove it and start the query again",
                self.store.url()
            ))),
        }
    }

    /// What a later start needs to read `version`, which these pieces and counts make up.
    pub(crate) fn state_ref(
        &self,
        version: u64,
        operators: Vec<OperatorRef>,
        newest: Option<Piece>,
    ) -> StateRef {
        StateRef {
            version,
            partitions: self.partitions,
            schema: self.schema.hash,
            operators,
            pieces: self.lineage.iter().cloned().chain(newest).collect(),
        }
    }

    /// Takes the changelog of an applied batch into the newest version.
    pub(crate) async fn advance(&mut self, version: u64, newest: Option<Piece>) {
        let schema = schema_path(self.schema.hash);
        if self.schema_written.load(Ordering::Acquire) {
            self.known.entry(schema).or_insert(0);
        }
        if let Some(piece) = newest {
            self.known.insert(piece.full_path(), piece.to);
            self.lineage.push(piece);
        }
        if self.merging.as_ref().is_some_and(|merging| merging.task.is_finished()) {
            self.finish_merge(version).await;
        }
        if self.merging.is_none()
            && version >= self.not_before
            && let Some(start) = due(&self.lineage, self.policy)
        {
            self.start_merge(start);
        }
    }

    fn start_merge(&mut self, start: usize) {
        let job = Job {
            store: Arc::clone(&self.store),
            pieces: self.lineage.iter().skip(start).cloned().collect(),
            oldest: start == 0,
            partitions: self.partitions,
            generation: self.generation,
            schema: self.schema.hash,
            specs: Arc::clone(&self.specs),
            operators: self.operators.clone(),
        };
        if let Ok(path) = job.name() {
            let path = format!("{FOLDER}/{path}");
            self.merging = Some(Merging { path, task: tokio::spawn(job.run()) });
        }
    }

    /// Waits for the merge that runs, if any, and takes its result.
    pub(crate) async fn finish_merge(&mut self, version: u64) {
        let Some(mut merging) = self.merging.take() else { return };
        match (&mut merging.task).await {
            Ok(Ok(piece)) => {
                self.known.insert(piece.full_path(), piece.to);
                self.take_merged(piece);
            }
            Ok(Err(error)) => self.merge_failed(version, error),
            Err(error) => {
                let error = Error::internal("the task that wrote it ended early").because(error);
                self.merge_failed(version, ReadError::Other(error));
            }
        }
    }

    /// Puts a merged file in the place of its parts.
    fn take_merged(&mut self, piece: Piece) {
        let first = piece.made_from.first().map(|part| part.path.clone());
        let start = self.lineage.iter().position(|it| Some(&it.path) == first.as_ref());
        let Some(start) = start else { return };
        let end = start + piece.made_from.len();
        let same = |range: &[Piece]| {
            range.iter().zip(&piece.made_from).all(|(one, two)| one.path == two.path)
        };
        if self.lineage.get(start..end).is_some_and(same) {
            self.lineage.splice(start..end, [piece]);
        }
    }

    /// A snapshot that cannot be made costs nothing but a longer restart.
    fn merge_failed(&mut self, version: u64, error: ReadError) {
        self.not_before = version + self.policy.changelogs as u64;
        let error = match error {
            ReadError::Damaged { path, error } => {
                match restore::replace(&mut self.lineage, &path, error) {
                    Ok(()) => return,
                    Err(error) => error,
                }
            }
            ReadError::Other(error) => error,
        };
        tracing::warn!("no snapshot of the state was made, trying later: {}", error.chain());
    }

    /// Removes files that no kept version needs.
    pub(crate) async fn purge(&mut self, keep: &[StateRef]) -> Result<()> {
        // What leaves a version after the newest kept one may be a batch that is not decided yet.
        let Some(newest) = keep.iter().map(StateRef::version).max() else { return Ok(()) };
        let mut needed: BTreeSet<String> = keep.iter().flat_map(StateRef::paths).collect();
        self.lineage.iter().for_each(|piece| piece.add_paths(&mut needed));
        needed.insert(schema_path(self.schema.hash));
        needed.extend(self.merging.iter().map(|merging| merging.path.clone()));
        let merging = self.merging.as_ref().map(|merging| merging.path.as_str());
        let hidden_of_merge = |path: &str| {
            let name = merging.and_then(|merging| merging.rsplit('/').next());
            name.is_some_and(|name| path.contains(name))
        };
        let gone: Vec<String> = self
            .known
            .iter()
            .filter(|(path, version)| **version <= newest && !needed.contains(*path))
            .filter(|(path, _)| !hidden_of_merge(path))
            .map(|(path, _)| path.clone())
            .collect();
        if !gone.is_empty() {
            self.store.delete_all(&gone).await?;
            gone.iter().for_each(|path| {
                self.known.remove(path);
            });
        }
        Ok(())
    }
}
