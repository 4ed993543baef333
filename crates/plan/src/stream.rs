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
mod bounds;
mod calls;
mod check;
mod counting;
mod dead_letters;
mod define;
pub(crate) mod event_time;
mod fixed;
mod grouping_sets;
mod joins;
mod late;
mod names;
mod nodes;
mod physical;
mod propagate;
mod random;
mod seeded;
mod side;
mod stateful;
mod static_state;
mod table;
mod ttl;
mod user_state;
mod windows;

use crate::failure;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::TransformedResult;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{EffectsLog, OutputMode, Source, SourceDefinition};
use onefold_operators::{EventTimeStats, OperatorMetrics};
use onefold_state::{BatchState, OperatorId, OperatorSpec};
use onefold_types::{BatchId, Error, OffsetRange, QueryId, Result};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

pub use define::{drop_duplicates, with_watermark};
pub use event_time::WATERMARK_DELAY;
pub(crate) use nodes::{extension, one_input, place_of, unordered};
pub use onefold_operators::{
    GroupCalls, GroupCode, GroupFunction, GroupReturns, GroupRun, GroupTimeout, PartitionKeys,
    PartitionRows, PartitionRun, Processor, ProcessorCode, ProcessorStart, StateChange, TimeMode,
    Variables,
};
pub use onefold_operators::{SideReceiver, SideSender, side_rows};
pub(crate) use random::{RandomFunction, RandomKind};
pub use table::{
    HIDDEN, StreamTable, hidden, is_streaming, visible_schema, without_hidden as shown,
};
pub use ttl::TtlOptions;
pub use user_state::{GroupsOptions, TransformOptions, groups_with_state, transform_with_state};

/// One source of a query.
#[derive(Debug, Clone)]
pub struct StreamSource {
    /// Its key in the checkpoint: its name when all sources are named, else its place `0`, `1` …
    pub id: String,
    /// What was defined.
    pub definition: Arc<dyn SourceDefinition>,
}

/// One `withWatermark` of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatermarkNode {
    /// A name that lasts: the column and the sources below it, `ts@0`.
    pub id: String,
    /// The column.
    pub column: String,
    /// The delay in milliseconds.
    pub delay_ms: i64,
    /// The places among [`StreamingPlan::sources`] of the sources whose rows it sees.
    pub sources: Vec<usize>,
}

/// The query's watermark in a batch, in milliseconds since 1970; 0 until there is one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchWatermark {
    /// That of the batch before: a row at or before it is late.
    pub late_ms: i64,
    /// That of this batch: state at or before it is done with.
    pub evict_ms: i64,
}

/// What the physical plan of a batch depends on beside its ranges.
#[derive(Debug, Clone)]
pub struct BatchContext {
    /// The query.
    pub query: QueryId,
    /// The batch.
    pub batch: BatchId,
    /// The batch's time from its intent, in milliseconds since 1970, UTC.
    pub timestamp_ms: i64,
    /// The watermark; of no matter to a query without one.
    pub watermark: BatchWatermark,
    /// The state that the batch works on; a query without operators with state needs none.
    pub state: Option<Arc<dyn BatchState>>,
    /// Where rows go that operators drop as late; `None` forgets them.
    pub late_rows: Option<SideSender>,
    /// Where records go that cannot be processed; they need it if the plan was made for them.
    pub dead_letters: Option<SideSender>,
    /// Where functions that call others remember what they answered; `None` remembers nothing.
    pub effects: Option<Arc<dyn EffectsLog>>,
}

/// An operator with state in the plan of a batch.
#[derive(Debug, Clone)]
pub struct OperatorInBatch {
    /// Its number in the query.
    pub id: OperatorId,
    /// Spark's name for its kind, as in [`OperatorSpec::kind`].
    pub kind: String,
    /// Its lasting name, as in [`OperatorSpec::label`].
    pub label: String,
    /// What it counts. Whole when the plan has run to its end.
    pub metrics: Arc<OperatorMetrics>,
}

/// The physical plan of one batch.
#[derive(Debug)]
pub struct BatchPlan {
    /// What to execute. For a query without operators with state: one output partition for each
    /// partition of the sources.
    pub plan: Arc<dyn ExecutionPlan>,
    /// Rows read so far from each source, in the order of [`StreamingPlan::sources`]. A source
    /// that the plan scans twice is counted once.
    pub input_rows: Vec<Arc<AtomicU64>>,
    /// The event times seen so far under each watermark, in the order of
    /// [`StreamingPlan::watermarks`].
    pub event_times: Vec<Arc<EventTimeStats>>,
    /// The operators with state, by number.
    pub operators: Vec<OperatorInBatch>,
}

/// A query that may run as a stream.
#[derive(Debug)]
pub struct StreamingPlan {
    sources: Vec<StreamSource>,
    schema: SchemaRef,
    mode: OutputMode,
    plan: LogicalPlan,
    stateful: stateful::Stateful,
    letters: Option<dead_letters::LetterColumns>,
    prepared: OnceLock<Prepared>,
}

/// Rows that are wanted beside the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SideRows {
    /// Those that operators drop as late: they are whole, though an operator may need only some of
    /// their columns.
    pub late: bool,
    /// Records of which a row cannot be computed: they leave, and the query goes on.
    pub dead_letters: bool,
}

/// What the first batch made and later ones reuse.
#[derive(Debug)]
struct Prepared {
    state: SessionState,
    optimised: LogicalPlan,
    leaving: Leaving,
}

/// What rows look like that leave beside the result.
#[derive(Debug, Clone)]
struct Leaving {
    late: Option<late::LateColumns>,
    letters: Option<dead_letters::LetterColumns>,
}

impl StreamingPlan {
    /// Checks a plan and lists its sources.
    ///
    /// # Errors
    /// Invalid: the plan has no stream, has an operation that a stream cannot have, or does not
    /// go with the output mode.
    pub fn new(plan: LogicalPlan, mode: OutputMode) -> Result<Self> {
        StreamingPlan::with_side_rows(plan, mode, SideRows::default())
    }

    /// As [`StreamingPlan::new`], of a query of which rows leave beside the result.
    ///
    /// # Errors
    /// As [`StreamingPlan::new`].
    pub fn with_side_rows(plan: LogicalPlan, mode: OutputMode, wanted: SideRows) -> Result<Self> {
        let plan = table::without_hidden(plan)?;
        let schema = plain_schema(plan.schema().as_arrow());
        let plan = windows::expand(plan).data().map_err(failure::planning)?;
        let plan = grouping_sets::expand(plan).map_err(failure::planning)?;
        let plan = windows::unify_unions(plan).map_err(failure::planning)?;
        check::check(&plan, mode)?;
        let sources = table::sources(&plan)?;
        let plan = fixed::fix(plan)?;
        let (plan, letters) = match wanted.dead_letters {
            true => dead_letters::guard(plan).map_err(failure::planning)?,
            false => (plan, None),
        };
        let (plan, stateful) = if stateful::concerned(&plan)? {
            stateful::lower(plan, mode, &sources, wanted.late)?
        } else {
            (plan, stateful::Stateful::default())
        };
        let prepared = OnceLock::new();
        Ok(StreamingPlan { sources, schema, mode, plan, stateful, letters, prepared })
    }

    /// The watermarks, in plan order.
    #[must_use]
    pub fn watermarks(&self) -> &[WatermarkNode] {
        &self.stateful.watermarks
    }

    /// What to tell the user at the start: operators whose state has no bound.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.stateful.warnings
    }

    /// Whether the query keeps state from batch to batch.
    #[must_use]
    pub fn keeps_state(&self) -> bool {
        self.stateful.operators > 0
    }

    /// What the operators keep, by number; none for a query without state. As with
    /// [`StreamingPlan::instantiate`], the session's settings at the first call hold.
    ///
    /// # Errors
    /// Invalid: the plan cannot be made, or an operator would keep what cannot be kept.
    pub fn operators(&self, session: &SessionState) -> Result<Vec<OperatorSpec>> {
        if !self.keeps_state() {
            return Ok(Vec::new());
        }
        let optimised = &self.prepared(session)?.optimised;
        let filled = batch::filled(optimised.clone()).map_err(failure::planning)?;
        let mut specs = physical::specs(&filled).map_err(failure::planning)?;
        for spec in &mut specs {
            self.stateful.ttl().declare(spec);
        }
        Ok(specs)
    }

    /// The columns of rows that operators drop as late; `None` if no operator does. As with
    /// [`StreamingPlan::instantiate`], the session's settings at the first call hold.
    ///
    /// # Errors
    /// Invalid: the plan cannot be made.
    pub fn late_schema(&self, session: &SessionState) -> Result<Option<SchemaRef>> {
        Ok(self.prepared(session)?.leaving.late.as_ref().map(late::LateColumns::schema))
    }

    /// The columns of records that cannot be processed: those of their source, and `_error`; `None`
    /// if they are not wanted or no step fails for single records.
    #[must_use]
    pub fn dead_letter_schema(&self) -> Option<SchemaRef> {
        self.letters.as_ref().map(dead_letters::LetterColumns::schema)
    }

    /// Whether a batch without new data has something to do: an operator waits for the watermark,
    /// and the query's has moved from that of the last batch to the present one; or an operator
    /// waits for the clock, and then always.
    #[must_use]
    pub fn wants_no_data_batch(&self, before_ms: i64, now_ms: i64) -> bool {
        if self.stateful.by_clock {
            return true;
        }
        let Some(flow) = &self.stateful.flow else { return false };
        let at = |ms: i64| propagate::propagate(flow, ms, self.stateful.operators);
        let (before, now) = (at(before_ms), at(now_ms));
        self.stateful.eager.iter().any(|id| {
            let place = usize::try_from(*id).unwrap_or(usize::MAX);
            let of = |all: &[Option<i64>]| all.get(place).copied().flatten();
            of(&now).is_some_and(|now| of(&before).is_none_or(|before| now > before))
        })
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
        batch::instantiate(self, self.prepared(session)?, reads, context).await
    }

    fn prepared(&self, session: &SessionState) -> Result<&Prepared> {
        if let Some(prepared) = self.prepared.get() {
            return Ok(prepared);
        }
        let prepared = self.prepare(session)?;
        Ok(self.prepared.get_or_init(|| prepared))
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
        let optimised = calls::unnest(optimised).map_err(failure::planning)?;
        let late = late::LateColumns::of(&optimised, self.mode).map_err(failure::planning)?;
        let leaving = Leaving { late, letters: self.letters.clone() };
        Ok(Prepared { state, optimised, leaving })
    }
}

/// The schema without the marks of hidden columns and event times: what was selected is a column
/// like others.
fn plain_schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| {
            let mut field = field.as_ref().clone();
            field.metadata_mut().remove(HIDDEN);
            event_time::without_event_time(field.metadata_mut());
            field
        })
        .collect();
    Arc::new(Schema::new(fields))
}
