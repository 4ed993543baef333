//! Streams in logical plans, and plans that run batch by batch.
//!
//! A [`StreamTable`] stands for a stream wherever DataFusion takes a table. [`StreamingPlan::new`]
//! checks that the plan over such tables may run as a stream and fixes what must not change
//! between two runs of one batch; [`StreamingPlan::instantiate`] gives the physical plan of one
//! batch.
//!
//! # Invariants
//! - Sources stand in plan order, left to right; a definition used twice is one source.
//! - A source's partitions stay as they are: no exchange, no sort, no collecting is added between
//!   a source and the sink, so partition and row order of a batch are the source's. A request to
//!   repartition is passed over for the same reason.
//! - Times come from the batch, random values from (query, batch, node, partition, row).

mod batch;
mod check;
mod counting;
mod fixed;
mod joins;
mod random;
mod seeded;
mod table;

use crate::failure;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{OutputMode, Source, SourceDefinition};
use onefold_types::{BatchId, Error, OffsetRange, QueryId, Result};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

pub(crate) use random::{RandomFunction, RandomKind};
pub use table::{HIDDEN, StreamTable, hidden, visible_schema};

/// One source of a query.
#[derive(Debug, Clone)]
pub struct StreamSource {
    /// Its key in the checkpoint: its name when all sources are named, else its place `0`, `1` …
    pub id: String,
    /// What was defined.
    pub definition: Arc<dyn SourceDefinition>,
}

/// What the physical plan of a batch depends on beside its ranges.
#[derive(Debug, Clone, Copy)]
pub struct BatchContext {
    /// The query.
    pub query: QueryId,
    /// The batch.
    pub batch: BatchId,
    /// The batch's time from its intent, in milliseconds since 1970, UTC.
    pub timestamp_ms: i64,
}

/// The physical plan of one batch.
#[derive(Debug)]
pub struct BatchPlan {
    /// What to execute: one output partition for each partition of the sources.
    pub plan: Arc<dyn ExecutionPlan>,
    /// Rows read so far from each source, in the order of [`StreamingPlan::sources`]. A source
    /// that the plan scans twice is counted once.
    pub input_rows: Vec<Arc<AtomicU64>>,
}

/// A query that may run as a stream.
#[derive(Debug)]
pub struct StreamingPlan {
    sources: Vec<StreamSource>,
    schema: SchemaRef,
    plan: LogicalPlan,
    prepared: OnceLock<Prepared>,
}

/// What the first batch made and later ones reuse.
#[derive(Debug)]
struct Prepared {
    state: SessionState,
    optimised: LogicalPlan,
}

impl StreamingPlan {
    /// Checks a plan and lists its sources.
    ///
    /// # Errors
    /// Invalid: the plan has no stream, has an operation that a stream cannot have, or does not
    /// go with the output mode.
    pub fn new(plan: LogicalPlan, mode: OutputMode) -> Result<Self> {
        let plan = table::without_hidden(plan)?;
        check::check(&plan, mode)?;
        let sources = table::sources(&plan)?;
        let schema = plain_schema(plan.schema().as_arrow());
        let plan = fixed::fix(plan)?;
        Ok(StreamingPlan { sources, schema, plan, prepared: OnceLock::new() })
    }

    /// The sources, in plan order.
    #[must_use]
    pub fn sources(&self) -> &[StreamSource] {
        &self.sources
    }

    /// The columns of the result.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The plan before optimisation, for `explain`. Values that the batch fixes show as
    /// parameters (`$onefold_time`).
    #[must_use]
    pub fn logical_plan(&self) -> &LogicalPlan {
        &self.plan
    }

    /// The physical plan of one batch over the given ranges, one for each source in order.
    ///
    /// The first call optimises the plan with the session's settings as they are then; later calls
    /// reuse it, so that a change of settings in between does not change a running query.
    ///
    /// # Errors
    /// Invalid, when the plan cannot be made; whatever [`Source::read`] returns.
    pub async fn instantiate(
        &self,
        session: &SessionState,
        reads: &[(Arc<dyn Source>, OffsetRange)],
        context: &BatchContext,
    ) -> Result<BatchPlan> {
        if reads.len() != self.sources.len() {
            return Err(Error::internal(format!(
                "a batch needs {} ranges, one for each source, but got {}",
                self.sources.len(),
                reads.len()
            )));
        }
        let prepared = match self.prepared.get() {
            Some(prepared) => prepared,
            None => {
                let prepared = self.prepare(session)?;
                self.prepared.get_or_init(|| prepared)
            }
        };
        batch::instantiate(self, prepared, reads, context).await
    }

    fn prepare(&self, session: &SessionState) -> Result<Prepared> {
        // The session's catalogs are shared: no new one may take the place of the default one.
        let mut config = session.config().clone().with_create_default_catalog_and_schema(false);
        let optimizer = &mut config.options_mut().optimizer;
        // A source's partitions are its own: an exchange would cost memory and lose row order.
        optimizer.enable_round_robin_repartition = false;
        optimizer.repartition_file_scans = false;
        // A static side of a join is collected; the stream goes through it (see `joins`).
        optimizer.repartition_joins = false;
        let state =
            SessionStateBuilder::new_from_existing(session.clone()).with_config(config).build();
        let optimised = state.optimize(&self.plan).map_err(failure::planning)?;
        let optimised = joins::static_side_first(optimised).map_err(failure::planning)?;
        Ok(Prepared { state, optimised })
    }
}

/// The schema without the mark of hidden columns: what was selected is a column like others.
fn plain_schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| {
            let mut field = field.as_ref().clone();
            field.metadata_mut().remove(HIDDEN);
            field
        })
        .collect();
    Arc::new(Schema::new(fields))
}
