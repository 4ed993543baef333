//! Functions on lists that DataFusion lacks or means otherwise.

use super::typed::{Typed, argument};
use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, ListArray, UInt32Array, make_comparator, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, interleave, take};
use arrow::datatypes::{DataType, Field, Int32Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let list = |name, least, most, body| Typed { name, least, most, returns: same, body }.udf();
    let element = |name, body| Typed { name, least: 2, most: 2, returns: element_of, body }.udf();
    vec![
        list("sort_array", 1, 2, |columns, to| sorted(columns, to, false)),
        list("array_sort", 1, 1, |columns, to| sorted(columns, to, true)),
        list("array_insert", 3, 3, array_insert),
        list("array_prepend", 2, 2, |columns, to| added(columns, to, true)),
        list("array_append", 2, 2, |columns, to| added(columns, to, false)),
        element("element_at", |columns, to| element_at(columns, to, false)),
        element("try_element_at", |columns, to| element_at(columns, to, true)),
        element("get", |columns, to| get(columns, to, true)),
        // `list[place]`, `map[key]`.
        element("spark_item", |columns, to| get(columns, to, false)),
    ]
}

fn same(types: &[DataType]) -> Option<DataType> {
    match types.first()? {
        DataType::List(element) => {
            let element = Field::new("element", element.data_type().clone(), true);
            Some(DataType::List(Arc::new(element)))
        }
        DataType::Null => Some(DataType::Null),
        _ => None,
    }
}

fn element_of(types: &[DataType]) -> Option<DataType> {
    match types.first()? {
        DataType::List(element) => Some(element.data_type().clone()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => Some(fields.get(1)?.data_type().clone()),
            _ => None,
        },
        _ => None,
    }
}

/// One row's elements, as places in the values of all.
fn range(list: &ListArray, row: usize) -> Range<usize> {
    match list.value_offsets().get(row..row + 2) {
        Some([from, to]) => *from as usize..*to as usize,
        _ => 0..0,
    }
}

fn listed(
    to: &DataType,
    values: ArrayRef,
    lengths: Vec<usize>,
    nulls: Vec<bool>,
) -> Result<ArrayRef> {
    let DataType::List(field) = to else {
        return Ok(new_null_array(to, lengths.len()));
    };
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = NullBuffer::from(nulls);
    Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, Some(nulls))?))
}

fn null(columns: &[ArrayRef], to: &DataType) -> Option<ArrayRef> {
    let first = columns.first()?;
    (first.data_type() == &DataType::Null).then(|| new_null_array(to, first.len()))
}

/// In order; NULL is the least value, or stands last.
fn sorted(columns: &[ArrayRef], to: &DataType, nulls_last: bool) -> Result<ArrayRef> {
    if let Some(null) = null(columns, to) {
        return Ok(null);
    }
    let list = argument(columns, 0, to)?;
    let list = list.as_list::<i32>();
    let ascending = match columns.len() {
        1 => None,
        _ => Some(argument(columns, 1, &DataType::Boolean)?),
    };
    let values = onefold_operators::normalise(list.values())?;
    let compare = make_comparator(values.as_ref(), values.as_ref(), SortOptions::default())?;
    let (mut places, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..list.len() {
        valid.push(list.is_valid(row));
        if list.is_null(row) {
            lengths.push(0);
            continue;
        }
        let up = ascending.as_ref().is_none_or(|it| it.is_null(row) || it.as_boolean().value(row));
        let mut own: Vec<usize> = range(list, row).collect();
        own.sort_by(|&one, &other| {
            let order = match (values.is_null(one), values.is_null(other)) {
                (true, true) => Ordering::Equal,
                (true, false) if !nulls_last => Ordering::Less,
                (true, false) => Ordering::Greater,
                (false, true) if !nulls_last => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ => compare(one, other),
            };
            if up { order } else { order.reverse() }
        });
        lengths.push(own.len());
        places.extend(own.into_iter().map(|place| u32::try_from(place).unwrap_or(u32::MAX)));
    }
    listed(to, take(list.values(), &UInt32Array::from(places), None)?, lengths, valid)
}

fn index_of_zero() -> DataFusionError {
    DataFusionError::Execution(
        "[INVALID_INDEX_OF_ZERO] an index counts from 1, or from -1 at the end".to_owned(),
    )
}

fn outside(class: &str, index: i32, length: usize) -> DataFusionError {
    DataFusionError::Execution(format!(
        "[{class}] the index {index} is out of bounds: the array has {length} elements; use the \
         function `try_element_at` or `get` to have NULL instead"
    ))
}

/// An element by its place from 1, or from the end below 0; the value of a key of a map.
fn element_at(columns: &[ArrayRef], to: &DataType, lenient: bool) -> Result<ArrayRef> {
    let first = columns.first().map(|column| column.data_type());
    if let Some(DataType::Map(..)) = first {
        return value_of(columns);
    }
    if let Some(null) = null(columns, to) {
        return Ok(null);
    }
    let list = argument(columns, 0, first.unwrap_or(to))?;
    let list = list.as_list::<i32>();
    let indices = argument(columns, 1, &DataType::Int32)?;
    let indices = indices.as_primitive::<Int32Type>();
    let failure = (!lenient).then_some("INVALID_ARRAY_INDEX_IN_ELEMENT_AT");
    picked(list, indices, failure, |own, index| match index {
        0 => Err(index_of_zero()),
        1.. => Ok(own.start.checked_add(index as usize - 1)),
        _ => Ok(own.end.checked_sub(index.unsigned_abs() as usize)),
    })
}

/// The element of each list that `place` finds for its index; one outside of its list is NULL, or
/// the error of this name.
fn picked(
    list: &ListArray,
    indices: &Int32Array,
    failure: Option<&str>,
    place: impl Fn(&Range<usize>, i32) -> Result<Option<usize>>,
) -> Result<ArrayRef> {
    let mut places: Vec<Option<u32>> = Vec::with_capacity(list.len());
    for row in 0..list.len() {
        if list.is_null(row) || indices.is_null(row) {
            places.push(None);
            continue;
        }
        let (own, index) = (range(list, row), indices.value(row));
        let place = place(&own, index)?.filter(|place| own.contains(place));
        if let (None, Some(failure)) = (place, failure) {
            return Err(outside(failure, index, own.len()));
        }
        places.push(place.and_then(|place| u32::try_from(place).ok()));
    }
    Ok(take(list.values(), &UInt32Array::from(places), None)?)
}

/// The value under a key, NULL where there is none.
fn value_of(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let [maps, wanted] = columns else {
        return Err(DataFusionError::Internal("an argument is missing".to_owned()));
    };
    let maps = maps.as_map();
    let wanted = argument(columns, 1, maps.keys().data_type())
        .or_else(|_| Ok::<_, DataFusionError>(Arc::clone(wanted)))?;
    let compare = make_comparator(maps.keys().as_ref(), wanted.as_ref(), SortOptions::default())?;
    let places: UInt32Array = (0..maps.len())
        .map(|row| {
            if maps.is_null(row) || wanted.is_null(row) {
                return None;
            }
            let offsets = maps.value_offsets().get(row..row + 2)?;
            let [from, to] = offsets else { return None };
            let found = (*from as usize..*to as usize).find(|&at| compare(at, row).is_eq())?;
            u32::try_from(found).ok()
        })
        .collect();
    Ok(take(maps.values(), &places, None)?)
}

/// An element by its place from 0; NULL where there is none, or an error.
fn get(columns: &[ArrayRef], to: &DataType, lenient: bool) -> Result<ArrayRef> {
    let first = columns.first().map(|column| column.data_type().clone());
    let list = argument(columns, 0, first.as_ref().unwrap_or(to))?;
    let Some(list) = list.as_list_opt::<i32>() else {
        return Ok(new_null_array(to, list.len()));
    };
    let indices = argument(columns, 1, &DataType::Int32)?;
    let indices = indices.as_primitive::<Int32Type>();
    picked(list, indices, (!lenient).then_some("INVALID_ARRAY_INDEX"), |own, index| {
        Ok(usize::try_from(index).ok().and_then(|index| own.start.checked_add(index)))
    })
}

/// Most elements that `array_insert` makes.
const LENGTH_MAX: i32 = 1 << 24;

/// A value at a place from 1, or from the end below 0; what is between is NULL.
fn array_insert(columns: &[ArrayRef], to: &DataType) -> Result<ArrayRef> {
    if let Some(null) = null(columns, to) {
        return Ok(null);
    }
    let DataType::List(field) = to else { return Ok(new_null_array(to, 0)) };
    let list = argument(columns, 0, to)?;
    let list = list.as_list::<i32>();
    let at = argument(columns, 1, &DataType::Int32)?;
    let at: &Int32Array = at.as_primitive::<Int32Type>();
    let item = argument(columns, 2, field.data_type())?;
    let nothing = new_null_array(field.data_type(), 1);
    let (mut places, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..list.len() {
        let there = list.is_valid(row) && at.is_valid(row);
        valid.push(there);
        if !there {
            lengths.push(0);
            continue;
        }
        let first = places.len();
        let mut own: Vec<(usize, usize)> = range(list, row).map(|place| (0, place)).collect();
        match at.value(row) {
            0 => return Err(index_of_zero()),
            index if index.abs() > LENGTH_MAX => {
                return Err(outside("INVALID_ARRAY_INDEX", index, 0));
            }
            index @ 1.. => {
                let place = index as usize - 1;
                while own.len() < place {
                    own.push((2, 0));
                }
                own.insert(place, (1, row));
            }
            index => {
                let behind = index.unsigned_abs() as usize - 1;
                while own.len() < behind {
                    own.insert(0, (2, 0));
                }
                own.insert(own.len() - behind, (1, row));
            }
        }
        places.extend(own);
        lengths.push(places.len() - first);
    }
    let values = interleave(&[list.values().as_ref(), item.as_ref(), nothing.as_ref()], &places)?;
    listed(to, values, lengths, valid)
}

/// One more element, in front or behind.
fn added(columns: &[ArrayRef], to: &DataType, front: bool) -> Result<ArrayRef> {
    if let Some(null) = null(columns, to) {
        return Ok(null);
    }
    let DataType::List(field) = to else { return Ok(new_null_array(to, 0)) };
    let list = argument(columns, 0, to)?;
    let list = list.as_list::<i32>();
    let item = argument(columns, 1, field.data_type())?;
    let (mut places, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..list.len() {
        valid.push(list.is_valid(row));
        if list.is_null(row) {
            lengths.push(0);
            continue;
        }
        let own = range(list, row);
        lengths.push(own.len() + 1);
        if front {
            places.push((1, row));
        }
        places.extend(own.map(|place| (0, place)));
        if !front {
            places.push((1, row));
        }
    }
    let values = interleave(&[list.values().as_ref(), item.as_ref()], &places)?;
    listed(to, values, lengths, valid)
}
