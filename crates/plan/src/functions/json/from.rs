//! `from_json(text, schema[, options])` and `from_csv`.

use super::flat;
use super::read::Reading;
use crate::functions::cast::cast_array;
use crate::functions::csv;
use crate::functions::options::Options;
use crate::functions::zone::Zone;
use crate::schema::{parse_schema, parse_type};
use arrow::array::{Array, ArrayRef, AsArray, StringArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use serde_json::Value;
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let counts = vec![TypeSignature::Any(2), TypeSignature::Any(3)];
    let signature = Signature::one_of(counts, Volatility::Immutable);
    ["from_json", "from_csv"]
        .map(|name| ScalarUDF::new_from_impl(FromText { name, signature: signature.clone() }))
        .into()
}

/// A struct, list or map out of each text.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FromText {
    name: &'static str,
    signature: Signature,
}

/// The type that a text names: columns (`a INT, b STRING`), or one type (`ARRAY<INT>`), in either
/// also as JSON.
fn wanted(text: &str) -> Result<DataType> {
    let schema = match parse_schema(text) {
        Ok(schema) => schema,
        Err(error) => {
            if let Ok(data_type) = parse_type(text) {
                return Ok(open(&data_type));
            }
            let column = format!(
                "{{\"type\":\"struct\",\"fields\":[{{\"name\":\"value\",\"type\":{text},\
                 \"nullable\":true,\"metadata\":{{}}}}]}}"
            );
            let field = parse_schema(&column).ok().and_then(|it| it.fields().first().cloned());
            return match field {
                Some(field) => Ok(open(field.data_type())),
                None => Err(DataFusionError::Plan(error.to_string())),
            };
        }
    };
    Ok(open(&DataType::Struct(schema.fields().clone())))
}

/// The type with NULL allowed everywhere: anything may be missing in a text.
fn open(data_type: &DataType) -> DataType {
    let field = |field: &FieldRef| {
        let inner = field.as_ref().clone();
        let data_type = open(inner.data_type());
        Arc::new(inner.with_data_type(data_type).with_nullable(true))
    };
    match data_type {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        DataType::List(element) => DataType::List(field(element)),
        DataType::Map(entries, sorted) => match entries.data_type() {
            DataType::Struct(pair) => {
                let pair: Fields = pair
                    .iter()
                    .enumerate()
                    .map(|(place, it)| match place {
                        0 => Arc::clone(it),
                        _ => field(it),
                    })
                    .collect();
                let entries = entries.as_ref().clone().with_data_type(DataType::Struct(pair));
                DataType::Map(Arc::new(entries), *sorted)
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}

impl ScalarUDFImpl for FromText {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal("the type is in an argument".to_owned()))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let schema = arguments.scalar_arguments.get(1).copied().flatten();
        let text = schema.and_then(|schema| schema.try_as_str().flatten()).ok_or_else(|| {
            DataFusionError::Plan(format!("the schema of {} must be a literal text", self.name))
        })?;
        Ok(Arc::new(Field::new(self.name, wanted(text)?, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let missing = || DataFusionError::Internal("an argument is missing".to_owned());
        let zone = Zone::of(&arguments.config_options)?;
        let value = arguments.args.first().ok_or_else(missing)?;
        let options = arguments.args.get(2).map(|options| options.to_array(1)).transpose()?;
        let options = Options::of(options.as_ref())?;
        let scalar = matches!(value, ColumnarValue::Scalar(_));
        let rows = if scalar { 1 } else { arguments.number_rows };
        let texts = cast_array(&value.to_array(rows)?, &DataType::Utf8, false, &zone)?;
        let to = arguments.return_field.data_type();
        let texts = texts.as_string::<i32>();
        let result = match (self.name, to) {
            ("from_csv", DataType::Struct(fields)) => csv::read(texts, fields, &options, &zone)?,
            _ => read(texts, to, &options, &zone)?,
        };
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

/// Each text as a value of the type. What is no text, or a blank one, is NULL; of what is no JSON
/// all fields are NULL.
pub(super) fn read(
    texts: &StringArray,
    to: &DataType,
    options: &Options,
    zone: &Zone,
) -> Result<ArrayRef> {
    if let DataType::Struct(fields) = to {
        let general = |texts: &StringArray| read_any(texts, to, options, zone);
        if let Some(rows) = flat::read(texts, fields, options, general)? {
            return Ok(rows);
        }
    }
    read_any(texts, to, options, zone)
}

/// As [`read`], whatever the texts and the type hold.
fn read_any(
    texts: &StringArray,
    to: &DataType,
    options: &Options,
    zone: &Zone,
) -> Result<ArrayRef> {
    let mut bad = vec![false; texts.len()];
    let mut there = Vec::with_capacity(texts.len());
    let mut values = Vec::with_capacity(texts.len());
    for (text, bad) in texts.iter().zip(&mut bad) {
        let text = text.filter(|text| !text.trim().is_empty());
        there.push(text.is_some());
        let value = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let value = value.map(|value| rooted(value, to));
        let fits = value.as_ref().is_some_and(|value| match to {
            DataType::Struct(_) | DataType::Map(..) => value.is_object(),
            DataType::List(_) => value.is_array(),
            _ => true,
        });
        *bad = text.is_some() && !fits;
        values.push(value.filter(|_| fits));
    }
    let items: Vec<_> = values.iter().map(Option::as_ref).enumerate().collect();
    let mut reading = Reading { options, zone, bad };
    let made = reading.column(&items, to)?;
    let bad = reading.bad;
    options.refuse(&bad, texts, "from_json")?;
    let (Some(rows), DataType::Struct(fields)) = (made.as_struct_opt(), to) else {
        return Ok(made);
    };
    let columns = fields
        .iter()
        .zip(rows.columns())
        .map(|(field, column)| {
            if field.name() != &options.corrupt || field.data_type() != &DataType::Utf8 {
                return Arc::clone(column);
            }
            let kept = texts.iter().zip(&bad).map(|(text, bad)| text.filter(|_| *bad));
            Arc::new(kept.collect::<StringArray>()) as ArrayRef
        })
        .collect();
    let nulls = Some(NullBuffer::from(there));
    let rows = StructArray::try_new_with_length(fields.clone(), columns, nulls, texts.len())?;
    Ok(Arc::new(rows))
}

/// The first of a list where one struct is wanted; a list of one where a list of structs is.
fn rooted(value: Value, to: &DataType) -> Value {
    match (value, to) {
        (Value::Array(list), DataType::Struct(_)) => list.into_iter().next().unwrap_or(Value::Null),
        (Value::Object(object), DataType::List(element))
            if matches!(element.data_type(), DataType::Struct(_)) =>
        {
            Value::Array(vec![Value::Object(object)])
        }
        (value, _) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::{Options, read, read_any, wanted};
    use crate::functions::zone::Zone;
    use arrow::array::{Array, AsArray, StringArray};
    use arrow::datatypes::Int32Type;
    use proptest::prelude::*;

    /// Texts that are JSON, or nearly.
    fn text() -> impl Strategy<Value = Option<String>> {
        let value = prop_oneof![
            Just("null".to_owned()),
            any::<bool>().prop_map(|it| it.to_string()),
            any::<i64>().prop_map(|it| it.to_string()),
            (-200_i64..200).prop_map(|it| it.to_string()),
            Just("18446744073709551615".to_owned()),
            any::<f64>().prop_map(|it| serde_json::json!(it).to_string()),
            Just("1e5".to_owned()),
            ".{0,6}".prop_map(|it| serde_json::json!(it).to_string()),
            Just("\"\\u00e9\\n\"".to_owned()),
            Just("[1]".to_owned()),
            Just("{\"a\":1}".to_owned()),
            Just("x".to_owned()),
        ];
        let name = prop_oneof!["[abcdef]", Just("_corrupt_record".to_owned()), ".{0,3}"];
        let pair =
            (name, value).prop_map(|(name, value)| format!("{}:{value}", serde_json::json!(name)));
        let object = proptest::collection::vec(pair, 0..7)
            .prop_map(|pairs| format!("{{{}}}", pairs.join(",")));
        prop_oneof![
            1 => Just(None),
            1 => ".{0,4}".prop_map(Some),
            1 => object.clone().prop_map(|it| Some(it + ",")),
            1 => object.clone().prop_map(|it| Some(format!("[{it}]"))),
            8 => object.prop_map(Some),
        ]
    }

    proptest! {
        #[test]
        fn plain_objects_are_read_as_in_the_general_way(
            texts in proptest::collection::vec(text(), 0..12)
        ) {
            let texts = StringArray::from(texts);
            let to = "a TINYINT, b STRING, c BIGINT, d DOUBLE, e BOOLEAN, f FLOAT, _corrupt_record STRING";
            let to = wanted(to).unwrap();
            let (options, zone) = (Options::of(None).unwrap(), Zone::utc());
            let quick = read(&texts, &to, &options, &zone).unwrap();
            let general = read_any(&texts, &to, &options, &zone).unwrap();
            prop_assert_eq!(&quick, &general);
        }
    }

    #[test]
    fn what_does_not_fit_is_null_and_the_rest_of_the_record_stays() {
        let texts = StringArray::from(vec![
            Some("{\"a\": 1, \"b\": {\"c\": [1, \"x\"]}}"),
            Some("{\"a\": \"1\", \"b\": 2}"),
            Some("no json"),
            Some(" "),
            None,
        ]);
        let to = wanted("a INT, b STRING, _corrupt_record STRING").unwrap();
        let rows = read(&texts, &to, &Options::of(None).unwrap(), &Zone::utc()).unwrap();
        let rows = rows.as_struct();
        let numbers: Vec<_> = rows.column(0).as_primitive::<Int32Type>().iter().collect();
        assert_eq!(numbers, [Some(1), None, None, None, None]);
        let inner = rows.column(1).as_string::<i32>();
        assert_eq!((inner.value(0), inner.value(1)), ("{\"c\":[1,\"x\"]}", "2"));
        let corrupt: Vec<_> = rows.column(2).as_string::<i32>().iter().collect();
        assert_eq!(corrupt, [None, Some("{\"a\": \"1\", \"b\": 2}"), Some("no json"), None, None]);
        let there: Vec<bool> = (0..5).map(|row| rows.is_valid(row)).collect();
        assert_eq!(there, [true, true, true, false, false]);
    }
}
