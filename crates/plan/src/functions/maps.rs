//! Functions on maps that DataFusion lacks.

use super::typed::{Typed, argument};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, MapArray, StructArray, make_comparator, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, interleave};
use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use std::collections::HashSet;
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        Typed { name: "map_concat", least: 1, most: 64, returns: first_map, body: concat }.udf(),
        Typed {
            name: "map_contains_key",
            least: 2,
            most: 2,
            returns: |types| first_map(types).map(|_| DataType::Boolean),
            body: contains_key,
        }
        .udf(),
    ]
}

fn first_map(types: &[DataType]) -> Option<DataType> {
    match types.first()? {
        map @ DataType::Map(..) => Some(map.clone()),
        _ => None,
    }
}

fn range(map: &MapArray, row: usize) -> std::ops::Range<usize> {
    match map.value_offsets().get(row..row + 2) {
        Some([from, to]) => *from as usize..*to as usize,
        _ => 0..0,
    }
}

fn contains_key(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let [maps, _] = columns else {
        return Err(DataFusionError::Internal("an argument is missing".to_owned()));
    };
    let maps = maps.as_map();
    let wanted = argument(columns, 1, maps.keys().data_type())?;
    let compare = make_comparator(maps.keys().as_ref(), wanted.as_ref(), SortOptions::default())?;
    let found: BooleanArray = (0..maps.len())
        .map(|row| {
            let there = maps.is_valid(row) && wanted.is_valid(row);
            there.then(|| range(maps, row).any(|at| compare(at, row).is_eq()))
        })
        .collect();
    Ok(Arc::new(found))
}

/// All entries of all maps; a key that comes twice is an error.
fn concat(columns: &[ArrayRef], to: &DataType) -> Result<ArrayRef> {
    let rows = columns.first().map_or(0, |column| column.len());
    let DataType::Map(field, _) = to else { return Ok(new_null_array(to, rows)) };
    let columns =
        (0..columns.len()).map(|place| argument(columns, place, to)).collect::<Result<Vec<_>>>()?;
    let maps: Vec<&MapArray> = columns.iter().map(|column| column.as_map()).collect();
    let keys: Vec<&ArrayRef> = maps.iter().map(|map| map.keys()).collect();
    let bytes = keys
        .iter()
        .map(|keys| super::higher_order::by_bytes(&[*keys]))
        .collect::<Result<Vec<_>>>()?;
    let (mut places, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        let there = maps.iter().all(|map| map.is_valid(row));
        valid.push(there);
        let first = places.len();
        let mut seen = HashSet::new();
        for (at, (map, bytes)) in maps.iter().zip(&bytes).enumerate().filter(|_| there) {
            for place in range(map, row) {
                if !seen.insert(bytes.row(place)) {
                    return Err(DataFusionError::Execution(
                        "[DUPLICATED_MAP_KEY] a key is in several of the maps".to_owned(),
                    ));
                }
                places.push((at, place));
            }
        }
        lengths.push(places.len() - first);
    }
    let pick = |parts: Vec<&dyn Array>| interleave(&parts, &places);
    let keys = pick(maps.iter().map(|map| map.keys().as_ref()).collect())?;
    let values = pick(maps.iter().map(|map| map.values().as_ref()).collect())?;
    let DataType::Struct(fields) = field.data_type() else { return Ok(new_null_array(to, rows)) };
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = Some(NullBuffer::from(valid));
    Ok(Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, nulls, false)?))
}
