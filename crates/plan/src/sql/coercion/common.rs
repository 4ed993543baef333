//! The type that values of several types have room in, as Spark 4 finds it in its ANSI mode.
//!
//! *Source:* Spark's documentation of ANSI compliance, "least common type resolution". DataFusion's
//! own rules differ where these say something: it makes a decimal of a double beside a decimal, and
//! so loses or refuses values.

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::logical_expr::type_coercion::other::get_coerce_type_for_case_expression;
use std::sync::Arc;

/// The common type of values that come together; `None` when there is none.
pub(crate) fn common_type(types: &[DataType]) -> Option<DataType> {
    let (first, rest) = types.split_first()?;
    rest.iter().try_fold(first.clone(), |known, next| common_of_two(&known, next))
}

fn common_of_two(one: &DataType, other: &DataType) -> Option<DataType> {
    of_spark(one, other)
        .or_else(|| of_spark(other, one))
        .or_else(|| get_coerce_type_for_case_expression(std::slice::from_ref(one), Some(other)))
}

/// The rules of Spark, for one of the two orders.
fn of_spark(one: &DataType, other: &DataType) -> Option<DataType> {
    let micros = |zone: &Option<Arc<str>>| DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
    match (one, other) {
        (one, other) if one == other => Some(one.clone()),
        (DataType::Null, other) => Some(other.clone()),
        (decimal, float) if decimal.is_decimal() && float.is_floating() => Some(DataType::Float64),
        // A float does not hold each whole number.
        (whole, DataType::Float32) if whole.is_integer() => Some(DataType::Float64),
        (text, other) if is_text(text) => beside_text(other),
        (DataType::Date32, DataType::Timestamp(_, zone)) => Some(micros(zone)),
        // The type with a time zone holds both.
        (DataType::Timestamp(_, zone @ Some(_)), DataType::Timestamp(_, None)) => {
            Some(micros(zone))
        }
        (DataType::List(one), DataType::List(other)) => {
            let element = common_of_two(one.data_type(), other.data_type())?;
            let nullable = one.is_nullable() || other.is_nullable();
            let name = one.name().as_str();
            Some(DataType::List(Arc::new(Field::new(name, element, nullable))))
        }
        _ => None,
    }
}

pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// What a text is read as, beside a value of another type.
fn beside_text(other: &DataType) -> Option<DataType> {
    match other {
        other if other.is_integer() => Some(DataType::Int64),
        other if other.is_numeric() => Some(DataType::Float64),
        DataType::Boolean | DataType::Date32 | DataType::Timestamp(..) | DataType::Binary => {
            Some(other.clone())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::common_type;
    use crate::schema::{parse_type, type_name};

    #[test]
    fn types_have_room_as_in_spark() {
        for (types, common) in [
            ("DECIMAL(2,1), DOUBLE", "DOUBLE"),
            ("FLOAT, DECIMAL(38,18)", "DOUBLE"),
            ("BIGINT, FLOAT", "DOUBLE"),
            ("FLOAT, FLOAT", "FLOAT"),
            ("FLOAT, DOUBLE", "DOUBLE"),
            ("INT, STRING", "BIGINT"),
            ("STRING, DECIMAL(4,2)", "DOUBLE"),
            ("STRING, DATE", "DATE"),
            ("DATE, TIMESTAMP", "TIMESTAMP"),
            ("TIMESTAMP_NTZ, DATE", "TIMESTAMP_NTZ"),
            ("TIMESTAMP_NTZ, TIMESTAMP", "TIMESTAMP"),
            ("INT, DECIMAL(2,1)", "DECIMAL(11,1)"),
            ("SMALLINT, INT, BIGINT", "BIGINT"),
            ("ARRAY<DECIMAL(2,1)>, ARRAY<DOUBLE>", "ARRAY<DOUBLE>"),
            ("VOID, INT, VOID", "INT"),
        ] {
            let types: Vec<_> = split(types).iter().map(|it| parse_type(it).unwrap()).collect();
            let found = common_type(&types).map(|it| type_name(&it));
            assert_eq!(found.as_deref(), Some(common), "{types:?}");
        }
    }

    /// At commas that are not in brackets.
    fn split(text: &str) -> Vec<String> {
        let mut parts = vec![String::new()];
        let mut depth = 0;
        for c in text.chars() {
            depth += i32::from(c == '(' || c == '<') - i32::from(c == ')' || c == '>');
            match c {
                ',' if depth == 0 => parts.push(String::new()),
                c => parts.last_mut().unwrap().push(c),
            }
        }
        parts
    }
}
