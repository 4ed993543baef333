//! What the formats make of the bytes of a file.

use super::rig::{Rig, ids, rows, texts};
use arrow::array::{Array, AsArray, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimestampMicrosecondType};
use onefold_connectors::file_source;
use onefold_types::ErrorKind;
use std::fs;
use std::sync::Arc;

/// Options by name and value.
type Given = &'static [(&'static str, &'static str)];
type Found = &'static [Option<&'static str>];

fn with_corrupt() -> SchemaRef {
    let mut fields: Vec<_> = super::rig::schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("_corrupt_record", DataType::Utf8, true)));
    Arc::new(Schema::new(fields))
}

fn column(name: &str, kind: DataType) -> Option<SchemaRef> {
    Some(Arc::new(Schema::new(vec![Field::new(name, kind, true)])))
}

fn numbers(batches: &[RecordBatch]) -> Vec<Option<i64>> {
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().iter()).collect()
}

fn times(batches: &[RecordBatch], column: usize) -> Vec<Option<i64>> {
    let of = |batch: &RecordBatch| {
        batch.column(column).as_primitive::<TimestampMicrosecondType>().iter().collect::<Vec<_>>()
    };
    batches.iter().flat_map(of).collect()
}

#[tokio::test]
async fn malformed_lines_become_nulls_and_a_changed_file_is_named() {
    let mut rig = Rig::new(&file_source::JSON).schema(Some(with_corrupt()));
    let lines = "\u{feff}{\"id\":1,\"text\":5.0,\"at\":\"1970-01-01T00:00:01Z\"}\r\n\n\
                 {\"id\":\"2\"}\n{\"id\":3.5}\n{\"id\":99999999999999999999}\n[{\"id\":6},{\"id\":7}]\n{\"id\":8";
    let path = rig.file("f.json", lines);
    rig.file("empty.json", "");
    let source = rig.open().await.unwrap();
    let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
    let batches = rows(source.as_ref(), &range, &[0, 1, 2, 3]).await.unwrap();
    assert_eq!(numbers(&batches), [Some(1), None, None, None, Some(6), Some(7), None]);
    assert_eq!(texts(&batches, 1)[0].as_deref(), Some("5.0"));
    assert_eq!(times(&batches, 2)[0], Some(1_000_000));
    let raw = texts(&batches, 3);
    assert_eq!((raw[0].as_deref(), raw[1].as_deref()), (None, Some("{\"id\":\"2\"}")));
    assert_eq!(raw[6].as_deref(), Some("{\"id\":8"));
    fs::write(path, "{}").unwrap();
    let error = rows(source.as_ref(), &range, &[0]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("allowChangedFiles"), "{error}");
}

#[tokio::test]
async fn malformed_records_are_dropped_or_stop_the_query() {
    let lines = "{\"id\":1,\"text\":\"a\"}\n{\"id\":2,\"te\n{\"id\":3}\n";
    let mut drop = Rig::new(&file_source::JSON).with("mode", "dropMalformed");
    drop.file("f.json", lines);
    assert_eq!(ids(&drop.rows(&[0, 1]).await.unwrap()), [1, 3]);
    let mut fail = Rig::new(&file_source::JSON).with("mode", "FAILFAST");
    fail.file("f.json", lines);
    let error = fail.rows(&[0]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("f.json line 2 is malformed"), "{error}");
    let mut other = Rig::new(&file_source::JSON).with("columnNameOfCorruptRecord", "text");
    other.file("f.json", lines);
    assert_eq!(texts(&other.rows(&[0, 1]).await.unwrap(), 1)[1].as_deref(), Some("{\"id\":2,\"te"));
}

#[tokio::test]
async fn json_beyond_the_standard_is_read_where_it_is_allowed() {
    let cases = [
        ("allowComments", "false", "true", "{/* c */\"id\":1}"),
        ("allowUnquotedFieldNames", "false", "true", "{id:1}"),
        ("allowSingleQuotes", "false", "true", "{'id':1}"),
        ("allowNumericLeadingZeros", "false", "true", "{\"id\":001}"),
        ("allowBackslashEscapingAnyCharacter", "false", "true", "{\"id\":1,\"text\":\"\\q\"}"),
        ("allowUnquotedControlChars", "false", "true", "{\"id\":1,\"text\":\"\t\"}"),
        ("allowNonNumericNumbers", "false", "true", "{\"id\":1,\"text\":NaN}"),
    ];
    for (option, no, yes, line) in cases {
        for (value, wanted) in [(no, None), (yes, Some(1))] {
            let mut rig = Rig::new(&file_source::JSON).with(option, value);
            rig.file("f.json", line);
            assert_eq!(numbers(&rig.rows(&[0]).await.unwrap()), [wanted], "{option}={value}");
        }
    }
}

#[tokio::test]
async fn a_json_document_may_span_lines() {
    let mut rig = Rig::new(&file_source::JSON).with("multiLine", "true");
    rig.file("a.json", "\u{feff}[\n {\"id\": 1},\n {\"id\": 2,\n  \"text\": \"x\"}\n]\n");
    rig.file("b.json", "{\n \"id\": 3\n}\n");
    rig.file("empty.json", "\n");
    let mut found = ids(&rig.rows(&[0]).await.unwrap());
    found.sort_unstable();
    assert_eq!(found, [1, 2, 3]);
    let mut rig = Rig::new(&file_source::JSON).with("lineSep", "|");
    rig.file("a.json", "{\"id\":1}|{\"id\":\n2}|");
    assert_eq!(ids(&rig.rows(&[0]).await.unwrap()), [1, 2]);
}

#[tokio::test]
async fn csv_reads_quotes_header_and_short_records_in_partition_folders() {
    let csv = || {
        let rig = Rig::new(&file_source::CSV).with("header", "true");
        rig.file("day=7/f.csv", "id,text,at\n1,\"a,\\\"b\",1970-01-01 00:00:01\n\n2\nx,y,\n");
        rig
    };
    let batches = csv().rows(&[0, 1, 3, 4]).await.unwrap();
    assert_eq!(numbers(&batches), [Some(1), Some(2), None]);
    assert_eq!(texts(&batches, 1)[0].as_deref(), Some("a,\"b"));
    assert_eq!(batches[0].schema().field(2).data_type(), &DataType::Int32);
    let names = batches[0].column(3).as_struct().column(1).as_string::<i32>().clone();
    assert_eq!(names.value(2), "f.csv");
    let mut dropping = csv().with("mode", "DROPMALFORMED");
    assert_eq!(numbers(&dropping.rows(&[0]).await.unwrap()), [Some(1)]);
}

#[tokio::test]
async fn csv_options_mean_what_they_mean_in_spark() {
    let cases: [(Given, &str, Found); 12] = [
        (&[("sep", ";")], "1;a,b;", &[Some("a,b")]),
        (&[("delimiter", "\\t")], "1\ta b\t", &[Some("a b")]),
        (&[("sep", "||")], "1||a|b||", &[Some("a|b")]),
        (&[("quote", "'")], "1,'a,b',", &[Some("a,b")]),
        (&[("quote", "")], "1,\"a\",", &[Some("\"a\"")]),
        (&[("escape", "\"")], "1,\"a\"\"b\",", &[Some("a\"b")]),
        // What is empty and not quoted is NULL whatever else is.
        (&[("nullValue", "NA")], "1,NA,\n2,,\n3,\"\",", &[None, None, Some("")]),
        (&[("emptyValue", "E")], "1,\"\",", &[Some("E")]),
        (&[("comment", "#")], "# no\n1,a,", &[Some("a")]),
        (&[("ignoreLeadingWhiteSpace", "true")], "1,  a ,", &[Some("a ")]),
        (&[("ignoreTrailingWhiteSpace", "true")], "1, a  ,", &[Some(" a")]),
        (&[("multiLine", "true")], "1,\"a\nb\",\n2,c,\n", &[Some("a\nb"), Some("c")]),
    ];
    for (options, text, wanted) in cases {
        let mut rig = Rig::new(&file_source::CSV);
        for (name, value) in options {
            rig = rig.with(name, value);
        }
        rig.file("f.csv", text);
        let found = texts(&rig.rows(&[0, 1]).await.unwrap(), 1);
        let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, wanted, "{options:?}");
    }
    let mut strict =
        Rig::new(&file_source::CSV).with("header", "true").with("enforceSchema", "false");
    strict.file("f.csv", "id,other,at\n1,a,\n");
    let error = strict.rows(&[0]).await.unwrap_err();
    assert!(error.to_string().contains("the header of"), "{error}");
    for (name, value) in [("quote", "ab"), ("sep", ""), ("comment", "//")] {
        let error = Rig::new(&file_source::CSV).with(name, value).define().await.unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[tokio::test]
async fn text_is_lines_or_whole_files() {
    let cases: [(Given, &[&str]); 3] = [
        (&[], &["a", "", "b;c", "d"]),
        (&[("wholetext", "true")], &["a\r\n\nb;c\rd"]),
        (&[("lineSep", ";")], &["a\r\n\nb", "c\rd"]),
    ];
    for (options, wanted) in cases {
        let mut rig = Rig::new(&file_source::TEXT).schema(None);
        for (name, value) in options {
            rig = rig.with(name, value);
        }
        rig.file("f.txt", "a\r\n\nb;c\rd");
        let found = texts(&rig.rows(&[0]).await.unwrap(), 0);
        assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), wanted, "{options:?}");
    }
    let two = Rig::new(&file_source::TEXT).define().await.unwrap_err();
    assert!(two.to_string().contains("one column"), "{two}");
}

#[tokio::test]
async fn binary_files_are_rows_of_facts_and_bytes() {
    let mut rig = Rig::new(&file_source::BINARY_FILE).schema(None);
    let path = rig.file("a b.bin", b"\x00\xff\n");
    super::rig::touch(&path, 5);
    let batches = rig.rows(&[0, 1, 2, 3]).await.unwrap();
    let wanted = format!("file:{}/a%20b.bin", rig.folder.path().display());
    assert_eq!(texts(&batches, 0), [Some(wanted)]);
    assert_eq!(times(&batches, 1), [Some(5_000_000)]);
    assert_eq!(batches[0].column(2).as_primitive::<Int64Type>().value(0), 3);
    assert_eq!(batches[0].column(3).as_binary::<i32>().value(0), b"\x00\xff\n");
}

fn parquet_file(rig: &Rig, name: &str, batch: &RecordBatch) {
    use parquet::arrow::ArrowWriter;
    let path = rig.file(name, "");
    let mut writer =
        ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn int_batch(name: &str, values: Vec<Option<i32>>) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::Int32, true)]));
    RecordBatch::try_new(schema, vec![Arc::new(Int32Array::from(values))]).unwrap()
}

#[tokio::test]
async fn parquet_reads_missing_columns_as_null_and_numbers_rows() {
    let mut rig = Rig::new(&file_source::PARQUET);
    parquet_file(&rig, "a.parquet", &int_batch("ID", vec![Some(5), None, Some(6)]));
    parquet_file(&rig, "empty.parquet", &int_batch("ID", vec![]));
    let batches = rig.rows(&[0, 1, 3]).await.unwrap();
    assert_eq!(numbers(&batches), [Some(5), None, Some(6)]);
    assert_eq!(batches[0].column(1).null_count(), 3);
    let numbers = batches[0].column(2).as_struct().column(6).as_primitive::<Int64Type>().clone();
    assert_eq!(numbers.values().to_vec(), [0, 1, 2]);
}

#[tokio::test]
async fn a_column_that_differs_between_files_is_widened_or_named() {
    let mut rig = Rig::new(&file_source::PARQUET).schema(column("id", DataType::Int64));
    parquet_file(&rig, "a.parquet", &int_batch("id", vec![Some(1)]));
    let text = Schema::new(vec![Field::new("id", DataType::Utf8, true)]);
    let texts = Arc::new(arrow::array::StringArray::from(vec!["x"]));
    parquet_file(&rig, "b.parquet", &RecordBatch::try_new(Arc::new(text), vec![texts]).unwrap());
    let error = rig.rows(&[0]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("column `id`"), "{error}");
    assert!(error.to_string().contains("b.parquet"), "{error}");
}

#[tokio::test]
async fn dates_and_times_follow_their_patterns() {
    let utc = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into()));
    let plain = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None);
    let schema = Arc::new(Schema::new(vec![
        Field::new("d", DataType::Date32, true),
        Field::new("t", utc, true),
        Field::new("n", plain, true),
    ]));
    let with = |rig: Rig| {
        rig.schema(Some(Arc::clone(&schema)))
            .with("dateFormat", "dd/MM/yyyy")
            .with("timestampFormat", "dd.MM.yyyy HH:mm")
            .with("timestampNTZFormat", "yyyyMMdd")
    };
    let mut csv = with(Rig::new(&file_source::CSV));
    csv.file("f.csv", "03/01/1970,01.01.1970 00:01,19700102\n1970-01-03,1970-01-01,1970-01-02\n");
    let mut json = with(Rig::new(&file_source::JSON)).with("enableDateTimeParsingFallback", "true");
    let line = r#"{"d":"03/01/1970","t":"01.01.1970 00:01","n":"19700102"}"#;
    let plain = r#"{"d":"1970-01-03","t":"1970-01-01T00:01:00Z","n":"1970-01-02"}"#;
    json.file("f.json", format!("{line}\n{plain}\n"));
    for (rig, second) in [(&mut csv, false), (&mut json, true)] {
        let batches = rig.rows(&[0, 1, 2]).await.unwrap();
        let days = batches[0].column(0).as_primitive::<arrow::datatypes::Date32Type>();
        assert_eq!(days.iter().collect::<Vec<_>>(), [Some(2), second.then_some(2)]);
        assert_eq!(times(&batches, 1), [Some(60_000_000), second.then_some(60_000_000)]);
        let day = 86_400_000_000;
        assert_eq!(times(&batches, 2), [Some(day), second.then_some(day)]);
    }
    let error = Rig::new(&file_source::CSV).with("dateFormat", "YYYY").define().await.unwrap_err();
    assert!(error.to_string().contains("`dateFormat`"), "{error}");
}

#[tokio::test]
async fn csv_words_for_what_is_no_number_can_be_chosen() {
    let mut rig = Rig::new(&file_source::CSV)
        .schema(column("x", DataType::Float64))
        .with("nanValue", "-")
        .with("positiveInf", "big");
    rig.file("f.csv", "-\nbig\n-Inf\nInf\n1e3\nInfinity\nNaN\n0x1p3\nINF\n");
    let batches = rig.rows(&[0]).await.unwrap();
    let found = batches[0].column(0).as_primitive::<arrow::datatypes::Float64Type>().clone();
    assert!(found.value(0).is_nan());
    assert_eq!(found.value(1), f64::INFINITY);
    assert_eq!(found.value(2), f64::NEG_INFINITY);
    assert!(found.is_null(3));
    assert_eq!(found.value(4), 1e3);
    assert_eq!(found.value(5), f64::INFINITY, "Java reads it whatever the words are");
    assert!(found.value(6).is_nan());
    assert_eq!(found.value(7), 8.0);
    assert!(found.is_null(8));
}

fn all_kinds() -> RecordBatch {
    use arrow::array::TimestampMicrosecondArray;
    use arrow::array::{BooleanArray, Date32Array, Float64Array, Int64Array, StringArray};
    let columns: Vec<(&str, arrow::array::ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
        ("text", Arc::new(StringArray::from(vec![Some("a"), Some("é"), None]))),
        ("yes", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("x", Arc::new(Float64Array::from(vec![Some(0.5), None, Some(-1.0)]))),
        ("day", Arc::new(Date32Array::from(vec![Some(-1), None, Some(9)]))),
        (
            "at",
            Arc::new(
                TimestampMicrosecondArray::from(vec![Some(1), None, Some(5)]).with_timezone("UTC"),
            ),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn avro_bytes(
    batch: &RecordBatch,
    codec: Option<arrow_avro::compression::CompressionCodec>,
) -> Vec<u8> {
    use arrow_avro::writer::{WriterBuilder, format::AvroOcfFormat};
    let mut writer = WriterBuilder::new(batch.schema().as_ref().clone())
        .with_compression(codec)
        .build::<_, AvroOcfFormat>(Vec::new())
        .unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner()
}

fn orc_bytes(batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer =
        orc_rust::ArrowWriterBuilder::new(&mut bytes, batch.schema()).try_build().unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

#[tokio::test]
async fn avro_and_orc_give_back_what_was_written() {
    let batch = all_kinds();
    let avro = avro_bytes(&batch, Some(arrow_avro::compression::CompressionCodec::Snappy));
    for (spec, bytes) in [(&file_source::AVRO, avro), (&file_source::ORC, orc_bytes(&batch))] {
        let mut rig = Rig::new(spec).schema(Some(batch.schema()));
        rig.file("a", &bytes);
        let read = rig.rows(&[0, 1, 2, 3, 4, 5]).await.unwrap();
        assert_eq!(read, std::slice::from_ref(&batch), "{}", spec.name);
        // Its schema can be taken from the file.
        let rig = Rig::new(spec).schema(None).conf("spark.sql.streaming.schemaInference", "true");
        rig.file("a", &bytes);
        let schema = rig.define().await.unwrap().schema();
        let types = |schema: &Schema| -> Vec<DataType> {
            schema.fields().iter().take(6).map(|field| field.data_type().clone()).collect()
        };
        assert_eq!(types(&schema), types(&batch.schema()), "{}", spec.name);
        // A column of another case, one that is not there, and none at all.
        let mut rig = Rig::new(spec).schema(column("ID", DataType::Int64));
        rig.file("a", &bytes);
        assert_eq!(numbers(&rig.rows(&[0]).await.unwrap()), [Some(1), None, Some(3)]);
        let mut rig = Rig::new(spec).schema(column("other", DataType::Int64));
        rig.file("a", &bytes);
        assert_eq!(numbers(&rig.rows(&[0]).await.unwrap()), [None; 3]);
        let mut rig = Rig::new(spec).schema(Some(batch.schema()));
        rig.file("a", &bytes);
        let none = rig.rows(&[]).await.unwrap();
        assert_eq!(none.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
        // Damage is named, or left out.
        let mut rig = Rig::new(spec).schema(Some(batch.schema()));
        rig.file("a", &bytes[..bytes.len() / 2]);
        let error = rig.rows(&[0]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{}: {error}", spec.name);
        assert!(error.to_string().contains("ignoreCorruptFiles"), "{error}");
        let mut rig = Rig::new(spec).schema(column("text", DataType::Int64));
        rig.file("a", &bytes);
        let error = rig.rows(&[0]).await.unwrap_err();
        assert!(error.to_string().contains("column `text`"), "{error}");
    }
}
