//! `from_protobuf` and `to_protobuf`: one message of Protocol Buffers, as records of Kafka carry it.
//!
//! `from_protobuf(data, message, descriptors[, options])` and `to_protobuf(value, message, descriptors)` are
//! Spark's; `descriptors` is a descriptor set as `protoc --descriptor_set_out --include_imports` writes it:
//! the file's path, or its bytes. Beyond Spark, the option `wireFormat => 'confluent'` reads data behind the
//! bytes that name a schema in a registry.

mod descriptor;
mod read;
mod write;

use super::encoded::{as_given, first, options_of, plan_error, scalar};
use super::registry;
use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use prost_reflect::MessageDescriptor;
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let counts = || {
        let counts = vec![TypeSignature::Any(3), TypeSignature::Any(4)];
        Signature::one_of(counts, Volatility::Immutable)
    };
    vec![
        ScalarUDF::new_from_impl(FromProtobuf { signature: counts() }),
        ScalarUDF::new_from_impl(ToProtobuf { signature: counts() }),
    ]
}

/// How messages are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Options {
    /// Data that cannot be read is NULL, and no error.
    permissive: bool,
    /// Enumerations are numbers, and not names.
    enums_as_ints: bool,
    /// Fields that are not set have the default of their type, and are not NULL.
    emit_default: bool,
    /// The data stands behind the id of its schema.
    confluent: bool,
    /// That id, where a registry told it: data that is written names it.
    id: Option<u32>,
}

impl Options {
    /// # Errors
    /// Plan, when an option is not there, or has another value than it takes.
    fn of(function: &str, map: Option<&ScalarValue>) -> Result<Options> {
        let mut options = Options::default();
        for (name, value) in &options_of(function, map)? {
            let flag = value.eq_ignore_ascii_case("true");
            match (name.to_lowercase().as_str(), value.to_uppercase().as_str()) {
                ("mode", "PERMISSIVE") => options.permissive = true,
                ("mode", "FAILFAST") => options.permissive = false,
                ("enums.as.ints", "TRUE" | "FALSE") => options.enums_as_ints = flag,
                ("emit.default.values", "TRUE" | "FALSE") => options.emit_default = flag,
                ("wireformat", "CONFLUENT") => options.confluent = true,
                ("wireformat", "NONE") => options.confluent = false,
                (registry::FOUND, id) => options.id = id.parse().ok(),
                (registry::ADDRESS | registry::SUBJECT, _) => {}
                (name, _) if name.starts_with("confluent.schema.registry.") => {
                    return Err(plan_error(registry::NO_SECRETS));
                }
                _ => {
                    return Err(plan_error(format!(
                        "{function} has no option {name} => {value}; there are mode (PERMISSIVE, \
                         FAILFAST), enums.as.ints and emit.default.values (true, false), wireFormat \
                         (none, confluent), and {} and {} for a schema registry",
                        registry::SUBJECT,
                        registry::ADDRESS
                    )));
                }
            }
        }
        Ok(options)
    }
}

/// The message that the second and the third argument name.
fn message(
    name: Option<&ScalarValue>,
    descriptors: Option<&ScalarValue>,
) -> Result<MessageDescriptor> {
    let name = name.and_then(|name| name.try_as_str().flatten());
    let name = name.ok_or_else(|| plan_error("the name of the message must be a literal text"))?;
    let descriptors = descriptors
        .ok_or_else(|| plan_error("the descriptor set must be a literal: a path, or bytes"))?;
    descriptor::message(name, descriptors)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FromProtobuf {
    signature: Signature,
}

impl ScalarUDFImpl for FromProtobuf {
    fn name(&self) -> &'static str {
        "from_protobuf"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal("the type is in an argument".to_owned()))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let scalar = |place: usize| arguments.scalar_arguments.get(place).copied().flatten();
        let options = Options::of("from_protobuf", scalar(3))?;
        let message = message(scalar(1), scalar(2))?;
        let fields = descriptor::fields(&message, options.enums_as_ints)?;
        Ok(Arc::new(Field::new(self.name(), DataType::Struct(fields), true)))
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match descriptor::with_bytes(&args)? {
            Some(args) => {
                let own = FromProtobuf { signature: self.signature.clone() };
                ExprSimplifyResult::Simplified(ScalarUDF::new_from_impl(own).call(args))
            }
            None => ExprSimplifyResult::Original(args),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let options = Options::of("from_protobuf", scalar(&arguments, 3))?;
        let message = message(scalar(&arguments, 1), scalar(&arguments, 2))?;
        let (data, one) = first(&arguments)?;
        let data = arrow::compute::cast(&data, &DataType::Binary)?;
        let fields = descriptor::fields(&message, options.enums_as_ints)?;
        as_given(read::read(data.as_binary::<i32>(), &message, &fields, options)?, one)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToProtobuf {
    signature: Signature,
}

impl ScalarUDFImpl for ToProtobuf {
    fn name(&self) -> &'static str {
        "to_protobuf"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let scalar = |place: usize| arguments.scalar_arguments.get(place).copied().flatten();
        let message = message(scalar(1), scalar(2))?;
        let value = arguments.arg_fields.first().ok_or_else(|| plan_error("no value"))?;
        Options::of("to_protobuf", scalar(3))?;
        write::check(value.data_type(), &message)?;
        Ok(Arc::new(Field::new(self.name(), DataType::Binary, true)))
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match descriptor::with_bytes(&args)? {
            Some(args) => {
                let own = ToProtobuf { signature: self.signature.clone() };
                ExprSimplifyResult::Simplified(ScalarUDF::new_from_impl(own).call(args))
            }
            None => ExprSimplifyResult::Original(args),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let message = message(scalar(&arguments, 1), scalar(&arguments, 2))?;
        let id = Options::of("to_protobuf", scalar(&arguments, 3))?.id;
        let (values, one) = first(&arguments)?;
        as_given(write::write(&values, &message, id)?, one)
    }
}

#[cfg(test)]
mod tests;
