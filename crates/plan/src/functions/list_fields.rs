//! `list.field`: a field of each struct in a list, as a list.

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::sync::Arc;

/// What the planner calls it.
pub(super) const NAME: &str = "spark_list_field";

pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(ListField { signature: Signature::any(2, Volatility::Immutable) })
}

/// The field of this name, without case, in the structs of a list.
pub(super) fn field_in_list(list: &DataType, name: &str) -> Option<FieldRef> {
    let DataType::List(element) = list else { return None };
    let DataType::Struct(fields) = element.data_type() else { return None };
    let exact = fields.iter().find(|field| field.name() == name);
    exact.or_else(|| fields.iter().find(|it| it.name().eq_ignore_ascii_case(name))).cloned()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListField {
    signature: Signature,
}

fn no_field() -> DataFusionError {
    DataFusionError::Plan("a list has fields only where its elements have".to_owned())
}

impl ScalarUDFImpl for ListField {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal("the type depends on the name of the field".to_owned()))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let name = arguments.scalar_arguments.get(1).copied().flatten();
        let name = name.and_then(|name| name.try_as_str().flatten()).ok_or_else(no_field)?;
        let list = arguments.arg_fields.first().ok_or_else(no_field)?;
        let field = field_in_list(list.data_type(), name).ok_or_else(no_field)?;
        let element = Field::new("element", field.data_type().clone(), true);
        Ok(Arc::new(Field::new(name, DataType::List(Arc::new(element)), true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [list, ColumnarValue::Scalar(name)] = arguments.args.as_slice() else {
            return Err(no_field());
        };
        let list = list.to_array(arguments.number_rows)?;
        let list = list.as_list_opt::<i32>().ok_or_else(no_field)?;
        let name = name.try_as_str().flatten().ok_or_else(no_field)?;
        let field = field_in_list(list.data_type(), name).ok_or_else(no_field)?;
        let DataType::List(element) = arguments.return_field.data_type() else {
            return Err(no_field());
        };
        let values = values_of(list.values().as_struct(), field.name())?;
        let list = ListArray::try_new(
            Arc::clone(element),
            list.offsets().clone(),
            values,
            list.nulls().cloned(),
        )?;
        Ok(ColumnarValue::Array(Arc::new(list)))
    }
}

/// A column of structs; NULL where the struct is.
fn values_of(structs: &StructArray, name: &str) -> Result<ArrayRef> {
    let values = structs.column_by_name(name).ok_or_else(no_field)?;
    if structs.null_count() == 0 {
        return Ok(Arc::clone(values));
    }
    let nulls = NullBuffer::union(values.nulls(), structs.nulls());
    let data = values.to_data().into_builder().nulls(nulls).build()?;
    Ok(make_array(data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int32Array;
    use arrow::buffer::OffsetBuffer;
    use datafusion::common::ScalarValue;
    use datafusion::common::config::ConfigOptions;

    #[test]
    fn null_structs_have_null_fields_and_null_lists_none() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None]));
        let inner = Arc::new(Field::new("n", DataType::Int32, true));
        let nulls = NullBuffer::from(vec![true, false, true]);
        let structs = StructArray::try_new(vec![inner].into(), vec![numbers], Some(nulls)).unwrap();
        let element = Arc::new(Field::new("item", structs.data_type().clone(), true));
        let list = ListArray::try_new(
            element,
            OffsetBuffer::from_lengths([2, 0, 1]),
            Arc::new(structs),
            Some(NullBuffer::from(vec![true, false, true])),
        )
        .unwrap();
        let field = Field::new("element", DataType::Int32, true);
        let field = Field::new("N", DataType::List(Arc::new(field)), true);
        let called = function().inner().invoke_with_args(ScalarFunctionArgs {
            arg_fields: vec![Arc::new(Field::new("l", list.data_type().clone(), true))],
            args: vec![
                ColumnarValue::Array(Arc::new(list)),
                ColumnarValue::Scalar(ScalarValue::from("N")),
            ],
            number_rows: 3,
            return_field: Arc::new(field),
            config_options: Arc::new(ConfigOptions::default()),
        });
        let made = called.unwrap().into_array(3).unwrap();
        let made = made.as_list::<i32>();
        assert_eq!(made.value(0).as_ref(), &Int32Array::from(vec![Some(1), None]));
        assert!(made.is_null(1));
        assert_eq!(made.value(2).as_ref(), &Int32Array::from(vec![None]));
    }
}
