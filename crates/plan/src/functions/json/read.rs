//! JSON values as columns, as Spark's parser reads them: what does not fit its type is NULL, and the
//! rest of the record stays.

use crate::functions::cast::cast_array;
use crate::functions::options::Options;
use crate::functions::timestamp_text::{parse_date, parse_timestamp};
use crate::functions::zone::Zone;
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Float64Array, Int64Array, ListArray,
    MapArray, NullArray, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef, Fields};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::error::{DataFusionError, Result};
use serde_json::Value;
use std::sync::Arc;

/// Reads values of one column of texts.
pub(super) struct Reading<'a> {
    pub(super) options: &'a Options,
    pub(super) zone: &'a Zone,
    /// The records with a value that does not fit.
    pub(super) bad: Vec<bool>,
}

/// A value, and the record that it is from.
type Item<'v> = (usize, Option<&'v Value>);

impl Reading<'_> {
    /// The values as a column. Where there is none it is NULL.
    pub(super) fn column(&mut self, items: &[Item<'_>], to: &DataType) -> Result<ArrayRef> {
        Ok(match to {
            DataType::Null => Arc::new(NullArray::new(items.len())),
            DataType::Utf8 => Arc::new(self.each(items, text).collect::<StringArray>()),
            DataType::Boolean => {
                Arc::new(self.each(items, Value::as_bool).collect::<BooleanArray>())
            }
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                let whole: Int64Array = self.each(items, Value::as_i64).collect();
                self.narrowed(items, Arc::new(whole), to)?
            }
            DataType::Float32 | DataType::Float64 => {
                let wide: Float64Array = self.each(items, float).collect();
                arrow::compute::cast(&wide, to)?
            }
            DataType::Decimal128(..) => {
                let digits = |value: &Value| match value {
                    Value::Number(number) => Some(number.to_string()),
                    Value::String(text) => Some(text.clone()),
                    _ => None,
                };
                let texts: StringArray = self.each(items, digits).collect();
                self.narrowed(items, Arc::new(texts), to)?
            }
            DataType::Date32 => {
                let (options, utc) = (self.options, Zone::utc());
                let days = |value: &Value| {
                    let text = value.as_str()?;
                    match &options.date {
                        Some(pattern) => {
                            let days = pattern.parse(text, &utc)?.div_euclid(86_400_000_000);
                            i32::try_from(days).ok()
                        }
                        None => parse_date(text.trim()),
                    }
                };
                Arc::new(self.each(items, days).collect::<Date32Array>())
            }
            DataType::Timestamp(_, zone) => {
                let options = self.options;
                let of_texts = if zone.is_some() { self.zone.clone() } else { Zone::utc() };
                let micros = |value: &Value| match (value, &options.time) {
                    (Value::Number(seconds), _) => seconds.as_i64()?.checked_mul(1_000_000),
                    (Value::String(text), Some(pattern)) => pattern.parse(text, &of_texts),
                    (Value::String(text), None) => parse_timestamp(text.trim(), &of_texts),
                    _ => None,
                };
                let times: TimestampMicrosecondArray = self.each(items, micros).collect();
                Arc::new(times.with_timezone_opt(zone.clone()))
            }
            DataType::Binary => {
                let bytes = |value: &Value| STANDARD.decode(value.as_str()?).ok();
                Arc::new(self.each(items, bytes).collect::<BinaryArray>())
            }
            DataType::List(element) => self.lists(items, element)?,
            DataType::Struct(fields) => self.structs(items, fields)?,
            DataType::Map(entries, _) => self.maps(items, entries)?,
            other => {
                return Err(DataFusionError::Plan(format!(
                    "from_json gives no {}",
                    crate::schema::type_name(other)
                )));
            }
        })
    }

    /// What each value gives; one that gives nothing makes its record a bad one.
    fn each<'s, T: 's>(
        &'s mut self,
        items: &'s [Item<'_>],
        of: impl Fn(&Value) -> Option<T> + 's,
    ) -> impl Iterator<Item = Option<T>> + 's {
        items.iter().map(move |(record, value)| {
            let value = value.filter(|value| !value.is_null())?;
            let made = of(value);
            if made.is_none() {
                mark(&mut self.bad, *record);
            }
            made
        })
    }

    /// The column as a type that does not have room for each value.
    fn narrowed(&mut self, items: &[Item<'_>], wide: ArrayRef, to: &DataType) -> Result<ArrayRef> {
        let made = cast_array(&wide, to, true, self.zone)?;
        for (row, (record, _)) in items.iter().enumerate() {
            if made.is_null(row) && wide.is_valid(row) {
                mark(&mut self.bad, *record);
            }
        }
        Ok(made)
    }

    fn lists(&mut self, items: &[Item<'_>], element: &FieldRef) -> Result<ArrayRef> {
        let (mut inner, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
        for (record, value) in items {
            let list = value.and_then(Value::as_array);
            if list.is_none() && value.is_some_and(|value| !value.is_null()) {
                mark(&mut self.bad, *record);
            }
            valid.push(list.is_some());
            lengths.push(list.map_or(0, Vec::len));
            inner.extend(list.into_iter().flatten().map(|value| (*record, Some(value))));
        }
        let values = self.column(&inner, element.data_type())?;
        let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), NullBuffer::from(valid));
        Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, Some(nulls))?))
    }

    pub(super) fn structs(&mut self, items: &[Item<'_>], fields: &Fields) -> Result<ArrayRef> {
        let mut valid = Vec::with_capacity(items.len());
        for (record, value) in items {
            valid.push(value.is_some_and(Value::is_object));
            if value.is_some_and(|value| !value.is_object() && !value.is_null()) {
                mark(&mut self.bad, *record);
            }
        }
        let mut columns = Vec::with_capacity(fields.len());
        for field in fields {
            let inner: Vec<Item<'_>> = items
                .iter()
                .map(|(record, value)| (*record, value.and_then(|value| value.get(field.name()))))
                .collect();
            columns.push(self.column(&inner, field.data_type())?);
        }
        let nulls = Some(NullBuffer::from(valid));
        Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, items.len())?))
    }

    fn maps(&mut self, items: &[Item<'_>], entries: &FieldRef) -> Result<ArrayRef> {
        let DataType::Struct(fields) = entries.data_type() else {
            return Err(DataFusionError::Internal("a map has no entries".to_owned()));
        };
        let [_, of_values] = fields.as_ref() else {
            return Err(DataFusionError::Internal("a map has no entries".to_owned()));
        };
        let (mut names, mut inner) = (Vec::new(), Vec::new());
        let (mut lengths, mut valid) = (Vec::new(), Vec::new());
        for (record, value) in items {
            let object = value.and_then(Value::as_object);
            if object.is_none() && value.is_some_and(|value| !value.is_null()) {
                mark(&mut self.bad, *record);
            }
            valid.push(object.is_some());
            lengths.push(object.map_or(0, serde_json::Map::len));
            for (name, value) in object.into_iter().flatten() {
                names.push(name.as_str());
                inner.push((*record, Some(value)));
            }
        }
        let values = self.column(&inner, of_values.data_type())?;
        let keys: ArrayRef = Arc::new(StringArray::from(names));
        let pairs = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
        let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), NullBuffer::from(valid));
        Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, Some(nulls), false)?))
    }
}

fn mark(bad: &mut [bool], record: usize) {
    if let Some(bad) = bad.get_mut(record) {
        *bad = true;
    }
}

fn text(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "INF" | "+INF" | "Infinity" | "+Infinity" => Some(f64::INFINITY),
            "-INF" | "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}
