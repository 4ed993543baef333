//! `aggregate(list, zero, (acc, x) -> …[, acc -> …])`.

use super::elements::{Elements, evaluated, place};
use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::LambdaArgument;
use std::sync::Arc;

/// Whether what a step gives can be held for the next one.
pub(super) fn fits(zero: &DataType, step: &DataType) -> bool {
    zero == step
        || step == &DataType::Null
        || (zero.is_nested() && step.is_nested())
        || (zero.is_decimal() && step.is_decimal())
}

/// Folds the lists of all rows at once: the first elements, then the second ones, and so on.
pub(super) fn fold(
    list: &ArrayRef,
    zero: &ArrayRef,
    merge: &LambdaArgument,
    finish: Option<&LambdaArgument>,
) -> Result<ArrayRef> {
    let elements = Elements::of(list)?;
    let mut starts = Vec::with_capacity(elements.lengths.len());
    let mut at = 0_usize;
    for length in &elements.lengths {
        starts.push(at);
        at += length;
    }
    let mut held = Arc::clone(zero);
    let longest = elements.lengths.iter().copied().max().unwrap_or(0);
    for step in 0..longest {
        let (mut rows, mut places) = (Vec::new(), Vec::new());
        for (row, (length, start)) in elements.lengths.iter().zip(&starts).enumerate() {
            if step < *length {
                rows.push(place(row)?);
                places.push(place(start + step)?);
            }
        }
        let rows = UInt32Array::from(rows);
        let values = take(&elements.values, &UInt32Array::from(places), None)?;
        let made = evaluated(merge, &[take(&held, &rows, None)?, values], &rows)?;
        let made = match made.data_type() == held.data_type() {
            true => made,
            false => crate::functions::typed::as_type(&made, held.data_type())?,
        };
        held = merged(&held, &made, &rows)?;
    }
    let all = UInt32Array::from_iter_values(0..place(held.len())?);
    let done = match finish {
        Some(finish) => evaluated(finish, &[held], &all)?,
        None => held,
    };
    // A list that is NULL gives NULL, whatever it began with.
    let nulls = elements.nulls;
    let kept: UInt32Array = (0..place(done.len())?)
        .map(|row| {
            let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row as usize));
            (!null).then_some(row)
        })
        .collect();
    Ok(take(&done, &kept, None)?)
}

/// `held` with new values in some rows.
fn merged(held: &ArrayRef, made: &ArrayRef, rows: &UInt32Array) -> Result<ArrayRef> {
    let mut places: Vec<(usize, usize)> = (0..held.len()).map(|row| (0, row)).collect();
    for (at, row) in rows.values().iter().enumerate() {
        if let Some(place) = places.get_mut(*row as usize) {
            *place = (1, at);
        }
    }
    Ok(interleave(&[held.as_ref(), made.as_ref()], &places)?)
}
