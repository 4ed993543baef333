//! The order-free hash of rows: what `onefold verify` compares.
//!
//! It is a function of logical values, so that rows read back from a file give what was summed
//! when they were written, on every machine and in every later version. The definition stands in
//! `docs/protocol.md`; changing any constant here makes every recorded hash useless.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, RecordBatch, StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type,
    Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use onefold_types::{ContentHash, Error, Result, Totals};
use xxhash_rust::xxh3::xxh3_64;

const ROW: u64 = 0x9e37_79b9_7f4a_7c15;
const NULL: u64 = 0xa076_1d64_78bd_642f;
const LIST: u64 = 0xe703_7ed1_a0b4_28db;
const STRUCT: u64 = 0x8ebc_6af0_9c88_c6e3;
const MAP_KEY: u64 = 0x5899_65cc_7537_4cc3;
const MAP_VALUE: u64 = 0x1d8e_4e27_c47d_124f;
const WIDE: u64 = 0xeb44_acca_b455_d165;

/// Multiplies to 128 bits and folds both halves together.
#[inline]
fn mix(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    let folded = (product as u64) ^ ((product >> 64) as u64);
    folded
}

/// What a name adds: odd, so that multiplying by it loses nothing.
fn key(name: &str) -> u64 {
    xxh3_64(name.as_bytes()) | 1
}

/// What the folder of a partition adds to each of its rows; the output's root adds nothing.
#[must_use]
pub(crate) fn folder_salt(folder: &str) -> u64 {
    if folder.is_empty() { 0 } else { xxh3_64(folder.as_bytes()) }
}

/// Sums up rows. Holds its buffer between batches.
#[derive(Debug)]
pub(crate) struct RowHasher {
    salt: u64,
    rows: Vec<u64>,
}

impl RowHasher {
    /// A hasher for rows below this folder of the output.
    pub(crate) fn new(folder: &str) -> Self {
        RowHasher { salt: folder_salt(folder), rows: Vec::new() }
    }

    /// The totals of a batch of rows.
    ///
    /// # Errors
    /// Invalid, for a column type that has no hash.
    pub(crate) fn totals(&mut self, batch: &RecordBatch) -> Result<Totals> {
        self.rows.clear();
        self.rows.resize(batch.num_rows(), ROW ^ self.salt);
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            fold(&mut self.rows, column, key(field.name()))?;
        }
        let hash = self.rows.iter().map(|row| u128::from(*row)).fold(0, u128::wrapping_add);
        Ok(Totals { rows: batch.num_rows() as u64, hash: ContentHash(hash) })
    }

    /// The totals of one line of a text file.
    pub(crate) fn line(&self, line: &[u8]) -> Totals {
        let hash = mix(ROW ^ self.salt ^ xxh3_64(line), LIST);
        Totals { rows: 1, hash: ContentHash(u128::from(hash)) }
    }
}

/// Folds a column into one number a row.
fn fold(rows: &mut [u64], column: &ArrayRef, key: u64) -> Result<()> {
    match column.data_type() {
        DataType::Int64 => fold_primitive::<Int64Type>(rows, column, key, i64::cast_unsigned),
        DataType::Int32 => fold_primitive::<Int32Type>(rows, column, key, |v| wide(v.into())),
        DataType::Float64 => fold_primitive::<Float64Type>(rows, column, key, double),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            fold_primitive::<TimestampMicrosecondType>(rows, column, key, i64::cast_unsigned);
        }
        DataType::Utf8 => fold_bytes(rows, column.as_string::<i32>().iter(), key),
        DataType::Utf8View => fold_bytes(rows, column.as_string_view().iter(), key),
        _ => {
            for (row, value) in rows.iter_mut().zip(hashes(column)?) {
                *row = mix(*row ^ value, key);
            }
        }
    }
    Ok(())
}

fn fold_primitive<T: ArrowPrimitiveType>(
    rows: &mut [u64],
    column: &ArrayRef,
    key: u64,
    bits: impl Fn(T::Native) -> u64,
) {
    let column: &PrimitiveArray<T> = column.as_primitive();
    if column.null_count() == 0 {
        for (row, value) in rows.iter_mut().zip(column.values().iter()) {
            *row = mix(*row ^ bits(*value), key);
        }
    } else {
        for (row, value) in rows.iter_mut().zip(column.iter()) {
            *row = mix(*row ^ value.map_or(NULL, &bits), key);
        }
    }
}

fn fold_bytes<'a, V: AsRef<[u8]> + ?Sized + 'a>(
    rows: &mut [u64],
    values: impl Iterator<Item = Option<&'a V>>,
    key: u64,
) {
    for (row, value) in rows.iter_mut().zip(values) {
        *row = mix(*row ^ value.map_or(NULL, |bytes| xxh3_64(bytes.as_ref())), key);
    }
}

fn wide(value: i64) -> u64 {
    value.cast_unsigned()
}

fn double(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() }
}

fn float(value: f32) -> u64 {
    u64::from(if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() })
}

#[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
fn decimal(value: i128) -> u64 {
    let bits = value.cast_unsigned();
    mix((bits as u64) ^ WIDE, ((bits >> 64) as u64) ^ ROW)
}

fn primitive<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    bits: impl Fn(T::Native) -> u64,
) -> Vec<u64> {
    column.as_primitive::<T>().iter().map(|value| value.map_or(NULL, &bits)).collect()
}

fn bytes<'a, V: AsRef<[u8]> + ?Sized + 'a>(
    values: impl Iterator<Item = Option<&'a V>>,
) -> Vec<u64> {
    values.map(|value| value.map_or(NULL, |bytes| xxh3_64(bytes.as_ref()))).collect()
}

/// One number a value; equal logical values of one kind give equal numbers, whatever their width.
fn hashes(column: &ArrayRef) -> Result<Vec<u64>> {
    Ok(match column.data_type() {
        DataType::Null => vec![NULL; column.len()],
        DataType::Boolean => booleans(column.as_boolean()),
        DataType::Int8 => primitive::<Int8Type>(column, |v| wide(v.into())),
        DataType::Int16 => primitive::<Int16Type>(column, |v| wide(v.into())),
        DataType::Int32 => primitive::<Int32Type>(column, |v| wide(v.into())),
        DataType::Int64 => primitive::<Int64Type>(column, wide),
        DataType::UInt8 => primitive::<UInt8Type>(column, u64::from),
        DataType::UInt16 => primitive::<UInt16Type>(column, u64::from),
        DataType::UInt32 => primitive::<UInt32Type>(column, u64::from),
        DataType::UInt64 => primitive::<UInt64Type>(column, |v| v),
        DataType::Float32 => primitive::<Float32Type>(column, float),
        DataType::Float64 => primitive::<Float64Type>(column, double),
        DataType::Date32 => primitive::<Date32Type>(column, |v| wide(v.into())),
        DataType::Date64 => primitive::<Date64Type>(column, |v| wide(v.div_euclid(86_400_000))),
        DataType::Timestamp(unit, _) => timestamps(column, *unit),
        DataType::Time32(TimeUnit::Second) => {
            primitive::<Time32SecondType>(column, |v| wide(i64::from(v).wrapping_mul(1_000_000)))
        }
        DataType::Time32(_) => {
            primitive::<Time32MillisecondType>(column, |v| wide(i64::from(v).wrapping_mul(1_000)))
        }
        DataType::Time64(TimeUnit::Microsecond) => primitive::<Time64MicrosecondType>(column, wide),
        DataType::Time64(_) => {
            primitive::<Time64NanosecondType>(column, |v| wide(v.div_euclid(1_000)))
        }
        DataType::Decimal32(..) => primitive::<Decimal32Type>(column, |v| decimal(v.into())),
        DataType::Decimal64(..) => primitive::<Decimal64Type>(column, |v| decimal(v.into())),
        DataType::Decimal128(..) => primitive::<Decimal128Type>(column, decimal),
        DataType::Decimal256(..) => {
            primitive::<Decimal256Type>(column, |v| xxh3_64(&v.to_le_bytes()))
        }
        DataType::Utf8 => bytes(column.as_string::<i32>().iter()),
        DataType::LargeUtf8 => bytes(column.as_string::<i64>().iter()),
        DataType::Utf8View => bytes(column.as_string_view().iter()),
        DataType::Binary => bytes(column.as_binary::<i32>().iter()),
        DataType::LargeBinary => bytes(column.as_binary::<i64>().iter()),
        DataType::BinaryView => bytes(column.as_binary_view().iter()),
        DataType::FixedSizeBinary(_) => bytes(column.as_fixed_size_binary().iter()),
        DataType::Dictionary(_, value) => hashes(&plain(column, value)?)?,
        DataType::RunEndEncoded(_, value) => hashes(&plain(column, value.data_type())?)?,
        _ => return nested(column),
    })
}

fn plain(column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    cast(column, wanted).map_err(|e| Error::internal("a column cannot be decoded").because(e))
}

fn booleans(column: &BooleanArray) -> Vec<u64> {
    column.iter().map(|value| value.map_or(NULL, u64::from)).collect()
}

fn timestamps(column: &ArrayRef, unit: TimeUnit) -> Vec<u64> {
    match unit {
        TimeUnit::Second => {
            primitive::<TimestampSecondType>(column, |v| wide(v.wrapping_mul(1_000_000)))
        }
        TimeUnit::Millisecond => {
            primitive::<TimestampMillisecondType>(column, |v| wide(v.wrapping_mul(1_000)))
        }
        TimeUnit::Microsecond => primitive::<TimestampMicrosecondType>(column, wide),
        TimeUnit::Nanosecond => {
            primitive::<TimestampNanosecondType>(column, |v| wide(v.div_euclid(1_000)))
        }
    }
}

fn nested(column: &ArrayRef) -> Result<Vec<u64>> {
    match column.data_type() {
        DataType::Struct(_) => structs(column.as_struct()),
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            Ok(lists(
                list.offsets().iter().map(|offset| offset.cast_unsigned() as usize),
                list.nulls(),
                &hashes(list.values())?,
            ))
        }
        DataType::LargeList(_) => {
            let list = column.as_list::<i64>();
            let offsets = list.offsets().iter().map(|o| usize::try_from(*o).unwrap_or(usize::MAX));
            Ok(lists(offsets, list.nulls(), &hashes(list.values())?))
        }
        DataType::Map(..) => {
            let map = column.as_map();
            let mut entries = vec![STRUCT; map.entries().len()];
            fold(&mut entries, map.keys(), MAP_KEY)?;
            fold(&mut entries, map.values(), MAP_VALUE)?;
            let offsets = map.offsets().iter().map(|offset| offset.cast_unsigned() as usize);
            Ok(lists(offsets, map.nulls(), &entries))
        }
        DataType::FixedSizeList(item, _) => {
            hashes(&plain(column, &DataType::List(std::sync::Arc::clone(item)))?)
        }
        other => Err(Error::invalid(format!(
            "rows with a column of type {other} have no content hash; cast the column"
        ))),
    }
}

fn structs(column: &StructArray) -> Result<Vec<u64>> {
    let mut values = vec![STRUCT; column.len()];
    for (field, child) in column.fields().iter().zip(column.columns()) {
        fold(&mut values, child, key(field.name()))?;
    }
    blank(&mut values, column.nulls());
    Ok(values)
}

fn lists(
    offsets: impl Iterator<Item = usize> + Clone,
    nulls: Option<&NullBuffer>,
    items: &[u64],
) -> Vec<u64> {
    let mut values: Vec<u64> = offsets
        .clone()
        .zip(offsets.skip(1))
        .map(|(start, end)| {
            let items = items.get(start..end).unwrap_or_default();
            items.iter().fold(LIST ^ items.len() as u64, |sum, item| mix(sum ^ item, LIST))
        })
        .collect();
    blank(&mut values, nulls);
    values
}

fn blank(values: &mut [u64], nulls: Option<&NullBuffer>) {
    if let Some(nulls) = nulls {
        for (value, valid) in values.iter_mut().zip(nulls.iter()) {
            if !valid {
                *value = NULL;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        DictionaryArray, Int32Array, Int64Array, ListArray, StringArray, StringViewArray,
        TimestampMicrosecondArray, TimestampMillisecondArray,
    };
    use arrow::datatypes::Int8Type;
    use std::sync::Arc;

    fn totals(columns: Vec<(&str, ArrayRef)>) -> Totals {
        RowHasher::new("").totals(&RecordBatch::try_from_iter(columns).unwrap()).unwrap()
    }

    #[test]
    fn equal_logical_values_hash_equal_whatever_holds_them() {
        let narrow: ArrayRef = Arc::new(Int32Array::from(vec![Some(-1), None]));
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), None]));
        assert_eq!(totals(vec![("a", narrow)]), totals(vec![("a", wide)]));
        let plain: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
        let view: ArrayRef = Arc::new(StringViewArray::from(vec!["x", "y"]));
        let dictionary: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::from_iter(["x", "y"]));
        assert_eq!(totals(vec![("a", plain.clone())]), totals(vec![("a", view)]));
        assert_eq!(totals(vec![("a", plain)]), totals(vec![("a", dictionary)]));
        let millis: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![-1]));
        let micros: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![-1_000]));
        assert_eq!(totals(vec![("a", millis)]), totals(vec![("a", micros)]));
    }

    #[test]
    fn the_order_of_rows_does_not_count_but_values_columns_and_folders_do() {
        let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let base = totals(vec![("a", column(vec![1, 2])), ("b", column(vec![3, 4]))]);
        let turned = totals(vec![("a", column(vec![2, 1])), ("b", column(vec![4, 3]))]);
        assert_eq!(base, turned);
        let crossed = totals(vec![("a", column(vec![2, 1])), ("b", column(vec![3, 4]))]);
        assert_ne!(base, crossed);
        let renamed = totals(vec![("a", column(vec![1, 2])), ("c", column(vec![3, 4]))]);
        assert_ne!(base, renamed);
        let batch = RecordBatch::try_from_iter([("a", column(vec![1]))]).unwrap();
        let root = RowHasher::new("").totals(&batch).unwrap();
        assert_ne!(root, RowHasher::new("k=1").totals(&batch).unwrap());
    }

    #[test]
    fn the_hash_is_the_documented_one_for_ever() {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("é"), None]));
        let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
            Some(vec![Some(1), None]),
            None,
        ]));
        let totals = totals(vec![("id", ids), ("name", names), ("list", list)]);
        assert_eq!(totals.hash.to_string(), PINNED);
    }

    /// Changing this breaks `onefold verify` on every existing checkpoint.
    const PINNED: &str = "0000000000000001541ea7d0a0915417";
}
