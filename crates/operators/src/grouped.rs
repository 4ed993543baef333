//! The rows that a batch brings to a partition, by their key.

use crate::OperatorContext;
use crate::event_time::late_in;
use crate::keys::{Keys, RowCodec, batch_of, key_fields, state_schema};
use arrow::array::Array;
use arrow::compute::{filter_record_batch, interleave_record_batch, not};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::HashMap;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use onefold_state::KeyGroup;
use std::ops::Range;

/// How rows of an operator are grouped.
#[derive(Debug)]
pub(crate) struct Grouping {
    pub(crate) exprs: Vec<PhysicalExprRef>,
    /// The key's columns as they stand in the state.
    pub(crate) schema: SchemaRef,
    pub(crate) codec: RowCodec,
    /// The event time by which rows are late, where late rows are dropped.
    pub(crate) event_time: Option<PhysicalExprRef>,
}

impl Grouping {
    pub(crate) fn new(
        keys: &[(PhysicalExprRef, String)],
        event_time: Option<PhysicalExprRef>,
        input: &Schema,
    ) -> Result<Self> {
        let schema = state_schema(key_fields(keys, input)?);
        if let Some(event_time) = &event_time {
            crate::event_time::unit_of(&event_time.data_type(input)?)?;
        }
        Ok(Grouping {
            exprs: keys.iter().map(|(expr, _)| expr.clone()).collect(),
            codec: RowCodec::of(&schema)?,
            schema,
            event_time,
        })
    }

    /// Whether keys of both can be equal.
    pub(crate) fn fits(&self, other: &Grouping) -> bool {
        self.codec.types() == other.codec.types()
    }

    /// The key's columns with others after them.
    pub(crate) fn then(&self, fields: impl IntoIterator<Item = FieldRef>) -> SchemaRef {
        state_schema(self.schema.fields().iter().cloned().chain(fields))
    }

    /// The keys as columns, a row for each, in their order.
    pub(crate) fn read<'a>(
        &self,
        keys: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<RecordBatch> {
        let count = keys.len();
        if self.schema.fields().is_empty() {
            return batch_of(&self.schema, Vec::new(), count);
        }
        batch_of(&self.schema, self.codec.decode(keys)?, count)
    }
}

/// Groups with their rows, all of one partition of a batch.
#[derive(Debug, Clone)]
pub struct GroupedRows {
    /// The key's columns, a row for each group.
    pub keys: RecordBatch,
    /// The input's columns. The rows of a group stand together, in the order in which they came,
    /// and groups in the order of `keys`.
    pub rows: RecordBatch,
    /// Where the rows of each group end in `rows`; they begin where those of the group before end.
    pub ends: Vec<usize>,
}

impl GroupedRows {
    /// How many groups there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Where the rows of a group are in `rows`.
    #[must_use]
    pub fn rows_of(&self, group: usize) -> Range<usize> {
        let start = group.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let start = start.unwrap_or(0);
        start..self.ends.get(group).copied().unwrap_or(start)
    }
}

/// A key with rows in the batch.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) key: Box<[u8]>,
    pub(crate) group: KeyGroup,
    /// Its rows in the order in which they came: batch and row in it.
    pub(crate) rows: Vec<(usize, usize)>,
}

/// All groups of a partition, in the order of their keys' bytes.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) groups: Vec<Group>,
}

/// Groups handed to the user's code at a time, and rows after which no further group is.
const GROUPS_AT_ONCE: usize = 1_024;
const ROWS_AT_ONCE: usize = 64 * 1_024;

impl Groups {
    /// The groups in parts of a good size.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[Group]> {
        let mut left = self.groups.as_slice();
        std::iter::from_fn(move || {
            let mut rows = 0;
            let more = left.iter().take(GROUPS_AT_ONCE).take_while(|group| {
                let wanted = rows < ROWS_AT_ONCE;
                rows += group.rows.len();
                wanted
            });
            let count = more.count();
            let (part, rest) = left.split_at_checked(count).filter(|_| count > 0)?;
            left = rest;
            Some(part)
        })
    }

    /// Some groups with their rows put together.
    pub(crate) fn together(&self, grouping: &Grouping, part: &[Group]) -> Result<GroupedRows> {
        let keys = grouping.read(part.iter().map(|group| group.key.as_ref()))?;
        let rows = self.rows_of(part)?;
        let mut end = 0;
        let ends = part.iter().map(|group| {
            end += group.rows.len();
            end
        });
        Ok(GroupedRows { keys, rows, ends: ends.collect() })
    }

    /// The rows of some groups, one group after the other.
    pub(crate) fn rows_of(&self, part: &[Group]) -> Result<RecordBatch> {
        let places: Vec<(usize, usize)> =
            part.iter().flat_map(|group| group.rows.iter().copied()).collect();
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        Ok(interleave_record_batch(&batches, &places)?)
    }

    /// Groups the rows of the batch, without the late ones, which are counted.
    pub(crate) fn gather(
        grouping: &Grouping,
        batches: Vec<RecordBatch>,
        context: &OperatorContext,
    ) -> Result<Self> {
        let mut ids: HashMap<Box<[u8]>, usize> = HashMap::new();
        let mut gathered = Groups::default();
        for batch in batches {
            let batch = in_time(grouping, batch, context)?;
            let number = gathered.batches.len();
            let keys = Keys::of(&grouping.exprs, &grouping.codec, &batch)?;
            for (row, (group, key)) in keys.iter().enumerate() {
                let id = match ids.get(key) {
                    Some(id) => *id,
                    None => {
                        let id = gathered.groups.len();
                        ids.insert(key.into(), id);
                        gathered.groups.push(Group { key: key.into(), group, rows: Vec::new() });
                        id
                    }
                };
                if let Some(group) = gathered.groups.get_mut(id) {
                    group.rows.push((number, row));
                }
            }
            gathered.batches.push(batch);
        }
        gathered.groups.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        Ok(gathered)
    }
}

fn in_time(
    grouping: &Grouping,
    batch: RecordBatch,
    context: &OperatorContext,
) -> Result<RecordBatch> {
    let (Some(event_time), Some(late_ms)) = (&grouping.event_time, context.late_ms) else {
        return Ok(batch);
    };
    let late = late_in(event_time, &batch, late_ms)?;
    let count = late.true_count();
    if count == 0 {
        return Ok(batch);
    }
    context.metrics.late(count, count);
    debug_assert_eq!(late.null_count(), 0, "a row is late or it is not");
    Ok(filter_record_batch(&batch, &not(&late)?)?)
}
