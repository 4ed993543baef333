//! `get_json_object`, `to_json`, `from_json`, and their like for CSV.

mod flat;
mod from;
mod read;
mod write;

use super::nested_text::is_nested;
use super::options::Options;
use super::simple::{Simple, Zoned};
use super::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use serde_json::Value;
use std::sync::Arc;
use write::Writing;

static TEXT_2: [Option<DataType>; 2] = [Some(DataType::Utf8), Some(DataType::Utf8)];
static ANY: [Option<DataType>; 2] = [None, None];

pub(super) fn functions() -> Vec<ScalarUDF> {
    let mut functions = vec![
        Simple {
            name: "get_json_object",
            arguments: &TEXT_2,
            optional: 0,
            returns: DataType::Utf8,
            body: get_json_object,
        }
        .udf(),
        Zoned {
            name: "to_json",
            arguments: &ANY,
            optional: 1,
            returns: DataType::Utf8,
            body: to_json,
        }
        .udf(),
        Zoned {
            name: "to_csv",
            arguments: &ANY,
            optional: 1,
            returns: DataType::Utf8,
            body: to_csv,
        }
        .udf(),
    ];
    functions.extend(from::functions());
    functions
}

fn missing() -> DataFusionError {
    DataFusionError::Internal("an argument is missing".to_owned())
}

/// The value at a path `$.a.b[0]['c']`, also `[*]`; texts without quotes, all else as JSON; NULL
/// where there is none or the text is not JSON.
fn get_json_object(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let [texts, paths] = columns else { return Err(missing()) };
    let found = texts.as_string::<i32>().iter().zip(paths.as_string::<i32>()).map(|pair| {
        let (Some(text), Some(path)) = pair else { return None };
        let steps = steps(path)?;
        let value: Value = serde_json::from_str(text).ok()?;
        match walk(&value, &steps)? {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        }
    });
    Ok(Arc::new(found.collect::<StringArray>()))
}

enum Step {
    Key(String),
    Place(usize),
    All,
}

fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let length = after.find(['.', '[']).unwrap_or(after.len());
            let (key, after) = after.split_at_checked(length)?;
            if key.is_empty() {
                return None;
            }
            steps.push(if key == "*" { Step::All } else { Step::Key(key.to_owned()) });
            rest = after;
        } else {
            let (inside, after) = rest.strip_prefix('[')?.split_once(']')?;
            steps.push(match inside.trim() {
                "*" => Step::All,
                inside => match inside.strip_prefix('\'').and_then(|key| key.strip_suffix('\'')) {
                    Some(key) => Step::Key(key.to_owned()),
                    None => Step::Place(inside.parse().ok()?),
                },
            });
            rest = after;
        }
    }
    Some(steps)
}

fn walk(value: &Value, steps: &[Step]) -> Option<Value> {
    let mut value = value;
    for (place, step) in steps.iter().enumerate() {
        value = match step {
            Step::Key(key) => value.get(key)?,
            Step::Place(index) => value.get(index)?,
            Step::All => {
                let rest = steps.get(place + 1..).unwrap_or_default();
                let found: Vec<Value> =
                    value.as_array()?.iter().filter_map(|item| walk(item, rest)).collect();
                return match <[Value; 1]>::try_from(found) {
                    Ok([one]) => Some(one),
                    Err(found) if found.is_empty() => None,
                    Err(found) => Some(Value::Array(found)),
                };
            }
        };
    }
    Some(value.clone())
}

/// Each struct of a column as JSON, fields that are NULL left out, times in UTC.
///
/// # Errors
/// Plan, when the column is none of structs, or has a type that JSON does not know.
pub(crate) fn json_of(column: &ArrayRef) -> Result<ArrayRef> {
    to_json(std::slice::from_ref(column), &Zone::utc())
}

/// A struct, list or map as JSON.
fn to_json(columns: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
    let column = columns.first().ok_or_else(missing)?;
    let options = Options::of(columns.get(1))?;
    if !is_nested(column.data_type()) {
        return Err(DataFusionError::Plan(format!(
            "[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] there is no to_json({})",
            crate::schema::type_name(column.data_type())
        )));
    }
    let column = known_types(column)?;
    Writing::check(column.data_type())?;
    let writing = Writing { options: &options, zone };
    let texts = (0..column.len()).map(|row| {
        column.is_valid(row).then(|| {
            let mut text = String::new();
            writing.value(column.as_ref(), row, &mut text);
            text
        })
    });
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// The column with texts and times in the one form that is written here.
pub(super) fn known_types(column: &ArrayRef) -> Result<ArrayRef> {
    let wanted = known_type(column.data_type());
    match column.data_type() == &wanted {
        true => Ok(Arc::clone(column)),
        false => Ok(arrow::compute::cast(column, &wanted)?),
    }
}

fn known_type(data_type: &DataType) -> DataType {
    let field = |field: &FieldRef| {
        let data_type = known_type(field.data_type());
        Arc::new(field.as_ref().clone().with_data_type(data_type))
    };
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Dictionary(_, value) => known_type(value),
        DataType::LargeList(element) | DataType::List(element) => DataType::List(field(element)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        other => other.clone(),
    }
}

fn to_csv(columns: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
    let column = columns.first().ok_or_else(missing)?;
    super::csv::write(column, &Options::of(columns.get(1))?, zone)
}
