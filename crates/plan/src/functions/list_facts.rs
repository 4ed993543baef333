//! Sizes, places and reversals of lists, with NULL where Spark has it.

use super::typed::{Typed, argument};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, ListArray, StringArray,
    UInt32Array, make_comparator, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Field};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let int: fn(&[DataType]) -> Option<DataType> = |_| Some(DataType::Int32);
    let one = |name, returns, body| Typed { name, least: 1, most: 1, returns, body }.udf();
    vec![
        one("size", int, size),
        one("cardinality", int, size),
        one("array_size", int, size),
        one("flatten", inner, flatten),
        one("reverse", reversed_type, reverse),
        Typed {
            name: "array_position",
            least: 2,
            most: 2,
            returns: |_| Some(DataType::Int64),
            body: position,
        }
        .udf(),
        Typed {
            name: "arrays_overlap",
            least: 2,
            most: 2,
            returns: |_| Some(DataType::Boolean),
            body: overlap,
        }
        .udf(),
    ]
}

/// One row's elements, as places in the values of all.
fn range(list: &ListArray, row: usize) -> std::ops::Range<usize> {
    match list.value_offsets().get(row..row + 2) {
        Some([from, to]) => *from as usize..*to as usize,
        _ => 0..0,
    }
}

fn first(columns: &[ArrayRef]) -> Result<&ArrayRef> {
    columns.first().ok_or_else(|| DataFusionError::Internal("an argument is missing".to_owned()))
}

fn size(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let column = first(columns)?;
    let sizes: Int32Array = if let Some(list) = column.as_list_opt::<i32>() {
        let sizes = (0..list.len())
            .map(|row| list.is_valid(row).then(|| i32::try_from(range(list, row).len()).ok())?);
        sizes.collect()
    } else if let Some(map) = column.as_map_opt() {
        let sizes = (0..map.len()).map(|row| map.is_valid(row).then(|| map.value_length(row)));
        sizes.collect()
    } else if column.data_type() == &DataType::Null {
        return Ok(new_null_array(&DataType::Int32, column.len()));
    } else {
        return Err(DataFusionError::Plan(format!(
            "[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] there is no size({})",
            crate::schema::type_name(column.data_type())
        )));
    };
    Ok(Arc::new(sizes))
}

fn inner(types: &[DataType]) -> Option<DataType> {
    match types.first()? {
        DataType::List(outer) => match outer.data_type() {
            DataType::List(element) => {
                let element = Field::new("element", element.data_type().clone(), true);
                Some(DataType::List(Arc::new(element)))
            }
            _ => None,
        },
        DataType::Null => Some(DataType::Null),
        _ => None,
    }
}

fn listed(
    to: &DataType,
    values: &ArrayRef,
    places: Vec<u32>,
    lengths: Vec<usize>,
    valid: Vec<bool>,
) -> Result<ArrayRef> {
    let DataType::List(field) = to else { return Ok(new_null_array(to, lengths.len())) };
    let values = take(values, &UInt32Array::from(places), None)?;
    let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), NullBuffer::from(valid));
    Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, Some(nulls))?))
}

fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The lists in a list as one; NULL, where one of them is.
fn flatten(columns: &[ArrayRef], to: &DataType) -> Result<ArrayRef> {
    let column = first(columns)?;
    let Some(outer) = column.as_list_opt::<i32>() else {
        return Ok(new_null_array(to, column.len()));
    };
    let lists = outer.values().as_list::<i32>();
    let (mut places, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..outer.len() {
        let whole = outer.is_valid(row) && range(outer, row).all(|list| lists.is_valid(list));
        valid.push(whole);
        let before = places.len();
        if whole {
            places.extend(range(outer, row).flat_map(|list| range(lists, list)).map(place));
        }
        lengths.push(places.len() - before);
    }
    listed(to, lists.values(), places, lengths, valid)
}

fn reversed_type(types: &[DataType]) -> Option<DataType> {
    match types.first()? {
        DataType::List(element) => {
            let element = Field::new("element", element.data_type().clone(), true);
            Some(DataType::List(Arc::new(element)))
        }
        _ => Some(DataType::Utf8),
    }
}

/// A list from its end, or a text.
fn reverse(columns: &[ArrayRef], to: &DataType) -> Result<ArrayRef> {
    let column = first(columns)?;
    let Some(list) = column.as_list_opt::<i32>() else {
        let texts = argument(columns, 0, &DataType::Utf8)?;
        let texts = texts.as_string::<i32>().iter();
        let reversed = texts.map(|text| text.map(|text| text.chars().rev().collect::<String>()));
        return Ok(Arc::new(reversed.collect::<StringArray>()));
    };
    let (mut places, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..list.len() {
        valid.push(list.is_valid(row));
        let own = if list.is_valid(row) { range(list, row) } else { 0..0 };
        lengths.push(own.len());
        places.extend(own.rev().map(place));
    }
    listed(to, list.values(), places, lengths, valid)
}

/// The place of a value, counted from 1; 0 where it is not.
fn position(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let column = first(columns)?;
    let Some(list) = column.as_list_opt::<i32>() else {
        return Ok(new_null_array(&DataType::Int64, column.len()));
    };
    let wanted = argument(columns, 1, list.values().data_type())?;
    let compare = make_comparator(list.values().as_ref(), wanted.as_ref(), SortOptions::default())?;
    let found: Int64Array = (0..list.len())
        .map(|row| {
            let mut own = (list.is_valid(row) && wanted.is_valid(row)).then(|| range(list, row))?;
            let at = own.position(|at| list.values().is_valid(at) && compare(at, row).is_eq());
            Some(at.map_or(0, |at| at as i64 + 1))
        })
        .collect();
    Ok(Arc::new(found))
}

/// Whether two lists share a value; not known, where neither is empty and one has a NULL.
fn overlap(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let column = first(columns)?;
    let Some(left) = column.as_list_opt::<i32>() else {
        return Ok(new_null_array(&DataType::Boolean, column.len()));
    };
    let right = argument(columns, 1, column.data_type())?;
    let right = right.as_list::<i32>();
    let (ours, theirs) = (left.values(), right.values());
    let compare = make_comparator(ours.as_ref(), theirs.as_ref(), SortOptions::default())?;
    let shared: BooleanArray = (0..left.len())
        .map(|row| {
            if left.is_null(row) || right.is_null(row) {
                return None;
            }
            let (one, other) = (range(left, row), range(right, row));
            let same = one.clone().filter(|&at| ours.is_valid(at)).any(|at| {
                other.clone().any(|there| theirs.is_valid(there) && compare(at, there).is_eq())
            });
            let unknown = !one.is_empty()
                && !other.is_empty()
                && (one.clone().any(|at| ours.is_null(at))
                    || other.clone().any(|at| theirs.is_null(at)));
            if !same && unknown { None } else { Some(same) }
        })
        .collect();
    Ok(Arc::new(shared))
}

#[cfg(test)]
mod tests {
    use super::{overlap, position, size};
    use arrow::array::{ArrayRef, AsArray, Int32Array, ListArray};
    use arrow::datatypes::{DataType, Int32Type, Int64Type};
    use std::sync::Arc;

    #[test]
    fn null_is_no_list_and_a_list_with_null_may_share_any_value() {
        let lists = |rows: Vec<Option<Vec<Option<i32>>>>| -> ArrayRef {
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
        };
        let left = lists(vec![Some(vec![Some(1), None]), Some(vec![Some(3)]), None]);
        let right = lists(vec![Some(vec![Some(2)]), Some(vec![Some(3)]), Some(vec![])]);
        let sizes = size(&[Arc::clone(&left)], &DataType::Int32).unwrap();
        assert_eq!(
            sizes.as_primitive::<Int32Type>().iter().collect::<Vec<_>>(),
            [Some(2), Some(1), None]
        );
        let shared = overlap(&[Arc::clone(&left), right], &DataType::Boolean).unwrap();
        assert_eq!(shared.as_boolean().iter().collect::<Vec<_>>(), [None, Some(true), None]);
        let wanted: ArrayRef = Arc::new(Int32Array::from(vec![1, 1, 1]));
        let places = position(&[left, wanted], &DataType::Int64).unwrap();
        assert_eq!(
            places.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
            [Some(1), Some(0), None]
        );
    }
}
