//! Rows that operators drop because they come too late, as rows of a sink of their own.
//!
//! They have the columns of the operator's input where all operators that drop rows have the same;
//! else the row stands in one column as JSON.

use super::nodes::{
    Deduplicate, StatefulAggregate, StreamJoin, UserState, as_node, event_time_column,
};
use super::table::hidden;
use crate::functions::json::json_of;
use arrow::array::{ArrayRef, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use onefold_connector::OutputMode;
use onefold_operators::LateShape;
use onefold_state::OperatorId;
use std::collections::HashSet;
use std::sync::Arc;

/// The column that names the operator.
const OPERATOR: &str = "_operator";
/// The column with the watermark that the row did not pass.
const WATERMARK: &str = "_watermark";
/// The column of rows as JSON.
const ROW: &str = "row";

/// The zone of timestamps.
const ZONE: &str = "UTC";

/// What late rows of a query look like.
#[derive(Debug, Clone)]
pub(super) struct LateColumns {
    schema: SchemaRef,
    json: bool,
    drops: Vec<Drops>,
}

/// One input of an operator that leaves late rows out.
#[derive(Debug, Clone)]
struct Drops {
    operator: OperatorId,
    input: usize,
    /// The places of the columns that are shown, and their names and types.
    places: Vec<usize>,
    fields: Fields,
}

impl LateColumns {
    /// Of the operators of an optimised plan; `None` if none of them drops late rows.
    pub(super) fn of(plan: &LogicalPlan, mode: OutputMode) -> Result<Option<LateColumns>> {
        let mut drops: Vec<Drops> = Vec::new();
        plan.apply(|node| {
            drops_of(node, mode, &mut drops);
            Ok(TreeNodeRecursion::Continue)
        })?;
        let Some(first) = drops.first() else { return Ok(None) };
        let same = drops.iter().all(|it| it.fields == first.fields) && fit(&first.fields);
        let rows: Vec<Arc<Field>> = match same {
            true => first.fields.iter().cloned().collect(),
            false => vec![Arc::new(Field::new(ROW, DataType::Utf8, false))],
        };
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into()));
        let own = [Field::new(OPERATOR, DataType::Utf8, false), Field::new(WATERMARK, time, false)];
        let fields: Vec<Arc<Field>> = rows.into_iter().chain(own.map(Arc::new)).collect();
        Ok(Some(LateColumns { schema: Arc::new(Schema::new(fields)), json: !same, drops }))
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// How one operator's late rows become such rows.
    pub(super) fn shape(
        &self,
        operator: OperatorId,
        label: &str,
        watermark_ms: i64,
    ) -> Arc<dyn LateShape> {
        let own = self.drops.iter().filter(|it| it.operator == operator).cloned();
        Arc::new(Shape {
            schema: Arc::clone(&self.schema),
            json: self.json,
            drops: own.collect(),
            label: label.to_owned(),
            watermark_us: watermark_ms.saturating_mul(1_000),
        })
    }
}

/// Whether the names of columns differ, and none is one of ours.
fn fit(fields: &Fields) -> bool {
    let mut names = HashSet::from([OPERATOR.to_owned(), WATERMARK.to_owned()]);
    fields.iter().all(|field| names.insert(field.name().to_lowercase()))
}

fn drops_of(node: &LogicalPlan, mode: OutputMode, drops: &mut Vec<Drops>) {
    let session = as_node::<StatefulAggregate>(node).is_some_and(|node| node.session.is_some());
    let window = if session { "session_window" } else { "window" };
    let mut add = |operator: OperatorId, input: usize, schema: &DFSchema| {
        let (places, fields) = shown(schema, window);
        drops.push(Drops { operator, input, places, fields });
    };
    if let Some(node) = as_node::<StatefulAggregate>(node) {
        if node.event_time.is_some() && (session || mode != OutputMode::Complete) {
            add(node.identity.id, 0, node.input.schema());
        }
    } else if let Some(node) = as_node::<Deduplicate>(node) {
        if node.event_time.is_some() {
            add(node.identity.id, 0, node.input.schema());
        }
    } else if let Some(node) = as_node::<StreamJoin>(node) {
        for (input, side) in [&node.left, &node.right].into_iter().enumerate() {
            if event_time_column(side.schema()).is_some() {
                add(node.identity.id, input, side.schema());
            }
        }
    } else if let Some(node) = as_node::<UserState>(node)
        && node.function.by_event_time()
        && node.event_time.is_some()
    {
        add(node.identity.id, 0, node.input.schema());
    }
}

/// The columns of an input that a user knows, as plain columns. That of a window has a made-up name
/// below its aggregation.
fn shown(schema: &DFSchema, window: &str) -> (Vec<usize>, Fields) {
    let all = schema.fields().iter().enumerate().filter(|(_, field)| !hidden(field));
    let (places, fields): (Vec<usize>, Vec<Arc<Field>>) = all
        .map(|(place, field)| {
            let made_up = super::windows::made_up(field.name());
            let name = if made_up { window } else { field.name() };
            (place, Arc::new(Field::new(name, field.data_type().clone(), true)))
        })
        .unzip();
    (places, fields.into())
}

#[derive(Debug)]
struct Shape {
    schema: SchemaRef,
    json: bool,
    drops: Vec<Drops>,
    label: String,
    watermark_us: i64,
}

impl LateShape for Shape {
    fn shape(&self, input: usize, rows: &RecordBatch) -> Result<RecordBatch> {
        let lost = || DataFusionError::Internal("late rows of an unknown input".to_owned());
        let drops = self.drops.iter().find(|it| it.input == input).ok_or_else(lost)?;
        let rows_of = |place: &usize| rows.columns().get(*place).ok_or_else(lost);
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for (place, field) in drops.places.iter().zip(&drops.fields) {
            let column = rows_of(place)?;
            columns.push(match column.data_type() == field.data_type() {
                true => Arc::clone(column),
                false => cast(column, field.data_type())?,
            });
        }
        let count = rows.num_rows();
        if self.json {
            let structs =
                StructArray::try_new_with_length(drops.fields.clone(), columns, None, count)?;
            columns = vec![json_of(&(Arc::new(structs) as ArrayRef))?];
        }
        columns.push(Arc::new(StringArray::from(vec![self.label.as_str(); count])));
        let times = TimestampMicrosecondArray::from(vec![self.watermark_us; count]);
        columns.push(Arc::new(times.with_timezone(ZONE)));
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}
