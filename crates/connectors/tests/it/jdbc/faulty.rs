//! A database whose calls ask a plan of faults first.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::stream::BoxStream;
use onefold_connector::conformance::{Faults, Verdict};
use onefold_connectors::jdbc::Cell;
use onefold_connectors::jdbc::database::{Column, Database, Session};
use onefold_connectors::jdbc::dialect::Dialect;
use onefold_connectors::jdbc::failure::{Failure, FailureKind};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Faulty {
    pub(crate) inner: Arc<dyn Database>,
    pub(crate) faults: Arc<Faults>,
}

#[async_trait]
impl Database for Faulty {
    fn dialect(&self) -> &'static dyn Dialect {
        self.inner.dialect()
    }

    fn place(&self) -> String {
        self.inner.place()
    }

    async fn connect(&self) -> Result<Box<dyn Session>, Failure> {
        if self.faults.died() {
            return Err(dead());
        }
        let inner = self.inner.connect().await?;
        Ok(Box::new(FaultySession { inner: Some(inner), faults: Arc::clone(&self.faults) }))
    }
}

/// A session that is lost is gone: what it had begun ends with it.
#[derive(Debug)]
struct FaultySession {
    inner: Option<Box<dyn Session>>,
    faults: Arc<Faults>,
}

fn dead() -> Failure {
    Failure::lost("the process is dead")
}

impl FaultySession {
    fn inner(&mut self) -> Result<&mut Box<dyn Session>, Failure> {
        if self.faults.died() {
            self.inner = None;
        }
        self.inner.as_mut().ok_or_else(|| Failure::lost("the connection is closed"))
    }
}

#[async_trait]
impl Session for FaultySession {
    async fn execute(&mut self, sql: &str, values: &[Cell]) -> Result<u64, Failure> {
        match self.faults.pass(sql).await {
            Verdict::Go => self.inner()?.execute(sql, values).await,
            Verdict::Fail => Err(Failure::new(FailureKind::Busy, "a lock is held")),
            Verdict::LoseReply => {
                if let Some(inner) = &mut self.inner {
                    inner.execute(sql, values).await?;
                }
                self.inner = None;
                Err(Failure::lost("the connection broke"))
            }
            Verdict::Dead => {
                self.inner = None;
                Err(dead())
            }
        }
    }

    async fn query(&mut self, sql: &str, values: &[Cell]) -> Result<Vec<Vec<Cell>>, Failure> {
        self.inner()?.query(sql, values).await
    }

    async fn describe(&mut self, sql: &str) -> Result<Vec<Column>, Failure> {
        self.inner()?.describe(sql).await
    }

    async fn load(
        &mut self,
        table: &str,
        columns: &[Column],
        rows: &RecordBatch,
    ) -> Result<(), Failure> {
        match self.faults.pass("load").await {
            Verdict::Go => self.inner()?.load(table, columns, rows).await,
            Verdict::Fail => Err(Failure::new(FailureKind::Busy, "a lock is held")),
            Verdict::LoseReply => {
                if let Some(inner) = &mut self.inner {
                    inner.load(table, columns, rows).await?;
                }
                self.inner = None;
                Err(Failure::lost("the connection broke"))
            }
            Verdict::Dead => {
                self.inner = None;
                Err(dead())
            }
        }
    }

    fn read(
        self: Box<Self>,
        _: String,
        _: Vec<Cell>,
        _: Arc<Vec<Column>>,
        _: SchemaRef,
        _: usize,
    ) -> BoxStream<'static, Result<RecordBatch, Failure>> {
        Box::pin(futures::stream::once(async { Err(Failure::lost("nothing is read here")) }))
    }
}
