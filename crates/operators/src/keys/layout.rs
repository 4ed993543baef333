//! Key columns in the order of the state's keys.

use super::{RowCodec, event_time, state_schema};
use crate::event_time::unit_of;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use std::sync::Arc;

/// Which columns a key has: those given, the event time first among them. A window that is the
/// event time has its end before itself.
#[derive(Debug)]
pub(crate) struct KeyLayout {
    pub(crate) schema: SchemaRef,
    pub(crate) codec: RowCodec,
    /// The unit of the event time that keys begin with, if there is one.
    pub(crate) unit: Option<TimeUnit>,
    parts: Vec<Part>,
    given: usize,
}

/// A column of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A given column.
    Given(usize),
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
            given: given.len(),
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
            let (Part::Given(place) | Part::End(place)) = part;
            let Some(expr) = given.get(*place) else { continue };
            exprs.push(match part {
                Part::Given(_) => Arc::clone(expr),
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
        if self.given == 0 {
            return Ok(Vec::new());
        }
        let columns = self.codec.decode(keys)?;
        let column = |wanted: usize| {
            let found = self.parts.iter().position(|part| *part == Part::Given(wanted));
            found.and_then(|place| columns.get(place)).map(Arc::clone)
        };
        Ok((0..self.given).filter_map(column).collect())
    }
}

fn parts(given: &[FieldRef], time: Option<usize>) -> Vec<Part> {
    let all = (0..given.len()).map(Part::Given);
    let Some(place) = time else { return all.collect() };
    if given.get(place).is_some_and(|field| matches!(field.data_type(), DataType::Struct(_))) {
        return std::iter::once(Part::End(place)).chain(all).collect();
    }
    let rest = all.filter(|part| *part != Part::Given(place));
    std::iter::once(Part::Given(place)).chain(rest).collect()
}

fn part_field(part: Part, given: &[FieldRef]) -> Option<FieldRef> {
    match part {
        Part::Given(place) => given.get(place).map(Arc::clone),
        Part::End(place) => {
            let field = given.get(place)?;
            let DataType::Struct(fields) = field.data_type() else { return None };
            let (_, end) = fields.find("end")?;
            let name = format!("{}.end", field.name());
            Some(Arc::new(Field::new(name, end.data_type().clone(), true)))
        }
    }
}
