//! Key columns in the order of the state's keys.

use super::{RowCodec, event_time, plain, state_schema, window_start};
use crate::event_time::unit_of;
use crate::failure;
use arrow::array::{Array, ArrayRef, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use std::sync::Arc;

/// Which columns a key has: those given, the event time first among them. A window that is the
/// event time is its end, then its start.
#[derive(Debug)]
pub(crate) struct KeyLayout {
    pub(crate) schema: SchemaRef,
    pub(crate) codec: RowCodec,
    /// The unit of the event time that keys begin with, if there is one.
    pub(crate) unit: Option<TimeUnit>,
    parts: Vec<Part>,
    given: Vec<FieldRef>,
}

/// A column of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A given column.
    Given(usize),
    /// The start of the window in a given column.
    Start(usize),
    /// The end of the window in a given column.
    End(usize),
}

impl KeyLayout {
    /// For key columns of which `time` is the event time.
    pub(crate) fn new(given: &[FieldRef], time: Option<usize>) -> Result<Self> {
        let parts = parts(given, time);
        let schema = state_schema(parts.iter().filter_map(|part| part_field(*part, given)));
        let unit = time.and_then(|place| given.get(place));
        Ok(KeyLayout {
            codec: RowCodec::of(&schema)?,
            schema,
            unit: unit.map(|field| unit_of(field.data_type())).transpose()?,
            parts,
            given: given.to_vec(),
        })
    }

    /// The key's columns, made from the given ones over rows of a schema.
    pub(crate) fn exprs(
        &self,
        given: &[PhysicalExprRef],
        schema: &Schema,
    ) -> Result<Vec<PhysicalExprRef>> {
        let mut exprs = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let (Part::Given(place) | Part::Start(place) | Part::End(place)) = part;
            let Some(expr) = given.get(*place) else { continue };
            exprs.push(match part {
                Part::Given(_) => Arc::clone(expr),
                Part::Start(_) => window_start(expr),
                Part::End(_) => event_time(expr, schema)?,
            });
        }
        Ok(exprs)
    }

    /// The given columns of encoded keys; none where there are no key columns.
    pub(crate) fn decode<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<ArrayRef>> {
        if self.given.is_empty() {
            return Ok(Vec::new());
        }
        let columns = self.codec.decode(keys)?;
        let column = |part: Part| {
            let found = self.parts.iter().position(|known| *known == part);
            found.and_then(|place| columns.get(place)).map(Arc::clone)
        };
        let given = self.given.iter().enumerate().map(|(place, field)| {
            if let Some(column) = column(Part::Given(place)) {
                return Ok(column);
            }
            match (column(Part::Start(place)), column(Part::End(place))) {
                (Some(start), Some(end)) => window(field, start, end),
                _ => Err(failure::internal("a key lacks a column")),
            }
        });
        given.collect()
    }
}

/// The window of a start and an end; NULL where the end is.
fn window(field: &FieldRef, start: ArrayRef, end: ArrayRef) -> Result<ArrayRef> {
    let DataType::Struct(fields) = plain(field.data_type()) else {
        return Err(failure::internal("a window is no struct"));
    };
    let nulls = end.nulls().cloned();
    let column = |field: &FieldRef| Arc::clone(if field.name() == "start" { &start } else { &end });
    let columns = fields.iter().map(column).collect();
    Ok(Arc::new(StructArray::try_new(fields, columns, nulls)?))
}

fn parts(given: &[FieldRef], time: Option<usize>) -> Vec<Part> {
    let all = (0..given.len()).map(Part::Given);
    let Some(place) = time else { return all.collect() };
    let rest = all.clone().filter(|part| *part != Part::Given(place));
    match given.get(place).map(|field| field.data_type()) {
        Some(DataType::Struct(fields)) if is_window(fields) => {
            [Part::End(place), Part::Start(place)].into_iter().chain(rest).collect()
        }
        Some(DataType::Struct(_)) => std::iter::once(Part::End(place)).chain(all).collect(),
        _ => std::iter::once(Part::Given(place)).chain(rest).collect(),
    }
}

/// Whether a struct has a start and an end and nothing else.
fn is_window(fields: &Fields) -> bool {
    fields.len() == 2 && fields.find("start").is_some() && fields.find("end").is_some()
}

fn part_field(part: Part, given: &[FieldRef]) -> Option<FieldRef> {
    let (place, name) = match part {
        Part::Given(place) => return given.get(place).map(Arc::clone),
        Part::Start(place) => (place, "start"),
        Part::End(place) => (place, "end"),
    };
    let field = given.get(place)?;
    let DataType::Struct(fields) = field.data_type() else { return None };
    let (_, time) = fields.find(name)?;
    let name = format!("{}.{name}", field.name());
    Some(Arc::new(Field::new(name, time.data_type().clone(), true)))
}
