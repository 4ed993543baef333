//! What a source must do.

use crate::{Clock, OptionSpec, Options};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::Expr;
use futures::future::BoxFuture;
use onefold_storage::{Place, Store};
use onefold_types::{BatchId, NamesOnly, Offset, OffsetRange, QueryId, Replay, Result};
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

/// The static description of a source: everything that users see of it is derived from this.
pub struct SourceSpec {
    /// The name in `format("…")`.
    pub name: &'static str,
    /// What it reads, in one clause.
    pub summary: &'static str,
    /// Its options.
    pub options: &'static [&'static [OptionSpec]],
    /// Checks the options and finds the schema. Reads as little as it can.
    pub define: fn(SourceRequest) -> Defining,
}

/// A source on its way to its definition.
pub type Defining = BoxFuture<'static, Result<Arc<dyn SourceDefinition>>>;

/// What a user asked for with `readStream`.
#[derive(Debug, Clone)]
pub struct SourceRequest {
    /// Checked options.
    pub options: Options,
    /// The schema that the user gave, if any.
    pub schema: Option<SchemaRef>,
    /// Paths given to `load`; empty if none.
    pub paths: Vec<String>,
    /// Runtime settings of the session, as in [`SourceContext::conf`].
    pub conf: BTreeMap<String, String>,
    /// What is there now is read, as a table, and not a stream.
    pub whole: bool,
}

/// A source as part of a query's definition: it has a schema but reads nothing yet. The same
/// definition may be opened by several queries.
#[async_trait]
pub trait SourceDefinition: Debug + Send + Sync {
    /// The columns that it gives.
    fn schema(&self) -> SchemaRef;
    /// Whether ranges can be read again.
    fn replay(&self) -> Replay;
    /// Spark's description, as in progress: `FileStreamSource[file:/data/in]`.
    fn description(&self) -> String;
    /// Folders that the source reads, as URLs.
    fn folders(&self) -> Vec<String> {
        Vec::new()
    }
    /// How a folder that a query writes lies to what the source reads, so that a query which would
    /// read what it writes can be refused. `None` when they have nothing in common.
    ///
    /// # Errors
    /// Unavailable, when the disk does not say where a path leads.
    fn overlap(&self, place: &Place) -> Result<Option<Overlap>> {
        for folder in self.folders() {
            let input = Place::find(&folder)?;
            if place.below(&input).is_some() || input.below(place).is_some() {
                return Ok(Some(Overlap { input: input.to_string(), hidden: false }));
            }
        }
        Ok(None)
    }
    /// Whether it reads this topic of the brokers at any of these addresses (`host:port`, commas
    /// between them).
    fn reads_topic(&self, _servers: &str, _topic: &str) -> bool {
        false
    }
    /// Opens it for one query and adopts what the checkpoint says.
    ///
    /// # Errors
    /// Corrupt, when the source's own log in the checkpoint does not fit the intents.
    async fn open(&self, context: SourceContext) -> Result<Arc<dyn Source>>;
}

/// A folder lies in what a source reads, or the other way round, or both are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// What the source reads, to be named in an error.
    pub input: String,
    /// The folder lies below the input under a name that the source leaves out (`_x`, `.x`): what
    /// is in it is never read.
    pub hidden: bool,
}

/// What a source gets of the query that opens it.
#[derive(Clone)]
pub struct SourceContext {
    /// The query.
    pub query: QueryId,
    /// The checkpoint.
    pub checkpoint: Arc<dyn Store>,
    /// The source's own folder in the checkpoint: `sources/0`, or `sources/NAME`.
    pub log_folder: String,
    /// The retained intents in order, oldest first, with this source's range of each.
    pub history: Vec<(BatchId, OffsetRange)>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Runtime settings of the session (`spark.sql.…`, `onefold.…`).
    pub conf: BTreeMap<String, String>,
}

impl fmt::Debug for SourceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceContext")
            .field("query", &self.query)
            .field("log_folder", &self.log_folder)
            .field("history", &self.history)
            .field("conf", &NamesOnly(&self.conf))
            .finish_non_exhaustive()
    }
}

/// How much a batch may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadLimit {
    /// As the source's own options say (`maxFilesPerTrigger` …).
    Options,
    /// Everything there is (trigger `once`).
    All,
}

/// The end that a source proposes for the next batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestOffset {
    /// Where the next batch should end; equal to `start` when there is nothing new.
    pub end: Option<Offset>,
    /// The newest offset there is, for progress; may be past `end`. `None` if not known.
    pub latest: Option<Offset>,
    /// To be kept with the intent ([`OffsetRange::note`]).
    pub note: Option<String>,
}

/// What of a range the plan needs.
pub struct ScanRequest<'a> {
    /// Indices of the columns wanted, in order; `None` for all.
    pub projection: Option<&'a Vec<usize>>,
    /// Filters that the plan applies again itself: only to skip data early.
    pub filters: &'a [Expr],
    /// The session, for its configuration and runtime.
    pub session: &'a dyn Session,
}

/// A source opened by one query.
#[async_trait]
pub trait Source: Debug + Send + Sync {
    /// With trigger `available-now`: pins the end of the whole run to what is there now.
    async fn pin_available(&self) -> Result<()>;

    /// Proposes the end of the next batch. May write to the source's own log in the checkpoint
    /// (before the intent, as Spark's file source does). Asked again with the same `start` after
    /// a failure, it may answer differently: nothing has seen the first answer.
    async fn latest_offset(&self, start: Option<&Offset>, limit: ReadLimit)
    -> Result<LatestOffset>;

    /// Whether [`Source::arrival`] tells of whatever comes next, now that `latest_offset` found
    /// nothing: then a query that waits asks seldom.
    fn notices_arrivals(&self) -> bool {
        false
    }

    /// Returns when there is probably something new; may wait for ever. Dropping the future is fine.
    async fn arrival(&self) {
        std::future::pending().await
    }

    /// A plan that reads exactly this range, with the projected schema. `range.note` is what
    /// `latest_offset` gave when the range was chosen, or absent where Spark chose it.
    ///
    /// # Errors
    /// Corrupt, when the range can not be read again as it was recorded; the text names the
    /// difference and the option that allows it.
    async fn read(
        &self,
        range: &OffsetRange,
        scan: ScanRequest<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>>;

    /// Everything before `up_to` belongs to committed batches: it may be archived, deleted,
    /// reported. Idempotent; called again after a crash.
    async fn release(&self, range: &OffsetRange) -> Result<()>;

    /// Intents older than `keep_from` are about to be purged, with their notes: what only these
    /// remember must be durable elsewhere when this returns. Runs beside batches; an error keeps the
    /// intents.
    async fn retain(&self, _keep_from: BatchId) -> Result<()> {
        Ok(())
    }

    /// Source metrics for progress (Spark's `sources[].metrics`), for the given end.
    fn metrics(&self, _range: &OffsetRange) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}
