//! `CAST` and `try_cast` as Spark 4 does them (ANSI mode).
//!
//! Where Arrow's cast means the same, the optimiser gets a plain cast ([`Cast::simplify`]), which
//! it understands; else the value goes through the kernels here.

use super::nested_text::{is_nested, nested_text};
use super::timestamp_text::{date_text, parse_date, parse_timestamp, timestamp_text};
use super::zone::Zone;
use crate::schema::{parse_type, type_name};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Float64Array, Int64Array, ListArray,
    StringArray, TimestampMicrosecondArray,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, Field, FieldRef, Float64Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::new_from_impl(Cast::new(false)), ScalarUDF::new_from_impl(Cast::new(true))]
}

/// `cast(value, 'TYPE')` or `try_cast(value, 'TYPE')`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Cast {
    /// NULL where a value does not fit, and no error.
    lenient: bool,
    signature: Signature,
}

impl Cast {
    fn new(lenient: bool) -> Self {
        Cast { lenient, signature: Signature::any(2, Volatility::Immutable) }
    }
}

fn target(scalar: Option<&ScalarValue>) -> Result<DataType> {
    let text = scalar.and_then(|scalar| scalar.try_as_str().flatten());
    let text = text.ok_or_else(|| DataFusionError::Plan("cast needs a type".to_owned()))?;
    parse_type(text).map_err(|error| DataFusionError::Plan(error.to_string()))
}

impl ScalarUDFImpl for Cast {
    fn name(&self) -> &str {
        if self.lenient { "try_cast" } else { "cast" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal("the type of a cast is in its argument".to_owned()))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let to = target(arguments.scalar_arguments.get(1).copied().flatten())?;
        let from = arguments.arg_fields.first();
        let from_type = from.map_or(&DataType::Null, |field| field.data_type());
        if !castable(from_type, &to) {
            return Err(DataFusionError::Plan(format!(
                "cannot cast {} to {}",
                type_name(from_type),
                type_name(&to)
            )));
        }
        let nullable = self.lenient || from.is_none_or(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), to, nullable)))
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [value, Expr::Literal(to, _)] = arguments.as_slice() else {
            return Ok(ExprSimplifyResult::Original(arguments));
        };
        let (from, to) = (info.get_data_type(value)?, target(Some(to))?);
        let zoned =
            from.is_temporal() && to.is_temporal() && !Zone::of(info.config_options())?.is_utc();
        if !self.lenient && plain(&from, &to) && (!zoned || from == to) {
            let cast = datafusion::logical_expr::cast(value.clone(), to);
            return Ok(ExprSimplifyResult::Simplified(cast));
        }
        Ok(ExprSimplifyResult::Original(arguments))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let to = arguments.return_field.data_type();
        let zone = Zone::of(&arguments.config_options)?;
        let Some(value) = arguments.args.into_iter().next() else {
            return Err(DataFusionError::Internal("cast has no value".to_owned()));
        };
        match value {
            ColumnarValue::Array(array) => {
                Ok(ColumnarValue::Array(cast_array(&array, to, self.lenient, &zone)?))
            }
            ColumnarValue::Scalar(scalar) => {
                let array = cast_array(&scalar.to_array()?, to, self.lenient, &zone)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
        }
    }
}

/// Casts whose plain Arrow form means the same as Spark's and cannot fail.
fn plain(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Float32, Float64, Int8, Int16, Int32, Int64, Null};
    if from == to || from == &Null {
        return true;
    }
    let rank = |data_type: &DataType| match data_type {
        Int8 => Some(1),
        Int16 => Some(2),
        Int32 => Some(3),
        Int64 => Some(4),
        Float32 => Some(5),
        Float64 => Some(6),
        _ => None,
    };
    match (rank(from), rank(to)) {
        (Some(from), Some(to)) => from < to,
        // Literals: `1` in a place that wants INT.
        _ => matches!((from, to), (Date32, DataType::Timestamp(TimeUnit::Microsecond, _))),
    }
}

fn castable(from: &DataType, to: &DataType) -> bool {
    let text = |data_type: &DataType| {
        matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    };
    match (from, to) {
        (from, to) if is_nested(from) && text(to) => true,
        (DataType::Date32 | DataType::Boolean, DataType::Boolean | DataType::Date32) => from == to,
        (DataType::Date32, number) if number.is_numeric() => false,
        (number, DataType::Date32) if number.is_numeric() => false,
        (from, DataType::Timestamp(..)) if text(from) || from.is_numeric() => true,
        (DataType::Timestamp(..), to) if to.is_numeric() || text(to) => true,
        _ => arrow::compute::can_cast_types(from, to),
    }
}

/// Casts a whole column.
pub(super) fn cast_array(
    array: &ArrayRef,
    to: &DataType,
    lenient: bool,
    zone: &Zone,
) -> Result<ArrayRef> {
    let source = match array.data_type() {
        DataType::LargeUtf8 | DataType::Utf8View => arrow::compute::cast(array, &DataType::Utf8)?,
        DataType::Timestamp(unit, zone) if *unit != TimeUnit::Microsecond => {
            let micros = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            arrow::compute::cast(array, &micros)?
        }
        _ => Arc::clone(array),
    };
    if let (Some(list), DataType::List(element)) = (source.as_list_opt::<i32>(), to)
        && list.values().data_type() != element.data_type()
    {
        return cast_elements(list, element, lenient, zone);
    }
    let result = convert(&source, to, zone)?;
    if !lenient && result.logical_null_count() > source.logical_null_count() {
        return Err(misfit(&source, &result, to));
    }
    Ok(result)
}

/// The cast of each element of lists.
fn cast_elements(
    list: &ListArray,
    element: &FieldRef,
    lenient: bool,
    zone: &Zone,
) -> Result<ArrayRef> {
    let (first, last) = match (list.value_offsets().first(), list.value_offsets().last()) {
        (Some(first), Some(last)) => (*first, *last),
        _ => (0, 0),
    };
    let values = list.values().slice(first as usize, (last - first) as usize);
    let values = cast_array(&values, element.data_type(), lenient, zone)?;
    let offsets: Vec<i32> = list.value_offsets().iter().map(|offset| offset - first).collect();
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let field = Arc::new(element.as_ref().clone().with_nullable(true));
    let list = ListArray::try_new(field, offsets, values, list.nulls().cloned())?;
    let to = DataType::List(Arc::clone(element));
    Ok(arrow::compute::cast(&list, &to)?)
}

/// The cast with NULL for each value that does not fit.
fn convert(array: &ArrayRef, to: &DataType, session: &Zone) -> Result<ArrayRef> {
    let done: ArrayRef = match (array.data_type(), to) {
        (DataType::Utf8, DataType::Utf8) => Arc::clone(array),
        (from, DataType::Utf8) if is_nested(from) => nested_text(array, session)?,
        (DataType::Utf8, _) => from_text(array.as_string::<i32>(), to, session)?,
        (DataType::Timestamp(_, zone), DataType::Utf8) => {
            let values = array.as_primitive::<TimestampMicrosecondType>();
            // A time without a zone is written as it stands.
            let zone = if zone.is_some() { session } else { &Zone::utc() };
            let texts = values.iter().map(|value| value.map(|time| timestamp_text(time, zone)));
            Arc::new(texts.collect::<StringArray>())
        }
        (from, to) if !session.is_utc() && crosses(from, to) => across(array, to, session)?,
        (DataType::Date32, DataType::Utf8) => {
            let values = array.as_primitive::<Date32Type>();
            Arc::new(values.iter().map(|value| value.map(date_text)).collect::<StringArray>())
        }
        (DataType::Float32 | DataType::Float64, DataType::Utf8) => {
            let single = array.data_type() == &DataType::Float32;
            let wide = arrow_cast(array, &DataType::Float64)?;
            let values = wide.as_primitive::<Float64Type>();
            let text = values.iter().map(|value| value.map(|value| double_text(value, single)));
            Arc::new(text.collect::<StringArray>())
        }
        (DataType::Timestamp(..), DataType::Float32 | DataType::Float64) => {
            let values = array.as_primitive::<TimestampMicrosecondType>();
            let seconds: Float64Array =
                values.iter().map(|value| value.map(|micros| micros as f64 / 1e6)).collect();
            arrow_cast(&(Arc::new(seconds) as ArrayRef), to)?
        }
        (DataType::Timestamp(..), to) if to.is_numeric() => {
            let values = array.as_primitive::<TimestampMicrosecondType>();
            let seconds: Int64Array = values
                .iter()
                .map(|value| value.map(|micros| micros.div_euclid(1_000_000)))
                .collect();
            arrow_cast(&(Arc::new(seconds) as ArrayRef), to)?
        }
        (from, DataType::Timestamp(_, zone)) if from.is_numeric() => {
            timestamps_from_numbers(array, zone.clone())?
        }
        // A fraction is cut off, as in Spark; Arrow rounds.
        (DataType::Decimal128(_, scale), to) if to.is_integer() && *scale > 0 => {
            let whole = arrow::compute::cast(array, &DataType::Float64)?;
            let values = whole.as_primitive::<Float64Type>();
            if values.iter().flatten().any(|value| value.abs() >= 9e15) {
                arrow_cast(array, to)?
            } else {
                let cut: Float64Array = values.iter().map(|value| value.map(f64::trunc)).collect();
                arrow_cast(&(Arc::new(cut) as ArrayRef), to)?
            }
        }
        _ => arrow_cast(array, to)?,
    };
    Ok(done)
}

/// Whether a cast goes between instants and civil times.
pub(crate) fn crosses(from: &DataType, to: &DataType) -> bool {
    let instant = |it: &DataType| matches!(it, DataType::Timestamp(_, Some(_)));
    let civil = |it: &DataType| matches!(it, DataType::Timestamp(_, None) | DataType::Date32);
    (instant(from) && civil(to)) || (civil(from) && instant(to))
}

/// Such a cast, in a zone.
fn across(array: &ArrayRef, to: &DataType, session: &Zone) -> Result<ArrayRef, ArrowError> {
    let micros = |zone: bool| {
        let zone = zone.then(|| crate::schema::UTC.into());
        DataType::Timestamp(TimeUnit::Microsecond, zone)
    };
    let instants = matches!(array.data_type(), DataType::Timestamp(_, Some(_)));
    let times = arrow_cast(array, &micros(instants))?;
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let change = |time: i64| if instants { session.local(time) } else { session.instant(time) };
    let changed: TimestampMicrosecondArray = times.unary(change);
    let typed = changed.with_data_type(micros(!instants));
    arrow_cast(&(Arc::new(typed) as ArrayRef), to)
}

fn arrow_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(array, to, &CastOptions { safe: true, format_options: formats() })
}

fn formats() -> FormatOptions<'static> {
    FormatOptions::default()
}

fn from_text(texts: &StringArray, to: &DataType, session: &Zone) -> Result<ArrayRef> {
    Ok(match to {
        DataType::Boolean => Arc::new(
            texts
                .iter()
                .map(|text| text.and_then(|text| boolean(text.trim())))
                .collect::<BooleanArray>(),
        ),
        DataType::Date32 => Arc::new(
            texts
                .iter()
                .map(|text| text.and_then(|text| parse_date(text.trim())))
                .collect::<Date32Array>(),
        ),
        DataType::Timestamp(_, zone) => {
            let session = if zone.is_some() { session } else { &Zone::utc() };
            let parsed: TimestampMicrosecondArray = texts
                .iter()
                .map(|text| text.and_then(|text| parse_timestamp(text.trim(), session)))
                .collect();
            Arc::new(parsed.with_timezone_opt(zone.clone()))
        }
        DataType::Binary => arrow_cast(&(Arc::new(texts.clone()) as ArrayRef), to)?,
        _ => {
            let trimmed: StringArray = texts.iter().map(|text| text.map(str::trim)).collect();
            arrow_cast(&(Arc::new(trimmed) as ArrayRef), to)?
        }
    })
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// Numbers are seconds since 1970.
fn timestamps_from_numbers(array: &ArrayRef, zone: Option<Arc<str>>) -> Result<ArrayRef> {
    let micros: TimestampMicrosecondArray = if array.data_type().is_integer() {
        let seconds = arrow_cast(array, &DataType::Int64)?;
        let seconds = seconds.as_primitive::<Int64Type>();
        seconds.iter().map(|value| value.and_then(|value| value.checked_mul(1_000_000))).collect()
    } else {
        let seconds = arrow_cast(array, &DataType::Float64)?;
        let seconds = seconds.as_primitive::<Float64Type>();
        let whole = |value: f64| {
            let micros = value * 1e6;
            (micros.is_finite() && micros.abs() < 9.2e18).then_some(micros as i64)
        };
        seconds.iter().map(|value| value.and_then(whole)).collect()
    };
    Ok(Arc::new(micros.with_timezone_opt(zone)))
}

/// A double as Java writes it: `1.0`, `1.0E7`, `1.2E-4`.
pub(super) fn double_text(value: f64, single: bool) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = value.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        return if single { format!("{:?}", value as f32) } else { format!("{value:?}") };
    }
    let text = if single { format!("{:e}", value as f32) } else { format!("{value:e}") };
    match text.split_once('e') {
        Some((digits, exponent)) if digits.contains('.') => format!("{digits}E{exponent}"),
        Some((digits, exponent)) => format!("{digits}.0E{exponent}"),
        None => text,
    }
}

/// The first value that did not fit, in Spark's words.
fn misfit(source: &ArrayRef, result: &ArrayRef, to: &DataType) -> DataFusionError {
    let place = (0..source.len()).find(|row| source.is_valid(*row) && result.is_null(*row));
    let formatter = ArrayFormatter::try_new(source.as_ref(), &formats());
    let value = match (&formatter, place) {
        (Ok(formatter), Some(row)) => formatter.value(row).to_string(),
        _ => "a value".to_owned(),
    };
    let (from, to) = (type_name(source.data_type()), type_name(to));
    let value: String = value.chars().take(200).collect();
    let text = matches!(to.as_str(), "STRING");
    DataFusionError::Execution(if text && from == "BINARY" {
        format!(
            "[CAST_INVALID_INPUT] the bytes {value} of the type \"BINARY\" cannot be cast to \
             \"STRING\" because they are not UTF-8; use try_cast to get NULL instead, or keep them \
             as BINARY (hex and base64 give texts of any bytes)"
        )
    } else if source.data_type() == &DataType::Utf8 {
        format!(
            "[CAST_INVALID_INPUT] the value '{value}' of the type \"{from}\" cannot be cast to \
             \"{to}\" because it is malformed; use try_cast to get NULL instead"
        )
    } else {
        format!(
            "[CAST_OVERFLOW] the value {value} of the type \"{from}\" cannot be cast to \"{to}\" \
             due to an overflow; use try_cast to get NULL instead"
        )
    })
}
