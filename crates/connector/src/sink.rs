//! What a sink must do.

use crate::{Clock, OptionSpec, Options, SinkEffects, SourceDefinition};
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use datafusion::physical_plan::SendableRecordBatchStream;
use onefold_types::{
    BatchId, Delivery, Error, Generation, NamesOnly, Published, QueryId, Result, RunId, Totals,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

/// The rows of one partition of a batch.
pub type RowStream = SendableRecordBatchStream;

/// The setting that tells a sink that there will be no other batch, so that it needs no mark: Spark's
/// `DataFrame.write`. The query lives as long as the write.
pub const ONE_BATCH: &str = "onefold.oneBatch";

/// The setting beside [`ONE_BATCH`] for sinks that look themselves what is there: Spark's save mode,
/// `append`, `overwrite`, `ignore` or `errorifexists`.
pub const SAVE_MODE: &str = "onefold.saveMode";

/// The static description of a sink.
pub struct SinkSpec {
    /// The name in `format("…")`.
    pub name: &'static str,
    /// Where it writes, in one clause.
    pub summary: &'static str,
    /// Its options.
    pub options: &'static [&'static [OptionSpec]],
    /// Checks the request.
    pub define: fn(SinkRequest) -> Result<Arc<dyn SinkDefinition>>,
}

/// Which rows of the result reach the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputMode {
    /// Rows that are new and final.
    Append,
    /// Rows that changed.
    Update,
    /// The whole result.
    Complete,
}

/// What a user asked for with `writeStream`.
#[derive(Debug, Clone)]
pub struct SinkRequest {
    /// Checked options.
    pub options: Options,
    /// The path given to `start` or option `path`.
    pub path: Option<String>,
    /// Columns of `partitionBy`.
    pub partition_by: Vec<String>,
    /// The query's name, if it has one.
    pub query_name: Option<String>,
    /// The output mode.
    pub output_mode: OutputMode,
}

/// A sink as part of a query's definition.
#[async_trait]
pub trait SinkDefinition: Debug + Send + Sync {
    /// How often a row arrives.
    fn delivery(&self) -> Delivery;
    /// Spark's description, as in progress: `FileSink[file:/data/out]`.
    fn description(&self) -> String;
    /// The folder that it writes, as a URL, if it writes one.
    fn folder(&self) -> Option<String> {
        None
    }
    /// The sink's content as a table of the session (memory sink).
    fn table(&self) -> Option<Arc<dyn TableProvider>> {
        None
    }
    /// Where records that could not be processed go, if this sink has a place of its own for them
    /// ([`Sink::stage_dead_letters`]), described as the sink itself is: `KafkaSink[dead]`.
    fn dead_letters(&self) -> Option<String> {
        None
    }
    /// The same sink, whose rows are records that could not be processed and nothing else, for a sink
    /// that writes them in a way of its own; `None` for one that writes them as any rows.
    ///
    /// # Errors
    /// Invalid: it was not told where they are to go.
    fn of_dead_letters(&self) -> Result<Option<Arc<dyn SinkDefinition>>> {
        Ok(None)
    }
    /// Whether it takes letters with these columns, of records from these sources.
    ///
    /// # Errors
    /// Invalid, with what to change: the letters lack what is written, or a source would read them.
    fn check_dead_letters(
        &self,
        _letters: &Schema,
        _sources: &[Arc<dyn SourceDefinition>],
    ) -> Result<()> {
        Ok(())
    }
    /// Opens it for one query. Checks the schema; finds another query's marks.
    ///
    /// # Errors
    /// Invalid, when the schema does not fit; Corrupt, when the sink belongs to another query.
    async fn open(&self, context: SinkContext) -> Result<Arc<dyn Sink>>;
}

/// What a sink gets of the query that opens it.
#[derive(Clone)]
pub struct SinkContext {
    /// The query.
    pub query: QueryId,
    /// This run.
    pub run: RunId,
    /// The driver's generation.
    pub generation: Generation,
    /// The newest commit and the newest intent of the checkpoint, so that the sink can tell marks
    /// that may be ours from marks of another checkpoint.
    pub last_commit: Option<BatchId>,
    /// The newest intent.
    pub last_intent: Option<BatchId>,
    /// Whether another sink of the query decides its batches, so that this one publishes after it.
    /// Then what an earlier driver staged for the newest intent may still be published, in its name
    /// by this driver: `open` leaves it alone, and `publish` throws nothing away that is not known
    /// to have lost.
    pub follows: bool,
    /// The columns that will come.
    pub schema: SchemaRef,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Where a sink that calls others remembers what they answered.
    pub effects: SinkEffects,
    /// Runtime settings of the session. With `onefold.readOnly` set to `true` the caller only looks
    /// (`last_mark`, `audit`), maybe while a query runs: `open` changes nothing then.
    pub conf: BTreeMap<String, String>,
}

impl fmt::Debug for SinkContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkContext")
            .field("query", &self.query)
            .field("generation", &self.generation)
            .field("last_commit", &self.last_commit)
            .field("last_intent", &self.last_intent)
            .field("conf", &NamesOnly(&self.conf))
            .finish_non_exhaustive()
    }
}

/// One try at one batch. The pair `(batch, generation)` never names two outcomes: a retry inside
/// the process takes a new generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// The query.
    pub query: QueryId,
    /// The batch.
    pub batch: BatchId,
    /// The driver.
    pub generation: Generation,
}

/// Staged output of one partition: plain data, so that it can come from another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedOutput {
    /// The partition.
    pub partition: u32,
    /// Rows and hash of what was staged.
    pub totals: Totals,
    /// The sink's own record of it.
    pub detail: serde_json::Value,
}

/// A committed batch whose mark is asked for.
#[derive(Debug, Clone, Copy)]
pub struct LostMark {
    /// The batch.
    pub batch: BatchId,
    /// Who published it and what, as its commit tells; `None` where that is not known any more.
    pub committed: Option<(Generation, Totals)>,
}

/// What a sink found of a batch whose mark was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rebuilt {
    /// Files of the batch.
    pub files: u64,
    /// What they hold.
    pub totals: Totals,
}

/// Tells whether this driver still owns the checkpoint.
#[async_trait]
pub trait Fence: Debug + Send + Sync {
    /// # Errors
    /// Fenced, naming the newer driver (host, pid, since when).
    async fn check(&self) -> Result<()>;
}

/// A sink opened by one query.
///
/// # The order of calls
/// `last_mark` at start; if the newest intent was not published, `conceal(batch)`. Then for each
/// batch: `stage` (all partitions, at the same time), `publish`, `settle`. When staging fails:
/// `discard`. All are safe to call again after a crash at any instruction.
#[async_trait]
pub trait Sink: Debug + Send + Sync {
    /// The newest batch that the sink holds.
    async fn last_mark(&self) -> Result<Option<Published>>;

    /// Makes the mark of a committed batch again, from what the sink still holds of it; only tells
    /// what it would make unless `apply` is set. `None` if the mark is not lost, or the sink cannot
    /// lose single ones. No query may run meanwhile.
    ///
    /// # Errors
    /// Corrupt, when what is left is not what was committed.
    async fn rebuild(&self, _lost: &LostMark, _apply: bool) -> Result<Option<Rebuilt>> {
        Ok(None)
    }

    /// Recovery: batch `batch` was intended but is not published. What an older driver left of it
    /// is taken out of readers' sight. Nothing is destroyed yet, since that driver may still live
    /// and win.
    async fn conceal(&self, batch: BatchId) -> Result<()>;

    /// Writes rows durably where nobody sees them. Dropping the future leaves garbage at most.
    async fn stage(
        &self,
        attempt: &Attempt,
        partition: u32,
        rows: RowStream,
    ) -> Result<StagedOutput>;

    /// As [`Sink::stage`], of records that could not be processed: as their source gave them, and
    /// what was wrong in the last column, `_error`. Called for sinks that take them.
    async fn stage_dead_letters(
        &self,
        _attempt: &Attempt,
        _partition: u32,
        _letters: RowStream,
    ) -> Result<StagedOutput> {
        Err(Error::internal("dead letters were sent to a sink that takes none"))
    }

    /// Told before a batch is published: where it ends in each source, by the source's key in the
    /// checkpoint, in the source's own form (`{"0": {"clicks": {"0": 23}}}`). A sink with room for it
    /// keeps it with the mark, so that a lost checkpoint can be told from what the sink holds.
    fn ends_at(&self, _attempt: &Attempt, _offsets: &serde_json::Value) {}

    /// Makes the batch visible with its mark: one atomic act. Asks `fence` just before. If another
    /// driver published the batch first, discards ours and returns the other's mark. In a sink that
    /// follows, the attempt may be an earlier driver's, and published by it already or meanwhile.
    ///
    /// # Errors
    /// Unknown, when the outcome is not known: the caller opens anew and asks `last_mark`.
    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        fence: &dyn Fence,
    ) -> Result<Published>;

    /// The batch's mark is decided (by this driver or an earlier one) and its commit is next:
    /// finishes what the winner left undone and destroys what others left of this batch.
    async fn settle(&self, published: &Published) -> Result<()>;

    /// Throws away what this attempt staged.
    async fn discard(&self, attempt: &Attempt) -> Result<()>;

    /// Reads batch `batch` back from the store and sums it up again, for `onefold verify`; `None`
    /// if the sink cannot (or no longer) tell.
    async fn audit(&self, batch: BatchId) -> Result<Option<Totals>>;

    /// Batches before `keep_from` are purged from the checkpoint's logs.
    async fn retain(&self, _keep_from: BatchId) -> Result<()> {
        Ok(())
    }

    /// Whether `last_mark` gives totals (or the sink needs none), so that a query without state
    /// needs no prepared record.
    fn tells_totals(&self) -> bool;
}
