//! `map_filter`, `transform_keys`, `transform_values` and `map_zip_with`.

use super::elements::{Elements, by_bytes, evaluated, place};
use super::predicate;
use arrow::array::{ArrayRef, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{filter, interleave, take};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::LambdaArgument;
use std::collections::HashMap;
use std::sync::Arc;

pub(super) fn filtered(map: &ArrayRef, lambda: &LambdaArgument) -> Result<ArrayRef> {
    let elements = Elements::of(map)?;
    let (keys, values) = elements.entries()?;
    let parameters = [Arc::clone(&keys), Arc::clone(&values)];
    let keeps = predicate(&evaluated(lambda, &parameters, &elements.rows)?)?;
    let (keys, values) = (filter(&keys, &keeps)?, filter(&values, &keeps)?);
    elements.kept(&keeps).map(keys, values, map.data_type())
}

/// New keys, or new values.
pub(super) fn transformed(
    map: &ArrayRef,
    lambda: &LambdaArgument,
    returns: &DataType,
    new_keys: bool,
) -> Result<ArrayRef> {
    let elements = Elements::of(map)?;
    let (keys, values) = elements.entries()?;
    let parameters = [Arc::clone(&keys), Arc::clone(&values)];
    let made = evaluated(lambda, &parameters, &elements.rows)?;
    match new_keys {
        true => elements.map(made, values, returns),
        false => elements.map(keys, made, returns),
    }
}

/// A value for each key of either map; what a map does not have is NULL.
pub(super) fn zipped(
    left: &ArrayRef,
    right: &ArrayRef,
    lambda: &LambdaArgument,
    returns: &DataType,
) -> Result<ArrayRef> {
    let (left, right) = (Elements::of(left)?, Elements::of(right)?);
    let ((left_keys, left_values), (right_keys, right_values)) =
        (left.entries()?, right.entries()?);
    let right_keys = match right_keys.data_type() == left_keys.data_type() {
        true => right_keys,
        false => crate::functions::typed::as_type(&right_keys, left_keys.data_type())?,
    };
    let bytes = by_bytes(&[&left_keys, &right_keys])?;
    let behind = left_keys.len();
    let nulls = NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref());
    let (mut keys, mut rows) = (Vec::new(), Vec::new());
    let (mut lefts, mut rights): (Vec<Option<u32>>, Vec<Option<u32>>) = (Vec::new(), Vec::new());
    let mut lengths = Vec::with_capacity(left.lengths.len());
    let (mut at_left, mut at_right) = (0_usize, 0_usize);
    for (row, (own, other)) in left.lengths.iter().zip(&right.lengths).enumerate() {
        let first = keys.len();
        if !nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            let mut known = HashMap::new();
            for at in at_left..at_left + own {
                known.insert(bytes.row(at), keys.len());
                keys.push((0_usize, at));
                lefts.push(Some(place(at)?));
                rights.push(None);
                rows.push(place(row)?);
            }
            for at in at_right..at_right + other {
                match known.get(&bytes.row(behind + at)).and_then(|&it| rights.get_mut(it)) {
                    Some(slot) => *slot = Some(place(at)?),
                    None => {
                        keys.push((1, at));
                        lefts.push(None);
                        rights.push(Some(place(at)?));
                        rows.push(place(row)?);
                    }
                }
            }
        }
        lengths.push(keys.len() - first);
        at_left += own;
        at_right += other;
    }
    let keys = interleave(&[left_keys.as_ref(), right_keys.as_ref()], &keys)?;
    let rows = UInt32Array::from(rows);
    let parameters = [
        Arc::clone(&keys),
        take(&left_values, &UInt32Array::from(lefts), None)?,
        take(&right_values, &UInt32Array::from(rights), None)?,
    ];
    let made = evaluated(lambda, &parameters, &rows)?;
    let shape = Elements { values: Arc::clone(&keys), rows, lengths, nulls };
    shape.map(keys, made, returns)
}
