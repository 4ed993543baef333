//! Objects of plain values straight into columns: what nearly all records are.
//!
//! A record that is anything else (no JSON, a value of another type than its column's, a list where a
//! text is wanted) is left to the general way, which gives the same for these records too and knows
//! all cases.

use crate::functions::options::Options;
use arrow::array::{
    Array, ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, StringArray, StringBuilder,
    StructArray, UInt32Array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::{DataType, Fields};
use arrow::error::ArrowError;
use datafusion::error::{DataFusionError, Result};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// More columns than this are looked up too slowly here.
const COLUMNS_MAX: usize = 64;

/// Each text as a struct of these fields; `None` where a field is not plain. `general` reads the
/// records that are not.
///
/// # Errors
/// Those of `general`.
pub(super) fn read(
    texts: &StringArray,
    fields: &Fields,
    options: &Options,
    general: impl FnOnce(&StringArray) -> Result<ArrayRef>,
) -> Result<Option<ArrayRef>> {
    let columns = fields.iter().map(|field| match field.name() == &options.corrupt {
        // Of a record that fits there is none.
        true if field.data_type() == &DataType::Utf8 => Some(Column::Nothing),
        _ => Column::of(field.data_type(), texts.len()),
    });
    let Some(mut columns) = columns.collect::<Option<Vec<_>>>() else { return Ok(None) };
    if columns.len() > COLUMNS_MAX {
        return Ok(None);
    }
    let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    let (mut there, mut others) = (Vec::with_capacity(texts.len()), Vec::new());
    let mut cells = vec![Cell::Null; names.len()];
    for (row, text) in (0_u32..).zip(texts) {
        let text = text.filter(|text| !text.trim().is_empty());
        there.push(text.is_some());
        cells.fill(Cell::Null);
        if let Some(text) = text
            && !(parsed(text, &names, &mut cells)
                && columns.iter().zip(&cells).all(|(column, cell)| column.takes(cell)))
        {
            others.push(row);
            cells.fill(Cell::Null);
        }
        for (column, cell) in columns.iter_mut().zip(&cells) {
            column.push(cell);
        }
    }
    let arrays = columns.into_iter().zip(fields);
    let arrays = arrays.map(|(column, field)| column.finish(field.data_type(), texts.len()));
    let arrays = arrays.collect::<std::result::Result<Vec<_>, ArrowError>>()?;
    let nulls = Some(NullBuffer::from(there));
    let rows = StructArray::try_new_with_length(fields.clone(), arrays, nulls, texts.len())?;
    if others.is_empty() {
        return Ok(Some(std::sync::Arc::new(rows)));
    }
    let places = UInt32Array::from(others);
    let left = take(texts, &places, None)?;
    let left = left.as_any().downcast_ref::<StringArray>().ok_or_else(|| {
        DataFusionError::Internal("texts that were taken are none any more".to_owned())
    })?;
    let other = general(left)?;
    let mut from: Vec<(usize, usize)> = (0..texts.len()).map(|row| (0, row)).collect();
    for (nth, row) in places.values().iter().enumerate() {
        if let Some(from) = from.get_mut(*row as usize) {
            *from = (1, nth);
        }
    }
    Ok(Some(interleave(&[&rows, other.as_ref()], &from)?))
}

/// A plain value.
#[derive(Debug, Clone, PartialEq)]
enum Cell<'t> {
    /// None, or NULL.
    Null,
    Bool(bool),
    Whole(i64),
    Float(f64),
    Text(Cow<'t, str>),
    /// A list, an object, or a number without room.
    Other,
}

/// Whether the text is an object; its values for these names.
fn parsed<'t>(text: &'t str, names: &[&str], cells: &mut [Cell<'t>]) -> bool {
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_map(Object { names, cells }).is_ok() && json.end().is_ok()
}

struct Object<'t, 'a> {
    names: &'a [&'a str],
    cells: &'a mut [Cell<'t>],
}

impl<'t> Visitor<'t> for Object<'t, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        // Records mostly have their fields in the order of columns.
        let mut next = 0;
        while let Some(found) = map.next_key_seed(Key { names: self.names, next })? {
            match found.and_then(|place| Some((place, self.cells.get_mut(place)?))) {
                Some((place, cell)) => {
                    *cell = map.next_value_seed(Plain)?;
                    next = place + 1;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The place of a name.
#[derive(Clone, Copy)]
struct Key<'a> {
    names: &'a [&'a str],
    next: usize,
}

impl<'t> DeserializeSeed<'t> for Key<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'t>>(
        self,
        json: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> std::result::Result<Self::Value, E> {
        if self.names.get(self.next) == Some(&name) {
            return Ok(Some(self.next));
        }
        Ok(self.names.iter().position(|known| *known == name))
    }
}

struct Plain;

impl<'t> DeserializeSeed<'t> for Plain {
    type Value = Cell<'t>;

    fn deserialize<D: Deserializer<'t>>(self, json: D) -> std::result::Result<Cell<'t>, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Plain {
    type Value = Cell<'t>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> std::result::Result<Cell<'t>, E> {
        Ok(Cell::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> std::result::Result<Cell<'t>, E> {
        Ok(Cell::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> std::result::Result<Cell<'t>, E> {
        Ok(Cell::Whole(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> std::result::Result<Cell<'t>, E> {
        Ok(i64::try_from(value).map_or(Cell::Other, Cell::Whole))
    }

    fn visit_f64<E: Error>(self, value: f64) -> std::result::Result<Cell<'t>, E> {
        Ok(Cell::Float(value))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'t str) -> std::result::Result<Cell<'t>, E> {
        Ok(Cell::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<Cell<'t>, E> {
        Ok(Cell::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut list: A) -> std::result::Result<Cell<'t>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Cell::Other)
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> std::result::Result<Cell<'t>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Cell::Other)
    }
}

/// A column in the making.
enum Column {
    Nothing,
    Text(StringBuilder),
    Bool(BooleanBuilder),
    /// With the least and the most that there is room for.
    Whole(Int64Builder, i64, i64),
    Float(Float64Builder),
}

impl Column {
    fn of(data_type: &DataType, rows: usize) -> Option<Column> {
        let whole = |least, most| Column::Whole(Int64Builder::with_capacity(rows), least, most);
        Some(match data_type {
            DataType::Utf8 => Column::Text(StringBuilder::with_capacity(rows, rows * 16)),
            DataType::Boolean => Column::Bool(BooleanBuilder::with_capacity(rows)),
            DataType::Int8 => whole(i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => whole(i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => whole(i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => whole(i64::MIN, i64::MAX),
            DataType::Float32 | DataType::Float64 => {
                Column::Float(Float64Builder::with_capacity(rows))
            }
            _ => return None,
        })
    }

    fn takes(&self, cell: &Cell<'_>) -> bool {
        match (self, cell) {
            (_, Cell::Null) | (Column::Nothing, _) => true,
            (Column::Text(_), Cell::Text(_)) | (Column::Bool(_), Cell::Bool(_)) => true,
            (Column::Whole(_, least, most), Cell::Whole(value)) => (least..=most).contains(&value),
            (Column::Float(_), Cell::Whole(_) | Cell::Float(_)) => true,
            _ => false,
        }
    }

    /// Adds a value that the column takes.
    fn push(&mut self, cell: &Cell<'_>) {
        match (self, cell) {
            (Column::Nothing, _) => {}
            (Column::Text(made), Cell::Text(text)) => made.append_value(text),
            (Column::Text(made), _) => made.append_null(),
            (Column::Bool(made), Cell::Bool(value)) => made.append_value(*value),
            (Column::Bool(made), _) => made.append_null(),
            (Column::Whole(made, ..), Cell::Whole(value)) => made.append_value(*value),
            (Column::Whole(made, ..), _) => made.append_null(),
            (Column::Float(made), Cell::Float(value)) => made.append_value(*value),
            (Column::Float(made), Cell::Whole(value)) => made.append_value(*value as f64),
            (Column::Float(made), _) => made.append_null(),
        }
    }

    fn finish(self, to: &DataType, rows: usize) -> std::result::Result<ArrayRef, ArrowError> {
        let made: ArrayRef = match self {
            Column::Nothing => new_null_array(to, rows),
            Column::Text(mut made) => std::sync::Arc::new(made.finish()),
            Column::Bool(mut made) => std::sync::Arc::new(made.finish()),
            Column::Whole(mut made, ..) => std::sync::Arc::new(made.finish()),
            Column::Float(mut made) => std::sync::Arc::new(made.finish()),
        };
        if made.data_type() == to { Ok(made) } else { cast(&made, to) }
    }
}
