//! Aggregates that need all values of a group at once: percentiles, the most frequent value,
//! moments, products, and texts in one.
//!
//! They keep the values until the group is done, so a percentile is exact however exact it is asked
//! to be.

mod figures;

use arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use arrow::compute::{concat, filter, is_not_null};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// The value at a rank.
    PercentileApprox,
    /// Between the values at two ranks.
    Percentile,
    Mode,
    Skewness,
    Kurtosis,
    Product,
    ListAgg,
}

/// Name, other names, kind, and how many arguments there may be.
type Entry = (&'static str, &'static [&'static str], Kind, usize);

const ALL: [Entry; 7] = [
    ("percentile_approx", &["approx_percentile"], Kind::PercentileApprox, 3),
    ("percentile", &[], Kind::Percentile, 2),
    ("mode", &[], Kind::Mode, 2),
    ("skewness", &[], Kind::Skewness, 1),
    ("kurtosis", &[], Kind::Kurtosis, 1),
    ("product", &[], Kind::Product, 1),
    ("listagg", &["string_agg"], Kind::ListAgg, 2),
];

pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    ALL.iter()
        .map(|&(name, aliases, kind, most)| {
            let signature = Signature::variadic_any(Volatility::Immutable);
            let own = Collected { name, kind, most, signature };
            Arc::new(AggregateUDF::new_from_impl(own).with_aliases(aliases.iter().copied()))
        })
        .collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Collected {
    name: &'static str,
    kind: Kind,
    most: usize,
    signature: Signature,
}

impl Collected {
    fn wrong(&self, types: &[DataType]) -> DataFusionError {
        let types: Vec<String> = types.iter().map(crate::schema::type_name).collect();
        DataFusionError::Plan(format!(
            "[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] there is no {}({})",
            self.name,
            types.join(", ")
        ))
    }
}

fn list(of: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new("element", of.clone(), true)))
}

impl AggregateUDFImpl for Collected {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let value = types.first().filter(|_| types.len() <= self.most);
        let value = value.ok_or_else(|| self.wrong(types))?;
        let several = matches!(types.get(1), Some(DataType::List(_)));
        let number = value.is_numeric() || value == &DataType::Null;
        let time =
            matches!(value, DataType::Date32 | DataType::Timestamp(..) | DataType::Duration(_));
        Ok(match self.kind {
            Kind::PercentileApprox if types.len() > 1 && (number || time) => match several {
                true => list(value),
                false => value.clone(),
            },
            Kind::Percentile if types.len() > 1 && number => match several {
                true => list(&DataType::Float64),
                false => DataType::Float64,
            },
            Kind::Mode => value.clone(),
            Kind::Skewness | Kind::Kurtosis | Kind::Product if number => DataType::Float64,
            Kind::ListAgg => DataType::Utf8,
            _ => return Err(self.wrong(types)),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = args.input_fields.first().map_or(&DataType::Null, |field| field.data_type());
        Ok(vec![Arc::new(Field::new(format!("{}[values]", args.name), list(value), true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let value = args.expr_fields.first().map_or(&DataType::Null, |field| field.data_type());
        let parameter = args.exprs.get(1).map(|expr| constant(expr, args.schema)).transpose()?;
        Ok(Box::new(Values {
            kind: self.kind,
            value: value.clone(),
            returns: args.return_field.data_type().clone(),
            parameter,
            distinct: args.is_distinct,
            parts: Vec::new(),
        }))
    }
}

/// An argument that is the same for all rows.
fn constant(
    expr: &Arc<dyn PhysicalExpr>,
    schema: &arrow::datatypes::Schema,
) -> Result<ScalarValue> {
    let nothing = arrow::array::RecordBatch::new_empty(Arc::new(schema.clone()));
    match expr.evaluate(&nothing)? {
        ColumnarValue::Scalar(scalar) => Ok(scalar),
        ColumnarValue::Array(_) => Err(DataFusionError::Plan(
            "[DATATYPE_MISMATCH.NON_FOLDABLE_INPUT] the second argument is the same for all rows"
                .to_owned(),
        )),
    }
}

/// The values of a group that are not NULL.
#[derive(Debug)]
struct Values {
    kind: Kind,
    value: DataType,
    returns: DataType,
    parameter: Option<ScalarValue>,
    distinct: bool,
    parts: Vec<ArrayRef>,
}

impl Values {
    fn all(&self) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.parts.iter().map(AsRef::as_ref).collect();
        Ok(if parts.is_empty() { new_empty_array(&self.value) } else { concat(&parts)? })
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        if let Some(column) = columns.first()
            && column.data_type() != &DataType::Null
        {
            let there = filter(column, &is_not_null(column)?)?;
            if !there.is_empty() {
                self.parts.push(there);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first().and_then(|column| column.as_list_opt::<i32>()) else {
            return Err(DataFusionError::Internal("collected values are no list".to_owned()));
        };
        self.parts
            .extend((0..lists.len()).filter(|&at| lists.is_valid(at)).map(|at| lists.value(at)));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let all = self.all()?;
        let field = Arc::new(Field::new("element", self.value.clone(), true));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([all.len()]);
        let one = arrow::array::ListArray::try_new(field, offsets, all, None)?;
        Ok(vec![ScalarValue::List(Arc::new(one))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut values = self.all()?;
        if self.distinct {
            values = figures::distinct(&values)?;
        }
        if values.is_empty() {
            return ScalarValue::try_from(&self.returns);
        }
        let parameter = self.parameter.as_ref();
        match self.kind {
            Kind::PercentileApprox => figures::percentiles(&values, parameter, &self.returns, true),
            Kind::Percentile => figures::percentiles(&values, parameter, &self.returns, false),
            Kind::Mode => figures::most_frequent(&values),
            Kind::Skewness => figures::moment(&values, 3),
            Kind::Kurtosis => figures::moment(&values, 4),
            Kind::Product => figures::product(&values),
            Kind::ListAgg => figures::joined(&values, parameter),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.parts.iter().map(|part| part.get_array_memory_size()).sum::<usize>()
    }
}
