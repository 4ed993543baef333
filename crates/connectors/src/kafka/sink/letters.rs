//! Dead letters as records: the bytes that could not be processed, and headers that say where they
//! came from and what was wrong.

use super::columns::Columns;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, ListBuilder, RecordBatch, StringArray, StringBuilder,
    StructBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use onefold_connector::RowStream;
use onefold_types::{Error, Result};
use std::sync::Arc;

/// Columns of a record's origin, where its source has them, and the headers that they become.
const ORIGIN: [(&str, &str); 4] = [
    ("topic", "onefold.topic"),
    ("partition", "onefold.partition"),
    ("offset", "onefold.offset"),
    ("_error", "onefold.error"),
];

/// Longest text of a header, in bytes: an error may quote a record of any size.
const LONGEST: usize = 2_000;

/// The column of rows of sources that differ, as JSON.
const ROW: &str = "row";

/// Where dead letters of a sink go.
#[derive(Debug, Clone)]
pub(crate) struct Letters {
    /// The topic.
    pub(crate) topic: String,
    /// Whether the sink writes nothing else.
    pub(crate) alone: bool,
}

impl Letters {
    /// Whether rows with these columns can be written.
    ///
    /// # Errors
    /// Invalid: the records have no value that is bytes or text.
    pub(super) fn check(letters: &Schema) -> Result<()> {
        Shape::of(letters).map(drop)
    }

    /// The columns that are written.
    ///
    /// # Errors
    /// Never, as they are ours.
    pub(super) fn columns(&self) -> Result<Columns> {
        Columns::of(&record_schema(), Some(&self.topic))
    }

    /// Dead letters as rows for the topic: `key`, `value` and `headers`.
    ///
    /// # Errors
    /// As [`Letters::check`].
    pub(super) fn records(&self, letters: RowStream) -> Result<(RowStream, Columns)> {
        let shape = Shape::of(&letters.schema())?;
        let records = letters.map(move |batch| shape.records(&batch?));
        let records = Box::pin(RecordBatchStreamAdapter::new(record_schema(), records));
        Ok((records, self.columns()?))
    }
}

fn record_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Binary, true),
        Field::new("value", DataType::Binary, true),
        Field::new("headers", headers_type(), true),
    ]))
}

/// Which columns become what.
struct Shape {
    key: Option<usize>,
    value: usize,
    headers: Option<usize>,
    /// Names of headers, and the columns that they hold.
    origin: Vec<(&'static str, usize)>,
}

impl Shape {
    fn of(letters: &Schema) -> Result<Shape> {
        let place = |name: &str| letters.index_of(name).ok();
        let bytes = |at: &usize| {
            use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
            let of = letters.field(*at).data_type();
            matches!(of, Binary | LargeBinary | BinaryView | Utf8 | LargeUtf8 | Utf8View)
        };
        let value = place("value").or_else(|| place(ROW)).filter(bytes).ok_or_else(|| {
            Error::invalid(
                "dead letters can go to a topic only if the query's records have a column `value` \
                 of bytes or text, as Kafka's have; give onefold.deadLetters.path, a folder of \
                 files, in place of onefold.deadLetters.topic",
            )
        })?;
        let origin = ORIGIN.iter().filter_map(|(name, header)| Some((*header, place(name)?)));
        Ok(Shape {
            key: place("key").filter(bytes),
            value,
            headers: place("headers"),
            origin: origin.collect(),
        })
    }

    fn records(&self, letters: &RecordBatch) -> PlanResult<RecordBatch> {
        let as_bytes = |at: usize| cast(letters.column(at), &DataType::Binary);
        let key = match self.key {
            Some(at) => as_bytes(at)?,
            None => arrow::array::new_null_array(&DataType::Binary, letters.num_rows()),
        };
        let columns = vec![key, as_bytes(self.value)?, self.headers(letters)?];
        Ok(RecordBatch::try_new(record_schema(), columns)?)
    }

    /// Those that the record had, and ours behind them.
    fn headers(&self, letters: &RecordBatch) -> PlanResult<ArrayRef> {
        let had = self.headers.map(|at| cast(letters.column(at), &headers_type())).transpose()?;
        let texts = self.origin.iter().map(|(name, at)| {
            let text = cast(letters.column(*at), &DataType::Utf8)?;
            Ok((*name, text.as_string::<i32>().clone()))
        });
        let texts = texts.collect::<PlanResult<Vec<(&str, StringArray)>>>()?;
        let items = StructBuilder::from_fields(header_fields(), letters.num_rows());
        let mut all = ListBuilder::new(items).with_field(item());
        for row in 0..letters.num_rows() {
            if let Some(had) =
                had.as_ref().map(AsArray::as_list::<i32>).filter(|it| it.is_valid(row))
            {
                let had = had.value(row);
                let had = had.as_struct();
                let (names, values) =
                    (had.column(0).as_string::<i32>(), had.column(1).as_binary::<i32>());
                for (name, value) in names.iter().zip(values) {
                    append(all.values(), name, value)?;
                }
            }
            for (name, text) in texts.iter().filter(|(_, texts)| texts.is_valid(row)) {
                append(all.values(), Some(name), Some(shortened(text.value(row)).as_bytes()))?;
            }
            all.append(true);
        }
        Ok(Arc::new(all.finish()))
    }
}

fn append(items: &mut StructBuilder, name: Option<&str>, value: Option<&[u8]>) -> PlanResult<()> {
    let lost = || DataFusionError::Internal("a header has a name and a value".to_owned());
    items.field_builder::<StringBuilder>(0).ok_or_else(lost)?.append_option(name);
    items.field_builder::<BinaryBuilder>(1).ok_or_else(lost)?.append_option(value);
    items.append(true);
    Ok(())
}

fn shortened(text: &str) -> &str {
    let end = (0..=LONGEST.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

fn header_fields() -> Fields {
    let name = Field::new("key", DataType::Utf8, true);
    Fields::from(vec![name, Field::new("value", DataType::Binary, true)])
}

fn item() -> Arc<Field> {
    Arc::new(Field::new("element", DataType::Struct(header_fields()), true))
}

fn headers_type() -> DataType {
    DataType::List(item())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BinaryArray, Int32Array, Int64Array};
    use futures::{TryStreamExt, stream};

    fn letters(columns: Vec<(&str, ArrayRef)>) -> RowStream {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
        .unwrap();
        let schema = batch.schema();
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter([Ok(batch)])))
    }

    fn bytes(values: [Option<&[u8]>; 2]) -> ArrayRef {
        Arc::new(BinaryArray::from(values.to_vec()))
    }

    fn to_dead() -> Letters {
        Letters { topic: "dead".to_owned(), alone: false }
    }

    async fn one(letters: RowStream) -> RecordBatch {
        let (records, _) = to_dead().records(letters).unwrap();
        let batches: Vec<RecordBatch> = records.try_collect().await.unwrap();
        batches.into_iter().next().unwrap()
    }

    fn had() -> ArrayRef {
        let items = StructBuilder::from_fields(header_fields(), 1);
        let mut all = ListBuilder::new(items).with_field(item());
        append(all.values(), Some("trace"), None).unwrap();
        all.append(true);
        all.append(false);
        Arc::new(all.finish())
    }

    #[tokio::test]
    async fn a_record_keeps_its_bytes_and_headers_and_says_where_it_was() {
        let long = "é".repeat(LONGEST);
        let batch = one(letters(vec![
            ("key", bytes([None, Some(b"")])),
            ("value", bytes([Some(b"\xff{"), None])),
            ("topic", Arc::new(StringArray::from(vec!["in", "in"]))),
            ("partition", Arc::new(Int32Array::from(vec![3, 4]))),
            ("offset", Arc::new(Int64Array::from(vec![1_i64 << 33, 7]))),
            ("headers", had()),
            ("_error", Arc::new(StringArray::from(vec!["bad", long.as_str()]))),
        ]))
        .await;
        let columns = to_dead().columns().unwrap();
        let rows = columns.rows(&batch).unwrap();
        let mut room = Vec::new();
        let record = rows.record(0, &mut room).unwrap();
        assert_eq!((record.topic, record.key, record.value), ("dead", None, Some(&b"\xff{"[..])));
        let wanted: [(&str, Option<&[u8]>); 5] = [
            ("trace", None),
            ("onefold.topic", Some(b"in")),
            ("onefold.partition", Some(b"3")),
            ("onefold.offset", Some(b"8589934592")),
            ("onefold.error", Some(b"bad")),
        ];
        assert_eq!(record.headers, wanted);
        let mut room = Vec::new();
        let record = rows.record(1, &mut room).unwrap();
        assert_eq!((record.key, record.value), (Some(&b""[..]), None));
        let (name, error) = record.headers[3];
        assert_eq!((name, error.unwrap().len()), ("onefold.error", LONGEST));
    }

    #[tokio::test]
    async fn rows_of_several_sources_go_as_json_and_rows_without_a_value_nowhere() {
        let row: ArrayRef = Arc::new(StringArray::from(vec!["{\"a\":1}"]));
        let error: ArrayRef = Arc::new(StringArray::from(vec!["bad"]));
        let batch = one(letters(vec![("row", row), ("_error", Arc::clone(&error))])).await;
        assert_eq!(batch.column(1).as_binary::<i32>().value(0), b"{\"a\":1}");
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let refused = to_dead().records(letters(vec![("value", number), ("_error", error)]));
        let refused = refused.map(drop).unwrap_err().to_string();
        assert!(refused.contains("onefold.deadLetters.path"), "{refused}");
    }
}
