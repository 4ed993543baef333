//! Lists, maps and structs as texts: `[1, null]`, `{a -> 1}`, `{1, x}`.

use super::cast::cast_array;
use super::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use std::sync::Arc;

/// Whether a type is written in this way.
pub(super) fn is_nested(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::Map(..) | DataType::Struct(_))
}

fn texts(values: &ArrayRef, zone: &Zone) -> Result<StringArray> {
    Ok(cast_array(values, &DataType::Utf8, true, zone)?.as_string::<i32>().clone())
}

fn shown(texts: &StringArray, at: usize) -> &str {
    if texts.is_valid(at) { texts.value(at) } else { "null" }
}

fn range(offsets: &[i32], row: usize) -> std::ops::Range<usize> {
    match offsets.get(row..row + 2) {
        Some([from, to]) => *from as usize..*to as usize,
        _ => 0..0,
    }
}

/// The text of each row; times in it are those of the session's zone.
pub(super) fn nested_text(array: &ArrayRef, zone: &Zone) -> Result<ArrayRef> {
    let row_text: Box<dyn Fn(usize) -> String> = if let Some(list) = array.as_list_opt::<i32>() {
        let values = texts(list.values(), zone)?;
        let offsets = list.value_offsets().to_vec();
        Box::new(move |row| {
            let items: Vec<&str> = range(&offsets, row).map(|at| shown(&values, at)).collect();
            format!("[{}]", items.join(", "))
        })
    } else if let Some(map) = array.as_map_opt() {
        let (keys, values) = (texts(map.keys(), zone)?, texts(map.values(), zone)?);
        let offsets = map.value_offsets().to_vec();
        Box::new(move |row| {
            let entry = |at| format!("{} -> {}", shown(&keys, at), shown(&values, at));
            let items: Vec<String> = range(&offsets, row).map(entry).collect();
            format!("{{{}}}", items.join(", "))
        })
    } else {
        let columns = array.as_struct().columns().iter();
        let columns = columns.map(|column| texts(column, zone)).collect::<Result<Vec<_>>>()?;
        Box::new(move |row| {
            let items: Vec<&str> = columns.iter().map(|column| shown(column, row)).collect();
            format!("{{{}}}", items.join(", "))
        })
    };
    let rows = (0..array.len()).map(|row| array.is_valid(row).then(|| row_text(row)));
    Ok(Arc::new(rows.collect::<StringArray>()))
}
