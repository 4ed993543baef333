//! Numbers in keys of state, as arrow-row encodes them.

/// Length of an encoded number that is not NULL.
pub(crate) const NUMBER: usize = 9;
/// The first byte of a value that is not NULL.
pub(crate) const VALID: u8 = 1;

/// Appends a number that is not NULL (64 bits, also a timestamp).
pub(crate) fn push_number(bytes: &mut Vec<u8>, number: i64) {
    bytes.push(VALID);
    // Order of bytes is order of numbers once the sign bit is flipped.
    bytes.extend_from_slice(&(number ^ i64::MIN).to_be_bytes());
}

/// Reads what [`push_number`] wrote.
pub(crate) fn number(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.get(1..NUMBER)?;
    Some(i64::from_be_bytes(digits.try_into().ok()?) ^ i64::MIN)
}

#[cfg(test)]
mod tests {
    use super::{number, push_number};
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::datatypes::DataType;
    use arrow::row::{RowConverter, SortField};
    use std::sync::Arc;

    #[test]
    fn numbers_are_encoded_as_arrow_row_does() {
        let values = [i64::MIN, -2, 0, 1, i64::MAX];
        let converter = RowConverter::new(vec![SortField::new(DataType::Int64)]).unwrap();
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let rows = converter.convert_columns(&[column]).unwrap();
        for (value, row) in values.into_iter().zip(rows.iter()) {
            let mut bytes = Vec::new();
            push_number(&mut bytes, value);
            assert_eq!(bytes, row.data());
            assert_eq!(number(&bytes), Some(value));
        }
    }
}
