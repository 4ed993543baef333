//! Rows of state between Python and Arrow.
//!
//! Python sends a row as the pickled tuple of its values in Spark's internal form (a timestamp is
//! microseconds, a date is days), and takes it as a pickled `Row`.

use super::pickle::{self, Form};
use super::unpickle::{Pickle, Value};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, Float32Array,
    Float64Array, ListArray, PrimitiveArray, StringArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, DurationMicrosecondType, Field, FieldRef, Fields,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalUnit, IntervalYearMonthType, Schema,
    TimeUnit, TimestampMicrosecondType,
};
use onefold_plan::schema::{schema_json, type_name};
use onefold_types::{Error, Result};
use std::sync::Arc;

/// The columns of a row of state.
#[derive(Debug, Clone)]
pub(super) struct StateRows {
    /// As they were declared.
    fields: Fields,
    /// Spark's JSON of them, where Python has to make values from their internal form.
    json: Option<String>,
}

impl StateRows {
    pub(super) fn new(schema: &Schema) -> Self {
        let fields = schema.fields().clone();
        let converted = fields.iter().any(|field| is_converted(field.data_type()));
        StateRows { fields, json: converted.then(|| schema_json(schema)) }
    }

    /// The type under which a row is kept.
    pub(super) fn stored(&self) -> DataType {
        stored(&DataType::Struct(self.fields.clone()))
    }

    /// Rows from their pickles.
    ///
    /// # Errors
    /// Invalid: a value that does not have its column's type.
    pub(super) fn read(&self, rows: &[Vec<u8>]) -> Result<ArrayRef> {
        let pickles = rows.iter().map(|row| Pickle::read(row)).collect::<Result<Vec<_>>>()?;
        let cells: Vec<Cell<'_>> =
            pickles.iter().map(|pickle| Some((pickle, pickle.root_number()))).collect();
        array(&DataType::Struct(self.fields.clone()), &cells, 0)
    }

    /// The columns of one row from its pickle.
    ///
    /// # Errors
    /// As [`StateRows::read`].
    pub(super) fn read_columns(&self, row: &[u8]) -> Result<Vec<ArrayRef>> {
        let rows = self.read(&[row.to_vec()])?;
        Ok(rows.as_struct_opt().map(|rows| rows.columns().to_vec()).unwrap_or_default())
    }

    /// The pickle of a row that is kept.
    ///
    /// # Errors
    /// Invalid: a value that Python does not have.
    pub(super) fn write(&self, rows: &ArrayRef, row: usize) -> Result<Vec<u8>> {
        let columns = rows.as_struct_opt();
        let columns = columns.ok_or_else(|| Error::internal("a row of state is no struct"))?;
        self.write_columns(columns.columns(), row)
    }

    /// The pickle of a row of some columns.
    ///
    /// # Errors
    /// As [`StateRows::write`].
    pub(super) fn write_columns(&self, columns: &[ArrayRef], row: usize) -> Result<Vec<u8>> {
        let form = match &self.json {
            Some(json) => Form::Internal { json },
            None => Form::Rows,
        };
        pickle::row(&self.fields, columns, row, form)
            .map_err(|failure| Error::invalid(failure.message().to_owned()))
    }
}

/// Whether values have another form in Python than Spark's internal one.
fn is_converted(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(..)
        | DataType::Date32
        | DataType::Duration(_)
        | DataType::Interval(_) => true,
        DataType::List(field) | DataType::Map(field, _) => is_converted(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| is_converted(field.data_type())),
        _ => false,
    }
}

/// The type under which state keeps a type: a map is the list of its entries.
fn stored(data_type: &DataType) -> DataType {
    let inner =
        |field: &FieldRef| Arc::new(Field::new(field.name(), stored(field.data_type()), true));
    match data_type {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::List(field) | DataType::Map(field, _) => DataType::List(inner(field)),
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        other => other.clone(),
    }
}

/// A value of a pickle; `None` is NULL.
type Cell<'a> = Option<(&'a Pickle, usize)>;

/// The value of a cell that is not NULL, NaN for a NULL that pandas made included.
fn value<'a>(cell: &Cell<'a>) -> Option<&'a Value> {
    let (pickle, number) = cell.as_ref()?;
    Some(pickle.at(*number)).filter(|value| **value != Value::None)
}

fn wrong(value: &Value, wanted: &DataType) -> Error {
    let kind = match value {
        Value::None => "None".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Int(value) => format!("the whole number {value}"),
        Value::Float(value) => format!("the number {value}"),
        Value::Text(_) => "a text".to_owned(),
        Value::Bytes(_) => "bytes".to_owned(),
        Value::List(_) => "a list or tuple".to_owned(),
        Value::Dict(_) => "a dict".to_owned(),
        Value::Global(name) | Value::Call(name, _) => {
            format!("an object of {}", name.replace(' ', "."))
        }
    };
    Error::invalid(format!("a value of state is {kind}, which is no {}", type_name(wanted)))
}

/// Values as an array of the type that state keeps.
fn array(wanted: &DataType, cells: &[Cell<'_>], depth: usize) -> Result<ArrayRef> {
    Pickle::check_depth(depth)?;
    Ok(match wanted {
        DataType::Boolean => {
            let read = |cell| match value(cell) {
                None => Ok(None),
                Some(Value::Bool(value)) => Ok(Some(*value)),
                Some(other) => Err(wrong(other, wanted)),
            };
            Arc::new(cells.iter().map(read).collect::<Result<BooleanArray>>()?)
        }
        DataType::Int8 => Arc::new(numbers::<Int8Type>(wanted, cells)?),
        DataType::Int16 => Arc::new(numbers::<Int16Type>(wanted, cells)?),
        DataType::Int32 => Arc::new(numbers::<Int32Type>(wanted, cells)?),
        DataType::Int64 => Arc::new(numbers::<Int64Type>(wanted, cells)?),
        DataType::Date32 => Arc::new(numbers::<Date32Type>(wanted, cells)?),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let times = numbers::<TimestampMicrosecondType>(wanted, cells)?;
            Arc::new(times.with_timezone_opt(zone.clone()))
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            Arc::new(numbers::<DurationMicrosecondType>(wanted, cells)?)
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            Arc::new(numbers::<IntervalYearMonthType>(wanted, cells)?)
        }
        DataType::Float32 => {
            let doubles = floats(wanted, cells)?;
            Arc::new(
                cast(&doubles, wanted)
                    .map_err(broken)?
                    .as_primitive_opt()
                    .cloned()
                    .unwrap_or(Float32Array::new_null(cells.len())),
            )
        }
        DataType::Float64 => Arc::new(floats(wanted, cells)?),
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => {
            let read = |cell| match value(cell) {
                None => Ok(None),
                Some(Value::Text(text)) => Ok(Some(text.as_str())),
                Some(other) if is_nan(other) => Ok(None),
                Some(other) => Err(wrong(other, wanted)),
            };
            Arc::new(cells.iter().map(read).collect::<Result<StringArray>>()?)
        }
        DataType::Binary | DataType::BinaryView | DataType::LargeBinary => {
            let read = |cell| match value(cell) {
                None => Ok(None),
                Some(Value::Bytes(bytes)) => Ok(Some(bytes.as_slice())),
                Some(other) if is_nan(other) => Ok(None),
                Some(other) => Err(wrong(other, wanted)),
            };
            Arc::new(cells.iter().map(read).collect::<Result<BinaryArray>>()?)
        }
        DataType::Decimal128(..) => decimals(wanted, cells)?,
        DataType::Struct(fields) => structs(wanted, fields, cells, depth)?,
        DataType::List(element) => lists(wanted, element, cells, depth)?,
        DataType::Map(entries, _) => maps(wanted, entries, cells, depth)?,
        DataType::Null => Arc::new(arrow::array::NullArray::new(cells.len())),
        other => {
            return Err(Error::invalid(format!(
                "state of a Python processor cannot have a column of type {}",
                type_name(other)
            )));
        }
    })
}

fn broken(error: arrow::error::ArrowError) -> Error {
    Error::internal("values of state do not form an array").because(error)
}

fn is_nan(value: &Value) -> bool {
    matches!(value, Value::Float(number) if number.is_nan())
}

fn numbers<T>(wanted: &DataType, cells: &[Cell<'_>]) -> Result<PrimitiveArray<T>>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
{
    let read = |cell| {
        let Some(value) = value(cell) else { return Ok(None) };
        let whole = match value {
            Value::Int(whole) => Some(*whole),
            // In pandas, whole numbers beside NULL are floats, and NULL is NaN.
            Value::Float(number) if number.is_nan() => return Ok(None),
            Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                // Exact in this range.
                #[allow(clippy::cast_possible_truncation, reason = "checked above")]
                let whole = *number as i64;
                Some(i128::from(whole))
            }
            _ => None,
        };
        let fits = whole.and_then(|whole| T::Native::try_from(whole).ok());
        fits.map(Some).ok_or_else(|| wrong(value, wanted))
    };
    cells.iter().map(read).collect()
}

fn floats(wanted: &DataType, cells: &[Cell<'_>]) -> Result<Float64Array> {
    let read = |cell| match value(cell) {
        None => Ok(None),
        Some(Value::Float(number)) => Ok(Some(*number)),
        #[allow(clippy::cast_precision_loss, reason = "as Python's own float()")]
        Some(Value::Int(whole)) => Ok(Some(*whole as f64)),
        Some(other) => Err(wrong(other, wanted)),
    };
    cells.iter().map(read).collect()
}

fn decimals(wanted: &DataType, cells: &[Cell<'_>]) -> Result<ArrayRef> {
    let read = |cell: &Cell<'_>| {
        let Some(found) = value(cell) else { return Ok(None) };
        let text = match (found, cell) {
            (Value::Int(whole), _) => Some(whole.to_string()),
            (Value::Call(name, arguments), Some((pickle, _))) if name == "decimal Decimal" => {
                match arguments.first().map(|first| pickle.at(*first)) {
                    Some(Value::Text(text)) => Some(text.clone()),
                    _ => None,
                }
            }
            _ => None,
        };
        text.map(Some).ok_or_else(|| wrong(found, wanted))
    };
    let texts = cells.iter().map(read).collect::<Result<StringArray>>()?;
    let numbers = cast(&texts, wanted).map_err(broken)?;
    if numbers.null_count() != texts.null_count() {
        return Err(Error::invalid(format!(
            "a value of state is a decimal that does not fit {}",
            type_name(wanted)
        )));
    }
    let numbers: &Decimal128Array = numbers.as_primitive();
    Ok(Arc::new(numbers.clone()))
}

fn validity(cells: &[Cell<'_>]) -> NullBuffer {
    cells.iter().map(|cell| value(cell).is_some()).collect::<Vec<bool>>().into()
}

fn structs(
    wanted: &DataType,
    fields: &Fields,
    cells: &[Cell<'_>],
    depth: usize,
) -> Result<ArrayRef> {
    let mut columns: Vec<Vec<Cell<'_>>> = vec![Vec::with_capacity(cells.len()); fields.len()];
    for cell in cells {
        let parts = parts_of(wanted, fields, cell)?;
        for (column, part) in columns.iter_mut().zip(parts) {
            column.push(part);
        }
    }
    let arrays = fields.iter().zip(&columns);
    let arrays = arrays.map(|(field, cells)| array(field.data_type(), cells, depth + 1));
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    let DataType::Struct(kept) = stored(wanted) else {
        return Err(Error::internal("a struct is kept as something else"));
    };
    let nulls = validity(cells);
    let rows = StructArray::try_new_with_length(kept, arrays, Some(nulls), cells.len());
    Ok(Arc::new(rows.map_err(broken)?))
}

/// The values of a struct's fields.
fn parts_of<'a>(wanted: &DataType, fields: &Fields, cell: &Cell<'a>) -> Result<Vec<Cell<'a>>> {
    let none = || vec![None; fields.len()];
    let Some((pickle, _)) = cell else { return Ok(none()) };
    let mut found = match value(cell) {
        None => return Ok(none()),
        Some(found) => found,
    };
    if let Value::Call(name, arguments) = found
        && name == "pyspark.sql.types _create_row"
        && let Some(values) = arguments.get(1)
    {
        found = pickle.at(*values);
    }
    match found {
        Value::List(values) if values.len() == fields.len() => {
            Ok(values.iter().map(|number| Some((*pickle, *number))).collect())
        }
        Value::List(values) => Err(Error::invalid(format!(
            "a row of state has {} values where {} columns were declared",
            values.len(),
            fields.len()
        ))),
        Value::Dict(entries) => {
            let of = |field: &FieldRef| {
                let mut entries = entries.iter();
                let entry = entries.find(
                    |(key, _)| matches!(pickle.at(*key), Value::Text(name) if name == field.name()),
                );
                entry.map(|(_, number)| (*pickle, *number))
            };
            Ok(fields.iter().map(of).collect())
        }
        other => Err(wrong(other, wanted)),
    }
}

fn lists(
    wanted: &DataType,
    element: &FieldRef,
    cells: &[Cell<'_>],
    depth: usize,
) -> Result<ArrayRef> {
    let (mut inner, mut lengths) = (Vec::new(), Vec::with_capacity(cells.len()));
    for cell in cells {
        let before = inner.len();
        match (value(cell), cell) {
            (Some(Value::List(values)), Some((pickle, _))) => {
                inner.extend(values.iter().map(|number| Some((*pickle, *number))));
            }
            (None, _) => {}
            (Some(other), _) => return Err(wrong(other, wanted)),
        }
        lengths.push(inner.len() - before);
    }
    let values = array(element.data_type(), &inner, depth + 1)?;
    list_of(wanted, values, lengths, cells)
}

fn maps(
    wanted: &DataType,
    entries: &FieldRef,
    cells: &[Cell<'_>],
    depth: usize,
) -> Result<ArrayRef> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(Error::internal("a map has no entries"));
    };
    let [key, inner] = fields.as_ref() else {
        return Err(Error::internal("an entry of a map is no pair"));
    };
    let (mut keys, mut values, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for cell in cells {
        let before = keys.len();
        match (value(cell), cell) {
            (Some(Value::Dict(entries)), Some((pickle, _))) => {
                keys.extend(entries.iter().map(|(key, _)| Some((*pickle, *key))));
                values.extend(entries.iter().map(|(_, value)| Some((*pickle, *value))));
            }
            (None, _) => {}
            (Some(other), _) => return Err(wrong(other, wanted)),
        }
        lengths.push(keys.len() - before);
    }
    let columns = vec![
        array(key.data_type(), &keys, depth + 1)?,
        array(inner.data_type(), &values, depth + 1)?,
    ];
    let DataType::Struct(kept) = stored(entries.data_type()) else {
        return Err(Error::internal("a struct is kept as something else"));
    };
    let pairs = StructArray::try_new(kept, columns, None).map_err(broken)?;
    list_of(wanted, Arc::new(pairs), lengths, cells)
}

fn list_of(
    wanted: &DataType,
    values: ArrayRef,
    lengths: Vec<usize>,
    cells: &[Cell<'_>],
) -> Result<ArrayRef> {
    let DataType::List(element) = stored(wanted) else {
        return Err(Error::internal("a list is kept as something else"));
    };
    let offsets = OffsetBuffer::from_lengths(lengths);
    let list = ListArray::try_new(element, offsets, values, Some(validity(cells)));
    Ok(Arc::new(list.map_err(broken)?))
}

#[cfg(test)]
mod tests {
    use super::StateRows;
    use onefold_plan::schema::parse_schema;

    fn rows(ddl: &str) -> StateRows {
        StateRows::new(&parse_schema(ddl).unwrap())
    }

    /// `pickle.dumps((7, {"a": [1, None]}), 3)`
    const ROW: &[u8] = b"\x80\x03K\x07}q\0X\x01\0\0\0aq\x01]q\x02(K\x01Nes\x86q\x03.";

    #[test]
    fn a_row_is_kept_and_comes_back_as_a_row() {
        let rows = rows("n INT, m MAP<STRING, ARRAY<BIGINT>>");
        let kept = rows.read(&[ROW.to_vec()]).unwrap();
        assert_eq!(kept.data_type(), &rows.stored());
        let back = rows.write(&kept, 0).unwrap();
        let wanted: &[u8] =
            b"\x80\x03cpyspark.sql.types\n_create_row\n(](X\x01\0\0\0nX\x01\0\0\0me\
            (J\x07\0\0\0}(X\x01\0\0\0a](J\x01\0\0\0NeuttR.";
        assert_eq!(back, wanted);
    }

    #[test]
    fn a_value_of_another_type_is_named_and_not_lost() {
        let text = rows("n STRING, m MAP<STRING, ARRAY<BIGINT>>").read(&[ROW.to_vec()]);
        let text = text.unwrap_err().to_string();
        assert!(text.contains("the whole number 7, which is no STRING"), "{text}");
        let text = rows("n INT").read(&[ROW.to_vec()]).unwrap_err().to_string();
        assert!(text.contains("2 values where 1 columns"), "{text}");
    }
}
