//! Writing a table once through a sink of streams: Spark's `DataFrame.write`. The whole is one batch
//! of a query that lives as long as the write.

use crate::batch_write::SaveMode;
use crate::fault::from_datafusion;
use crate::frame::DataFrame;
use crate::run::stage::{AllRead, stage_all};
use async_trait::async_trait;
use datafusion::physical_plan::ExecutionPlanProperties;
use onefold_connector::{
    Attempt, Clock, Fence, ONE_BATCH, Options, OutputMode, SAVE_MODE, SinkContext, SinkDefinition,
    SinkEffects, SinkRequest, SinkSpec, StagedOutput,
};
use onefold_storage::Store;
use onefold_types::{BatchId, Error, Generation, OptionMap, QueryId, Result, RunId};
use std::collections::HashSet;
use std::sync::Arc;
use uuid::Uuid;

/// Nobody else can know of a query that lives as long as one write.
#[derive(Debug)]
struct Alone;

#[async_trait]
impl Fence for Alone {
    async fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// The files that the rows take the place of.
pub(crate) struct Replaced {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) names: Vec<String>,
    /// Only those in folders that get new files: Spark's dynamic partition overwrite.
    pub(crate) by_folder: bool,
    /// Whose the new files are, by their names, if it is to be told.
    pub(crate) files_of: Option<QueryId>,
}

impl Replaced {
    /// The files that go, when these outputs come.
    fn gone(&self, outputs: &[StagedOutput]) -> Vec<String> {
        if !self.by_folder {
            return self.names.clone();
        }
        let folder = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        let written: HashSet<Option<String>> = outputs
            .iter()
            .filter_map(|output| output.detail.get("paths")?.as_array())
            .flatten()
            .filter_map(|path| path.as_str())
            .map(folder)
            .collect();
        self.names.iter().filter(|name| written.contains(&folder(name))).cloned().collect()
    }
}

/// Where the rows go; files go under a path.
///
/// # Errors
/// Invalid: the options do not fit.
pub(crate) fn define(
    spec: &SinkSpec,
    path: Option<String>,
    options: OptionMap,
    partition_by: Vec<String>,
    output_mode: OutputMode,
) -> Result<Arc<dyn SinkDefinition>> {
    let options = Options::check(&format!("sink `{}`", spec.name), spec.options, options)?;
    (spec.define)(SinkRequest { options, path, partition_by, query_name: None, output_mode })
}

/// Adds the rows of a table to what a sink without files has.
///
/// # Errors
/// As [`write`]; Invalid: the mode would take away what is there.
pub(crate) async fn append(
    frame: &DataFrame,
    sink: &dyn SinkDefinition,
    mode: SaveMode,
) -> Result<()> {
    if matches!(mode, SaveMode::Overwrite | SaveMode::Ignore) {
        return Err(Error::invalid(format!(
            "save mode {mode:?} not allowed for {}; allowed save modes are Append and \
             ErrorIfExists (default)",
            sink.description()
        )));
    }
    run(frame, sink, None, None).await
}

/// Writes the rows of a table through a sink that knows itself what they take the place of.
///
/// # Errors
/// As the sink's. After an error of kind Unknown the rows may be there.
pub(crate) async fn into_table(frame: &DataFrame, sink: &dyn SinkDefinition) -> Result<()> {
    run(frame, sink, None, None).await
}

/// As [`into_table`], through a sink that also looks itself whether there is something already.
///
/// # Errors
/// As the sink's. After an error of kind Unknown the rows may be there.
pub(crate) async fn into_database(
    frame: &DataFrame,
    sink: &dyn SinkDefinition,
    mode: SaveMode,
) -> Result<()> {
    run(frame, sink, None, Some(mode)).await
}

/// Writes the rows of a table as files, in the place of others.
///
/// # Errors
/// As the sink's. After an error of kind Unknown the rows may be there.
pub(crate) async fn write(
    frame: &DataFrame,
    sink: &dyn SinkDefinition,
    replaced: Replaced,
) -> Result<()> {
    run(frame, sink, Some(replaced), None).await
}

async fn run(
    frame: &DataFrame,
    sink: &dyn SinkDefinition,
    replaced: Option<Replaced>,
    mode: Option<SaveMode>,
) -> Result<()> {
    let session = frame.session();
    let state = session.inner.context.state();
    let plan = onefold_plan::stream::shown(frame.logical_plan().clone())?;
    let plan = state.create_physical_plan(&plan).await.map_err(from_datafusion)?;
    let mut conf = session.inner.conf.all();
    conf.insert(ONE_BATCH.to_owned(), "true".to_owned());
    if let Some(mode) = mode {
        conf.insert(SAVE_MODE.to_owned(), mode.name().to_owned());
    }
    let named = replaced.as_ref().and_then(|replaced| replaced.files_of);
    let query = named.unwrap_or_else(|| QueryId(Uuid::new_v4()));
    let context = SinkContext {
        query,
        run: RunId(Uuid::new_v4()),
        generation: Generation::FIRST,
        last_commit: None,
        last_intent: None,
        follows: false,
        schema: plan.schema(),
        clock: Arc::clone(&session.inner.timer) as Arc<dyn Clock>,
        effects: SinkEffects::forgotten(query),
        conf,
    };
    let sink = sink.open(context).await?;
    let attempt = Attempt { query, batch: BatchId::FIRST, generation: Generation::FIRST };
    let at_once = state.config().target_partitions();
    let all = AllRead::new(plan.output_partitioning().partition_count());
    let task = state.task_ctx();
    let only: Arc<[_]> = Arc::new([Arc::clone(&sink)]);
    let outputs = match stage_all(&only, &attempt, &plan, &task, at_once, &all).await {
        Ok(outputs) => outputs.into_iter().flatten().collect::<Vec<_>>(),
        Err(error) => {
            let _ = sink.discard(&attempt).await;
            return Err(error);
        }
    };
    // Only now: the rows may come from what they replace.
    if let Some(replaced) = &replaced {
        let gone = replaced.gone(&outputs);
        if !gone.is_empty() {
            replaced.store.delete_all(&gone).await?;
        }
    }
    let published = sink.publish(&attempt, outputs, &Alone).await?;
    sink.settle(&published).await
}
