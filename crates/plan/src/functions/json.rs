//! `get_json_object`, `to_json` and `from_json`.

use super::simple::{Simple, Zoned};
use super::zone::Zone;
use crate::schema::parse_schema;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use arrow::json::ReaderBuilder;
use arrow::json::writer::{LineDelimited, WriterBuilder};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use serde_json::Value;
use std::sync::Arc;

static TEXT_2: [Option<DataType>; 2] = [Some(DataType::Utf8), Some(DataType::Utf8)];
static ANY: [Option<DataType>; 1] = [None];

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
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
            optional: 0,
            returns: DataType::Utf8,
            body: to_json,
        }
        .udf(),
        ScalarUDF::new_from_impl(FromJson { signature: Signature::any(2, Volatility::Immutable) }),
    ]
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

/// A struct as JSON, fields that are NULL left out.
fn to_json(columns: &[ArrayRef], zone: &Zone) -> Result<ArrayRef> {
    let [column] = columns else { return Err(missing()) };
    let column = &in_zone(column, crate::schema::UTC, zone.name())?;
    let Some(rows) = column.as_any().downcast_ref::<StructArray>() else {
        return Err(DataFusionError::Plan("to_json takes a STRUCT".to_owned()));
    };
    let mut texts = Vec::with_capacity(rows.len());
    // One row at a time keeps rows and lines together, whatever a value holds.
    for row in 0..rows.len() {
        if rows.is_null(row) {
            texts.push(None);
            continue;
        }
        let one = rows.slice(row, 1);
        let schema = Arc::new(Schema::new(one.fields().clone()));
        let batch = RecordBatch::try_new(schema, one.columns().to_vec())?;
        let mut bytes = Vec::new();
        let builder = WriterBuilder::new()
            .with_explicit_nulls(false)
            .with_timestamp_format("%Y-%m-%dT%H:%M:%S%.3f".to_owned())
            .with_timestamp_tz_format(
                if zone.is_utc() { "%Y-%m-%dT%H:%M:%S%.3fZ" } else { "%Y-%m-%dT%H:%M:%S%.3f%:z" }
                    .to_owned(),
            );
        let mut writer = builder.build::<_, LineDelimited>(&mut bytes);
        writer.write(&batch)?;
        writer.finish()?;
        drop(writer);
        let text =
            String::from_utf8(bytes).map_err(|error| DataFusionError::External(Box::new(error)))?;
        texts.push(Some(text.trim_end().to_owned()));
    }
    Ok(Arc::new(StringArray::from(texts)))
}

/// The same instants, also within structs and lists, typed with another zone.
fn in_zone(column: &ArrayRef, from: &str, to: &str) -> Result<ArrayRef> {
    let wanted = zoned(column.data_type(), from, to);
    if column.data_type() == &wanted {
        return Ok(Arc::clone(column));
    }
    Ok(arrow::compute::cast(column, &wanted)?)
}

fn zoned(data_type: &DataType, from: &str, to: &str) -> DataType {
    let field = |field: &FieldRef| {
        let data_type = zoned(field.data_type(), from, to);
        Arc::new(field.as_ref().clone().with_data_type(data_type))
    };
    match data_type {
        DataType::Timestamp(unit, Some(zone)) if zone.as_ref() == from => {
            DataType::Timestamp(*unit, Some(to.into()))
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        DataType::List(item) => DataType::List(field(item)),
        other => other.clone(),
    }
}

/// `from_json(text, 'a INT, b STRING')`: a struct; NULL in all fields where the text does not fit.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FromJson {
    signature: Signature,
}

impl ScalarUDFImpl for FromJson {
    fn name(&self) -> &str {
        "from_json"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal("the type of from_json is in its argument".to_owned()))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let schema = arguments.scalar_arguments.get(1).copied().flatten();
        let text = schema.and_then(|schema| schema.try_as_str().flatten()).ok_or_else(|| {
            DataFusionError::Plan("the schema of from_json must be a literal text".to_owned())
        })?;
        let schema =
            parse_schema(text).map_err(|error| DataFusionError::Plan(error.to_string()))?;
        // Any field may be missing in the text.
        let fields: Fields = schema
            .fields()
            .iter()
            .map(|field| field.as_ref().clone().with_nullable(true))
            .collect();
        Ok(Arc::new(Field::new("from_json", DataType::Struct(fields), true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Struct(fields) = arguments.return_field.data_type() else {
            return Err(missing());
        };
        let value = arguments.args.first().ok_or_else(missing)?;
        let zone = Zone::of(&arguments.config_options)?;
        let scalar = matches!(value, ColumnarValue::Scalar(_));
        let rows = if scalar { 1 } else { arguments.number_rows };
        let texts = super::cast::cast_array(&value.to_array(rows)?, &DataType::Utf8, false, &zone)?;
        let zoned = zoned(&DataType::Struct(fields.clone()), crate::schema::UTC, zone.name());
        let DataType::Struct(zoned) = &zoned else { return Err(missing()) };
        let result = structs(texts.as_string::<i32>(), zoned)?;
        let result = in_zone(&result, zone.name(), crate::schema::UTC)?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

fn structs(texts: &StringArray, fields: &Fields) -> Result<ArrayRef> {
    let schema = Arc::new(Schema::new(fields.clone()));
    let nothing = arrow::array::new_null_array(&DataType::Struct(fields.clone()), 1);
    let mut rows: Vec<ArrayRef> = Vec::with_capacity(texts.len());
    for text in texts {
        let Some(text) = text else {
            rows.push(Arc::clone(&nothing));
            continue;
        };
        let read = one(text, &schema)?;
        rows.push(match read {
            Some(batch) => Arc::new(StructArray::from(batch)),
            // Spark gives a row whose fields are all NULL.
            None => Arc::new(StructArray::try_new(
                fields.clone(),
                fields.iter().map(|f| arrow::array::new_null_array(f.data_type(), 1)).collect(),
                None,
            )?),
        });
    }
    if rows.is_empty() {
        return Ok(arrow::array::new_empty_array(&DataType::Struct(fields.clone())));
    }
    let rows: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
    Ok(arrow::compute::concat(&rows)?)
}

/// One text as one row; `None` where it is not an object or does not fit.
fn one(text: &str, schema: &Arc<Schema>) -> Result<Option<RecordBatch>> {
    let mut decoder = ReaderBuilder::new(Arc::clone(schema)).with_batch_size(2).build_decoder()?;
    let bytes = text.as_bytes();
    let Ok(read) = decoder.decode(bytes) else { return Ok(None) };
    if read != bytes.len() {
        return Ok(None);
    }
    match decoder.flush() {
        Ok(Some(batch)) if batch.num_rows() == 1 => Ok(Some(batch)),
        _ => Ok(None),
    }
}
