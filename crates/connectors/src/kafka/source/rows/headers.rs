//! The column of headers: for each record a list of names and values, in order; NULL where there are
//! none, as in Spark.

use crate::kafka::native::Record;
use arrow::array::{
    ArrayRef, BinaryBuilder, ListArray, NullBufferBuilder, StringBuilder, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use onefold_types::{Error, Result};
use std::sync::Arc;

fn pair() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ])
}

fn element() -> Arc<Field> {
    Arc::new(Field::new("element", DataType::Struct(pair()), true))
}

/// `array<struct<key:string,value:binary>>`.
pub(super) fn data_type() -> DataType {
    DataType::List(element())
}

/// The column in the making.
pub(super) struct Headers {
    names: StringBuilder,
    values: BinaryBuilder,
    counts: Vec<usize>,
    present: NullBufferBuilder,
}

impl Default for Headers {
    fn default() -> Self {
        Headers {
            names: StringBuilder::new(),
            values: BinaryBuilder::new(),
            counts: Vec::new(),
            present: NullBufferBuilder::new(0),
        }
    }
}

impl Headers {
    /// Adds those of a record; returns their bytes.
    ///
    /// # Errors
    /// Corrupt, when they cannot be read.
    pub(super) fn add(&mut self, record: &Record<'_>) -> Result<usize> {
        let (mut count, mut bytes) = (0, 0);
        let read = record.headers(|name, value| {
            self.names.append_value(String::from_utf8_lossy(name));
            self.values.append_option(value);
            count += 1;
            bytes += name.len() + value.map_or(0, <[u8]>::len);
        });
        if !read {
            return Err(Error::corrupt(format!(
                "the headers of the record at offset {} cannot be read; set includeHeaders to false \
                 to read it without them",
                record.offset()
            )));
        }
        self.counts.push(count);
        self.present.append(count > 0);
        Ok(bytes)
    }

    /// The column; begins anew.
    ///
    /// # Errors
    /// Internal, when the parts do not fit one another.
    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        let misfit = |error| Error::internal("headers do not fit their column").because(error);
        let columns: Vec<ArrayRef> =
            vec![Arc::new(self.names.finish()), Arc::new(self.values.finish())];
        let pairs = StructArray::try_new(pair(), columns, None).map_err(misfit)?;
        let offsets = OffsetBuffer::from_lengths(std::mem::take(&mut self.counts));
        let list = ListArray::try_new(element(), offsets, Arc::new(pairs), self.present.finish());
        Ok(Arc::new(list.map_err(misfit)?))
    }
}
