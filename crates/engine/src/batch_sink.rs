//! Writing a table once through a sink that keeps no files: Spark's `DataFrame.write` for Kafka and
//! its like. The whole is one batch of a query that lives as long as the write.

use crate::batch_write::SaveMode;
use crate::fault::from_datafusion;
use crate::frame::DataFrame;
use crate::run::stage::{AllRead, stage_all};
use async_trait::async_trait;
use datafusion::physical_plan::ExecutionPlanProperties;
use onefold_connector::{
    Attempt, Clock, Fence, Options, OutputMode, SinkContext, SinkDefinition, SinkRequest, SinkSpec,
};
use onefold_types::{BatchId, Error, Generation, OptionMap, QueryId, Result, RunId};
use std::sync::Arc;
use uuid::Uuid;

/// The setting that tells a sink that there will be no other batch, so that it needs no mark.
const ONE_BATCH: &str = "onefold.oneBatch";

/// Nobody else can know of a query that lives as long as one write.
#[derive(Debug)]
struct Alone;

#[async_trait]
impl Fence for Alone {
    async fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// Where the rows go, if the sink keeps no files.
///
/// # Errors
/// Invalid: the options do not fit.
pub(crate) fn define(
    spec: &SinkSpec,
    options: OptionMap,
    partition_by: Vec<String>,
) -> Result<Arc<dyn SinkDefinition>> {
    let options = Options::check(&format!("sink `{}`", spec.name), spec.options, options)?;
    (spec.define)(SinkRequest {
        options,
        path: None,
        partition_by,
        query_name: None,
        output_mode: OutputMode::Append,
    })
}

/// Writes the rows of a table.
///
/// # Errors
/// As the sink's. After an error of kind Unknown the rows may be there.
pub(crate) async fn write(
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
    let session = frame.session();
    let state = session.inner.context.state();
    let plan = onefold_plan::stream::shown(frame.logical_plan().clone())?;
    let plan = state.create_physical_plan(&plan).await.map_err(from_datafusion)?;
    let mut conf = session.inner.conf.all();
    conf.insert(ONE_BATCH.to_owned(), "true".to_owned());
    let query = QueryId(Uuid::new_v4());
    let context = SinkContext {
        query,
        run: RunId(Uuid::new_v4()),
        generation: Generation::FIRST,
        last_commit: None,
        last_intent: None,
        follows: false,
        schema: plan.schema(),
        clock: Arc::clone(&session.inner.timer) as Arc<dyn Clock>,
        conf,
    };
    let sink = sink.open(context).await?;
    let attempt = Attempt { query, batch: BatchId::FIRST, generation: Generation::FIRST };
    let at_once = state.config().target_partitions();
    let all = AllRead::new(plan.output_partitioning().partition_count());
    let task = state.task_ctx();
    let outputs = match stage_all(&sink, &attempt, &plan, &task, at_once, &all).await {
        Ok(outputs) => outputs,
        Err(error) => {
            let _ = sink.discard(&attempt).await;
            return Err(error);
        }
    };
    let published = sink.publish(&attempt, outputs, &Alone).await?;
    sink.settle(&published).await
}
