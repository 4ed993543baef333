//! Grouped and global aggregation whose results grow from batch to batch.
//!
//! DataFusion's own partial aggregation reduces a batch to one row of partial state for each group;
//! an exchange brings these to the partition that owns the group's key; there they are merged with
//! the partial state that was kept, which is put back. So every aggregate function of DataFusion
//! works, and the cost follows the groups that a batch touches.
//!
//! # Invariants
//! - The state of a group is the state columns of its accumulators, in order.
//! - Kept state is merged before what is new, and new rows in the order in which they come, for the
//!   sake of `first`, `last` and `collect_list`.
//! - With an event time among the group columns, its tick stands first in the key, so that what a
//!   watermark is done with is a range of keys.

mod accumulators;
mod layout;
mod merge;
mod run;

use crate::context::{EmitMode, OperatorContext};
use crate::failure;
use crate::keys;
use crate::late::{LateFilter, check_event_time};
use crate::unary::UnaryExec;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::projection::ProjectionExec;
use layout::Layout;
use onefold_state::{Access, FamilySpec, OperatorId, OperatorSpec};
use onefold_types::{Error, Result as OwnResult};
use run::SaveAggregate;
use std::sync::Arc;

pub(crate) use accumulators::Accumulators;

/// Spark's name for the operator.
const KIND: &str = "stateStoreSave";

/// An expression over the input and its name in the output.
pub type NamedExpr = (PhysicalExprRef, String);

/// `GROUP BY` over a stream.
#[derive(Debug, Clone)]
pub struct StatefulAggregate {
    /// The grouping expressions over the input and their names in the output. None: one group that
    /// is always there.
    pub group: Vec<NamedExpr>,
    /// The aggregates, their arguments over the input.
    pub aggregates: Vec<Arc<AggregateFunctionExpr>>,
    /// The `FILTER` of each aggregate.
    pub filters: Vec<Option<PhysicalExprRef>>,
    /// Which of the grouping expressions is the event time: a timestamp, or a window.
    pub event_time: Option<usize>,
}

impl StatefulAggregate {
    /// The state that it keeps.
    ///
    /// # Errors
    /// Invalid: a group or an aggregate's state has a type that cannot be kept. Internal: the parts
    /// do not fit each other.
    pub fn spec(
        &self,
        id: OperatorId,
        label: impl Into<String>,
        input: &Schema,
    ) -> OwnResult<OperatorSpec> {
        let layout = self.layout(input)?;
        let access = if self.event_time.is_some() { Access::Ordered } else { Access::Point };
        let family = FamilySpec {
            name: "default".to_owned(),
            key: Arc::clone(&layout.key.schema),
            value: layout.value_schema(),
            access,
            counted: true,
        };
        Ok(OperatorSpec {
            id,
            kind: KIND.to_owned(),
            label: label.into(),
            families: vec![family],
            single: self.group.is_empty(),
        })
    }

    /// The rows that it gives: the groups, then the aggregates.
    ///
    /// # Errors
    /// As [`StatefulAggregate::spec`].
    pub fn schema(&self, input: &Schema) -> OwnResult<SchemaRef> {
        Ok(Arc::clone(&self.layout(input)?.output))
    }

    /// The operator over a batch's input.
    ///
    /// # Errors
    /// Invalid: append mode without an event time. Else as [`StatefulAggregate::spec`].
    pub fn exec(
        &self,
        input: Arc<dyn ExecutionPlan>,
        context: OperatorContext,
    ) -> OwnResult<Arc<dyn ExecutionPlan>> {
        if context.mode == EmitMode::Append && self.event_time.is_none() {
            return Err(Error::invalid(
                "append output mode not supported when there are streaming aggregations on \
                 streaming DataFrames/Datasets without watermark; call withWatermark() on the \
                 event time and group by it or by a window over it, or use update or complete",
            ));
        }
        let layout = Arc::new(self.layout(&input.schema())?);
        self.plan(input, layout, context).map_err(failure::planning)
    }

    fn layout(&self, input: &Schema) -> OwnResult<Layout> {
        if self.aggregates.len() != self.filters.len() {
            return Err(Error::internal("an aggregation has not one filter for each aggregate"));
        }
        if let Some(event_time) = self.event_time {
            let (expr, _) = self.group.get(event_time).ok_or_else(|| {
                Error::internal(format!("there is no group column {event_time} for the event time"))
            })?;
            check_event_time(expr, input)?;
        }
        Layout::new(self, input).map_err(failure::planning)
    }

    fn plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        layout: Arc<Layout>,
        context: OperatorContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input_schema = input.schema();
        let (input, group) = groups_as_columns(input, &self.group)?;
        let group: Vec<PhysicalExprRef> = group.into_iter().map(|(expr, _)| expr).collect();
        let names = layout.key.schema.fields().iter().map(|field| field.name().clone());
        let key = layout.key.exprs(&group, &input.schema())?.into_iter().zip(names);
        let (mut input, key) = groups_as_columns(input, &key.collect::<Vec<_>>())?;
        // Complete mode keeps everything, so nothing is ever late.
        let event_time = key.first().filter(|_| self.event_time.is_some());
        let late = context.late_ms.filter(|_| context.mode != EmitMode::Complete);
        if let (Some((expr, _)), Some(late_ms)) = (event_time, late) {
            let keys = key.iter().map(|(expr, _)| Arc::clone(expr)).collect();
            let of = (&context, input_schema.fields().len());
            input = LateFilter::over(input, Arc::clone(expr), late_ms, of, Some(keys))?;
        }
        let (aggregates, filters) = (self.aggregates.clone(), self.filters.clone());
        let partial = partial(input, input_schema, key, aggregates, filters)?;
        let keys = layout.key_exprs(&partial.schema());
        let output = Arc::clone(&layout.output);
        let partitions = context.state.partitions();
        let save = SaveAggregate::new(layout, context);
        UnaryExec::over_key_groups(partial, keys, partitions, output, Arc::new(save))
            .map_err(failure::external)
    }
}

/// DataFusion's partial aggregation: one row of partial state for each group of a batch.
/// `arguments` is the schema that the aggregates' arguments and filters are over.
pub(crate) fn partial(
    input: Arc<dyn ExecutionPlan>,
    arguments: SchemaRef,
    group: Vec<NamedExpr>,
    aggregates: Vec<Arc<AggregateFunctionExpr>>,
    filters: Vec<Option<PhysicalExprRef>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let group = PhysicalGroupBy::new_single(group);
    let mode = AggregateMode::Partial;
    Ok(Arc::new(AggregateExec::try_new(mode, group, aggregates, filters, input, arguments)?))
}

/// The input with every grouping expression as a column, so that none is computed twice, and these
/// columns, made normal.
pub(crate) fn groups_as_columns(
    input: Arc<dyn ExecutionPlan>,
    group: &[NamedExpr],
) -> Result<(Arc<dyn ExecutionPlan>, Vec<NamedExpr>)> {
    let schema = input.schema();
    let normal = group.iter().map(|(expr, name)| Ok((keys::normal(expr, &schema)?, name.clone())));
    let group = normal.collect::<Result<Vec<_>>>()?;
    if group.iter().all(|(expr, _)| expr.is::<Column>()) {
        return Ok((input, group));
    }
    let mut all: Vec<NamedExpr> = Vec::new();
    for (place, field) in schema.fields().iter().enumerate() {
        all.push((Arc::new(Column::new(field.name(), place)), field.name().clone()));
    }
    let mut columns: Vec<NamedExpr> = Vec::new();
    for (expr, name) in group {
        let inner = format!("onefold group {}", all.len());
        columns.push((Arc::new(Column::new(&inner, all.len())), name));
        all.push((expr, inner));
    }
    Ok((Arc::new(ProjectionExec::try_new(all, input)?), columns))
}
