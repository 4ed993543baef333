//! Values as JSON, as Spark writes it.

use crate::functions::cast::double_text;
use crate::functions::options::Options;
use crate::functions::timestamp_text::date_text;
use crate::functions::zone::Zone;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DecimalType, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::error::{DataFusionError, Result};

/// Writes values of columns.
pub(super) struct Writing<'a> {
    pub(super) options: &'a Options,
    pub(super) zone: &'a Zone,
}

fn quoted(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// Whether the value is NULL, also in a column that has no values at all.
fn is_null(array: &dyn Array, row: usize) -> bool {
    array.is_null(row) || array.data_type() == &DataType::Null
}

impl Writing<'_> {
    /// Whether values of the type have a form in JSON.
    ///
    /// # Errors
    /// Plan, when they have none.
    pub(super) fn check(data_type: &DataType) -> Result<()> {
        match data_type {
            DataType::List(element) => Self::check(element.data_type()),
            DataType::Map(entries, _) => Self::check(entries.data_type()),
            DataType::Struct(fields) => {
                fields.iter().try_for_each(|field| Self::check(field.data_type()))
            }
            known if known.is_signed_integer() || known.is_floating() => Ok(()),
            DataType::Null
            | DataType::Boolean
            | DataType::Utf8
            | DataType::Binary
            | DataType::Date32
            | DataType::Decimal128(..)
            | DataType::Timestamp(..) => Ok(()),
            other => Err(DataFusionError::Plan(format!(
                "to_json cannot write {}; cast it to STRING",
                crate::schema::type_name(other)
            ))),
        }
    }

    /// Writes one value.
    pub(super) fn value(&self, array: &dyn Array, row: usize, out: &mut String) {
        if is_null(array, row) {
            out.push_str("null");
            return;
        }
        match array.data_type() {
            DataType::Boolean => out.push_str(&array.as_boolean().value(row).to_string()),
            DataType::Int8 => {
                out.push_str(&array.as_primitive::<Int8Type>().value(row).to_string())
            }
            DataType::Int16 => {
                out.push_str(&array.as_primitive::<Int16Type>().value(row).to_string());
            }
            DataType::Int32 => {
                out.push_str(&array.as_primitive::<Int32Type>().value(row).to_string());
            }
            DataType::Int64 => {
                out.push_str(&array.as_primitive::<Int64Type>().value(row).to_string());
            }
            DataType::Float32 => {
                number(f64::from(array.as_primitive::<Float32Type>().value(row)), true, out);
            }
            DataType::Float64 => {
                number(array.as_primitive::<Float64Type>().value(row), false, out);
            }
            DataType::Decimal128(precision, scale) => {
                let value = array.as_primitive::<Decimal128Type>().value(row);
                out.push_str(&Decimal128Type::format_decimal(value, *precision, *scale));
            }
            DataType::Utf8 => quoted(array.as_string::<i32>().value(row), out),
            DataType::Binary => quoted(&STANDARD.encode(array.as_binary::<i32>().value(row)), out),
            DataType::Date32 => {
                quoted(&self.date(array.as_primitive::<Date32Type>().value(row)), out)
            }
            DataType::Timestamp(_, zone) => {
                let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
                quoted(&self.options.time_text(micros, zone.is_some(), self.zone), out);
            }
            DataType::List(_) => self.list(array, row, out),
            DataType::Map(..) => self.map(array, row, out),
            DataType::Struct(_) => self.structure(array, row, out),
            _ => out.push_str("null"),
        }
    }

    fn date(&self, days: i32) -> String {
        let pattern = self.options.date.as_ref();
        let micros = i64::from(days).saturating_mul(86_400_000_000);
        pattern
            .and_then(|pattern| pattern.format(micros, &Zone::utc()))
            .unwrap_or_else(|| date_text(days))
    }

    fn list(&self, array: &dyn Array, row: usize, out: &mut String) {
        let values = array.as_list::<i32>().value(row);
        out.push('[');
        for place in 0..values.len() {
            if place > 0 {
                out.push(',');
            }
            self.value(values.as_ref(), place, out);
        }
        out.push(']');
    }

    fn map(&self, array: &dyn Array, row: usize, out: &mut String) {
        let entries = array.as_map().value(row);
        out.push('{');
        if let [keys, values] = entries.columns() {
            for place in 0..entries.len() {
                if place > 0 {
                    out.push(',');
                }
                let mut key = String::new();
                self.value(keys.as_ref(), place, &mut key);
                if key.starts_with('"') {
                    out.push_str(&key)
                } else {
                    quoted(&key, out)
                }
                out.push(':');
                self.value(values.as_ref(), place, out);
            }
        }
        out.push('}');
    }

    fn structure(&self, array: &dyn Array, row: usize, out: &mut String) {
        let rows = array.as_struct();
        out.push('{');
        let mut first = true;
        for (field, column) in rows.fields().iter().zip(rows.columns()) {
            if self.options.without_nulls && is_null(column.as_ref(), row) {
                continue;
            }
            if !first {
                out.push(',');
            }
            first = false;
            quoted(field.name(), out);
            out.push(':');
            self.value(column.as_ref(), row, out);
        }
        out.push('}');
    }
}

/// JSON has no NaN and no infinity: they are texts.
fn number(value: f64, single: bool, out: &mut String) {
    let text = double_text(value, single);
    if value.is_finite() { out.push_str(&text) } else { quoted(&text, out) }
}
