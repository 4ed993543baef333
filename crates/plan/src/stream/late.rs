//! Rows that operators drop because they come too late, as rows of a sink of their own.
//!
//! They have the columns of the operator's input where all operators that drop rows have the same;
//! else the row stands in one column as JSON.

use super::nodes::{
    Deduplicate, StatefulAggregate, StreamJoin, UserState, as_node, event_time_column,
};
use super::side::SideColumns;
use super::table::hidden;
use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Fields, SchemaRef, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use onefold_connector::OutputMode;
use onefold_operators::LateShape;
use onefold_state::OperatorId;
use std::sync::Arc;

/// The column that names the operator.
const OPERATOR: &str = "_operator";
/// The column with the watermark that the row did not pass.
const WATERMARK: &str = "_watermark";

/// The zone of timestamps.
const ZONE: &str = "UTC";

/// What late rows of a query look like.
#[derive(Debug, Clone)]
pub(super) struct LateColumns {
    columns: SideColumns,
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
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into()));
        let why =
            vec![Field::new(OPERATOR, DataType::Utf8, false), Field::new(WATERMARK, time, false)];
        let columns = SideColumns::of(drops.iter().map(|it| &it.fields), why);
        Ok(columns.map(|columns| LateColumns { columns, drops }))
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.columns.schema()
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
            columns: self.columns.clone(),
            drops: own.collect(),
            label: label.to_owned(),
            watermark_us: watermark_ms.saturating_mul(1_000),
        })
    }
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
    columns: SideColumns,
    drops: Vec<Drops>,
    label: String,
    watermark_us: i64,
}

impl LateShape for Shape {
    fn shape(&self, input: usize, rows: &RecordBatch) -> Result<RecordBatch> {
        let lost = || DataFusionError::Internal("late rows of an unknown input".to_owned());
        let drops = self.drops.iter().find(|it| it.input == input).ok_or_else(lost)?;
        let column = |place: &usize| rows.columns().get(*place).cloned().ok_or_else(lost);
        let columns = drops.places.iter().map(column).collect::<Result<Vec<_>>>()?;
        let count = rows.num_rows();
        let times = TimestampMicrosecondArray::from(vec![self.watermark_us; count]);
        let why: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![self.label.as_str(); count])),
            Arc::new(times.with_timezone(ZONE)),
        ];
        self.columns.rows(&drops.fields, columns, why, count)
    }
}
