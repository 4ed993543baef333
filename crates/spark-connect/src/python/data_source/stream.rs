//! Streams that Python reads: a range of offsets can be read again, as the contract of Spark's
//! `DataSourceStreamReader` asks.

use super::batch::scan;
use super::runner::{Planned, Runner};
use super::{DataSourceClass, Instance, Reading, Setting, broken};
use crate::client_session::ClientSession;
use crate::failure::Outcome;
use crate::python::udf::taken;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{
    LatestOffset, ReadLimit, ScanRequest, Source, SourceContext, SourceDefinition,
};
use onefold_types::{Error, Offset, OffsetRange, Replay, Result};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A data source that is read as a stream.
#[derive(Clone)]
struct PythonStream {
    setting: Arc<Setting>,
    instance: Arc<Instance>,
}

impl fmt::Debug for PythonStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PythonStream").field(&self.setting.class.name).finish()
    }
}

/// What a stream of a data source is.
pub(crate) fn stream(
    session: &ClientSession,
    class: DataSourceClass,
    schema: Option<&Schema>,
    options: impl IntoIterator<Item = (String, String)>,
) -> Outcome<Arc<dyn SourceDefinition>> {
    let setting = Setting::new(session, class, options)?;
    let instance = Arc::new(setting.instance(schema)?);
    Ok(Arc::new(PythonStream { setting: Arc::new(setting), instance }))
}

#[async_trait]
impl SourceDefinition for PythonStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.instance.schema)
    }

    fn replay(&self) -> Replay {
        Replay::Exact { how: "the reader reads a range of its offsets again".to_owned() }
    }

    fn description(&self) -> String {
        format!("PythonMicroBatchStream[{}]", self.setting.class.name)
    }

    async fn open(&self, _: SourceContext) -> Result<Arc<dyn Source>> {
        let (setting, instance) = (Arc::clone(&self.setting), Arc::clone(&self.instance));
        let (runner, reading) = blocking(move || {
            let reading = setting.plan_read(&instance, true)?;
            Ok((Runner::start(&setting, &instance)?, reading))
        })
        .await?;
        Ok(Arc::new(OpenStream {
            stream: self.clone(),
            runner: Arc::new(Mutex::new(runner)),
            reading: Arc::new(reading),
            pinned: Mutex::new(Pinned::No),
        }))
    }
}

/// Runs what blocks elsewhere.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Error::internal("work for a Python worker panicked")))
}

/// What a run that ends by itself may take.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pinned {
    /// It does not end by itself, or the reader knows.
    No,
    /// What the reader says next.
    Next,
    /// Nothing after this.
    Until(String),
}

/// A stream opened by one query.
struct OpenStream {
    stream: PythonStream,
    runner: Arc<Mutex<Runner>>,
    reading: Arc<Reading>,
    pinned: Mutex<Pinned>,
}

impl fmt::Debug for OpenStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

impl OpenStream {
    /// Asks the reader.
    async fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Runner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let runner = Arc::clone(&self.runner);
        // After an error the process is gone, and the next call tells.
        blocking(move || what(&mut runner.lock().unwrap_or_else(PoisonError::into_inner))).await
    }

    fn pinned(&self) -> Pinned {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn pin(&self, pinned: Pinned) {
        *self.pinned.lock().unwrap_or_else(PoisonError::into_inner) = pinned;
    }

    /// Where a range starts: for the first one, where the reader said that the stream begins.
    async fn start(&self, range: &OffsetRange) -> Result<String> {
        match (&range.start, &range.note) {
            (Some(start), _) => Ok(start.json().to_owned()),
            (None, Some(noted)) => Ok(noted.clone()),
            (None, None) => self.ask(Runner::initial).await,
        }
    }

    fn fit(&self, rows: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        let schema = &self.stream.instance.schema;
        let fit = |batch| {
            let columns = taken(batch, schema.fields())?.columns().to_vec();
            RecordBatch::try_new(Arc::clone(schema), columns).map_err(broken)
        };
        rows.iter().map(fit).collect()
    }
}

#[async_trait]
impl Source for OpenStream {
    async fn pin_available(&self) -> Result<()> {
        let pins = self
            .ask(|runner| {
                if runner.pins {
                    runner.pin()?;
                }
                Ok(runner.pins)
            })
            .await?;
        self.pin(if pins { Pinned::No } else { Pinned::Next });
        Ok(())
    }

    async fn latest_offset(
        &self,
        start: Option<&Offset>,
        limit: ReadLimit,
    ) -> Result<LatestOffset> {
        let (first, pinned) = (start.is_none(), self.pinned());
        let from = match start {
            Some(start) => start.json().to_owned(),
            None => self.ask(Runner::initial).await?,
        };
        let none = || LatestOffset { end: start.cloned(), latest: None, note: None };
        if let Pinned::Until(end) = pinned {
            let end = Some(Offset::new(end)).filter(|end| end.json() != from);
            return Ok(match end {
                Some(end) => LatestOffset { end: Some(end), latest: None, note: None },
                None => none(),
            });
        }
        let all = limit == ReadLimit::All || pinned == Pinned::Next;
        let begin = from.clone();
        let (end, newest) =
            self.ask(move |runner| Ok((runner.latest(&begin, all)?, runner.newest()?))).await?;
        if pinned != Pinned::No {
            self.pin(Pinned::Until(end.clone()));
        }
        if end == from {
            return Ok(none());
        }
        let latest = Some(Offset::new(newest.unwrap_or_else(|| end.clone())));
        let note = first.then_some(from);
        Ok(LatestOffset { end: Some(Offset::new(end)), latest, note })
    }

    async fn read(
        &self,
        range: &OffsetRange,
        request: ScanRequest<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = &self.stream.instance.schema;
        let plan = |made: datafusion::error::Result<Arc<dyn ExecutionPlan>>| {
            made.map_err(|error| Error::internal("a plan could not be made").because(error))
        };
        let memory = |rows: Vec<RecordBatch>| {
            let columns = request.projection.cloned();
            let made = MemorySourceConfig::try_new_exec(&[rows], Arc::clone(schema), columns);
            plan(made.map(|made| made as Arc<dyn ExecutionPlan>))
        };
        let Some(end) = range.end.clone().filter(|_| !range.empty()) else {
            return memory(Vec::new());
        };
        let start = self.start(range).await?;
        let Planned { partitions, rows } =
            self.ask(move |runner| runner.partitions(&start, end.json())).await?;
        match rows {
            Some(rows) => memory(self.fit(&rows)?),
            None => {
                let pool = &self.stream.setting.pool;
                plan(scan(schema, &self.reading, pool, partitions, request.projection))
            }
        }
    }

    async fn release(&self, range: &OffsetRange) -> Result<()> {
        let Some(end) = range.end.clone() else { return Ok(()) };
        self.ask(move |runner| runner.commit(end.json())).await
    }
}
