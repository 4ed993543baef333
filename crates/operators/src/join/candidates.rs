//! Pairs of rows with equal keys, weighed many at a time.

use super::arrivals::lost_row;
use super::codec::{is_matched, set_matched};
use super::filter::Half;
use super::plan::{JoinPlan, Side, SidePlan};
use arrow::array::new_null_array;
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use onefold_state::{KeyGroup, StateRow};
use std::sync::Arc;

/// Rows of one side that may meet rows of the other, each by its number.
pub(super) trait Meeting {
    /// Where the rows are.
    fn batches(&self) -> &[RecordBatch];

    /// Batch and row of a row.
    fn place(&self, row: usize) -> Result<(usize, usize)>;

    /// Whether it has met another.
    fn is_matched(&self, row: usize) -> bool;

    /// Notes that it has.
    fn set_matched(&mut self, row: usize);
}

/// Pairs to be weighed: numbers of rows.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    left: Vec<usize>,
    right: Vec<usize>,
}

impl Pairs {
    /// A row of `side` and one of the other side.
    pub(super) fn push(&mut self, side: Side, row: usize, other: usize) {
        let (left, right) = match side {
            Side::Left => (row, other),
            Side::Right => (other, row),
        };
        self.left.push(left);
        self.right.push(right);
    }

    pub(super) fn len(&self) -> usize {
        self.left.len()
    }

    /// The rows that come out of the pairs; afterwards there are none.
    pub(super) fn weigh(
        &mut self,
        plan: &JoinPlan,
        left: &mut dyn Meeting,
        right: &mut dyn Meeting,
    ) -> Result<RecordBatch> {
        // Without rows on a side there is nothing that could tell the types of its columns.
        if self.left.is_empty() {
            return Ok(RecordBatch::new_empty(Arc::clone(&plan.schema)));
        }
        let left_places = places(left, &self.left)?;
        let right_places = places(right, &self.right)?;
        let mask = plan.condition.joins(
            &Half { batches: left.batches(), places: &left_places },
            &Half { batches: right.batches(), places: &right_places },
        )?;
        let mut kept = (Vec::new(), Vec::new());
        let mut keep = |pair: usize| {
            let rows = self.left.get(pair).zip(self.right.get(pair));
            let (Some((left_row, right_row)), Some(left_place), Some(right_place)) =
                (rows, left_places.get(pair), right_places.get(pair))
            else {
                return;
            };
            if plan.semi && left.is_matched(*left_row) {
                return;
            }
            if plan.left.tracked {
                left.set_matched(*left_row);
            }
            if plan.right.tracked {
                right.set_matched(*right_row);
            }
            kept.0.push(*left_place);
            kept.1.push(*right_place);
        };
        match mask {
            Some(mask) => mask.values().set_indices().for_each(&mut keep),
            None => (0..self.left.len()).for_each(&mut keep),
        }
        self.left.clear();
        self.right.clear();
        let left = Half { batches: left.batches(), places: &kept.0 };
        let right = Half { batches: right.batches(), places: &kept.1 };
        joined(plan, &left, &right)
    }
}

fn places(rows: &dyn Meeting, numbers: &[usize]) -> Result<Vec<(usize, usize)>> {
    numbers.iter().map(|row| rows.place(*row)).collect()
}

fn joined(plan: &JoinPlan, left: &Half<'_>, right: &Half<'_>) -> Result<RecordBatch> {
    if left.places.is_empty() {
        return Ok(RecordBatch::new_empty(Arc::clone(&plan.schema)));
    }
    let mut columns = Vec::with_capacity(plan.schema.fields().len());
    for column in 0..plan.left.schema.fields().len() {
        columns.push(left.column(column)?);
    }
    if !plan.semi {
        for column in 0..plan.right.schema.fields().len() {
            columns.push(right.column(column)?);
        }
    }
    Ok(RecordBatch::try_new(Arc::clone(&plan.schema), columns)?)
}

/// Rows of a side that met none, with NULL for the other side's columns.
pub(super) fn alone(plan: &JoinPlan, side: &SidePlan, rows: &Half<'_>) -> Result<RecordBatch> {
    let nulls = |other: &SidePlan| {
        let fields = other.schema.fields().iter();
        let nulls = fields.map(|field| new_null_array(field.data_type(), rows.places.len()));
        nulls.collect::<Vec<_>>()
    };
    let mut own = Vec::with_capacity(side.schema.fields().len());
    for column in 0..side.schema.fields().len() {
        own.push(rows.column(column)?);
    }
    let columns = match side.side {
        Side::Left => [own, nulls(&plan.right)].concat(),
        Side::Right => [nulls(&plan.left), own].concat(),
    };
    Ok(RecordBatch::try_new(Arc::clone(&plan.schema), columns)?)
}

/// Rows from the state that rows of the batch may meet.
#[derive(Debug, Default)]
pub(super) struct Stored {
    rows: Vec<(KeyGroup, StateRow)>,
    /// Rows whose flag was set here.
    changed: Vec<usize>,
    /// The first rows as one batch.
    decoded: Vec<RecordBatch>,
}

impl Stored {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn push(&mut self, group: KeyGroup, row: StateRow) {
        self.rows.push((group, row));
    }

    /// Makes the columns of all rows readable.
    pub(super) fn decode(&mut self, side: &SidePlan) -> Result<()> {
        if self.decoded.first().is_some_and(|batch| batch.num_rows() == self.rows.len()) {
            return Ok(());
        }
        let values = self.rows.iter().map(|(_, row)| row.value.as_ref());
        self.decoded = vec![side.values.decode(values)?];
        Ok(())
    }

    /// Forgets the rows; gives those whose flag was set.
    pub(super) fn clear(&mut self) -> Result<Vec<(KeyGroup, StateRow)>> {
        let mut changed = Vec::with_capacity(self.changed.len());
        for row in self.changed.drain(..) {
            let row = self.rows.get_mut(row).ok_or_else(lost_row)?;
            let empty = StateRow { key: Box::default(), value: Box::default() };
            changed.push((row.0, std::mem::replace(&mut row.1, empty)));
        }
        self.rows.clear();
        self.decoded.clear();
        Ok(changed)
    }
}

impl Meeting for Stored {
    fn batches(&self) -> &[RecordBatch] {
        &self.decoded
    }

    fn place(&self, row: usize) -> Result<(usize, usize)> {
        Ok((0, row))
    }

    fn is_matched(&self, row: usize) -> bool {
        self.rows.get(row).is_some_and(|(_, row)| is_matched(&row.value))
    }

    fn set_matched(&mut self, row: usize) {
        let Some((_, stored)) = self.rows.get_mut(row) else { return };
        if !is_matched(&stored.value) {
            set_matched(stored);
            self.changed.push(row);
        }
    }
}
