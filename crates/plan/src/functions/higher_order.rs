//! Functions that take functions: `transform(list, x -> x + 1)` and its like.
//!
//! DataFusion plans the bodies and evaluates them over all elements of a batch of rows at once;
//! here is what parameters a body has, and what becomes of its results.

mod elements;
mod fold;
mod maps;
mod sort;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::filter;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature,
    HigherOrderUDF, HigherOrderUDFImpl, LambdaArgument, LambdaParametersProgress, ValueOrLambda,
    Volatility,
};
use elements::{Elements, evaluated, pair_of};
pub(super) use elements::{by_bytes, laid_out};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Transform,
    Filter,
    Exists,
    ForAll,
    Aggregate,
    ZipWith,
    MapFilter,
    TransformKeys,
    TransformValues,
    MapZipWith,
    ArraySort,
}

const ALL: [(&str, Kind); 11] = [
    ("transform", Kind::Transform),
    ("filter", Kind::Filter),
    ("exists", Kind::Exists),
    ("forall", Kind::ForAll),
    ("aggregate", Kind::Aggregate),
    ("zip_with", Kind::ZipWith),
    ("map_filter", Kind::MapFilter),
    ("transform_keys", Kind::TransformKeys),
    ("transform_values", Kind::TransformValues),
    ("map_zip_with", Kind::MapZipWith),
    ("array_sort_with", Kind::ArraySort),
];

pub(super) fn functions() -> Vec<Arc<HigherOrderUDF>> {
    ALL.iter()
        .map(|&(name, kind)| {
            let signature = HigherOrderSignature::variadic_any(Volatility::Immutable);
            Arc::new(HigherOrderUDF::new_from_impl(Function { name, kind, signature }))
        })
        .collect()
}

/// The function under which a call with a lambda is known, where it has another name in Spark.
pub(crate) fn known_as(name: &str) -> Option<&'static str> {
    match name {
        "array_sort" => Some("array_sort_with"),
        "reduce" => Some("aggregate"),
        _ => ALL.iter().find(|(known, _)| *known == name).map(|(known, _)| *known),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    name: &'static str,
    kind: Kind,
    signature: HigherOrderSignature,
}

type Arguments = [ValueOrLambda<ColumnarValue, LambdaArgument>];

impl Function {
    fn wrong(&self) -> DataFusionError {
        DataFusionError::Plan(format!(
            "[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] {} does not take these arguments",
            self.name
        ))
    }

    /// The parameters of each lambda, by the types of the values.
    fn parameters(&self, values: &[&DataType]) -> Result<Vec<Vec<FieldRef>>> {
        let field =
            |name: &str, data_type: &DataType| Arc::new(Field::new(name, data_type.clone(), true));
        let element = |place: usize| match values.get(place) {
            Some(DataType::List(element)) => Ok(element.data_type().clone()),
            Some(DataType::Null) => Ok(DataType::Null),
            _ => Err(self.wrong()),
        };
        let entries = |place: usize| match values.get(place) {
            Some(DataType::Map(entries, _)) => pair_of(entries).ok_or_else(|| self.wrong()),
            _ => Err(self.wrong()),
        };
        Ok(match self.kind {
            Kind::Transform | Kind::Filter => {
                vec![vec![field("x", &element(0)?), field("i", &DataType::Int32)]]
            }
            Kind::Exists | Kind::ForAll => vec![vec![field("x", &element(0)?)]],
            Kind::Aggregate => {
                let zero = values.get(1).ok_or_else(|| self.wrong())?;
                let held = field("acc", zero);
                vec![vec![Arc::clone(&held), field("x", &element(0)?)], vec![held]]
            }
            Kind::ZipWith => vec![vec![field("x", &element(0)?), field("y", &element(1)?)]],
            Kind::MapFilter | Kind::TransformKeys | Kind::TransformValues => {
                let (key, value) = entries(0)?;
                vec![vec![field("k", &key), field("v", &value)]]
            }
            Kind::MapZipWith => {
                let ((key, left), (_, right)) = (entries(0)?, entries(1)?);
                vec![vec![field("k", &key), field("v1", &left), field("v2", &right)]]
            }
            Kind::ArraySort => vec![vec![field("x", &element(0)?), field("y", &element(0)?)]],
        })
    }

    fn return_type(&self, values: &[&DataType], results: &[&DataType]) -> Result<DataType> {
        let first = *values.first().ok_or_else(|| self.wrong())?;
        let result = *results.first().ok_or_else(|| self.wrong())?;
        let list =
            |of: &DataType| DataType::List(Arc::new(Field::new("element", of.clone(), true)));
        let predicate = |given: DataType| match result {
            DataType::Boolean | DataType::Null => Ok(given),
            _ => Err(self.wrong()),
        };
        match self.kind {
            Kind::Transform | Kind::ZipWith => Ok(list(result)),
            Kind::Filter | Kind::MapFilter => predicate(first.clone()),
            Kind::ArraySort => Ok(first.clone()),
            Kind::Exists | Kind::ForAll => predicate(DataType::Boolean),
            Kind::Aggregate => {
                let zero = *values.get(1).ok_or_else(|| self.wrong())?;
                if !fold::fits(zero, result) {
                    return Err(self.wrong());
                }
                Ok(results.get(1).map_or(zero, |finish| finish).clone())
            }
            Kind::TransformKeys | Kind::TransformValues | Kind::MapZipWith => {
                let DataType::Map(entries, _) = first else { return Err(self.wrong()) };
                let (key, value) = pair_of(entries).ok_or_else(|| self.wrong())?;
                Ok(match self.kind {
                    Kind::TransformKeys => elements::map_of(result, &value),
                    _ => elements::map_of(&key, result),
                })
            }
        }
    }
}

impl HigherOrderUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn lambda_parameters(
        &self,
        _step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let values: Vec<&DataType> = fields
            .iter()
            .filter_map(|field| match field {
                ValueOrLambda::Value(field) => Some(field.data_type()),
                ValueOrLambda::Lambda(_) => None,
            })
            .collect();
        let mut parameters = self.parameters(&values)?;
        let lambdas = fields.len().saturating_sub(values.len());
        if lambdas == 0 || lambdas > parameters.len() {
            return Err(self.wrong());
        }
        parameters.truncate(lambdas);
        Ok(LambdaParametersProgress::Complete(parameters))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let (mut values, mut results) = (Vec::new(), Vec::new());
        for field in args.arg_fields {
            match field {
                ValueOrLambda::Value(field) => values.push(field.data_type()),
                ValueOrLambda::Lambda(field) => results.push(field.data_type()),
            }
        }
        let returns = self.return_type(&values, &results)?;
        Ok(Arc::new(Field::new(self.name, returns, true)))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let (values, lambdas) = parted(&args.args, args.number_rows)?;
        let first = values.first().ok_or_else(|| self.wrong())?;
        let lambda = *lambdas.first().ok_or_else(|| self.wrong())?;
        let returns = args.return_field.data_type();
        let second = || values.get(1).ok_or_else(|| self.wrong());
        let result = match self.kind {
            Kind::Transform => transform(first, lambda, returns)?,
            Kind::Filter => filtered(first, lambda)?,
            Kind::Exists => any(first, lambda, true)?,
            Kind::ForAll => any(first, lambda, false)?,
            Kind::Aggregate => fold::fold(first, second()?, lambda, lambdas.get(1).copied())?,
            Kind::ZipWith => zip_with(first, second()?, lambda, returns)?,
            Kind::MapFilter => maps::filtered(first, lambda)?,
            Kind::TransformKeys => maps::transformed(first, lambda, returns, true)?,
            Kind::TransformValues => maps::transformed(first, lambda, returns, false)?,
            Kind::MapZipWith => maps::zipped(first, second()?, lambda, returns)?,
            Kind::ArraySort => sort::sorted(first, lambda)?,
        };
        Ok(ColumnarValue::Array(result))
    }
}

/// Values as columns, and lambdas.
fn parted(args: &Arguments, rows: usize) -> Result<(Vec<ArrayRef>, Vec<&LambdaArgument>)> {
    let (mut values, mut lambdas) = (Vec::new(), Vec::new());
    for argument in args {
        match argument {
            ValueOrLambda::Value(value) => values.push(value.to_array(rows)?),
            ValueOrLambda::Lambda(lambda) => lambdas.push(lambda),
        }
    }
    Ok((values, lambdas))
}

fn transform(list: &ArrayRef, lambda: &LambdaArgument, returns: &DataType) -> Result<ArrayRef> {
    let elements = Elements::of(list)?;
    let made = evaluated(lambda, &elements.with_places(), &elements.rows)?;
    elements.list(made, returns)
}

fn predicate(column: &ArrayRef) -> Result<BooleanArray> {
    match column.data_type() {
        DataType::Null => Ok(BooleanArray::new_null(column.len())),
        _ => Ok(column.as_boolean().clone()),
    }
}

fn filtered(list: &ArrayRef, lambda: &LambdaArgument) -> Result<ArrayRef> {
    let elements = Elements::of(list)?;
    let keeps = predicate(&evaluated(lambda, &elements.with_places(), &elements.rows)?)?;
    let kept = filter(&elements.values, &keeps)?;
    elements.kept(&keeps).list(kept, list.data_type())
}

/// `exists` (`wanted` is true) and `forall` (`wanted` is false): whether an element decides. Where
/// none does and one is unknown, the answer is.
fn any(list: &ArrayRef, lambda: &LambdaArgument, wanted: bool) -> Result<ArrayRef> {
    let elements = Elements::of(list)?;
    let parameters = [Arc::clone(&elements.values)];
    let holds = predicate(&evaluated(lambda, &parameters, &elements.rows)?)?;
    let mut at = 0_usize;
    let answers: BooleanArray = elements
        .lengths
        .iter()
        .enumerate()
        .map(|(row, length)| {
            let own = at..at + length;
            at = own.end;
            if elements.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                return None;
            }
            let mut unknown = false;
            for place in own {
                if holds.is_null(place) {
                    unknown = true;
                } else if holds.value(place) == wanted {
                    return Some(wanted);
                }
            }
            (!unknown).then_some(!wanted)
        })
        .collect();
    Ok(Arc::new(answers))
}

/// Elements of two lists side by side; the shorter one goes on with NULL.
fn zip_with(
    left: &ArrayRef,
    right: &ArrayRef,
    lambda: &LambdaArgument,
    returns: &DataType,
) -> Result<ArrayRef> {
    let (left, right) = (Elements::of(left)?, Elements::of(right)?);
    let both = elements::side_by_side(&left, &right)?;
    let made = evaluated(lambda, &[both.left, both.right], &both.shape.rows)?;
    both.shape.list(made, returns)
}
