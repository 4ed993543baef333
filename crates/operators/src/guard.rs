//! A step of a plan that goes on where a row cannot be computed: the record that the row came from
//! becomes a dead letter.

use crate::failure;
use crate::fault::kind_of;
use crate::side::{self, SideSender};
use crate::unary::{Unary, UnaryExec};
use arrow::array::{Array, AsArray, BooleanArray, StructArray, UInt32Array};
use arrow::compute::{concat_batches, filter_record_batch, prep_null_mask_filter, take};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::StreamExt;
use onefold_types::ErrorKind;
use std::fmt::Debug;
use std::sync::Arc;

/// What is computed of each row.
#[derive(Debug, Clone)]
pub enum GuardedStep {
    /// The columns that come out.
    Project(Vec<PhysicalExprRef>),
    /// Whether the row stays.
    Filter(PhysicalExprRef),
}

/// Gives dead letters of a step the columns that are common to all.
pub trait LetterShape: Debug + Send + Sync {
    /// Shapes records, each with the error of the row that it became.
    ///
    /// # Errors
    /// When the records do not have the columns that were planned.
    fn shape(&self, records: &StructArray, errors: Vec<DataFusionError>) -> Result<RecordBatch>;
}

/// Where the dead letters of a step go.
#[derive(Debug, Clone)]
pub struct LetterOutlet {
    /// What they look like.
    pub shape: Arc<dyn LetterShape>,
    /// Where they go.
    pub to: SideSender,
}

/// A step of which rows that cannot be computed go to an outlet.
///
/// What is computed of a row must depend on that row alone, since rows are computed again in smaller
/// numbers to find those that fail.
#[derive(Debug)]
pub struct Guard(Arc<Guarded>);

#[derive(Debug)]
struct Guarded {
    step: GuardedStep,
    /// The column of the input, a struct, that holds the record that a row came from.
    record: usize,
    outlet: LetterOutlet,
    schema: SchemaRef,
}

/// Rows that were computed, and those that could not be, by their places in the input.
#[derive(Default)]
struct Outcome {
    rows: Vec<RecordBatch>,
    failed: Vec<(usize, DataFusionError)>,
}

impl Guard {
    /// The step over an input whose column `record` is a struct; gives rows of `schema`.
    #[must_use]
    pub fn over(
        input: Arc<dyn ExecutionPlan>,
        step: GuardedStep,
        record: usize,
        outlet: LetterOutlet,
        schema: SchemaRef,
    ) -> Arc<dyn ExecutionPlan> {
        let guarded = Guarded { step, record, outlet, schema: Arc::clone(&schema) };
        UnaryExec::over(input, schema, Arc::new(Guard(Arc::new(guarded))))
    }
}

impl Guarded {
    async fn pass(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let mut outcome = Outcome::default();
        self.compute(&batch, 0, &mut outcome)?;
        if !outcome.failed.is_empty() {
            let letters = self.letters(&batch, outcome.failed)?;
            side::send(&self.outlet.to, letters).await?;
        }
        match <[RecordBatch; 1]>::try_from(outcome.rows) {
            Ok([whole]) => Ok(whole),
            Err(parts) => Ok(concat_batches(&self.schema, &parts)?),
        }
    }

    /// Computes rows that stand at `first` in the input; halves them until those that fail are alone.
    fn compute(&self, rows: &RecordBatch, first: usize, outcome: &mut Outcome) -> Result<()> {
        let error = match self.step(rows) {
            Ok(computed) => {
                outcome.rows.push(computed);
                return Ok(());
            }
            Err(error) => error,
        };
        // Only what is wrong with a row itself is the same whenever it is computed.
        if kind_of(&error) != ErrorKind::Invalid {
            return Err(error);
        }
        let count = rows.num_rows();
        if count <= 1 {
            outcome.failed.extend((count == 1).then_some((first, error)));
            return Ok(());
        }
        let half = count / 2;
        self.compute(&rows.slice(0, half), first, outcome)?;
        self.compute(&rows.slice(half, count - half), first + half, outcome)
    }

    fn step(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        match &self.step {
            GuardedStep::Project(columns) => {
                let columns = columns
                    .iter()
                    .map(|column| column.evaluate(rows)?.into_array(rows.num_rows()))
                    .collect::<Result<Vec<_>>>()?;
                let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
                let schema = Arc::clone(&self.schema);
                Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
            }
            GuardedStep::Filter(predicate) => {
                let stays = predicate.evaluate(rows)?.into_array(rows.num_rows())?;
                let stays = stays.as_boolean_opt();
                let stays = stays.ok_or_else(|| failure::internal("a filter is no condition"))?;
                Ok(filter_record_batch(rows, &known(stays))?)
            }
        }
    }

    fn letters(
        &self,
        batch: &RecordBatch,
        failed: Vec<(usize, DataFusionError)>,
    ) -> Result<RecordBatch> {
        let lost = || failure::internal("a row lost the record that it came from");
        let (places, errors): (Vec<usize>, Vec<DataFusionError>) = failed.into_iter().unzip();
        let places = places.into_iter().map(|place| u32::try_from(place).map_err(|_| lost()));
        let places: UInt32Array = places.collect::<Result<Vec<u32>>>()?.into();
        let records = batch.columns().get(self.record).ok_or_else(lost)?;
        let records = take(records, &places, None)?;
        self.outlet.shape.shape(records.as_struct_opt().ok_or_else(lost)?, errors)
    }
}

/// A row of which it is not known whether it stays does not.
fn known(stays: &BooleanArray) -> BooleanArray {
    match stays.nulls() {
        Some(_) => prep_null_mask_filter(stays),
        None => stays.clone(),
    }
}

impl Unary for Guard {
    fn name(&self) -> &'static str {
        "GuardExec"
    }

    fn describe(&self) -> String {
        match &self.0.step {
            GuardedStep::Project(columns) => {
                columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            }
            GuardedStep::Filter(predicate) => predicate.to_string(),
        }
    }

    fn run(
        &self,
        _partition: usize,
        input: SendableRecordBatchStream,
        _task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (schema, guarded) = (Arc::clone(&self.0.schema), Arc::clone(&self.0));
        let passed = input.then(move |batch| {
            let guarded = Arc::clone(&guarded);
            async move { guarded.pass(batch?).await }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, passed)))
    }
}

#[cfg(test)]
mod tests;
