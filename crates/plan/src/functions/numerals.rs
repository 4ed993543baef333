//! Numbers as texts, and rounding to even.

use super::typed::{Typed, argument};
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, StringArray};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let double: fn(&[DataType]) -> Option<DataType> = |_| Some(DataType::Float64);
    let one = |name, body| Typed { name, least: 1, most: 1, returns: double, body }.udf();
    let text: fn(&[DataType]) -> Option<DataType> = |_| Some(DataType::Utf8);
    vec![
        Typed { name: "conv", least: 3, most: 3, returns: text, body: conv }.udf(),
        Typed { name: "format_number", least: 2, most: 2, returns: text, body: format_number }
            .udf(),
        one("ln", |columns, _| of_double(columns, |x| above(x, 0.0).map(f64::ln))),
        one("log2", |columns, _| of_double(columns, |x| above(x, 0.0).map(f64::log2))),
        one("log10", |columns, _| of_double(columns, |x| above(x, 0.0).map(f64::log10))),
        one("log1p", |columns, _| of_double(columns, |x| above(x, -1.0).map(f64::ln_1p))),
        one("sqrt", |columns, _| of_double(columns, |x| Some(x.sqrt()))),
        one("rint", |columns, _| of_double(columns, |x| Some(x.round_ties_even()))),
        Typed { name: "log", least: 1, most: 2, returns: double, body: log }.udf(),
        Typed { name: "bround", least: 1, most: 2, returns: rounded_type, body: bround }.udf(),
    ]
}

fn of_double(columns: &[ArrayRef], of: fn(f64) -> Option<f64>) -> Result<ArrayRef> {
    let numbers = argument(columns, 0, &DataType::Float64)?;
    let numbers = numbers.as_primitive::<Float64Type>().iter();
    Ok(Arc::new(numbers.map(|number| of(number?)).collect::<Float64Array>()))
}

/// The number, where a logarithm of it is defined: elsewhere that is NULL.
fn above(number: f64, least: f64) -> Option<f64> {
    if number <= least { None } else { Some(number) }
}

/// `log(number)`, `log(base, number)`.
fn log(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    if columns.len() == 1 {
        return of_double(columns, |x| above(x, 0.0).map(f64::ln));
    }
    let (bases, numbers) =
        (argument(columns, 0, &DataType::Float64)?, argument(columns, 1, &DataType::Float64)?);
    let (bases, numbers) =
        (bases.as_primitive::<Float64Type>(), numbers.as_primitive::<Float64Type>());
    let made = bases
        .iter()
        .zip(numbers)
        .map(|(base, number)| Some(above(number?, 0.0)?.ln() / above(base?, 0.0)?.ln()));
    Ok(Arc::new(made.collect::<Float64Array>()))
}

/// A number in another base. As a negative base asks for a sign, others wrap at 64 bits.
fn conv(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let texts = argument(columns, 0, &DataType::Utf8)?;
    let from = argument(columns, 1, &DataType::Int32)?;
    let to = argument(columns, 2, &DataType::Int32)?;
    let texts = texts.as_string::<i32>();
    let (from, to) = (from.as_primitive::<Int32Type>(), to.as_primitive::<Int32Type>());
    let made = texts.iter().zip(from).zip(to).map(|((text, from), to)| in_base(text?, from?, to?));
    Ok(Arc::new(made.collect::<StringArray>()))
}

fn in_base(text: &str, from: i32, to: i32) -> Option<String> {
    let bases = 2..=36;
    let (base, wanted) = (from.unsigned_abs(), to.unsigned_abs());
    if !bases.contains(&base) || !bases.contains(&wanted) {
        return None;
    }
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let digits = digits.chars().map_while(|digit| digit.to_digit(base));
    let mut value = digits.fold(0_u64, |value, digit| {
        let next = value.checked_mul(u64::from(base));
        next.and_then(|next| next.checked_add(u64::from(digit))).unwrap_or(u64::MAX)
    });
    let mut minus = false;
    if negative && to > 0 {
        value = value.wrapping_neg();
    } else if to < 0 && (negative || value.cast_signed() < 0) {
        minus = true;
        value = if negative { value } else { value.wrapping_neg() };
    }
    let mut reversed = Vec::new();
    loop {
        let digit = u32::try_from(value % u64::from(wanted)).ok()?;
        reversed.push(char::from_digit(digit, wanted)?.to_ascii_uppercase());
        value /= u64::from(wanted);
        if value == 0 {
            break;
        }
    }
    let digits: String = reversed.into_iter().rev().collect();
    Some(if minus { format!("-{digits}") } else { digits })
}

/// With commas between thousands and so many digits behind the point.
fn format_number(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let numbers = argument(columns, 0, &DataType::Float64)?;
    let places = match columns.get(1).map(|column| column.data_type().is_numeric()) {
        Some(true) => argument(columns, 1, &DataType::Int64)?,
        // `#,###,##0.00`: the digits behind its point count.
        _ => {
            let patterns = argument(columns, 1, &DataType::Utf8)?;
            let count = |pattern: &str| {
                pattern.split_once('.').map_or(0, |(_, digits)| digits.len() as i64)
            };
            let patterns = patterns.as_string::<i32>().iter();
            let counts = patterns.map(|pattern| pattern.map(count));
            Arc::new(counts.collect::<arrow::array::Int64Array>()) as ArrayRef
        }
    };
    let places = places.as_primitive::<Int64Type>();
    let made = numbers.as_primitive::<Float64Type>().iter().zip(places).map(|(number, places)| {
        let places = usize::try_from(places?).ok()?.min(400);
        Some(grouped(number?, places))
    });
    Ok(Arc::new(made.collect::<StringArray>()))
}

fn grouped(number: f64, places: usize) -> String {
    let text = format!("{:.places$}", number.abs());
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text.as_str(), None),
    };
    let mut made = String::new();
    if number < 0.0 && text.contains(|digit: char| ('1'..='9').contains(&digit)) {
        made.push('-');
    }
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            made.push(',');
        }
        made.push(digit);
    }
    if let Some(fraction) = fraction {
        made.push('.');
        made.push_str(fraction);
    }
    made
}

/// Digits of a decimal that `bround` leaves.
fn rounded_type(types: &[DataType]) -> Option<DataType> {
    match types.first()? {
        DataType::Decimal128(precision, scale) if types.len() == 1 && *scale > 0 => {
            let precision = precision.saturating_sub(scale.unsigned_abs()) + 1;
            Some(DataType::Decimal128(precision.clamp(1, 38), 0))
        }
        number if number.is_numeric() => Some(number.clone()),
        DataType::Null => Some(DataType::Float64),
        _ => None,
    }
}

fn bround(columns: &[ArrayRef], to: &DataType) -> Result<ArrayRef> {
    let numbers = argument(columns, 0, &DataType::Float64)?;
    let places = match columns.len() {
        2 => Some(argument(columns, 1, &DataType::Int32)?),
        _ => None,
    };
    let rounded: Float64Array = numbers
        .as_primitive::<Float64Type>()
        .iter()
        .enumerate()
        .map(|(row, number)| {
            let places = match &places {
                Some(places) if places.is_null(row) => return None,
                Some(places) => places.as_primitive::<Int32Type>().value(row),
                None => 0,
            };
            let factor = 10_f64.powi(places);
            number.map(|number| (number * factor).round_ties_even() / factor)
        })
        .collect();
    let rounded: ArrayRef = Arc::new(rounded);
    Ok(arrow::compute::cast(&rounded, to)?)
}

#[cfg(test)]
mod tests {
    use super::{grouped, in_base};

    #[test]
    fn numbers_change_their_base_and_wrap_as_in_java() {
        assert_eq!(in_base("100", 2, 10).as_deref(), Some("4"));
        assert_eq!(in_base("-10", 16, -10).as_deref(), Some("-16"));
        assert_eq!(in_base("-1", 10, 16).as_deref(), Some("FFFFFFFFFFFFFFFF"));
        assert_eq!(in_base("1", 1, 10), None);
    }

    #[test]
    fn thousands_have_commas() {
        assert_eq!(grouped(12332.123456, 4), "12,332.1235");
        assert_eq!(grouped(-999.5, 0), "-1,000");
        assert_eq!(grouped(0.0, 2), "0.00");
    }
}
