//! `hash(values…)`: Spark's form of MurmurHash3 with seed 42.

use super::typed::Typed;
use arrow::array::{Array, ArrayRef, AsArray, Int32Array};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

const SEED: u32 = 42;
/// Most digits of a decimal that is hashed as a number of 64 bits.
const LONG_DIGITS: u8 = 18;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let returns: fn(&[DataType]) -> Option<DataType> = |_| Some(DataType::Int32);
    vec![Typed { name: "hash", least: 1, most: 255, returns, body: hash }.udf()]
}

fn hash(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let rows = columns.first().map_or(0, |column| column.len());
    let mut hashes = vec![SEED; rows];
    for column in columns {
        for (row, slot) in hashes.iter_mut().enumerate() {
            *slot = value(column, row, *slot)?;
        }
    }
    let hashes = hashes.into_iter().map(u32::cast_signed);
    Ok(Arc::new(Int32Array::from_iter_values(hashes)))
}

/// The hash of one value on top of those before it. NULL changes nothing.
fn value(column: &ArrayRef, row: usize, seed: u32) -> Result<u32> {
    if column.is_null(row) {
        return Ok(seed);
    }
    macro_rules! int {
        ($type:ty) => {
            int(i32::from(column.as_primitive::<$type>().value(row)), seed)
        };
    }
    Ok(match column.data_type() {
        DataType::Null => seed,
        DataType::Boolean => int(i32::from(column.as_boolean().value(row)), seed),
        DataType::Int8 => int!(Int8Type),
        DataType::Int16 => int!(Int16Type),
        DataType::Int32 => int!(Int32Type),
        DataType::Date32 => int!(Date32Type),
        DataType::Int64 => long(column.as_primitive::<Int64Type>().value(row), seed),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            long(column.as_primitive::<TimestampMicrosecondType>().value(row), seed)
        }
        DataType::Float32 => {
            let value = column.as_primitive::<Float32Type>().value(row);
            let value = if value == 0.0 { 0.0 } else { value };
            int(if value.is_nan() { f32::NAN } else { value }.to_bits().cast_signed(), seed)
        }
        DataType::Float64 => {
            let value = column.as_primitive::<Float64Type>().value(row);
            let value = if value == 0.0 { 0.0 } else { value };
            long(if value.is_nan() { f64::NAN } else { value }.to_bits().cast_signed(), seed)
        }
        DataType::Decimal128(precision, _) => {
            let value = column.as_primitive::<Decimal128Type>().value(row);
            match i64::try_from(value) {
                Ok(value) if *precision <= LONG_DIGITS => long(value, seed),
                _ => bytes(shortest(&value.to_be_bytes()), seed),
            }
        }
        DataType::Utf8 => bytes(column.as_string::<i32>().value(row).as_bytes(), seed),
        DataType::Binary => bytes(column.as_binary::<i32>().value(row), seed),
        DataType::List(_) => {
            let elements = column.as_list::<i32>().value(row);
            (0..elements.len()).try_fold(seed, |seed, at| value(&elements, at, seed))?
        }
        DataType::Struct(_) => {
            let fields = column.as_struct().columns();
            fields.iter().try_fold(seed, |seed, field| value(field, row, seed))?
        }
        other => {
            return Err(DataFusionError::Execution(format!(
                "there is no hash of the type {}",
                crate::schema::type_name(other)
            )));
        }
    })
}

/// A number in as few bytes as Java's `BigInteger` takes.
fn shortest(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let [first, second, ..] = rest {
        let spare = (*first == 0 && second & 0x80 == 0) || (*first == 0xff && second & 0x80 != 0);
        match rest.get(1..) {
            Some(shorter) if spare => rest = shorter,
            _ => break,
        }
    }
    rest
}

fn mixed(word: i32, hash: u32) -> u32 {
    let word = word.cast_unsigned().wrapping_mul(0xcc9e_2d51).rotate_left(15);
    let hash = (hash ^ word.wrapping_mul(0x1b87_3593)).rotate_left(13);
    hash.wrapping_mul(5).wrapping_add(0xe654_6b64)
}

fn finished(hash: u32, length: usize) -> u32 {
    let mut hash = hash ^ u32::try_from(length).unwrap_or(u32::MAX);
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

fn int(value: i32, seed: u32) -> u32 {
    finished(mixed(value, seed), 4)
}

fn long(value: i64, seed: u32) -> u32 {
    let bits = value.cast_unsigned();
    let (low, high) = (bits as u32, (bits >> 32) as u32);
    finished(mixed(high.cast_signed(), mixed(low.cast_signed(), seed)), 8)
}

/// Whole words first; each byte behind them is mixed in by itself, with its sign, as Spark does.
fn bytes(value: &[u8], seed: u32) -> u32 {
    let (words, rest) = value.as_chunks::<4>();
    let hash = words.iter().fold(seed, |hash, word| mixed(i32::from_le_bytes(*word), hash));
    let hash = rest.iter().fold(hash, |hash, byte| mixed(i32::from(byte.cast_signed()), hash));
    finished(hash, value.len())
}

#[cfg(test)]
mod tests {
    use super::{SEED, bytes, int, long, shortest};

    #[test]
    fn hashes_are_those_of_spark() {
        // `SELECT hash(1), hash(1L), hash('Spark')` of Spark.
        assert_eq!(int(1, SEED).cast_signed(), -559_580_957);
        assert_eq!(long(1, SEED).cast_signed(), -1_712_319_331);
        assert_eq!(bytes(b"Spark", SEED).cast_signed(), 228_093_765);
        assert_eq!(shortest(&(-1_i128).to_be_bytes()), [0xff]);
        assert_eq!(shortest(&200_i128.to_be_bytes()), [0, 200]);
    }
}
