//! `from_avro` and `to_avro`: one value in Avro's binary form, as records of Kafka carry it.
//!
//! `from_avro(data, schema[, options])` and `to_avro(value[, schema])` are Spark's. Beyond it, the option
//! `wireFormat => 'confluent'` reads data behind the five bytes that name a schema in a registry, and
//! `to_avro` writes them where a third argument gives the schema's id. With `schema.registry.subject` the
//! schema is a registry's: the planner puts it where one is given otherwise, and data that was written with
//! another one is read by that, found by its id.

mod read;
mod registered;
mod schema;
mod write;

use super::encoded::{as_given, first, options_of, plan_error, scalar};
use super::registry::{self, Handle};
use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::new_from_impl(ToAvro { signature: counts(1, 4) })]
}

/// `from_avro`, which may ask a registry.
pub(super) fn from_avro(registry: Option<Handle>) -> ScalarUDF {
    ScalarUDF::new_from_impl(FromAvro { signature: counts(2, 3), registry })
}

fn counts(least: usize, most: usize) -> Signature {
    let counts = (least..=most).map(TypeSignature::Any).collect();
    Signature::one_of(counts, Volatility::Immutable)
}

/// What the third argument of `from_avro` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Options {
    /// Data that cannot be read is NULL, and no error.
    permissive: bool,
    /// The schema that values are to have, if another than that they were written with.
    reader: Option<String>,
    /// The data stands behind the id of its schema.
    confluent: bool,
    /// That schema is found by its id; the one given is the one that values are to have.
    registered: bool,
    /// Where the registry is, if not where the session says.
    address: Option<String>,
}

impl Options {
    /// # Errors
    /// Plan, when an option is not there, or has another value than it takes.
    fn of(map: Option<&ScalarValue>) -> Result<Options> {
        let mut options = Options::default();
        for (name, value) in &options_of("from_avro", map)? {
            match (name.to_lowercase().as_str(), value.to_uppercase().as_str()) {
                ("mode", "PERMISSIVE") => options.permissive = true,
                ("mode", "FAILFAST") => options.permissive = false,
                ("avroschema", _) => options.reader = Some(value.clone()),
                ("wireformat", "CONFLUENT") => options.confluent = true,
                ("wireformat", "NONE") => options.confluent = false,
                (registry::FOUND, _) => options.registered = true,
                (registry::ADDRESS, _) => options.address = Some(value.clone()),
                (registry::SUBJECT, _) => {}
                (name, _) if name.starts_with("confluent.schema.registry.") => {
                    return Err(plan_error(registry::NO_SECRETS));
                }
                _ => {
                    return Err(plan_error(format!(
                        "from_avro has no option {name} => {value}; there are mode (PERMISSIVE, \
                         FAILFAST), avroSchema, wireFormat (none, confluent), and {} and {} for a \
                         schema registry",
                        registry::SUBJECT,
                        registry::ADDRESS
                    )));
                }
            }
        }
        if options.registered {
            options.confluent = true;
        }
        Ok(options)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FromAvro {
    signature: Signature,
    registry: Option<Handle>,
}

impl ScalarUDFImpl for FromAvro {
    fn name(&self) -> &'static str {
        "from_avro"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal("the type is in an argument".to_owned()))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let scalar = |place: usize| arguments.scalar_arguments.get(place).copied().flatten();
        let options = Options::of(scalar(2))?;
        let reader = read::Reader::new(literal(scalar(1))?, &options)?;
        Ok(Arc::new(Field::new(self.name(), reader.gives()?, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let options = Options::of(scalar(&arguments, 2))?;
        let reader = read::Reader::new(literal(scalar(&arguments, 1))?, &options)?;
        let (data, one) = first(&arguments)?;
        let data = arrow::compute::cast(&data, &DataType::Binary)?;
        let (data, gives) = (data.as_binary::<i32>(), arguments.return_field.data_type());
        let values = match options.registered {
            false => reader.read(data, gives)?,
            true => {
                let registry = self
                    .registry
                    .as_ref()
                    .ok_or_else(|| plan_error("this session cannot ask registries of schemas"))?;
                registered::read(data, gives, literal(scalar(&arguments, 1))?, &options, registry)?
            }
        };
        as_given(values, one)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToAvro {
    signature: Signature,
}

impl ScalarUDFImpl for ToAvro {
    fn name(&self) -> &'static str {
        "to_avro"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let value = arguments.arg_fields.first().ok_or_else(|| plan_error("to_avro of nothing"))?;
        if let Some(schema) = arguments.scalar_arguments.get(1).copied().flatten()
            && !schema.is_null()
        {
            schema::checked(literal(Some(schema))?)?;
        } else {
            let known = arguments.scalar_arguments.get(3).copied().flatten();
            schema::of(&never_null(value, known))?;
        }
        Ok(Arc::new(Field::new(self.name(), DataType::Binary, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let field = arguments.arg_fields.first().ok_or_else(|| plan_error("to_avro of nothing"))?;
        let schema = match scalar(&arguments, 1).filter(|schema| !schema.is_null()) {
            Some(schema) => schema::checked(literal(Some(schema))?)?,
            None => schema::of(&never_null(field, scalar(&arguments, 3)))?,
        };
        let id = match scalar(&arguments, 2).filter(|id| !id.is_null()) {
            Some(id) => Some(id.cast_to(&DataType::UInt32).map_err(|_| {
                plan_error(format!("the id of a schema is a whole number from 0, not {id}"))
            })?),
            None => None,
        };
        let id = match id {
            Some(ScalarValue::UInt32(id)) => id,
            _ => None,
        };
        let (values, one) = first(&arguments)?;
        as_given(write::write(&values, &schema, id)?, one)
    }
}

/// The column, which is never NULL where the planner knows that (fourth argument).
fn never_null(field: &FieldRef, known: Option<&ScalarValue>) -> Field {
    let known = matches!(known, Some(ScalarValue::Boolean(Some(true))));
    field.as_ref().clone().with_nullable(field.is_nullable() && !known)
}

fn literal(schema: Option<&ScalarValue>) -> Result<&str> {
    schema
        .and_then(|schema| schema.try_as_str().flatten())
        .ok_or_else(|| plan_error("the schema of Avro data must be a literal text"))
}

#[cfg(test)]
mod tests;
