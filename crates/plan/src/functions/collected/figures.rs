//! Figures of values, none of which is NULL.

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, UInt32Array};
use arrow::compute::{sort, take};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use std::collections::HashMap;
use std::sync::Arc;

fn doubles(values: &ArrayRef) -> Result<Float64Array> {
    let values = crate::functions::typed::as_type(values, &DataType::Float64)?;
    Ok(values.as_primitive::<Float64Type>().clone())
}

/// Each value once, in the order in which they came.
pub(super) fn distinct(values: &ArrayRef) -> Result<ArrayRef> {
    let rows = crate::functions::higher_order::by_bytes(&[values])?;
    let mut seen = std::collections::HashSet::new();
    let places = (0..values.len()).filter(|&at| seen.insert(rows.row(at)));
    let places: UInt32Array = places.filter_map(|at| u32::try_from(at).ok()).collect();
    Ok(take(values, &places, None)?)
}

/// The values at one share of the ranks or at several.
pub(super) fn percentiles(
    values: &ArrayRef,
    shares: Option<&ScalarValue>,
    returns: &DataType,
    at_rank: bool,
) -> Result<ScalarValue> {
    let missing = || DataFusionError::Internal("a percentile has no share".to_owned());
    let shares = shares.ok_or_else(missing)?.to_array()?;
    let shares = match shares.as_list_opt::<i32>() {
        Some(lists) => lists.value(0),
        None => shares,
    };
    let shares = doubles(&shares)?;
    if let Some(wrong) = shares.iter().flatten().find(|share| !(0.0..=1.0).contains(share)) {
        return Err(DataFusionError::Plan(format!(
            "[DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE] a percentage is between 0 and 1, not {wrong}"
        )));
    }
    let sorted = sort(values, None)?;
    let found: ArrayRef = if at_rank {
        let places: UInt32Array = shares.iter().map(|share| rank(share?, sorted.len())).collect();
        take(&sorted, &places, None)?
    } else {
        let sorted = doubles(&sorted)?;
        let between = |share: Option<f64>| share.map(|share| interpolated(&sorted, share));
        Arc::new(shares.iter().map(between).collect::<Float64Array>())
    };
    match returns {
        DataType::List(field) => {
            let offsets = arrow::buffer::OffsetBuffer::from_lengths([found.len()]);
            let one = arrow::array::ListArray::try_new(Arc::clone(field), offsets, found, None)?;
            Ok(ScalarValue::List(Arc::new(one)))
        }
        _ => ScalarValue::try_from_array(&found, 0),
    }
}

/// The place of the least value that a share of all values does not exceed.
fn rank(share: f64, count: usize) -> Option<u32> {
    let rank = (share * count as f64).ceil() as usize;
    u32::try_from(rank.clamp(1, count) - 1).ok()
}

fn interpolated(sorted: &Float64Array, share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let (low, high) = (sorted.value(below), sorted.value(above));
    if below == above || low == high {
        return low;
    }
    (above as f64 - place) * low + (place - below as f64) * high
}

/// The value that is there most often; of several the one that came first.
pub(super) fn most_frequent(values: &ArrayRef) -> Result<ScalarValue> {
    let rows = crate::functions::higher_order::by_bytes(&[values])?;
    let mut counts: HashMap<_, (usize, usize)> = HashMap::new();
    for at in 0..values.len() {
        counts.entry(rows.row(at)).or_insert((0, at)).0 += 1;
    }
    let best = counts.values().max_by_key(|(count, first)| (*count, usize::MAX - first));
    let (_, first) = best.copied().unwrap_or_default();
    ScalarValue::try_from_array(values, first)
}

/// Skewness (power 3), or kurtosis over that of the normal distribution (power 4).
pub(super) fn moment(values: &ArrayRef, power: i32) -> Result<ScalarValue> {
    let values = doubles(values)?;
    let count = values.len() as f64;
    let mean = values.iter().flatten().sum::<f64>() / count;
    let about = |power: i32| values.iter().flatten().map(|it| (it - mean).powi(power)).sum::<f64>();
    let spread = about(2);
    let figure = match power {
        _ if spread == 0.0 => None,
        3 => Some(count.sqrt() * about(3) / (spread * spread * spread).sqrt()),
        _ => Some(count * about(4) / (spread * spread) - 3.0),
    };
    Ok(ScalarValue::Float64(figure))
}

pub(super) fn product(values: &ArrayRef) -> Result<ScalarValue> {
    Ok(ScalarValue::Float64(Some(doubles(values)?.iter().flatten().product())))
}

/// Texts in one, with a text between them.
pub(super) fn joined(values: &ArrayRef, between: Option<&ScalarValue>) -> Result<ScalarValue> {
    let between = match between {
        Some(scalar) => scalar.try_as_str().flatten().unwrap_or_default().to_owned(),
        None => String::new(),
    };
    let texts = crate::functions::typed::as_type(values, &DataType::Utf8)?;
    let texts: Vec<&str> = texts.as_string::<i32>().iter().flatten().collect();
    Ok(ScalarValue::Utf8(Some(texts.join(&between))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_at_a_rank_or_between_two() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![10.0, 0.0, 2.0, 1.0]));
        let half = ScalarValue::Float64(Some(0.5));
        let at = |at_rank| percentiles(&values, Some(&half), &DataType::Float64, at_rank).unwrap();
        assert_eq!(at(true), ScalarValue::Float64(Some(1.0)));
        assert_eq!(at(false), ScalarValue::Float64(Some(1.5)));
        let all = ScalarValue::Float64(Some(1.5));
        assert!(percentiles(&values, Some(&all), &DataType::Float64, true).is_err());
    }

    #[test]
    fn the_first_of_the_most_frequent_values_is_the_mode() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![3.0, 1.0, 2.0, 1.0, 2.0]));
        assert_eq!(most_frequent(&values).unwrap(), ScalarValue::Float64(Some(1.0)));
        assert_eq!(product(&values).unwrap(), ScalarValue::Float64(Some(12.0)));
    }

    #[test]
    fn moments_of_equal_values_are_unknown() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 1.0]));
        assert_eq!(moment(&values, 3).unwrap(), ScalarValue::Float64(None));
        let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]));
        assert_eq!(moment(&values, 3).unwrap(), ScalarValue::Float64(Some(0.0)));
        assert_eq!(moment(&values, 4).unwrap(), ScalarValue::Float64(Some(-1.5)));
    }
}
