//! A cluster whose calls go wrong where a plan says so.

use super::log::Log;
use crate::kafka::sink::cluster::{Cluster, Failure, Producer, Record};
use crate::kafka::sink::mark::{MarkRecord, Written};
use crate::kafka::sink::transaction::{Call, Trouble};
use async_trait::async_trait;
use onefold_connector::conformance::{Faults, Verdict};
use onefold_types::{BatchId, Error, QueryId, Result, Totals};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Faulty {
    pub(super) inner: Arc<dyn Cluster>,
    pub(super) faults: Arc<Faults>,
    /// Where a commit without reply is not done now, but comes late.
    pub(super) strays: Option<Arc<Log>>,
}

#[derive(Debug)]
struct FaultyProducer {
    inner: Arc<dyn Producer>,
    faults: Arc<Faults>,
    strays: Option<Arc<Log>>,
}

pub(super) fn lost() -> Failure {
    Failure { trouble: Trouble::Lost, error: Error::unknown("no reply") }
}

#[async_trait]
impl Producer for FaultyProducer {
    async fn call(&self, call: Call) -> Result<Duration, Failure> {
        match self.faults.pass(&format!("{call:?}")).await {
            Verdict::Go => self.inner.call(call).await,
            Verdict::Fail => Err(Failure {
                trouble: Trouble::Retriable,
                error: Error::unavailable("the coordinator moves"),
            }),
            Verdict::LoseReply => {
                match &self.strays {
                    Some(log) if call == Call::Commit => log.hold_commit(),
                    _ => {
                        let _ = self.inner.call(call).await;
                    }
                }
                Err(lost())
            }
            Verdict::Dead => Err(lost()),
        }
    }

    fn send(&self, record: &Record<'_>) -> Result<bool, Failure> {
        if self.faults.died() { Err(lost()) } else { self.inner.send(record) }
    }

    fn written(&self) -> Written {
        self.inner.written()
    }

    fn rejected(&self) -> Option<Failure> {
        self.inner.rejected()
    }
}

#[async_trait]
impl Cluster for Faulty {
    async fn producer(&self) -> Result<Arc<dyn Producer>> {
        let (faults, strays) = (Arc::clone(&self.faults), self.strays.clone());
        Ok(Arc::new(FaultyProducer { inner: self.inner.producer().await?, faults, strays }))
    }

    async fn newest_mark(&self, query: QueryId, certain: bool) -> Result<Option<MarkRecord>> {
        self.inner.newest_mark(query, certain).await
    }

    async fn mark_of(&self, query: QueryId, batch: BatchId) -> Result<Option<MarkRecord>> {
        self.inner.mark_of(query, batch).await
    }

    async fn sum(&self, written: &Written, rows: u64) -> Result<Option<Totals>> {
        self.inner.sum(written, rows).await
    }

    fn progress(&self, query: QueryId) -> Option<(&str, Option<i32>)> {
        self.inner.progress(query)
    }
}
