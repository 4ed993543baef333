//! Functions that make several rows of one.
//!
//! In a plan such a call only says which rows it makes; [`crate::sql`] puts a node in its place.

use super::higher_order::laid_out;
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray, StructArray, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Explode,
    PosExplode,
    Inline,
    Stack,
    JsonTuple,
}

/// `explode(list)` and its like. `listed` gives all rows of a call as one list.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Generator {
    name: &'static str,
    kind: Kind,
    outer: bool,
    listed: bool,
    signature: Signature,
}

const ALL: [(&str, Kind, bool); 8] = [
    ("explode", Kind::Explode, false),
    ("explode_outer", Kind::Explode, true),
    ("posexplode", Kind::PosExplode, false),
    ("posexplode_outer", Kind::PosExplode, true),
    ("inline", Kind::Inline, false),
    ("inline_outer", Kind::Inline, true),
    ("stack", Kind::Stack, false),
    ("json_tuple", Kind::JsonTuple, true),
];

pub(super) fn functions() -> Vec<ScalarUDF> {
    ALL.iter().map(|&it| ScalarUDF::new_from_impl(Generator::new(it, false))).collect()
}

/// What a call makes.
pub(crate) struct Generated {
    /// A list of all rows.
    pub(crate) rows: Expr,
    /// Whether a row without any is kept.
    pub(crate) outer: bool,
    /// Whether a made row is one value and no struct of columns.
    pub(crate) single: bool,
}

impl Generated {
    /// The names of the columns, where the rows are the last column.
    pub(crate) fn names(&self, schema: &DFSchema) -> Result<Vec<String>> {
        if self.single {
            return Ok(vec!["col".to_owned()]);
        }
        match schema.fields().last().map(|field| field.data_type()) {
            Some(DataType::Struct(fields)) => {
                Ok(fields.iter().map(|field| field.name().clone()).collect())
            }
            _ => Err(DataFusionError::Internal("a generator makes no columns".to_owned())),
        }
    }
}

/// What an expression makes, if it is a call of a generator.
///
/// # Errors
/// Plan, when its argument has no type.
pub(crate) fn generator(expr: &Expr, schema: &DFSchema) -> Result<Option<Generated>> {
    let Expr::ScalarFunction(call) = expr else { return Ok(None) };
    let Some(known) = call.func.inner().downcast_ref::<Generator>() else { return Ok(None) };
    let first = call.args.first().map(|argument| argument.get_type(schema)).transpose()?;
    let listed = Generator::new((known.name, known.kind, known.outer), true);
    Ok(Some(Generated {
        rows: ScalarUDF::new_from_impl(listed).call(call.args.clone()),
        outer: known.outer,
        single: known.kind == Kind::Explode && !matches!(first, Some(DataType::Map(..))),
    }))
}

impl Generator {
    fn new((name, kind, outer): (&'static str, Kind, bool), listed: bool) -> Self {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Generator { name, kind, outer, listed, signature }
    }

    fn wrong(&self, types: &[DataType]) -> DataFusionError {
        let types: Vec<String> = types.iter().map(crate::schema::type_name).collect();
        DataFusionError::Plan(format!(
            "[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] there is no {}({})",
            self.name,
            types.join(", ")
        ))
    }

    /// The type of one row; `count` is the first argument of `stack`.
    fn row_type(&self, types: &[DataType], count: Option<i64>) -> Result<DataType> {
        let plain = |name: &str, data_type: &DataType| Field::new(name, data_type.clone(), true);
        let position = Field::new("pos", DataType::Int32, true);
        Ok(match (self.kind, types) {
            (Kind::Explode, [DataType::List(element)]) => element.data_type().clone(),
            (Kind::Explode | Kind::Inline, [DataType::Null]) => DataType::Null,
            (Kind::Explode, [DataType::Map(entries, _)]) => entries.data_type().clone(),
            (Kind::PosExplode, [DataType::List(element)]) => {
                DataType::Struct(vec![position, plain("col", element.data_type())].into())
            }
            (Kind::PosExplode, [DataType::Map(entries, _)]) => {
                let DataType::Struct(fields) = entries.data_type() else {
                    return Err(self.wrong(types));
                };
                let mut all = vec![Arc::new(position)];
                all.extend(fields.iter().cloned());
                DataType::Struct(all.into())
            }
            (Kind::Inline, [DataType::List(element)])
                if matches!(element.data_type(), DataType::Struct(_)) =>
            {
                element.data_type().clone()
            }
            (Kind::Stack, [_, values @ ..]) if !values.is_empty() => {
                let width = width(values.len(), count)?;
                let fields = values.iter().take(width).enumerate();
                DataType::Struct(fields.map(|(at, it)| plain(&format!("col{at}"), it)).collect())
            }
            (Kind::JsonTuple, [_, paths @ ..]) if !paths.is_empty() => DataType::Struct(
                (0..paths.len()).map(|at| plain(&format!("c{at}"), &DataType::Utf8)).collect(),
            ),
            _ => return Err(self.wrong(types)),
        })
    }
}

/// How many columns `stack` makes of so many values in so many rows.
fn width(values: usize, rows: Option<i64>) -> Result<usize> {
    let rows = rows.and_then(|rows| usize::try_from(rows).ok()).filter(|rows| *rows > 0);
    let rows = rows.ok_or_else(|| {
        DataFusionError::Plan("the first argument of stack is a number of rows".to_owned())
    })?;
    Ok(values.div_ceil(rows))
}

impl ScalarUDFImpl for Generator {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.row_type(types, None)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let count = arguments.scalar_arguments.first().copied().flatten().and_then(whole);
        let row = self.row_type(&types, count)?;
        let made = match self.listed {
            true => DataType::List(Arc::new(Field::new("element", row, true))),
            false => row,
        };
        Ok(Arc::new(Field::new(self.name, made, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, DataType::List(element)) =
            (arguments.number_rows, arguments.return_field.data_type())
        else {
            return Err(DataFusionError::Plan(format!(
                "[UNSUPPORTED_GENERATOR.NESTED_IN_EXPRESSIONS] {} makes several rows of one, which \
                 this place cannot have: select it in a query of its own",
                self.name
            )));
        };
        let columns =
            arguments.args.iter().map(|it| it.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let list = match self.kind {
            Kind::Explode | Kind::Inline | Kind::PosExplode => {
                let column = columns.first().ok_or_else(|| self.wrong(&[]))?;
                self.elements(column, element)?
            }
            Kind::Stack => stacked(&columns, element)?,
            Kind::JsonTuple => tuples(&columns, element)?,
        };
        Ok(ColumnarValue::Array(list))
    }
}

fn whole(scalar: &datafusion::common::ScalarValue) -> Option<i64> {
    match scalar.cast_to(&DataType::Int64).ok()? {
        datafusion::common::ScalarValue::Int64(value) => value,
        _ => None,
    }
}

impl Generator {
    fn elements(&self, column: &ArrayRef, element: &FieldRef) -> Result<ArrayRef> {
        let Some((offsets, values, nulls)) = laid_out(column) else {
            return Ok(new_null_array(&DataType::List(Arc::clone(element)), column.len()));
        };
        let values = match (self.kind, element.data_type()) {
            (Kind::PosExplode, DataType::Struct(fields)) => numbered(&offsets, values, fields)?,
            (_, wanted) if values.data_type() != wanted => arrow::compute::cast(&values, wanted)?,
            _ => values,
        };
        Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, nulls)?))
    }
}

/// Each element with its place in its own list.
fn numbered(offsets: &OffsetBuffer<i32>, values: ArrayRef, fields: &Fields) -> Result<ArrayRef> {
    let mut places = vec![0_i32; values.len()];
    for pair in offsets.windows(2) {
        let [from, to] = pair else { continue };
        let (from, to) = (usize::try_from(*from).unwrap_or(0), usize::try_from(*to).unwrap_or(0));
        for (place, slot) in places.iter_mut().take(to).skip(from).enumerate() {
            *slot = i32::try_from(place).unwrap_or(i32::MAX);
        }
    }
    let mut columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(places))];
    match values.as_struct_opt() {
        Some(entries) if fields.len() == entries.num_columns() + 1 && fields.len() > 2 => {
            columns.extend(entries.columns().iter().cloned());
        }
        _ => columns.push(values),
    }
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns, None)?))
}

/// Values in turn: the first `width` are the first row of each input row.
fn stacked(columns: &[ArrayRef], element: &FieldRef) -> Result<ArrayRef> {
    let DataType::Struct(fields) = element.data_type() else {
        return Err(DataFusionError::Internal("stack makes no columns".to_owned()));
    };
    let values = columns.get(1..).unwrap_or_default();
    let rows = columns.first().map_or(0, |column| column.len());
    let height = values.len().div_ceil(fields.len().max(1));
    let mut made = Vec::with_capacity(fields.len());
    for (at, field) in fields.iter().enumerate() {
        let null = new_null_array(field.data_type(), rows.max(1));
        let parts = (0..height)
            .map(|line| match values.get(line * fields.len() + at) {
                Some(column) => crate::functions::typed::as_type(column, field.data_type()),
                None => Ok(Arc::clone(&null)),
            })
            .collect::<Result<Vec<_>>>()?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let places: Vec<(usize, usize)> =
            (0..rows).flat_map(|row| (0..height).map(move |line| (line, row))).collect();
        made.push(interleave(&parts, &places)?);
    }
    let made = StructArray::try_new(fields.clone(), made, None)?;
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(height, rows));
    Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, Arc::new(made), None)?))
}

/// One row for each: the values under some keys of a JSON object, as texts.
fn tuples(columns: &[ArrayRef], element: &FieldRef) -> Result<ArrayRef> {
    let DataType::Struct(fields) = element.data_type() else {
        return Err(DataFusionError::Internal("json_tuple makes no columns".to_owned()));
    };
    let columns = columns
        .iter()
        .map(|column| crate::functions::typed::as_type(column, &DataType::Utf8))
        .collect::<Result<Vec<_>>>()?;
    let (texts, keys) =
        columns.split_first().ok_or_else(|| DataFusionError::Internal("no text".to_owned()))?;
    let texts = texts.as_string::<i32>();
    let mut made: Vec<Vec<Option<String>>> = vec![Vec::with_capacity(texts.len()); keys.len()];
    for (row, text) in texts.iter().enumerate() {
        let object = text.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
        for (key, values) in keys.iter().zip(&mut made) {
            let key = key.as_string::<i32>();
            let value = object.as_ref().filter(|_| key.is_valid(row));
            values.push(value.and_then(|object| match object.get(key.value(row))? {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            }));
        }
    }
    let made: Vec<ArrayRef> = made
        .into_iter()
        .map(|values| Arc::new(arrow::array::StringArray::from(values)) as ArrayRef)
        .collect();
    let made = StructArray::try_new(fields.clone(), made, None)?;
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, texts.len()));
    Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, Arc::new(made), None)?))
}
