//! Streams that Python writes: each partition gives a commit message, and the writer commits or
//! aborts a batch with all of them. A batch that was not committed here is written again: the writer
//! must use the batch's number to write once.

use super::stream::blocking;
use super::{DataSourceClass, Instance, Setting, Writing, flag};
use crate::client_session::ClientSession;
use crate::failure::Outcome;
use crate::python::wire::{write_bytes, write_count, write_int, write_text};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::StreamExt;
use onefold_connector::{
    Attempt, Fence, RowStream, Sink, SinkContext, SinkDefinition, StagedOutput,
};
use onefold_plan::schema::schema_json;
use onefold_types::{BatchId, Delivery, Error, Mark, Published, Result, Totals};
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// Batches of rows that wait for a worker at most.
const BATCHES_AHEAD: usize = 2;
/// What stands for a message that there is not.
const NULL: i32 = -5;

/// A data source that a stream is written to.
struct PythonSink {
    setting: Arc<Setting>,
    overwrite: bool,
}

impl fmt::Debug for PythonSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PythonSink").field(&self.setting.class.name).finish()
    }
}

/// What a sink of a data source is.
pub(crate) fn sink(
    session: &ClientSession,
    class: DataSourceClass,
    options: impl IntoIterator<Item = (String, String)>,
    overwrite: bool,
) -> Outcome<Arc<dyn SinkDefinition>> {
    let setting = Arc::new(Setting::new(session, class, options)?);
    Ok(Arc::new(PythonSink { setting, overwrite }))
}

#[async_trait]
impl SinkDefinition for PythonSink {
    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce {
            why: "a batch that was not committed is written again; the writer must use the batch \
                  number to write once"
                .to_owned(),
        }
    }

    fn description(&self) -> String {
        format!("PythonStreamingWrite[{}]", self.setting.class.name)
    }

    async fn open(&self, context: SinkContext) -> Result<Arc<dyn Sink>> {
        let (setting, schema) = (Arc::clone(&self.setting), Arc::clone(&context.schema));
        let overwrite = self.overwrite;
        let (writing, instance) = blocking(move || {
            let writing = setting.plan_write(&schema, overwrite, true)?;
            Ok((writing, setting.instance(Some(schema.as_ref()))?))
        })
        .await?;
        Ok(Arc::new(OpenSink {
            setting: Arc::clone(&self.setting),
            writing: Arc::new(writing),
            instance: Arc::new(instance),
            schema: context.schema,
            overwrite: self.overwrite,
            staged: Mutex::default(),
        }))
    }
}

/// By attempt, the partitions that were written and the messages of those that succeeded.
type Staged = HashMap<Attempt, Vec<(u32, Option<Vec<u8>>)>>;

struct OpenSink {
    setting: Arc<Setting>,
    writing: Arc<Writing>,
    instance: Arc<Instance>,
    schema: SchemaRef,
    overwrite: bool,
    staged: Mutex<Staged>,
}

impl fmt::Debug for OpenSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PythonSink").field(&self.setting.class.name).finish()
    }
}

/// A commit message, or that there is none.
pub(super) fn write_message(out: &mut dyn Write, message: Option<&[u8]>) -> io::Result<()> {
    let mut out = out;
    match message {
        Some(message) => write_bytes(&mut out, message),
        None => write_int(&mut out, NULL),
    }
}

impl OpenSink {
    fn staged(&self) -> MutexGuard<'_, Staged> {
        // Each change is one call: a panic elsewhere leaves it usable.
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a partition while its rows come: the commit message, and how many they were.
    async fn written(&self, partition: u32, mut rows: RowStream) -> Result<(Vec<u8>, u64)> {
        let (give, taken) = mpsc::channel(BATCHES_AHEAD);
        let taken = Mutex::new(taken);
        let all = Arc::new(AtomicBool::new(false));
        let whole = Arc::clone(&all);
        let (writing, schema) = (Arc::clone(&self.writing), Arc::clone(&self.schema));
        let number = i32::try_from(partition).unwrap_or(i32::MAX);
        let writer = tokio::spawn(blocking(move || {
            let next = || {
                let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
                match taken.blocking_recv() {
                    // A writer must not take rows that end early for all there are.
                    None if !whole.load(Ordering::Acquire) => {
                        Err(Error::unavailable("the rows of the partition ended early"))
                    }
                    next => Ok(next),
                }
            };
            writing.write(number, &schema, &next)
        }));
        let (mut count, mut failure) = (0, None);
        while let Some(batch) = rows.next().await {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    failure = Some(onefold_engine::from_datafusion(error));
                    break;
                }
            };
            count += batch.num_rows() as u64;
            // A worker that takes no more rows says why below.
            if give.send(batch).await.is_err() {
                break;
            }
        }
        all.store(failure.is_none(), Ordering::Release);
        drop(give);
        let written = writer.await;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let message = written.map_err(|error| {
            Error::internal("the task of a Python data source ended early").because(error)
        })??;
        Ok((message, count))
    }

    /// Commits a batch, or aborts it.
    async fn tell(&self, attempt: &Attempt, abort: bool) -> Result<()> {
        let mut messages = self.staged().remove(attempt).unwrap_or_default();
        messages.sort_by_key(|(partition, _)| *partition);
        let (setting, instance) = (Arc::clone(&self.setting), Arc::clone(&self.instance));
        let (schema, overwrite, batch) = (Arc::clone(&self.schema), self.overwrite, attempt.batch);
        blocking(move || {
            let write = |out: &mut dyn Write| {
                let mut to = &mut *out;
                write_bytes(&mut to, &instance.pickled)?;
                write_text(&mut to, &schema_json(&schema))?;
                to.write_all(&[flag(overwrite)])?;
                write_count(&mut to, messages.len())?;
                for (_, message) in &messages {
                    write_message(out, message.as_deref())?;
                }
                out.write_all(&batch.0.to_be_bytes())?;
                out.write_all(&[flag(abort)])
            };
            let planner = setting.planner("pyspark.sql.worker.python_streaming_sink_runner");
            planner.run(&write, |answers| answers.int().map(|_| ()))
        })
        .await
    }
}

#[async_trait]
impl Sink for OpenSink {
    async fn last_mark(&self) -> Result<Option<Published>> {
        Ok(None)
    }

    async fn conceal(&self, _: BatchId) -> Result<()> {
        Ok(())
    }

    async fn stage(
        &self,
        attempt: &Attempt,
        partition: u32,
        rows: RowStream,
    ) -> Result<StagedOutput> {
        let written = self.written(partition, rows).await;
        let message = written.as_ref().ok().map(|(message, _)| message.clone());
        self.staged().entry(*attempt).or_default().push((partition, message));
        let (_, rows) = written?;
        let totals = Totals { rows, ..Totals::default() };
        Ok(StagedOutput { partition, totals, detail: serde_json::Value::Null })
    }

    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        fence: &dyn Fence,
    ) -> Result<Published> {
        fence.check().await?;
        self.tell(attempt, false).await?;
        let totals = outputs.iter().fold(Totals::default(), |sum, it| sum.plus(it.totals));
        let Attempt { query, batch, generation } = *attempt;
        let mark = Mark { query: Some(query), batch, generation: Some(generation) };
        Ok(Published { mark, totals: Some(totals) })
    }

    async fn settle(&self, _: &Published) -> Result<()> {
        Ok(())
    }

    async fn discard(&self, attempt: &Attempt) -> Result<()> {
        self.tell(attempt, true).await
    }

    async fn audit(&self, _: BatchId) -> Result<Option<Totals>> {
        Ok(None)
    }

    fn tells_totals(&self) -> bool {
        // It has none to tell after a restart, and needs none.
        true
    }
}
