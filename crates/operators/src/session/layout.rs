//! What stands where in the rows, keys and values of sessions.

use super::SessionAggregate;
use crate::event_time::unit_of;
use crate::failure;
use crate::keys::{KeyLayout, RowCodec, batch_of, key_fields, state_schema};
use crate::sweep::{TICK, decode_tick};
use arrow::array::{ArrayRef, Int64Array, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::expressions::Column;
use std::sync::Arc;

/// Everything about an aggregation by sessions that no batch changes.
#[derive(Debug)]
pub(super) struct Layout {
    /// The grouping columns beside the session.
    pub(super) key: KeyLayout,
    /// How many of these there are.
    pub(super) keys: usize,
    pub(super) aggregates: Vec<Arc<AggregateFunctionExpr>>,
    /// The state columns of the aggregates.
    pub(super) states: RowCodec,
    pub(super) output: SchemaRef,
    /// The unit of starts and ends.
    pub(super) unit: TimeUnit,
    state_fields: Vec<FieldRef>,
    /// The fields of the session, and its place among the grouping columns.
    window: Fields,
    session: usize,
}

/// A session as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept<'a> {
    /// The bytes of the key's columns.
    pub(super) key: &'a [u8],
    pub(super) start: i64,
    pub(super) end: i64,
    /// The bytes of the aggregates' state.
    pub(super) state: &'a [u8],
}

impl<'a> Kept<'a> {
    /// From a row of state: the key ends with the start, the value begins with the end.
    pub(super) fn parse(key: &'a [u8], value: &'a [u8]) -> Result<Self> {
        let parse = || {
            let (key, start) = key.split_at_checked(key.len().checked_sub(TICK)?)?;
            let (end, state) = value.split_at_checked(TICK)?;
            Some(Kept { key, start: decode_tick(start)?, end: decode_tick(end)?, state })
        };
        parse().ok_or_else(|| {
            failure::external(onefold_types::Error::corrupt(
                "a row of session state has no start or end; restore an older version of the state",
            ))
        })
    }
}

impl Layout {
    pub(super) fn new(aggregate: &SessionAggregate, input: &Schema) -> Result<Self> {
        let groups = key_fields(&aggregate.group, input)?;
        let mut keys = groups.clone();
        let session = keys.remove(aggregate.session);
        let DataType::Struct(window) = session.data_type().clone() else {
            return Err(failure::internal("a session is no struct of start and end"));
        };
        if window.len() != 2 || window.find("start").is_none() {
            return Err(failure::internal("a session is no struct of start and end"));
        }
        let mut state_fields = Vec::new();
        for expr in &aggregate.aggregates {
            state_fields.extend(expr.state_fields()?);
        }
        let mut output = groups;
        output.extend(aggregate.aggregates.iter().map(|expr| expr.field()));
        Ok(Layout {
            key: KeyLayout::new(&keys, None)?,
            keys: keys.len(),
            aggregates: aggregate.aggregates.clone(),
            states: RowCodec::of(&state_schema(state_fields.iter().cloned()))?,
            output: Arc::new(Schema::new(output)),
            unit: unit_of(session.data_type())?,
            state_fields,
            window,
            session: aggregate.session,
        })
    }

    fn time(&self, part: &str, name: &str) -> FieldRef {
        let found = self.window.find(part).map(|(_, field)| field.data_type().clone());
        Arc::new(Field::new(name, found.unwrap_or(DataType::Null), true))
    }

    /// The columns that sessions are kept by.
    pub(super) fn session_key(&self) -> SchemaRef {
        let keys = self.key.schema.fields().iter().cloned();
        state_schema(keys.chain([self.time("start", "sessionStartTime")]))
    }

    /// The columns that are kept of sessions.
    pub(super) fn session_value(&self) -> SchemaRef {
        let end = [self.time("end", "sessionEndTime")];
        state_schema(end.into_iter().chain(self.state_fields.iter().cloned()))
    }

    /// The columns that sessions are found by when they are over.
    pub(super) fn end_key(&self) -> SchemaRef {
        let end = [self.time("end", "sessionEndTime")];
        let key = self.session_key();
        state_schema(end.into_iter().chain(key.fields().iter().cloned()))
    }

    /// The key columns over the rows of the partial aggregation: keys, start, end, states.
    pub(super) fn key_exprs(&self, partial: &Schema) -> Vec<PhysicalExprRef> {
        let keys = partial.fields().iter().take(self.keys).enumerate();
        keys.map(|(place, field)| Arc::new(Column::new(field.name(), place)) as PhysicalExprRef)
            .collect()
    }

    /// Result rows of sessions.
    pub(super) fn results(&self, sessions: &[Kept<'_>]) -> Result<RecordBatch> {
        let mut columns = self.key.decode(sessions.iter().map(|session| session.key))?;
        columns.insert(self.session.min(columns.len()), self.windows(sessions)?);
        let states = if self.states.types().is_empty() {
            Vec::new()
        } else {
            self.states.decode(sessions.iter().map(|session| session.state))?
        };
        let aggregates = &self.aggregates;
        columns.extend(crate::aggregate::Accumulators::finish(
            aggregates,
            false,
            &states,
            sessions.len(),
        )?);
        batch_of(&self.output, columns, sessions.len())
    }

    fn windows(&self, sessions: &[Kept<'_>]) -> Result<ArrayRef> {
        let column = |field: &FieldRef| {
            let start = field.name() == "start";
            let ticks = sessions.iter().map(|row| if start { row.start } else { row.end });
            Ok(cast(&Int64Array::from_iter_values(ticks), field.data_type())?)
        };
        let columns = self.window.iter().map(column).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(StructArray::try_new(self.window.clone(), columns, None)?))
    }
}
