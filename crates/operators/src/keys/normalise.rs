//! Values that are equal as keys get equal bits.

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, Float16Array, Float32Array, Float64Array,
    GenericListArray, MapArray, OffsetSizeTrait, StructArray, UInt64Array, make_array,
    make_comparator,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, cast, take};
use arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type,
};
use datafusion::error::Result;
use std::sync::Arc;

/// The same values with −0.0 as 0.0 and every NaN as one, at any depth; a dictionary as its values; a
/// map with its keys in order. Types without floats and maps come back as they are.
///
/// # Errors
/// None for columns that are sound.
pub fn normalise(column: &ArrayRef) -> Result<ArrayRef> {
    if !needs(column.data_type()) {
        return Ok(Arc::clone(column));
    }
    Ok(match column.data_type() {
        DataType::Float16 => {
            type Half = <Float16Type as ArrowPrimitiveType>::Native;
            let zero = Half::from_f32_const(0.0);
            let floats: Float16Array = column
                .as_primitive::<Float16Type>()
                .unary(|value| if value.is_nan() { Half::NAN } else { value + zero });
            Arc::new(floats)
        }
        DataType::Float32 => {
            let floats: Float32Array = column
                .as_primitive::<Float32Type>()
                .unary(|value| if value.is_nan() { f32::NAN } else { value + 0.0 });
            Arc::new(floats)
        }
        DataType::Float64 => {
            let floats: Float64Array = column
                .as_primitive::<Float64Type>()
                .unary(|value| if value.is_nan() { f64::NAN } else { value + 0.0 });
            Arc::new(floats)
        }
        DataType::Struct(_) => normal_struct(column.as_struct())?,
        DataType::List(_) => normal_list(column.as_list::<i32>())?,
        DataType::LargeList(_) => normal_list(column.as_list::<i64>())?,
        DataType::FixedSizeList(..) => normal_fixed(column.as_fixed_size_list())?,
        DataType::Map(..) => normal_map(column.as_map())?,
        DataType::Dictionary(_, values) => normalise(&cast(column, values)?)?,
        _ => Arc::clone(column),
    })
}

/// Whether a type has floats, dictionaries or maps in it.
pub(crate) fn needs(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Dictionary(..)
        | DataType::Map(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| needs(field.data_type())),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            needs(field.data_type())
        }
        _ => false,
    }
}

fn normal_struct(column: &StructArray) -> Result<ArrayRef> {
    let children = column.columns().iter().map(normalise).collect::<Result<Vec<_>>>()?;
    let fields = column.fields().iter().zip(&children).map(|(field, child)| {
        Arc::new(field.as_ref().clone().with_data_type(child.data_type().clone()))
    });
    let fields = fields.collect();
    Ok(Arc::new(StructArray::try_new_with_length(
        fields,
        children,
        column.nulls().cloned(),
        column.len(),
    )?))
}

fn normal_list<O: OffsetSizeTrait>(column: &GenericListArray<O>) -> Result<ArrayRef> {
    let values = normalise(column.values())?;
    let (DataType::List(field) | DataType::LargeList(field)) = column.data_type() else {
        return Ok(Arc::new(column.clone()));
    };
    let field = Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()));
    let (offsets, nulls) = (column.offsets().clone(), column.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(field, offsets, values, nulls)?))
}

fn normal_fixed(column: &FixedSizeListArray) -> Result<ArrayRef> {
    let values = normalise(column.values())?;
    let DataType::FixedSizeList(field, size) = column.data_type() else {
        return Ok(Arc::new(column.clone()));
    };
    let field = Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()));
    Ok(Arc::new(FixedSizeListArray::try_new(field, *size, values, column.nulls().cloned())?))
}

/// Maps are equal whatever the order of their keys.
fn normal_map(column: &MapArray) -> Result<ArrayRef> {
    let DataType::Map(field, ordered) = column.data_type() else {
        return Ok(Arc::new(column.clone()));
    };
    let entries: ArrayRef = Arc::new(column.entries().clone());
    let entries = normalise(&entries)?;
    let keys = normalise(column.keys())?;
    let compare = make_comparator(keys.as_ref(), keys.as_ref(), SortOptions::default())?;
    let mut order: Vec<usize> = Vec::with_capacity(keys.len());
    let (mut offsets, mut end) = (vec![0_i32], 0_i32);
    for row in 0..column.len() {
        let from = order.len();
        if let (true, [start, end]) =
            (column.is_valid(row), column.offsets().get(row..row + 2).unwrap_or_default())
        {
            order.extend(start.as_usize()..end.as_usize());
        }
        if let Some(own) = order.get_mut(from..) {
            own.sort_by(|left, right| compare(*left, *right));
            end += i32::usize_as(own.len());
        }
        offsets.push(end);
    }
    let order = UInt64Array::from_iter_values(order.into_iter().map(|place| place as u64));
    let entries = take(&entries, &order, None)?;
    let field = Arc::new(field.as_ref().clone().with_data_type(entries.data_type().clone()));
    let offsets = OffsetBuffer::new(offsets.into());
    let nulls = column.nulls().cloned();
    Ok(Arc::new(MapArray::try_new(field, offsets, entries.as_struct().clone(), nulls, *ordered)?))
}

/// The same buffers under a type that differs only in the names, nullability and metadata of nested
/// fields; the column as it is where more differs.
pub(crate) fn refit(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if column.data_type() == data_type || !alike(column.data_type(), data_type) {
        return Ok(Arc::clone(column));
    }
    let data = column.to_data();
    let children = nested(data_type)
        .into_iter()
        .zip(data.child_data())
        .map(|(wanted, child)| Ok(refit(&make_array(child.clone()), wanted)?.to_data()))
        .collect::<Result<Vec<_>>>()?;
    let builder = data.into_builder().data_type(data_type.clone()).child_data(children);
    Ok(make_array(builder.build()?))
}

/// Whether two types have one memory layout and differ in nested fields' names, nullability and
/// metadata at most.
fn alike(a: &DataType, b: &DataType) -> bool {
    let same_kind = match (a, b) {
        (DataType::FixedSizeList(_, a), DataType::FixedSizeList(_, b)) => a == b,
        (DataType::Struct(_), DataType::Struct(_))
        | (DataType::List(_), DataType::List(_))
        | (DataType::LargeList(_), DataType::LargeList(_)) => true,
        (DataType::Map(_, a), DataType::Map(_, b)) => a == b,
        _ => return a == b,
    };
    let (a, b) = (nested(a), nested(b));
    same_kind && a.len() == b.len() && a.into_iter().zip(b).all(|(a, b)| alike(a, b))
}

fn nested(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field.data_type()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::normalise;
    use crate::keys::RowCodec;
    use arrow::array::{
        Array, ArrayRef, Float64Array, Int64Array, Int64Builder, ListArray, MapBuilder,
        StringBuilder, StructArray,
    };
    use arrow::datatypes::{DataType, Field, Float64Type};
    use std::sync::Arc;

    fn keys(column: &ArrayRef) -> Vec<Vec<u8>> {
        let codec = RowCodec::try_new([column.data_type().clone()]).unwrap();
        let rows = codec.encode_keys(std::slice::from_ref(column)).unwrap();
        rows.iter().map(|row| row.data().to_vec()).collect()
    }

    fn odd_nan() -> f64 {
        f64::from_bits(f64::NAN.to_bits() ^ (1 << 63) | 7)
    }

    #[test]
    fn zeros_and_nans_are_one_key_each() {
        let floats = [Some(0.0), Some(-0.0), Some(f64::NAN), Some(odd_nan()), None, Some(1.0)];
        let column: ArrayRef = Arc::new(Float64Array::from(floats.to_vec()));
        let keys = keys(&column);
        assert_eq!(keys[0], keys[1]);
        assert_eq!(keys[2], keys[3]);
        assert_ne!(keys[0], keys[4]);
        assert_ne!(keys[0], keys[5]);
    }

    #[test]
    fn maps_are_one_key_whatever_the_order_of_theirs() {
        let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        for entries in [vec![("a", 1), ("b", 2)], vec![("b", 2), ("a", 1)], vec![("a", 2)]] {
            for (key, value) in entries {
                maps.keys().append_value(key);
                maps.values().append_value(value);
            }
            maps.append(true).unwrap();
        }
        maps.append(false).unwrap();
        let column: ArrayRef = Arc::new(maps.finish());
        let keys = keys(&column.slice(0, 4));
        assert_eq!(keys[0], keys[1]);
        assert_ne!(keys[0], keys[2]);
        assert_ne!(keys[0], keys[3]);
        assert_eq!(normalise(&column.slice(1, 2)).unwrap().len(), 2);
    }

    #[test]
    fn floats_in_structs_and_lists_are_made_normal_too() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, odd_nan()]));
        let field = Arc::new(Field::new("f", DataType::Float64, true));
        let column: ArrayRef =
            Arc::new(StructArray::new(vec![field].into(), vec![Arc::clone(&floats)], None));
        let of_structs = keys(&column);
        assert_eq!(of_structs[0], of_structs[1]);
        assert_eq!(of_structs[2], of_structs[3]);
        let lists = ListArray::from_iter_primitive::<Float64Type, _, _>([
            Some(vec![Some(0.0), None]),
            Some(vec![Some(-0.0), None]),
            Some(vec![Some(odd_nan())]),
            Some(vec![Some(f64::NAN)]),
            None,
            Some(vec![]),
        ]);
        let of_lists = keys(&(Arc::new(lists) as ArrayRef));
        assert_eq!(of_lists[0], of_lists[1]);
        assert_eq!(of_lists[2], of_lists[3]);
        assert_ne!(of_lists[4], of_lists[5]);
    }

    #[test]
    fn a_null_struct_is_one_key_whatever_lies_under_it() {
        let under: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let field = Arc::new(Field::new("n", DataType::Int64, true));
        let nulls = Some(vec![false, false].into());
        let column: ArrayRef = Arc::new(StructArray::new(vec![field].into(), vec![under], nulls));
        let keys = keys(&column);
        assert_eq!(keys[0], keys[1]);
    }

    #[test]
    fn a_column_without_floats_is_not_copied() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert!(Arc::ptr_eq(&column, &normalise(&column).unwrap()));
    }
}
