//! Files of one batch that belongs to no stream, as `DataFrame.write` makes them: the same names,
//! formats and folders, and no manifest.
//!
//! All files are written under hidden names first: a write that fails leaves nothing that readers
//! see. They become visible one by one, for without a manifest nothing tells which belong together;
//! `_SUCCESS` is created last, as by Spark.

use super::encode::Encoding;
use super::options::FileOptions;
use super::partitioning::empty_folder;
use super::stage::{Stager, stage_empty};
use async_trait::async_trait;
use bytes::Bytes;
use onefold_connector::{Attempt, Fence, RowStream, Sink, StagedOutput};
use onefold_storage::{CreateError, Durability, Staged, Store};
use onefold_types::{BatchId, Error, Mark, Published, Result, Totals};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file that says that all others are there.
const SUCCESS: &str = "_SUCCESS";

/// A folder that one batch is written into.
#[derive(Debug)]
pub(crate) struct OneBatch {
    store: Arc<dyn Store>,
    encoding: Encoding,
    options: Arc<FileOptions>,
    time_zone: String,
    staged: Mutex<Vec<Staged>>,
}

impl OneBatch {
    pub(super) fn new(
        store: Arc<dyn Store>,
        encoding: Encoding,
        options: Arc<FileOptions>,
        time_zone: String,
    ) -> Self {
        OneBatch { store, encoding, options, time_zone, staged: Mutex::default() }
    }

    fn staged(&self) -> MutexGuard<'_, Vec<Staged>> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sink for OneBatch {
    async fn last_mark(&self) -> Result<Option<Published>> {
        Ok(None)
    }

    async fn conceal(&self, _batch: BatchId) -> Result<()> {
        Ok(())
    }

    async fn stage(
        &self,
        attempt: &Attempt,
        partition: u32,
        rows: RowStream,
    ) -> Result<StagedOutput> {
        let limit = self.options.rows_per_file_max;
        let stager = Stager::new(self.store.as_ref(), &self.encoding, attempt, partition, limit);
        let outcome = stager.run(rows, &self.time_zone).await?;
        let paths: Vec<&str> = outcome.files.iter().map(|file| file.path.as_str()).collect();
        let detail = serde_json::json!({ "paths": paths });
        self.staged().extend(outcome.files);
        Ok(StagedOutput { partition, totals: outcome.totals, detail })
    }

    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        _fence: &dyn Fence,
    ) -> Result<Published> {
        let mut files = self.staged().clone();
        let folders = &self.encoding.columns.folders;
        // A table without rows still has columns, which a file tells.
        if files.is_empty() && folders.is_empty() {
            let folder = empty_folder(folders);
            let empty = stage_empty(self.store.as_ref(), &self.encoding, attempt, &folder).await?;
            files.push(empty.clone());
            self.staged().push(empty);
        }
        self.store.reveal(&files).await?;
        self.staged().clear();
        match self.store.create(SUCCESS, Bytes::new(), Durability::Later).await {
            // It says nothing but its name.
            Ok(_) | Err(CreateError::MaybeDone(_)) => {}
            Err(CreateError::NotDone(error)) => return Err(error),
        }
        let totals = outputs.into_iter().map(|output| output.totals);
        let Attempt { query, batch, generation } = *attempt;
        let mark = Mark { query: Some(query), batch, generation: Some(generation) };
        Ok(Published { mark, totals: Some(totals.fold(Totals::default(), Totals::plus)) })
    }

    async fn settle(&self, _published: &Published) -> Result<()> {
        Ok(())
    }

    async fn discard(&self, _attempt: &Attempt) -> Result<()> {
        let staged = std::mem::take(&mut *self.staged());
        self.store.discard(&staged).await
    }

    async fn audit(&self, _batch: BatchId) -> Result<Option<Totals>> {
        Err(Error::invalid("a folder without a manifest does not tell which batch a file is of"))
    }

    fn tells_totals(&self) -> bool {
        true
    }
}
