//! How rows of a join lie in the state.
//!
//! Keys and values are arrow-row encodings of the columns that the families declare, put together
//! from parts: the encoding of several columns is the encodings of the columns one after another.

use crate::failure;
use crate::keys::{RowCodec, batch_of};
use crate::numbers::{NUMBER, VALID, push_number};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use arrow::row::Rows;
use datafusion::error::{DataFusionError, Result};
use onefold_state::StateRow;
use onefold_types::Error;

/// Length of an encoded flag that is not NULL.
const FLAG: usize = 2;
/// Writes the key of a row into `bytes`.
pub(super) fn row_key(bytes: &mut Vec<u8>, join_key: &[u8], bound: Option<i64>, index: i64) {
    bytes.clear();
    bytes.extend_from_slice(join_key);
    if let Some(bound) = bound {
        push_number(bytes, bound);
    }
    push_number(bytes, index);
}

/// Writes the key of an expiry into `bytes`.
pub(super) fn expiry_key(bytes: &mut Vec<u8>, join_key: &[u8], bound: i64, index: i64) {
    bytes.clear();
    push_number(bytes, bound);
    bytes.extend_from_slice(join_key);
    push_number(bytes, index);
}

/// The key of the row that an expiry is about.
pub(super) fn row_of_expiry(expiry: &[u8]) -> Option<Vec<u8>> {
    let (bound, rest) = expiry.split_at_checked(NUMBER)?;
    let (join_key, index) = rest.split_at_checked(rest.len().checked_sub(NUMBER)?)?;
    Some([join_key, bound, index].concat())
}

/// The key of the expiry of a row that has one.
pub(super) fn expiry_of_row(row: &[u8]) -> Option<Vec<u8>> {
    let (rest, index) = row.split_at_checked(row.len().checked_sub(NUMBER)?)?;
    let (join_key, bound) = rest.split_at_checked(rest.len().checked_sub(NUMBER)?)?;
    Some([bound, join_key, index].concat())
}

/// The keys after all rows of a join key: what follows it in a row's key begins with 1.
pub(super) fn end_of_key(join_key: &[u8]) -> Vec<u8> {
    [join_key, &[VALID + 1]].concat()
}

/// Encodes and decodes the values of a side's rows: its columns and whether it has met another.
#[derive(Debug)]
pub(super) struct ValueCodec {
    schema: SchemaRef,
    columns: RowCodec,
}

impl ValueCodec {
    /// For rows of `schema`.
    ///
    /// # Errors
    /// A column of a type that has no encoding.
    pub(super) fn new(schema: SchemaRef) -> Result<Self> {
        let columns = RowCodec::of(&schema)?;
        Ok(ValueCodec { schema, columns })
    }

    /// The columns of the rows of `batch` as bytes, to be [completed](complete).
    pub(super) fn encode(&self, batch: &RecordBatch) -> Result<Rows> {
        self.columns.encode(batch.columns())
    }

    /// The rows as a batch.
    pub(super) fn decode<'a>(&self, values: impl Iterator<Item = &'a [u8]>) -> Result<RecordBatch> {
        let mut rows = Vec::with_capacity(values.size_hint().0);
        for value in values {
            let end = value.len().checked_sub(FLAG).ok_or_else(damaged)?;
            rows.push(value.get(..end).ok_or_else(damaged)?);
        }
        let count = rows.len();
        batch_of(&self.schema, self.columns.decode(rows)?, count)
    }
}

/// Writes the value of a row into `value`.
pub(super) fn complete(value: &mut Vec<u8>, columns: &[u8], matched: bool) {
    value.clear();
    value.extend_from_slice(columns);
    value.extend_from_slice(&[VALID, u8::from(matched)]);
}

/// Whether a stored row has met another.
pub(super) fn is_matched(value: &[u8]) -> bool {
    value.last().is_some_and(|flag| *flag != 0)
}

/// Notes in a stored row that it has met another.
pub(super) fn set_matched(row: &mut StateRow) {
    if let Some(flag) = row.value.last_mut() {
        *flag = 1;
    }
}

/// The error for state that is not as this operator writes it.
pub(super) fn damaged() -> DataFusionError {
    failure::external(Error::corrupt(
        "a row in the state of a join is too short: start from an older checkpoint",
    ))
}

#[cfg(test)]
mod tests {
    use super::{expiry_key, expiry_of_row, is_matched, row_key, row_of_expiry};
    use crate::numbers::number;
    use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Int64Type};
    use arrow::row::{RowConverter, SortField};
    use std::sync::Arc;

    #[test]
    fn keys_put_together_from_parts_decode_as_the_declared_columns() {
        let types = [DataType::Utf8, DataType::Int64, DataType::Int64];
        let converter = RowConverter::new(types.map(SortField::new).to_vec()).unwrap();
        let text = RowConverter::new(vec![SortField::new(DataType::Utf8)]).unwrap();
        let keys: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("")]));
        let rows = text.convert_columns(&[keys]).unwrap();
        let mut made = Vec::new();
        for (row, bound) in rows.iter().zip([i64::MIN, -1, 7]) {
            let (mut key, mut expiry) = (Vec::new(), Vec::new());
            row_key(&mut key, row.data(), Some(bound), 3);
            expiry_key(&mut expiry, row.data(), bound, 3);
            assert_eq!(number(&expiry), Some(bound));
            assert_eq!(row_of_expiry(&expiry).unwrap(), key);
            assert_eq!(expiry_of_row(&key).unwrap(), expiry);
            made.push(key);
        }
        let parser = converter.parser();
        let columns = converter.convert_rows(made.iter().map(|key| parser.parse(key))).unwrap();
        let names: Vec<_> = columns[0].as_string::<i32>().iter().collect();
        assert_eq!(names, [Some("a"), None, Some("")]);
        let bounds = columns[1].as_primitive::<Int64Type>();
        assert_eq!(bounds, &Int64Array::from(vec![i64::MIN, -1, 7]));
    }

    #[test]
    fn the_flag_of_a_value_is_an_encoded_boolean() {
        let converter = RowConverter::new(vec![SortField::new(DataType::Boolean)]).unwrap();
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![false, true]));
        let rows = converter.convert_columns(&[flags]).unwrap();
        assert_eq!(rows.row(0).data(), [1, 0]);
        assert!(!is_matched(rows.row(0).data()));
        assert!(is_matched(rows.row(1).data()));
    }
}
