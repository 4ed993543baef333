//! Columns under construction, filled with JSON values or with text as Spark converts them.

use super::formats::Reading;
use super::json_scan::{Kind, Scanner, Slot, unescape};
use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder,
    Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, ListArray, MapArray,
    NullArray, NullBufferBuilder, StringBuilder, StructArray, TimestampMicrosecondBuilder,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use base64::Engine as _;
use onefold_types::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// A value does not fit its column's type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mismatch;

/// One column under construction.
pub(crate) enum Cells {
    Null(usize),
    Bool(BooleanBuilder),
    I8(Int8Builder),
    I16(Int16Builder),
    I32(Int32Builder),
    I64(Int64Builder),
    F32(Float32Builder),
    F64(Float64Builder),
    Text(StringBuilder, String),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder, DataType),
    Decimal(Decimal128Builder, u8, i8),
    Struct(Box<Record>, NullBufferBuilder),
    List(FieldRef, Box<Cells>, Vec<i32>, NullBufferBuilder),
    Map(FieldRef, Box<Cells>, Box<Cells>, Vec<i32>, NullBufferBuilder),
}

/// The columns of one object, by name.
pub(crate) struct Record {
    pub(crate) fields: Fields,
    pub(crate) columns: Vec<Cells>,
    by_name: HashMap<String, usize>,
    slots: Vec<Option<Slot>>,
    scratch: String,
}

impl Cells {
    /// An empty column of a type.
    ///
    /// # Errors
    /// Invalid, for a type that text formats cannot hold.
    pub(crate) fn new(data_type: &DataType) -> Result<Cells> {
        Ok(match data_type {
            DataType::Null => Cells::Null(0),
            DataType::Boolean => Cells::Bool(BooleanBuilder::new()),
            DataType::Int8 => Cells::I8(Int8Builder::new()),
            DataType::Int16 => Cells::I16(Int16Builder::new()),
            DataType::Int32 => Cells::I32(Int32Builder::new()),
            DataType::Int64 => Cells::I64(Int64Builder::new()),
            DataType::Float32 => Cells::F32(Float32Builder::new()),
            DataType::Float64 => Cells::F64(Float64Builder::new()),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Cells::Text(StringBuilder::new(), String::new())
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                Cells::Bytes(BinaryBuilder::new())
            }
            DataType::Date32 => Cells::Date(Date32Builder::new()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Cells::Timestamp(
                TimestampMicrosecondBuilder::new().with_data_type(data_type.clone()),
                data_type.clone(),
            ),
            DataType::Decimal128(precision, scale) => Cells::Decimal(
                Decimal128Builder::new().with_data_type(data_type.clone()),
                *precision,
                *scale,
            ),
            DataType::Struct(fields) => {
                Cells::Struct(Box::new(Record::new(fields)?), NullBufferBuilder::new(0))
            }
            DataType::List(element) => Cells::List(
                Arc::clone(element),
                Box::new(Cells::new(element.data_type())?),
                vec![0],
                NullBufferBuilder::new(0),
            ),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(pair)
                    if pair.first().is_some_and(|key| key.data_type() != &DataType::Utf8) =>
                {
                    return Err(Error::invalid("keys of a map in text are strings; use STRING"));
                }
                DataType::Struct(pair) if pair.len() == 2 => {
                    let cells = |at: usize| {
                        let kind = pair.get(at).map_or(&DataType::Null, |field| field.data_type());
                        Cells::new(kind).map(Box::new)
                    };
                    let nulls = NullBufferBuilder::new(0);
                    Cells::Map(Arc::clone(entries), cells(0)?, cells(1)?, vec![0], nulls)
                }
                _ => return Err(Error::internal("a map type without a pair of fields")),
            },
            other => {
                return Err(Error::invalid(format!(
                    "a column of type {other} cannot be read from text; use another type"
                )));
            }
        })
    }

    pub(crate) fn len(&self) -> usize {
        use arrow::array::ArrayBuilder;
        match self {
            Cells::Null(count) => *count,
            Cells::Bool(b) => b.len(),
            Cells::I8(b) => b.len(),
            Cells::I16(b) => b.len(),
            Cells::I32(b) => b.len(),
            Cells::I64(b) => b.len(),
            Cells::F32(b) => b.len(),
            Cells::F64(b) => b.len(),
            Cells::Text(b, _) => b.len(),
            Cells::Bytes(b) => b.len(),
            Cells::Date(b) => b.len(),
            Cells::Timestamp(b, _) => b.len(),
            Cells::Decimal(b, ..) => b.len(),
            Cells::Struct(_, nulls) | Cells::List(_, _, _, nulls) | Cells::Map(.., nulls) => {
                nulls.len()
            }
        }
    }

    pub(crate) fn push_null(&mut self) {
        match self {
            Cells::Null(count) => *count += 1,
            Cells::Bool(b) => b.append_null(),
            Cells::I8(b) => b.append_null(),
            Cells::I16(b) => b.append_null(),
            Cells::I32(b) => b.append_null(),
            Cells::I64(b) => b.append_null(),
            Cells::F32(b) => b.append_null(),
            Cells::F64(b) => b.append_null(),
            Cells::Text(b, _) => b.append_null(),
            Cells::Bytes(b) => b.append_null(),
            Cells::Date(b) => b.append_null(),
            Cells::Timestamp(b, _) => b.append_null(),
            Cells::Decimal(b, ..) => b.append_null(),
            Cells::Struct(record, nulls) => {
                record.push_nulls();
                nulls.append_null();
            }
            Cells::List(_, child, offsets, nulls) => {
                offsets.push(offset_of(child.len()));
                nulls.append_null();
            }
            Cells::Map(_, keys, _, offsets, nulls) => {
                offsets.push(offset_of(keys.len()));
                nulls.append_null();
            }
        }
    }

    /// Adds a JSON value, or null and says that it did not fit. Exactly one row is added.
    pub(crate) fn push_json(
        &mut self,
        text: &str,
        slot: Slot,
        reading: &Reading,
    ) -> Result<(), Mismatch> {
        if slot.kind == Kind::Null {
            self.push_null();
            return Ok(());
        }
        let raw = text.get(slot.start..slot.end).unwrap_or_default();
        let fits = match self {
            Cells::Struct(record, nulls) if slot.kind == Kind::Object => {
                nulls.append_non_null();
                return record.push_json(text, slot.start, reading);
            }
            Cells::List(_, child, offsets, nulls) if slot.kind == Kind::Array => {
                return push_list(child, offsets, nulls, text, slot, reading);
            }
            Cells::Map(_, keys, values, offsets, nulls) if slot.kind == Kind::Object => {
                return push_map((keys, values), offsets, nulls, text, slot, reading);
            }
            _ => self.push_scalar(raw, slot.kind, reading),
        };
        if !fits {
            self.push_null();
            return Err(Mismatch);
        }
        Ok(())
    }

    fn push_scalar(&mut self, raw: &str, kind: Kind, reading: &Reading) -> bool {
        let string = matches!(kind, Kind::Text { .. }) && !raw.is_empty();
        let number = matches!(kind, Kind::Int | Kind::Float);
        match self {
            Cells::Bool(b) => match kind {
                Kind::True => b.append_value(true),
                Kind::False => b.append_value(false),
                _ => return false,
            },
            Cells::I8(b) => return push_parsed(kind == Kind::Int, raw, |v| b.append_value(v)),
            Cells::I16(b) => return push_parsed(kind == Kind::Int, raw, |v| b.append_value(v)),
            Cells::I32(b) => return push_parsed(kind == Kind::Int, raw, |v| b.append_value(v)),
            Cells::I64(b) => return push_parsed(kind == Kind::Int, raw, |v| b.append_value(v)),
            Cells::F32(b) if number => return push_parsed(true, raw, |v| b.append_value(v)),
            Cells::F64(b) if number => return push_parsed(true, raw, |v| b.append_value(v)),
            Cells::F32(b) if string || kind == Kind::NonNumber => match special(raw) {
                Some(value) => b.append_value(value as f32),
                None => return false,
            },
            Cells::F64(b) if string || kind == Kind::NonNumber => match special(raw) {
                Some(value) => b.append_value(value),
                None => return false,
            },
            Cells::Text(b, scratch) => match kind {
                Kind::Text { escaped: true } => {
                    unescape(raw, scratch);
                    b.append_value(&*scratch);
                }
                _ => b.append_value(raw),
            },
            Cells::Bytes(b) if matches!(kind, Kind::Text { .. }) => {
                match base64::engine::general_purpose::STANDARD.decode(raw) {
                    Ok(bytes) => b.append_value(bytes),
                    Err(_) => return false,
                }
            }
            Cells::Date(_) | Cells::Decimal(..) if string => {
                return self.push_text(raw, reading).is_ok();
            }
            Cells::Decimal(..) if number => return self.push_text(raw, reading).is_ok(),
            Cells::Timestamp(..) if string => return self.push_text(raw, reading).is_ok(),
            Cells::Timestamp(b, DataType::Timestamp(_, Some(_))) if kind == Kind::Int => {
                let micros = raw.parse::<i64>().ok().and_then(|s| s.checked_mul(1_000_000));
                let Some(micros) = micros else { return false };
                b.append_value(micros);
            }
            _ => return false,
        }
        true
    }

    /// Adds a text converted to the column's type. Adds nothing when it does not fit.
    pub(crate) fn push_text(&mut self, text: &str, reading: &Reading) -> Result<(), Mismatch> {
        let added = match self {
            Cells::Null(_) => return Err(Mismatch),
            Cells::Bool(b) => match text {
                _ if text.eq_ignore_ascii_case("true") => {
                    b.append_value(true);
                    true
                }
                _ if text.eq_ignore_ascii_case("false") => {
                    b.append_value(false);
                    true
                }
                _ => false,
            },
            Cells::I8(b) => push_parsed(true, text, |v| b.append_value(v)),
            Cells::I16(b) => push_parsed(true, text, |v| b.append_value(v)),
            Cells::I32(b) => push_parsed(true, text, |v| b.append_value(v)),
            Cells::I64(b) => push_parsed(true, text, |v| b.append_value(v)),
            Cells::F32(b) => reading.number(text).map(|v| b.append_value(v)).is_some(),
            Cells::F64(b) => reading.number(text).map(|v| b.append_value(v)).is_some(),
            Cells::Text(b, _) => {
                b.append_value(text);
                true
            }
            Cells::Bytes(b) => {
                b.append_value(text.as_bytes());
                true
            }
            Cells::Date(b) => reading.date(text).map(|days| b.append_value(days)).is_some(),
            Cells::Timestamp(b, DataType::Timestamp(_, Some(_))) => {
                reading.timestamp(text).map(|micros| b.append_value(micros)).is_some()
            }
            Cells::Timestamp(b, _) => {
                reading.timestamp_ntz(text).map(|micros| b.append_value(micros)).is_some()
            }
            Cells::Decimal(b, precision, scale) => {
                parse_decimal(text, *precision, *scale).map(|v| b.append_value(v)).is_some()
            }
            Cells::Struct(..) | Cells::List(..) | Cells::Map(..) => false,
        };
        if added { Ok(()) } else { Err(Mismatch) }
    }

    /// The column's rows so far; the column is empty afterwards.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef> {
        let broken = |error| Error::internal("columns of a record do not agree").because(error);
        Ok(match self {
            Cells::Null(count) => Arc::new(NullArray::new(std::mem::take(count))),
            Cells::Bool(b) => Arc::new(b.finish()),
            Cells::I8(b) => Arc::new(b.finish()),
            Cells::I16(b) => Arc::new(b.finish()),
            Cells::I32(b) => Arc::new(b.finish()),
            Cells::I64(b) => Arc::new(b.finish()),
            Cells::F32(b) => Arc::new(b.finish()),
            Cells::F64(b) => Arc::new(b.finish()),
            Cells::Text(b, _) => Arc::new(b.finish()),
            Cells::Bytes(b) => Arc::new(b.finish()),
            Cells::Date(b) => Arc::new(b.finish()),
            Cells::Timestamp(b, _) => Arc::new(b.finish()),
            Cells::Decimal(b, ..) => Arc::new(b.finish()),
            Cells::Struct(record, nulls) => {
                let length = nulls.len();
                let arrays = record.finish()?;
                let nulls = nulls.finish();
                let array =
                    StructArray::try_new_with_length(record.fields.clone(), arrays, nulls, length);
                Arc::new(array.map_err(broken)?)
            }
            Cells::List(element, child, offsets, nulls) => {
                let offsets = OffsetBuffer::new(std::mem::replace(offsets, vec![0]).into());
                let values = child.finish()?;
                let array =
                    ListArray::try_new(Arc::clone(element), offsets, values, nulls.finish());
                Arc::new(array.map_err(broken)?)
            }
            Cells::Map(entries, keys, values, offsets, nulls) => {
                let offsets = OffsetBuffer::new(std::mem::replace(offsets, vec![0]).into());
                let DataType::Struct(pair) = entries.data_type() else {
                    return Err(Error::internal("a map type without a pair of fields"));
                };
                let pairs = StructArray::try_new(
                    pair.clone(),
                    vec![keys.finish()?, values.finish()?],
                    None,
                )
                .map_err(broken)?;
                let array =
                    MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls.finish(), false);
                Arc::new(array.map_err(broken)?)
            }
        })
    }
}

fn offset_of(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

fn push_parsed<T: std::str::FromStr>(right: bool, raw: &str, push: impl FnOnce(T)) -> bool {
    match raw.parse() {
        Ok(value) if right => {
            push(value);
            true
        }
        _ => false,
    }
}

fn push_list(
    child: &mut Cells,
    offsets: &mut Vec<i32>,
    nulls: &mut NullBufferBuilder,
    text: &str,
    slot: Slot,
    reading: &Reading,
) -> Result<(), Mismatch> {
    let mut whole = Ok(());
    let partial = matches!(child, Cells::Struct(..));
    let mut scanner = Scanner::new(text, slot.start, reading.leniency);
    let scanned = scanner.array(0, |element| {
        whole = child.push_json(text, element, reading).and(whole);
    });
    offsets.push(offset_of(child.len()));
    // A bad element takes its list with it; of an object only the bad field is lost.
    nulls.append(scanned.is_ok() && (whole.is_ok() || partial));
    scanned.map_err(|_| Mismatch).and(whole)
}

fn push_map(
    (keys, values): (&mut Cells, &mut Cells),
    offsets: &mut Vec<i32>,
    nulls: &mut NullBufferBuilder,
    text: &str,
    slot: Slot,
    reading: &Reading,
) -> Result<(), Mismatch> {
    let mut whole = Ok(());
    let partial = matches!(values, Cells::Struct(..));
    let mut scanner = Scanner::new(text, slot.start, reading.leniency);
    let scanned = scanner.object(0, |name, value| {
        let key = keys.push_json(text, name, reading);
        whole = values.push_json(text, value, reading).and(key).and(whole);
    });
    offsets.push(offset_of(keys.len()));
    nulls.append(scanned.is_ok() && (whole.is_ok() || partial));
    scanned.map_err(|_| Mismatch).and(whole)
}

fn special(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "+Infinity" | "INF" | "+INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// The unscaled value of a decimal text, rounded half up to the scale; `None` when it does not fit.
pub(crate) fn parse_decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let text = text.trim();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0 || whole.len() + fraction.len() > 100 {
        return None;
    }
    let mut value: i128 = 0;
    let mut drop = i32::try_from(fraction.len()).ok()? - i32::from(scale) - exponent;
    let mut kept: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    if !kept.iter().all(u8::is_ascii_digit) || drop < -76 {
        return None;
    }
    let mut round = false;
    while drop > 0 {
        round = kept.pop().unwrap_or(b'0') >= b'5';
        drop -= 1;
        if kept.is_empty() && drop > 0 {
            round = false;
            break;
        }
    }
    for digit in
        kept.iter().copied().chain(std::iter::repeat_n(b'0', drop.min(0).unsigned_abs() as usize))
    {
        value = value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
    }
    value = value.checked_add(i128::from(round))?;
    if value >= 10_i128.checked_pow(u32::from(precision))? {
        return None;
    }
    Some(if negative { -value } else { value })
}

impl Record {
    /// Empty columns for these fields.
    pub(crate) fn new(fields: &Fields) -> Result<Record> {
        let fields: Fields = fields.clone();
        let columns =
            fields.iter().map(|field| Cells::new(field.data_type())).collect::<Result<_>>()?;
        let by_name =
            fields.iter().enumerate().map(|(at, field)| (field.name().clone(), at)).collect();
        let slots = vec![None; fields.len()];
        Ok(Record { fields, columns, by_name, slots, scratch: String::new() })
    }

    pub(crate) fn push_nulls(&mut self) {
        self.columns.iter_mut().for_each(Cells::push_null);
    }

    /// Adds the object that starts at `start`; nulls for what is missing or does not fit. Exactly
    /// one row is added.
    pub(crate) fn push_json(
        &mut self,
        text: &str,
        start: usize,
        reading: &Reading,
    ) -> Result<(), Mismatch> {
        self.slots.fill(None);
        let mut expected = 0_usize;
        let (fields, by_name, slots, scratch) =
            (&self.fields, &self.by_name, &mut self.slots, &mut self.scratch);
        let mut scanner = Scanner::new(text, start, reading.leniency);
        let scanned = scanner.object(0, |name, value| {
            let raw = text.get(name.start..name.end).unwrap_or_default();
            let at = match name.kind {
                Kind::Text { escaped: true } => {
                    unescape(raw, scratch);
                    by_name.get(scratch.as_str()).copied()
                }
                _ if fields.get(expected).is_some_and(|field| field.name() == raw) => {
                    Some(expected)
                }
                _ => by_name.get(raw).copied(),
            };
            if let Some(at) = at
                && let Some(place) = slots.get_mut(at)
            {
                *place = Some(value);
                expected = at + 1;
            }
        });
        if scanned.is_err() {
            self.push_nulls();
            return Err(Mismatch);
        }
        let mut whole = Ok(());
        for (column, slot) in self.columns.iter_mut().zip(&self.slots) {
            match slot {
                Some(slot) => whole = column.push_json(text, *slot, reading).and(whole),
                None => column.push_null(),
            }
        }
        whole
    }

    pub(crate) fn finish(&mut self) -> Result<Vec<ArrayRef>> {
        self.columns.iter_mut().map(Cells::finish).collect()
    }
}

/// Every field nullable, at every depth, as Spark makes the schema of a file source.
pub(crate) fn nullable(fields: &Fields) -> Fields {
    fields.iter().map(|field| Arc::new(nullable_field(field))).collect()
}

fn nullable_field(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(nullable(fields)),
        DataType::List(element) => DataType::List(Arc::new(nullable_field(element))),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type).with_nullable(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_round_half_up_and_refuse_what_does_not_fit() {
        assert_eq!(parse_decimal("1.005", 10, 2), Some(101));
        assert_eq!(parse_decimal("-1.5e2", 10, 2), Some(-15_000));
        assert_eq!(parse_decimal("99999999", 5, 0), None);
        assert_eq!(parse_decimal("x", 5, 0), None);
        assert_eq!(parse_decimal("0.0001", 5, 2), Some(0));
    }
}
