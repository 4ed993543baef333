//! More functions of regular expressions and JSON texts: `regexp_extract_all`, `regexp_substr`,
//! `json_array_length`, `json_object_keys`, `mask`.

use super::typed::{Typed, argument};
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, Int32Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use regex::Regex;
use serde_json::Value;
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let text: fn(&[DataType]) -> Option<DataType> = |_| Some(DataType::Utf8);
    let texts: fn(&[DataType]) -> Option<DataType> =
        |_| Some(DataType::List(Arc::new(Field::new("element", DataType::Utf8, true))));
    let int: fn(&[DataType]) -> Option<DataType> = |_| Some(DataType::Int32);
    vec![
        Typed { name: "regexp_extract_all", least: 2, most: 3, returns: texts, body: extract_all }
            .udf(),
        Typed { name: "regexp_substr", least: 2, most: 2, returns: text, body: substr }.udf(),
        Typed { name: "json_array_length", least: 1, most: 1, returns: int, body: array_length }
            .udf(),
        Typed { name: "json_object_keys", least: 1, most: 1, returns: texts, body: object_keys }
            .udf(),
        Typed { name: "mask", least: 1, most: 5, returns: text, body: mask }.udf(),
    ]
}

fn texts(columns: &[ArrayRef], place: usize) -> Result<StringArray> {
    Ok(argument(columns, place, &DataType::Utf8)?.as_string::<i32>().clone())
}

fn regex(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|error| {
        DataFusionError::Execution(format!(
            "[INVALID_PARAMETER_VALUE.PATTERN] the regular expression `{pattern}` is not valid \
             (look-around and back-references are not supported): {error}"
        ))
    })
}

fn lists() -> ListBuilder<StringBuilder> {
    ListBuilder::new(StringBuilder::new()).with_field(Field::new("element", DataType::Utf8, true))
}

/// The group of every match: group 1 when none is given.
fn extract_all(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let (values, patterns) = (texts(columns, 0)?, texts(columns, 1)?);
    let groups = match columns.len() {
        3 => Some(argument(columns, 2, &DataType::Int32)?),
        _ => None,
    };
    let mut lists = lists();
    for (row, pair) in values.iter().zip(&patterns).enumerate() {
        let group = match &groups {
            Some(groups) if groups.is_null(row) => None,
            Some(groups) => usize::try_from(groups.as_primitive::<Int32Type>().value(row)).ok(),
            None => Some(1),
        };
        let ((Some(value), Some(pattern)), Some(group)) = (pair, group) else {
            lists.append(false);
            continue;
        };
        let regex = regex(pattern)?;
        if group >= regex.captures_len() {
            return Err(DataFusionError::Execution(format!(
                "[INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX] `{pattern}` has no group {group}"
            )));
        }
        for found in regex.captures_iter(value) {
            lists.values().append_value(found.get(group).map_or("", |found| found.as_str()));
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// The first match, NULL where there is none.
fn substr(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let (values, patterns) = (texts(columns, 0)?, texts(columns, 1)?);
    let mut made = Vec::with_capacity(values.len());
    for pair in values.iter().zip(&patterns) {
        made.push(match pair {
            (Some(value), Some(pattern)) => {
                regex(pattern)?.find(value).map(|found| found.as_str().to_owned())
            }
            _ => None,
        });
    }
    Ok(Arc::new(StringArray::from(made)))
}

fn array_length(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let lengths = texts(columns, 0)?;
    let lengths = lengths.iter().map(|text| match serde_json::from_str(text?) {
        Ok(Value::Array(elements)) => i32::try_from(elements.len()).ok(),
        _ => None,
    });
    Ok(Arc::new(lengths.collect::<Int32Array>()))
}

fn object_keys(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let mut lists = lists();
    for text in &texts(columns, 0)? {
        match text.map(serde_json::from_str::<Value>) {
            Some(Ok(Value::Object(fields))) => {
                for key in fields.keys() {
                    lists.values().append_value(key);
                }
                lists.append(true);
            }
            _ => lists.append(false),
        }
    }
    Ok(Arc::new(lists.finish()))
}

/// Letters and digits under signs: capitals, small letters, digits, and all else.
fn mask(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let values = texts(columns, 0)?;
    let signs = (1..5)
        .map(|place| match columns.len() > place {
            true => Ok(Some(texts(columns, place)?)),
            false => Ok(None),
        })
        .collect::<Result<Vec<_>>>()?;
    let standard = [Some('X'), Some('x'), Some('n'), None];
    let made = values.iter().enumerate().map(|(row, value)| {
        let sign = |kind: usize| match signs.get(kind) {
            Some(Some(given)) => given.is_valid(row).then(|| given.value(row).chars().next())?,
            _ => standard.get(kind).copied().flatten(),
        };
        let signs = [sign(0), sign(1), sign(2), sign(3)];
        value.map(|value| value.chars().map(|letter| masked(letter, signs)).collect::<String>())
    });
    Ok(Arc::new(made.collect::<StringArray>()))
}

fn masked(letter: char, [upper, lower, digit, other]: [Option<char>; 4]) -> char {
    let sign = match letter {
        letter if letter.is_uppercase() => upper,
        letter if letter.is_lowercase() => lower,
        letter if letter.is_ascii_digit() => digit,
        _ => other,
    };
    sign.unwrap_or(letter)
}
