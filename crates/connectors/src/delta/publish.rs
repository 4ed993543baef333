//! Publishing: a batch's commit, behind whatever others commit meanwhile.

use super::commit::{Commit, Remove, Txn};
use super::files::Detail;
use super::known::{self, Known};
use super::mark::{self, Verdict};
use super::shape::Shape;
use super::sink::DeltaSink;
use super::table::commit_path;
use onefold_connector::Attempt;
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_storage::{Durability, Recorded, Staged, create_record};
use onefold_types::{Error, Mark, Published, Result, Totals};
use std::collections::HashSet;
use std::sync::Arc;

/// Commits of others that one batch goes behind before it gives up for now.
const TRIES: usize = 1_000;

/// What a batch wants to commit.
pub(super) struct Wanted<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) detail: Detail,
    pub(super) totals: Totals,
}

impl DeltaSink {
    pub(super) fn published(&self, wanted: &Wanted<'_>) -> Published {
        let Attempt { query, batch, generation } = *wanted.attempt;
        let mark = Mark { query: Some(query), batch, generation: Some(generation) };
        Published { mark, totals: Some(wanted.totals) }
    }

    /// Commits a batch behind whatever others commit meanwhile.
    pub(super) async fn commit(&self, wanted: &Wanted<'_>) -> Result<Published> {
        self.check_newest().await?;
        for _ in 0..TRIES {
            let known = self.known();
            let version = known.version.map_or(0, |version| version + 1);
            let commit = self.commit_behind(&known, wanted, version).await?;
            let path = commit_path(version);
            let bytes = commit.to_bytes()?.into();
            let store = self.table.store.as_ref();
            match create_record(store, &path, bytes, Durability::Now).await? {
                Recorded::Mine => {
                    crash_point(CrashPoint::PublishMarked);
                    return self.committed(wanted, &commit, version).await;
                }
                Recorded::Theirs(bytes) => {
                    let place = format!("{}/{path}", self.table.url());
                    let theirs = Commit::parse(&bytes, &place)?;
                    if let Some(published) = self.behind(wanted, &theirs, version).await? {
                        return Ok(published);
                    }
                }
            }
        }
        Err(Error::unavailable(format!(
            "batch {} was not committed to {}: others commit faster than this query can follow; it \
             tries again",
            wanted.attempt.batch,
            self.table.url()
        )))
    }

    /// What was seen last must still be there: names that a cleanup of the log freed would be taken
    /// for versions that nobody has written yet.
    async fn check_newest(&self) -> Result<()> {
        let Some(version) = self.known().version else { return Ok(()) };
        if self.table.store.stat(&commit_path(version)).await?.is_some() {
            return Ok(());
        }
        let known = known::read(&self.table, self.query).await?;
        if known.version.is_none_or(|newest| newest < version) {
            return Err(Error::corrupt(format!(
                "the log of the table {} ends before version {version}, which was there: the table \
                 was dropped or restored from an older copy; put it back, or replay the query with \
                 a new checkpoint into a new table",
                self.table.url()
            )));
        }
        self.take_in(known)
    }

    /// Goes on from what was read anew. What is staged must fit it.
    fn take_in(&self, known: Known) -> Result<()> {
        let now = self.clock.now_ms();
        let shape = Shape::new(known.facts.as_ref(), &self.rows, &self.options, now)?;
        let mut state = self.state();
        let fits = state.shape.as_ref().is_none_or(|staged| shape.takes_files_of(staged));
        state.known = known;
        state.shape = Some(Arc::new(shape));
        if fits {
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "the columns of the table {} changed while a batch was written for those before; the \
             batch runs again",
            self.table.url()
        )))
    }

    /// The commit of a batch as the given version.
    async fn commit_behind(
        &self,
        known: &Known,
        wanted: &Wanted<'_>,
        version: u64,
    ) -> Result<Commit> {
        let now = self.clock.now_ms();
        let adds = wanted.detail.adds.clone();
        let removes = match known.version {
            Some(version) if self.options.overwrites() => {
                let mut all = known::removals(&self.table, version, now).await?;
                if self.options.by_partition {
                    let with_rows: HashSet<_> =
                        adds.iter().map(|add| add.partition_values.clone()).collect();
                    all.retain(|remove| {
                        remove.partition_values.as_ref().is_some_and(|it| with_rows.contains(it))
                    });
                }
                self.check_removable(known, &all)?;
                all
            }
            _ => Vec::new(),
        };
        let shape = self.shape()?;
        let becomes = shape.becomes.clone();
        let txns = match &self.options.txn {
            Some((app, number)) => {
                vec![Txn { app_id: app.clone(), version: *number, last_updated: Some(now) }]
            }
            None if self.options.one_batch => Vec::new(),
            None => mark::txns(wanted.attempt, version, now)?,
        };
        let mut commit = Commit {
            info: None,
            protocol: becomes.as_ref().and_then(|it| it.protocol.clone()),
            metadata: becomes.map(|it| it.metadata),
            txns,
            adds,
            removes,
            has_cdc: false,
        };
        commit.info = Some(self.described(&commit, wanted, known, now));
        Ok(commit)
    }

    fn check_removable(&self, known: &Known, removes: &[Remove]) -> Result<()> {
        let settings = known.facts.as_ref().map(|facts| &facts.settings);
        let append_only = settings
            .and_then(|it| it.get("delta.appendOnly"))
            .is_some_and(|it| it.eq_ignore_ascii_case("true"));
        if append_only && !removes.is_empty() {
            return Err(Error::invalid(format!(
                "the table {} only takes new rows (delta.appendOnly), but this write replaces those \
                 that are there; append instead, or take that setting off",
                self.table.url()
            )));
        }
        Ok(())
    }

    /// What the history shows of a commit.
    fn described(
        &self,
        commit: &Commit,
        wanted: &Wanted<'_>,
        known: &Known,
        now_ms: i64,
    ) -> serde_json::Map<String, serde_json::Value> {
        use serde_json::json;
        let mode = if self.options.overwrites() { "Overwrite" } else { "Append" };
        let (operation, parameters) = if self.options.one_batch {
            let by = json!(self.options.partition_by).to_string();
            ("WRITE", json!({"mode": mode, "partitionBy": by}))
        } else {
            let Attempt { query, batch, .. } = wanted.attempt;
            let mode = if self.options.overwrites() { "Complete" } else { "Append" };
            let epoch = batch.to_string();
            let query = query.to_string();
            let parameters = json!({"outputMode": mode, "queryId": query, "epochId": epoch});
            ("STREAMING UPDATE", parameters)
        };
        let bytes: i64 = commit.adds.iter().map(|add| add.size).sum();
        let mut info = serde_json::Map::from_iter([
            ("timestamp".to_owned(), json!(now_ms)),
            ("operation".to_owned(), json!(operation)),
            ("operationParameters".to_owned(), parameters),
            ("isolationLevel".to_owned(), json!("WriteSerializable")),
            ("isBlindAppend".to_owned(), json!(!self.options.overwrites())),
            (
                "operationMetrics".to_owned(),
                json!({
                    "numOutputRows": wanted.totals.rows.to_string(),
                    "numOutputBytes": bytes.to_string(),
                    "numAddedFiles": commit.adds.len().to_string(),
                    "numRemovedFiles": commit.removes.len().to_string(),
                }),
            ),
            ("engineInfo".to_owned(), json!(format!("Onefold/{}", env!("CARGO_PKG_VERSION")))),
            // Tells this try from every other one, should its reply be lost.
            ("txnId".to_owned(), json!(uuid::Uuid::new_v4().to_string())),
            mark::note(wanted.totals),
        ]);
        if let Some(version) = known.version {
            info.insert("readVersion".to_owned(), json!(version));
        }
        if let Some(text) = &self.options.user_metadata {
            info.insert("userMetadata".to_owned(), json!(text));
        }
        info
    }

    /// The version is ours.
    async fn committed(
        &self,
        wanted: &Wanted<'_>,
        commit: &Commit,
        version: u64,
    ) -> Result<Published> {
        let published = self.published(wanted);
        let mut known = self.known();
        known.version = Some(version);
        known.mark = Some((published, Some(version)));
        let mut state = self.state();
        if commit.metadata.is_none() {
            state.known = known;
        } else {
            // Read anew when the next batch begins: nothing may fail once the batch is published.
            state.known = Known { facts: None, ..known };
        }
        let interval = state.known.facts.as_ref().map_or(1, |facts| facts.checkpoint_interval());
        if version > 0 && (version.is_multiple_of(interval) || state.known.facts.is_none()) {
            state.checkpoint = Some(version);
        }
        Ok(published)
    }

    /// Another's commit took the version: what it means, and what must be read anew. The mark, where
    /// the batch is published already.
    async fn behind(
        &self,
        wanted: &Wanted<'_>,
        theirs: &Commit,
        version: u64,
    ) -> Result<Option<Published>> {
        if let Some((app, number)) = &self.options.txn
            && theirs.txns.iter().any(|txn| txn.app_id == *app && txn.version >= *number)
        {
            self.drop_files(&wanted.detail.files).await;
            return Ok(Some(self.published(wanted)));
        }
        match mark::judge(theirs, wanted.attempt) {
            Verdict::Published(published) => {
                self.remember(published, version);
                self.lost_to(wanted, published).await;
                Ok(Some(published))
            }
            Verdict::Fenced(mark) => Err(fenced(self.table.url(), mark)),
            Verdict::Behind(changes) => {
                let mut known = Known { version: Some(version), ..self.known() };
                if changes.table || known.facts.is_none() {
                    known.facts = Some(known::facts(&self.table, version).await?);
                    self.take_in(known)?;
                } else {
                    self.state().known = known;
                }
                Ok(None)
            }
        }
    }

    fn remember(&self, published: Published, version: u64) {
        let mut state = self.state();
        state.known.version = Some(version);
        state.known.mark = Some((published, Some(version)));
    }

    /// The batch is published. What this attempt wrote goes, unless that is what was published.
    pub(super) async fn lost_to(&self, wanted: &Wanted<'_>, published: Published) {
        if published.mark.generation != Some(wanted.attempt.generation) {
            self.drop_files(&wanted.detail.files).await;
        }
    }

    /// Files that no commit names cost room and nothing else: an error is not worth a batch.
    pub(super) async fn drop_files(&self, files: &[Staged]) {
        if let Err(error) = self.table.store.discard(files).await {
            tracing::warn!(error = %error.chain(), "files that no commit names are left behind");
        }
    }
}

pub(super) fn fenced(url: &str, mark: Mark) -> Error {
    Error::fenced(format!(
        "the table {url} holds {mark} already: a newer driver runs this query; stop this one"
    ))
}
