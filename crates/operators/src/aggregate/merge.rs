//! Merges a batch's partial aggregates with those kept.

use super::Accumulators;
use super::layout::Layout;
use crate::failure::{self, external};
use crate::keys::{Keys, RowCodec};
use crate::output::CHUNK;
use arrow::array::{ArrayRef, AsArray, BinaryViewArray, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use onefold_state::{KeyGroup, PartitionState};
use std::sync::Arc;

/// The family that groups are kept in.
pub(super) const FAMILY: usize = 0;

/// The groups that a batch touched in a partition.
pub(super) struct Merger {
    layout: Arc<Layout>,
    keys: Vec<PhysicalExprRef>,
    values: RowCodec,
    accumulators: Accumulators,
    table: Box<dyn GroupValues>,
    /// The group of each key of the table.
    places: Vec<usize>,
    /// The key group of each group.
    key_groups: Vec<KeyGroup>,
    /// The group of each row of the batch at hand.
    rows: Vec<usize>,
}

/// Touched groups with their new partial state.
pub(super) struct Touched {
    keys: ArrayRef,
    key_groups: Vec<KeyGroup>,
    columns: Vec<ArrayRef>,
}

impl Merger {
    /// For rows of the partial aggregation's schema.
    pub(super) fn new(layout: &Arc<Layout>, partial: &Schema) -> Result<Self> {
        let key = Field::new("key", DataType::BinaryView, false);
        Ok(Merger {
            layout: Arc::clone(layout),
            keys: layout.key_exprs(partial),
            values: layout.value_codec()?,
            accumulators: Accumulators::new(&layout.values.aggregates, layout.global())?,
            table: new_group_values(Arc::new(Schema::new(vec![key])), &GroupOrdering::None)?,
            places: Vec::new(),
            key_groups: Vec::new(),
            rows: Vec::new(),
        })
    }

    /// Takes rows of partial state; reads what is kept of groups that were not met before.
    pub(super) fn take(
        &mut self,
        batch: &RecordBatch,
        state: &mut dyn PartitionState,
    ) -> Result<()> {
        let keys = Keys::of(&self.keys, &self.layout.key.codec, batch)?;
        self.intern(&keys, state)?;
        let columns = batch.columns().get(self.layout.key_columns()..).unwrap_or_default();
        self.accumulators.merge(columns, &self.rows, self.key_groups.len())
    }

    /// Makes sure that the one group of a global aggregation is there.
    pub(super) fn touch_global(&mut self, state: &mut dyn PartitionState) -> Result<()> {
        if !self.key_groups.is_empty() {
            return Ok(());
        }
        self.intern(&Keys::empty(1), state)?;
        // Accumulators learn of their groups by merging.
        let none = self.values.types().iter();
        let none: Vec<ArrayRef> = none.map(arrow::array::new_empty_array).collect();
        self.accumulators.merge(&none, &[], 1)
    }

    /// Numbers the groups of rows and merges what is kept of the new ones.
    ///
    /// Those of which something is kept come first: an accumulator that merges rows takes it that
    /// each group up to the total has been given a row by then, and else makes a sum of nothing 0.
    fn intern(&mut self, keys: &Keys, state: &mut dyn PartitionState) -> Result<()> {
        let array = BinaryViewArray::from_iter_values(keys.iter().map(|(_, key)| key));
        self.table.intern(&[Arc::new(array)], &mut self.rows)?;
        let mut wanted = Vec::new();
        for (key, number) in keys.iter().zip(&self.rows) {
            if *number == self.places.len() + wanted.len() {
                wanted.push(key);
            }
        }
        let found = state.get(FAMILY, &wanted).map_err(external)?;
        let first = self.key_groups.len();
        let mut next_kept = first;
        let mut next_new = first + found.iter().flatten().count();
        self.key_groups.resize(first + found.len(), 0);
        for ((key_group, _), value) in wanted.iter().zip(&found) {
            let next = if value.is_some() { &mut next_kept } else { &mut next_new };
            if let Some(slot) = self.key_groups.get_mut(*next) {
                *slot = *key_group;
            }
            self.places.push(*next);
            *next += 1;
        }
        for row in &mut self.rows {
            *row = self.places.get(*row).copied().ok_or_else(|| {
                failure::internal("a key has a number that the table of keys did not give")
            })?;
        }
        if next_kept == first {
            return Ok(());
        }
        let kept = found.iter().flatten().map(AsRef::as_ref);
        let columns = decode(&self.values, kept)?;
        let groups: Vec<usize> = (first..next_kept).collect();
        self.accumulators.merge(&columns, &groups, next_kept)
    }

    /// Puts the new partial state of all touched groups.
    pub(super) fn save(mut self, state: &mut dyn PartitionState) -> Result<Touched> {
        let keys = self.table.emit(EmitTo::All)?.into_iter().next();
        let keys = keys.unwrap_or_else(|| arrow::array::new_empty_array(&DataType::BinaryView));
        let touched = Touched {
            keys: by_group(&keys, &self.places)?,
            key_groups: self.key_groups,
            columns: self.accumulators.state()?,
        };
        for chunk in touched.chunks() {
            let values = chunk.values(&self.values)?;
            for (row, (group, key)) in chunk.key_groups.iter().zip(chunk.keys()).enumerate() {
                let value = values.as_ref().map_or(&[][..], |values| values.row(row).data());
                state.put(FAMILY, *group, key, value).map_err(external)?;
            }
        }
        Ok(touched)
    }
}

/// Keys in the order of their groups.
fn by_group(keys: &ArrayRef, places: &[usize]) -> Result<ArrayRef> {
    if places.is_sorted() {
        return Ok(Arc::clone(keys));
    }
    let mut order: Vec<(usize, u64)> = places.iter().copied().zip(0..).collect();
    order.sort_unstable();
    let order = UInt64Array::from_iter_values(order.into_iter().map(|(_, number)| number));
    Ok(take(keys, &order, None)?)
}

impl Touched {
    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.key_groups.len()
    }

    /// The groups in pieces of a batch's size.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Touched> {
        (0..self.len()).step_by(CHUNK).map(|start| {
            let rows = CHUNK.min(self.len() - start);
            Touched {
                keys: self.keys.slice(start, rows),
                key_groups: self.key_groups.iter().skip(start).take(rows).copied().collect(),
                columns: self.columns.iter().map(|column| column.slice(start, rows)).collect(),
            }
        })
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.as_binary_view().iter().map(Option::unwrap_or_default)
    }

    fn values(&self, codec: &RowCodec) -> Result<Option<arrow::row::Rows>> {
        if self.columns.is_empty() {
            return Ok(None);
        }
        codec.encode(&self.columns).map(Some)
    }

    /// The results of the groups.
    pub(super) fn results(&self, layout: &Layout) -> Result<RecordBatch> {
        let (aggregates, global) = (&layout.values.aggregates, layout.global());
        let results = Accumulators::finish(aggregates, global, &self.columns, self.len())?;
        layout.results(self.keys(), results, self.len())
    }
}

/// The results of groups kept.
pub(super) fn results_of(layout: &Layout, rows: &[(&[u8], &[u8])]) -> Result<RecordBatch> {
    let columns = decode(&layout.value_codec()?, rows.iter().map(|(_, value)| *value))?;
    let (aggregates, global) = (&layout.values.aggregates, layout.global());
    let results = Accumulators::finish(aggregates, global, &columns, rows.len())?;
    layout.results(rows.iter().map(|(key, _)| *key), results, rows.len())
}

fn decode<'a>(codec: &RowCodec, rows: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
    if codec.types().is_empty() { Ok(Vec::new()) } else { codec.decode(rows) }
}
