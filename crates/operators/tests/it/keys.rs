//! Key bytes are part of the state's format: they never change.

use crate::harness::{rows, schema, timestamp};
use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::DataType;
use onefold_operators::{Keys, RowCodec, normalise};
use std::sync::Arc;

#[test]
fn the_bytes_of_keys_never_change() {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMicrosecondArray::from(vec![Some(1), None]).with_timezone("UTC")),
        Arc::new(StringArray::from(vec![Some("ab"), Some("")])),
        Arc::new(Float64Array::from(vec![Some(-0.0), Some(f64::NAN)])),
    ];
    let schema = schema(&[("t", timestamp()), ("s", DataType::Utf8), ("f", DataType::Float64)]);
    let batch = rows(&schema, columns);
    let codec = RowCodec::of(&schema).unwrap();
    let keys = Keys::encode(&codec, batch.columns()).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let found: Vec<String> = keys.iter().map(|(_, key)| hex(key)).collect();
    assert_eq!(
        found,
        [
            "01800000000000000102616200000000000002018000000000000000",
            "0000000000000000000101fff8000000000000",
        ]
    );
    let back = codec.decode(keys.iter().map(|(_, key)| key)).unwrap();
    for (column, back) in batch.columns().iter().zip(&back) {
        assert_eq!(&normalise(column).unwrap(), back);
    }
}

#[test]
fn the_bytes_of_the_first_columns_are_a_prefix() {
    let both = RowCodec::try_new([DataType::Utf8, DataType::Int64]).unwrap();
    let one = RowCodec::try_new([DataType::Utf8]).unwrap();
    let words: ArrayRef =
        Arc::new(StringArray::from(vec!["", "a", "ab", "a longer word than that"]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let long = Keys::encode(&both, &[Arc::clone(&words), numbers]).unwrap();
    let short = Keys::encode(&one, &[words]).unwrap();
    for (row, (_, prefix)) in short.iter().enumerate() {
        for (other, (_, key)) in long.iter().enumerate() {
            assert_eq!(key.starts_with(prefix), row == other);
        }
    }
}
