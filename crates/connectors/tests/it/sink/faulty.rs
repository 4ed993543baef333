//! A store whose changing calls ask a plan first.

use async_trait::async_trait;
use bytes::Bytes;
use onefold_connector::conformance::{Faults, Verdict};
use onefold_storage::{
    CreateError, Created, Durability, Entry, PathTest, Staged, StagedWriter, Store,
};
use onefold_types::{Error, Result};
use std::sync::Arc;

/// A store and a plan.
#[derive(Debug, Clone)]
pub(crate) struct Faulty {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) faults: Arc<Faults>,
}

fn not_done() -> Error {
    Error::unavailable("a planned fault: nothing was done")
}

fn lost() -> Error {
    Error::unknown("a planned fault: the reply was lost")
}

impl Faulty {
    async fn act<T>(&self, name: String, act: impl Future<Output = Result<T>>) -> Result<T> {
        match self.faults.pass(&name).await {
            Verdict::Go => act.await,
            Verdict::Fail | Verdict::Dead => Err(not_done()),
            Verdict::LoseReply => {
                act.await?;
                Err(lost())
            }
        }
    }

    async fn create_act(
        &self,
        name: String,
        act: impl Future<Output = Result<Created, CreateError>>,
    ) -> Result<Created, CreateError> {
        match self.faults.pass(&name).await {
            Verdict::Go => act.await,
            Verdict::Fail | Verdict::Dead => Err(CreateError::NotDone(not_done())),
            Verdict::LoseReply => {
                act.await?;
                Err(CreateError::MaybeDone(lost()))
            }
        }
    }
}

#[derive(Debug)]
struct FaultyWriter {
    inner: Option<Box<dyn StagedWriter>>,
    store: Faulty,
}

#[async_trait]
impl StagedWriter for FaultyWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let inner = self.inner.as_mut().unwrap();
        self.store.act("write".to_owned(), inner.write(bytes)).await
    }

    async fn finish(mut self: Box<Self>) -> Result<Staged> {
        let inner = self.inner.take().unwrap();
        self.store.act("finish".to_owned(), inner.finish()).await
    }

    async fn create_later(mut self: Box<Self>) -> Result<Created, CreateError> {
        let inner = self.inner.take().unwrap();
        self.store.create_act("create later".to_owned(), inner.create_later()).await
    }

    async fn abandon(mut self: Box<Self>) -> Result<()> {
        let inner = self.inner.take().unwrap();
        self.store.act("abandon".to_owned(), inner.abandon()).await
    }
}

impl Drop for FaultyWriter {
    fn drop(&mut self) {
        // A dead process cleans up nothing.
        if self.store.faults.died() {
            std::mem::forget(self.inner.take());
        }
    }
}

#[async_trait]
impl Store for Faulty {
    fn url(&self) -> &str {
        self.inner.url()
    }

    async fn create(
        &self,
        path: &str,
        bytes: Bytes,
        durability: Durability,
    ) -> Result<Created, CreateError> {
        self.create_act(format!("create {path}"), self.inner.create(path, bytes, durability)).await
    }

    async fn sync(&self, paths: &[String]) -> Result<()> {
        self.act(format!("sync {paths:?}"), self.inner.sync(paths)).await
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        self.inner.read(path).await
    }

    async fn read_range(&self, path: &str, start: u64, length: u64) -> Result<Bytes> {
        self.inner.read_range(path, start, length).await
    }

    async fn stat(&self, path: &str) -> Result<Option<Entry>> {
        self.inner.stat(path).await
    }

    async fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        self.inner.list(folder).await
    }

    async fn list_deep(&self, folder: &str, hidden: bool) -> Result<Vec<Entry>> {
        self.inner.list_deep(folder, hidden).await
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.act(format!("delete {path}"), self.inner.delete(path)).await
    }

    async fn delete_all(&self, paths: &[String]) -> Result<()> {
        self.act(format!("delete {paths:?}"), self.inner.delete_all(paths)).await
    }

    async fn stage(&self, path: &str, tag: &str) -> Result<Box<dyn StagedWriter>> {
        let inner = self.act(format!("stage {path}"), self.inner.stage(path, tag)).await?;
        Ok(Box::new(FaultyWriter { inner: Some(inner), store: self.clone() }))
    }

    async fn stage_record(&self, path: &str, tag: &str) -> Result<Box<dyn StagedWriter>> {
        let inner = self.act(format!("stage {path}"), self.inner.stage_record(path, tag)).await?;
        Ok(Box::new(FaultyWriter { inner: Some(inner), store: self.clone() }))
    }

    async fn reveal(&self, staged: &[Staged]) -> Result<()> {
        // Each file by itself, so that a fault can come between two.
        for one in staged {
            let act = self.inner.reveal(std::slice::from_ref(one));
            self.act(format!("reveal {}", one.path), act).await?;
        }
        Ok(())
    }

    async fn conceal(&self, paths: &[String]) -> Result<()> {
        for path in paths {
            let act = self.inner.conceal(std::slice::from_ref(path));
            self.act(format!("conceal {path}"), act).await?;
        }
        Ok(())
    }

    fn concealed(&self, path: &str) -> Staged {
        self.inner.concealed(path)
    }

    async fn discard(&self, staged: &[Staged]) -> Result<()> {
        for one in staged {
            let act = self.inner.discard(std::slice::from_ref(one));
            self.act(format!("discard {}", one.path), act).await?;
        }
        Ok(())
    }

    async fn abort_uploads(&self, wanted: PathTest<'_>) -> Result<u64> {
        self.act("abort uploads".to_owned(), self.inner.abort_uploads(wanted)).await
    }

    async fn create_staged(&self, staged: &Staged) -> Result<Created, CreateError> {
        self.create_act(format!("create {}", staged.path), self.inner.create_staged(staged)).await
    }
}
