//! What `df.observe` found in the rows of an action, as the client reads it.

use crate::failure::{Failure, Outcome};
use crate::observe::Observer;
use crate::{rows, types};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalYearMonthType, TimestampMicrosecondType,
};
use arrow::record_batch::RecordBatch;
use spark_connect_proto::execute_plan_response::ObservedMetrics;
use spark_connect_proto::expression::Literal;
use spark_connect_proto::expression::literal::{self, LiteralType};

/// The metrics of an observer.
pub(crate) async fn metrics(observer: &Observer) -> Outcome<ObservedMetrics> {
    let row = observer.take().await.map_err(|error| Failure::execution(&error))?;
    let schema = rows::plain_schema(&row.schema());
    let row: RecordBatch = rows::plain_batch(&row, &schema)?;
    let values: Outcome<Vec<Literal>> = row.columns().iter().map(|it| value(it, 0)).collect();
    Ok(ObservedMetrics {
        name: observer.label().to_owned(),
        values: values?,
        keys: schema.fields().iter().map(|field| field.name().clone()).collect(),
        ..ObservedMetrics::default()
    })
}

/// A value of plain types as a literal.
fn value(array: &ArrayRef, row: usize) -> Outcome<Literal> {
    let data_type = types::from_arrow(array.data_type());
    if array.is_null(row) {
        return Ok(of(LiteralType::Null(data_type)));
    }
    let kind = match array.data_type() {
        DataType::Boolean => LiteralType::Boolean(array.as_boolean().value(row)),
        DataType::Int8 => LiteralType::Byte(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => LiteralType::Short(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => LiteralType::Integer(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => LiteralType::Long(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => LiteralType::Float(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => LiteralType::Double(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => LiteralType::String(array.as_string::<i32>().value(row).to_owned()),
        DataType::Binary => {
            LiteralType::Binary(array.as_binary::<i32>().value(row).to_vec().into())
        }
        DataType::Date32 => LiteralType::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp(_, zone) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
            match zone {
                Some(_) => LiteralType::Timestamp(micros),
                None => LiteralType::TimestampNtz(micros),
            }
        }
        DataType::Duration(_) => {
            LiteralType::DayTimeInterval(array.as_primitive::<DurationMicrosecondType>().value(row))
        }
        DataType::Interval(arrow::datatypes::IntervalUnit::YearMonth) => {
            LiteralType::YearMonthInterval(array.as_primitive::<IntervalYearMonthType>().value(row))
        }
        DataType::Decimal128(precision, scale) => LiteralType::Decimal(literal::Decimal {
            value: array.as_primitive::<Decimal128Type>().value_as_string(row),
            precision: Some(i32::from(*precision)),
            scale: Some(i32::from(*scale)),
        }),
        DataType::List(_) => {
            let inner = array.as_list::<i32>().value(row);
            let elements: Outcome<Vec<Literal>> =
                (0..inner.len()).map(|place| value(&inner, place)).collect();
            LiteralType::Array(literal::Array { elements: elements?, ..literal::Array::default() })
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns();
            let elements: Outcome<Vec<Literal>> =
                columns.iter().map(|column| value(column, row)).collect();
            LiteralType::Struct(literal::Struct {
                elements: elements?,
                ..literal::Struct::default()
            })
        }
        other => {
            return Err(Failure::unsupported(format!("a metric of type {other}")));
        }
    };
    Ok(Literal { data_type: Some(data_type), ..of(kind) })
}

fn of(kind: LiteralType) -> Literal {
    Literal { literal_type: Some(kind), ..Literal::default() }
}

#[cfg(test)]
mod tests {
    use super::value;
    use arrow::array::{ArrayRef, Decimal128Array, Int64Array, StringArray};
    use spark_connect_proto::expression::literal::LiteralType;
    use std::sync::Arc;

    fn kind(array: impl arrow::array::Array + 'static, row: usize) -> LiteralType {
        let array: ArrayRef = Arc::new(array);
        value(&array, row).unwrap().literal_type.unwrap()
    }

    #[test]
    fn values_are_literals_of_their_types() {
        assert_eq!(kind(Int64Array::from(vec![7]), 0), LiteralType::Long(7));
        assert_eq!(kind(StringArray::from(vec!["a"]), 0), LiteralType::String("a".to_owned()));
        assert!(matches!(kind(Int64Array::from(vec![None]), 0), LiteralType::Null(_)));
        let decimals = Decimal128Array::from(vec![-1_234]).with_precision_and_scale(10, 2).unwrap();
        let LiteralType::Decimal(decimal) = kind(decimals, 0) else { panic!("no decimal") };
        assert_eq!(decimal.value, "-12.34");
    }
}
