//! `schema_of_json` and `schema_of_csv`: the type that a text seems to have; and that of many.

use super::csv::tokens;
use super::options::Options;
use super::timestamp_text::{parse_date, parse_timestamp};
use super::typed::{Typed, argument};
use super::zone::Zone;
use crate::schema::{timestamp, type_name};
use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let text: fn(&[DataType]) -> Option<DataType> = |_| Some(DataType::Utf8);
    let of = |name, body| Typed { name, least: 1, most: 2, returns: text, body }.udf();
    vec![of("schema_of_json", schema_of_json), of("schema_of_csv", schema_of_csv)]
}

/// What the function of this name gives for a sample; `None` where that is an error.
pub(crate) fn schema_of(function: &str, sample: &str) -> Option<String> {
    let sample: [ArrayRef; 1] = [Arc::new(StringArray::from(vec![sample]))];
    let body = if function == "schema_of_csv" { schema_of_csv } else { schema_of_json };
    let schema = body(&sample, &DataType::Utf8).ok()?;
    schema.as_string_opt::<i32>().map(|schemas| schemas.value(0).to_owned())
}

/// The columns that texts of JSON seem to have, as `spark.read.json` finds them.
#[derive(Debug, Default)]
pub struct JsonColumns {
    seen: Option<DataType>,
    malformed: bool,
}

impl JsonColumns {
    /// Takes one text into account. A list counts as the rows in it; a blank text is no row.
    pub fn add(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let rows = match serde_json::from_str(text) {
            Ok(Value::Array(rows)) => rows,
            Ok(row) => vec![row],
            Err(_) => Vec::new(),
        };
        self.malformed |= rows.is_empty() && !matches!(text.trim(), "[]");
        for row in &rows {
            if !row.is_object() {
                self.malformed = true;
                continue;
            }
            let row = of_value(row);
            self.seen = Some(match self.seen.take() {
                Some(seen) => both(seen, row),
                None => row,
            });
        }
    }

    /// Whether a text was no object, nor a list of them.
    #[must_use]
    pub fn malformed(&self) -> bool {
        self.malformed
    }

    /// The columns, sorted by name.
    #[must_use]
    pub fn fields(&self) -> Fields {
        match self.seen.clone().map(seen) {
            Some(DataType::Struct(fields)) => fields,
            _ => Fields::empty(),
        }
    }
}

/// The columns that lines of CSV seem to have, as `spark.read.csv` finds them.
#[derive(Debug)]
pub struct CsvColumns {
    separator: char,
    header: bool,
    names: Option<Vec<String>>,
    types: Vec<Option<DataType>>,
}

impl CsvColumns {
    /// With the character between values, and whether the first line has the names.
    #[must_use]
    pub fn new(separator: char, header: bool) -> Self {
        CsvColumns { separator, header, names: None, types: Vec::new() }
    }

    /// Takes one line into account. The first one says how many columns there are.
    pub fn add(&mut self, line: &str) {
        let values = tokens(line, self.separator);
        if self.names.is_none() {
            let names = values.iter().enumerate().map(|(place, value)| match value {
                Some(name) if self.header => name.clone(),
                _ => format!("_c{place}"),
            });
            self.names = Some(names.collect());
            self.types = vec![None; values.len()];
            if self.header {
                return;
            }
        }
        for (known, value) in self.types.iter_mut().zip(values) {
            let Some(value) = value else { continue };
            let own = of_token(&value);
            *known = Some(match known.take() {
                Some(known) => of_both(known, own),
                None => own,
            });
        }
    }

    /// The columns; without `typed` all are texts.
    #[must_use]
    pub fn fields(&self, typed: bool) -> Fields {
        let names = self.names.iter().flatten().zip(&self.types);
        let fields = names.map(|(name, seen)| {
            let data_type = seen.clone().filter(|_| typed).unwrap_or(DataType::Utf8);
            Field::new(name, data_type, true)
        });
        fields.collect()
    }
}

/// The type of a column with values of both types.
fn of_both(one: DataType, other: DataType) -> DataType {
    let rank = |data_type: &DataType| match data_type {
        DataType::Int32 => Some(0),
        DataType::Int64 => Some(1),
        DataType::Float64 => Some(2),
        _ => None,
    };
    match (rank(&one), rank(&other)) {
        _ if one == other => one,
        (Some(first), Some(second)) if first < second => other,
        (Some(_), Some(_)) => one,
        _ if [&one, &other]
            .iter()
            .all(|it| matches!(it, DataType::Date32) || **it == timestamp()) =>
        {
            timestamp()
        }
        _ => DataType::Utf8,
    }
}

fn schema_of_json(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    Options::of(columns.get(1))?;
    let texts = argument(columns, 0, &DataType::Utf8)?;
    let mut schemas = Vec::with_capacity(texts.len());
    for text in texts.as_string::<i32>() {
        let Some(text) = text else {
            schemas.push(None);
            continue;
        };
        let value: Value = serde_json::from_str(text).map_err(|_| {
            let text: String = text.chars().take(200).collect();
            DataFusionError::Execution(format!(
                "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] `{text}` is no JSON"
            ))
        })?;
        schemas.push(Some(type_name(&seen(of_value(&value)))));
    }
    Ok(Arc::new(StringArray::from(schemas)))
}

fn of_value(value: &Value) -> DataType {
    match value {
        Value::Null => DataType::Null,
        Value::Bool(_) => DataType::Boolean,
        Value::Number(number) if number.is_i64() => DataType::Int64,
        Value::Number(number) if number.is_u64() => DataType::Decimal128(20, 0),
        Value::Number(_) => DataType::Float64,
        Value::String(_) => DataType::Utf8,
        Value::Array(values) => {
            let element = values.iter().map(of_value).reduce(both).unwrap_or(DataType::Null);
            DataType::List(Arc::new(Field::new("element", element, true)))
        }
        Value::Object(object) => {
            let fields: BTreeMap<&String, DataType> =
                object.iter().map(|(name, value)| (name, of_value(value))).collect();
            let fields = fields.into_iter().map(|(name, it)| Field::new(name, it, true));
            DataType::Struct(fields.collect())
        }
    }
}

/// The type that values of both have room in.
fn both(one: DataType, other: DataType) -> DataType {
    match (one, other) {
        (one, other) if one == other => one,
        (DataType::Null, other) => other,
        (one, DataType::Null) => one,
        (one, other)
            if (one.is_numeric() || one.is_decimal())
                && (other.is_numeric() || other.is_decimal()) =>
        {
            match one.is_floating() || other.is_floating() {
                true => DataType::Float64,
                false => DataType::Decimal128(20, 0),
            }
        }
        (DataType::List(one), DataType::List(other)) => {
            let element = both(one.data_type().clone(), other.data_type().clone());
            DataType::List(Arc::new(Field::new("element", element, true)))
        }
        (DataType::Struct(one), DataType::Struct(other)) => {
            let mut fields: BTreeMap<String, DataType> = BTreeMap::new();
            for field in one.iter().chain(&other) {
                let known = fields.remove(field.name());
                let data_type = match known {
                    Some(known) => both(known, field.data_type().clone()),
                    None => field.data_type().clone(),
                };
                fields.insert(field.name().clone(), data_type);
            }
            let fields = fields.into_iter().map(|(name, it)| Field::new(name, it, true));
            DataType::Struct(fields.collect())
        }
        _ => DataType::Utf8,
    }
}

/// Of what was only ever NULL, texts are expected.
fn seen(data_type: DataType) -> DataType {
    match data_type {
        DataType::Null => DataType::Utf8,
        DataType::List(element) => {
            let element = Field::new("element", seen(element.data_type().clone()), true);
            DataType::List(Arc::new(element))
        }
        DataType::Struct(fields) => DataType::Struct(
            fields
                .iter()
                .map(|field| Field::new(field.name(), seen(field.data_type().clone()), true))
                .collect::<Fields>(),
        ),
        other => other,
    }
}

fn schema_of_csv(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let options = Options::of(columns.get(1))?;
    let texts = argument(columns, 0, &DataType::Utf8)?;
    let schemas = texts.as_string::<i32>().iter().map(|text| {
        let types = tokens(text?, options.separator).into_iter().enumerate();
        let fields = types.map(|(place, token)| {
            let data_type = token.as_deref().map_or(DataType::Utf8, of_token);
            Field::new(format!("_c{place}"), data_type, true)
        });
        Some(type_name(&DataType::Struct(fields.collect())))
    });
    Ok(Arc::new(schemas.collect::<StringArray>()))
}

fn of_token(token: &str) -> DataType {
    if token.parse::<i32>().is_ok() {
        DataType::Int32
    } else if token.parse::<i64>().is_ok() {
        DataType::Int64
    } else if token.parse::<f64>().is_ok() {
        DataType::Float64
    } else if parse_date(token).is_some() && !token.contains([':', 'T', ' ']) && token.len() == 10 {
        DataType::Date32
    } else if token.len() > 10 && parse_timestamp(token, &Zone::utc()).is_some() {
        timestamp()
    } else if ["true", "false"].iter().any(|it| it.eq_ignore_ascii_case(token)) {
        DataType::Boolean
    } else {
        DataType::Utf8
    }
}

#[cfg(test)]
mod tests {
    use super::{CsvColumns, JsonColumns};
    use crate::schema::type_name;
    use arrow::datatypes::{DataType, Fields};

    fn named(fields: Fields) -> String {
        type_name(&DataType::Struct(fields))
    }

    #[test]
    fn columns_of_json_have_room_for_every_row() {
        let mut columns = JsonColumns::default();
        for text in
            ["{\"b\": 1, \"a\": null}", " ", "[{\"b\": 1.5}, {\"c\": {\"x\": [1, \"y\"]}}]", "[]"]
        {
            columns.add(text);
        }
        assert!(!columns.malformed());
        let wanted = "STRUCT<a: STRING, b: DOUBLE, c: STRUCT<x: ARRAY<STRING>>>";
        assert_eq!(named(columns.fields()), wanted);
        columns.add("no json");
        assert!(columns.malformed());
    }

    #[test]
    fn columns_of_csv_are_named_by_the_first_line() {
        let read = |header: bool, typed: bool| {
            let mut columns = CsvColumns::new(',', header);
            for line in ["a,b", "1,2026-01-31", "3000000000,", "2,2026-01-31T10:00:00"] {
                columns.add(line);
            }
            named(columns.fields(typed))
        };
        assert_eq!(read(true, true), "STRUCT<a: BIGINT, b: TIMESTAMP>");
        assert_eq!(read(true, false), "STRUCT<a: STRING, b: STRING>");
        assert_eq!(read(false, true), "STRUCT<_c0: STRING, _c1: STRING>");
    }
}
