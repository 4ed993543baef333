//! The parser of Spark's JSON form of a schema.

use super::{
    SCHEMA_DEPTH_MAX, SCHEMA_FIELDS_MAX, decimal_type, duplicate, interval_type, list_of, map_of,
    simple_type,
};
use arrow::datatypes::{DataType, Field, Fields};
use onefold_types::{Error, Result};
use serde_json::{Map, Value};

pub(super) fn fields(text: &str) -> Result<Vec<Field>> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        Error::invalid(format!(
            "schema, line {}, column {}: the text is not JSON",
            error.line(),
            error.column()
        ))
        .because(error)
    })?;
    let mut reader = Reader { fields: 0, path: Vec::new() };
    match reader.data_type(&value, 0)? {
        DataType::Struct(fields) => Ok(fields.iter().map(|field| field.as_ref().clone()).collect()),
        _ => Err(reader.error("a schema is a JSON object with \"type\": \"struct\"")),
    }
}

struct Reader {
    fields: usize,
    path: Vec<String>,
}

impl Reader {
    fn error(&self, what: impl std::fmt::Display) -> Error {
        if self.path.is_empty() {
            return Error::invalid(format!("schema: {what}"));
        }
        Error::invalid(format!("schema, field `{}`: {what}", self.path.join(".")))
    }

    fn data_type(&mut self, value: &Value, depth: usize) -> Result<DataType> {
        if depth > SCHEMA_DEPTH_MAX {
            return Err(self.error(format_args!("nested deeper than {SCHEMA_DEPTH_MAX}")));
        }
        match value {
            Value::String(name) => self.named(name),
            Value::Object(object) => self.object(object, depth),
            _ => Err(self.error("a type is a text or an object")),
        }
    }

    fn object(&mut self, object: &Map<String, Value>, depth: usize) -> Result<DataType> {
        let kind = object.get("type").and_then(Value::as_str);
        match kind {
            Some("struct") => {
                let Some(Value::Array(fields)) = object.get("fields") else {
                    return Err(self.error("a struct needs an array \"fields\""));
                };
                let fields = fields
                    .iter()
                    .map(|field| self.field(field, depth + 1))
                    .collect::<Result<Vec<_>>>()?;
                if let Some(name) = duplicate(fields.iter().map(|field| field.name().as_str())) {
                    return Err(self.error(format_args!("the column `{name}` stands twice")));
                }
                Ok(DataType::Struct(Fields::from(fields)))
            }
            Some("array") => {
                let element = self.part(object, "elementType", depth)?;
                Ok(list_of(element, flag(object, "containsNull")))
            }
            Some("map") => {
                let key = self.part(object, "keyType", depth)?;
                let value = self.part(object, "valueType", depth)?;
                Ok(map_of(key, value, flag(object, "valueContainsNull")))
            }
            Some("udt") => match object.get("sqlType") {
                Some(stored) => self.data_type(stored, depth + 1),
                None => Err(self.error("a udt needs a \"sqlType\"")),
            },
            Some(other) => Err(self.error(format_args!("there is no type `{other}`"))),
            None => Err(self.error("a type object needs a text \"type\"")),
        }
    }

    fn part(&mut self, object: &Map<String, Value>, key: &str, depth: usize) -> Result<DataType> {
        match object.get(key) {
            Some(part) => self.data_type(part, depth + 1),
            None => Err(self.error(format_args!("\"{key}\" is missing"))),
        }
    }

    fn field(&mut self, value: &Value, depth: usize) -> Result<Field> {
        self.fields += 1;
        if self.fields > SCHEMA_FIELDS_MAX {
            return Err(self.error(format_args!("more than {SCHEMA_FIELDS_MAX} fields")));
        }
        let name = value.get("name").and_then(Value::as_str);
        let Some(name) = name else { return Err(self.error("a field needs a text \"name\"")) };
        self.path.push(name.to_owned());
        let Some(data_type) = value.get("type") else {
            return Err(self.error("\"type\" is missing"));
        };
        let data_type = self.data_type(data_type, depth)?;
        let nullable = value.get("nullable").and_then(Value::as_bool).unwrap_or(true);
        let mut field = Field::new(name, data_type, nullable);
        if let Some(Value::Object(entries)) = value.get("metadata") {
            field.set_metadata(super::metadata::of_new_field(entries));
        }
        self.path.pop();
        Ok(field)
    }

    /// A type that is one text: `long`, `decimal(10,2)`, `interval day to second`, `varchar(3)`.
    fn named(&self, name: &str) -> Result<DataType> {
        let lower = name.trim().to_ascii_lowercase();
        if let Some(found) = simple_type(&lower) {
            return Ok(found);
        }
        if let Some(rest) = lower.strip_prefix("interval") {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let (first, last) = match words.as_slice() {
                [] => (None, None),
                [first] => (Some(*first), None),
                [first, "to", last] => (Some(*first), Some(*last)),
                _ => return Err(self.error(format_args!("there is no type `{name}`"))),
            };
            return interval_type(first, last).map_err(|what| self.error(what));
        }
        let (base, numbers) = match lower.strip_suffix(')').and_then(|text| text.split_once('(')) {
            Some((base, inside)) => (base.trim(), inside.split(',').collect::<Vec<_>>()),
            None => (lower.as_str(), Vec::new()),
        };
        let numbers: Option<Vec<u64>> =
            numbers.iter().map(|number| number.trim().parse().ok()).collect();
        match (base, numbers.as_deref()) {
            ("decimal", Some([])) => Ok(DataType::Decimal128(10, 0)),
            ("decimal", Some([precision])) => {
                decimal_type(*precision, 0).map_err(|what| self.error(what))
            }
            ("decimal", Some([precision, scale])) => {
                decimal_type(*precision, *scale).map_err(|what| self.error(what))
            }
            ("char" | "varchar", Some([_])) => Ok(DataType::Utf8),
            _ if lower.starts_with("string collate ") => Err(self.error(format_args!(
                "the type `{name}` is not supported; strings compare as UTF8_BINARY"
            ))),
            _ => Err(self.error(format_args!("there is no type `{name}`"))),
        }
    }
}

fn flag(object: &Map<String, Value>, key: &str) -> bool {
    object.get(key).and_then(Value::as_bool).unwrap_or(true)
}
