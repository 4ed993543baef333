//! Rows of Arrow as typed values of Rust, by serde.
//!
//! User functions take and give types that implement serde's traits; what is kept and sent on is
//! Arrow, by a schema that is declared. A row is a struct with a field for each column, or a tuple
//! with an element for each, or, where there is one column, its value.
//!
//! | Arrow | serde |
//! |---|---|
//! | integers, booleans, floats | the same; a number that does not fit is an error |
//! | strings, binary | `String`; `Vec<u8>` as a sequence, or bytes |
//! | timestamp | an integer in the column's unit, or text as in RFC 3339 (`chrono::DateTime<Utc>`) |
//! | date, time, duration | an integer in the column's unit |
//! | decimal | text |
//! | list, struct, map | sequence, struct or tuple, map |
//! | NULL | `None`, `()` |
//!
//! Writing, a column for which there is no field is NULL, and a field for which there is no column
//! is an error.

mod read;
#[cfg(test)]
mod tests;
mod value;
mod write;

pub(crate) use read::{row, value_at};
pub(crate) use value::{Value, to_value};
pub(crate) use write::{batch_of_values, column_of_values};

use arrow::record_batch::RecordBatch;
use onefold_types::{Error, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::ops::Range;

/// Rows given to a user function, read one by one as `T`.
#[derive(Debug)]
pub struct Rows<'a, T> {
    batch: &'a RecordBatch,
    left: Range<usize>,
    of: PhantomData<fn() -> T>,
}

impl<'a, T> Rows<'a, T> {
    /// These rows of a batch.
    pub(crate) fn new(batch: &'a RecordBatch, rows: Range<usize>) -> Self {
        let rows = rows.start..rows.end.min(batch.num_rows());
        Rows { batch, left: rows, of: PhantomData }
    }

    /// How many rows are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// Whether none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The rows that are left as one Arrow batch, without reading them as `T`.
    #[must_use]
    pub fn into_batch(self) -> RecordBatch {
        self.batch.slice(self.left.start.min(self.batch.num_rows()), self.left.len())
    }
}

impl<T: DeserializeOwned> Iterator for Rows<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = self.left.next()?;
        let read = row(self.batch, place).and_then(|row| typed(row, "an input row"));
        Some(read)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

/// Reads a value as a type of the user's; `what` names it in errors.
pub(crate) fn typed<'de, T: Deserialize<'de>>(value: Value<'de>, what: &str) -> Result<T> {
    T::deserialize(value).map_err(|error| {
        Error::invalid(format!("{what} does not have the type that the function takes"))
            .because(error)
    })
}

/// A value of the user's as it is kept until it is written; `what` names it in errors.
pub(crate) fn untyped<T: serde::Serialize + ?Sized>(
    value: &T,
    what: &str,
) -> Result<Value<'static>> {
    to_value(value).map_err(|error| Error::invalid(format!("{what} cannot be kept")).because(error))
}
