//! Every format: what was staged is what is read back.

use super::rig::{Rig, listed};
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array,
    Int64Array, ListArray, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
};
use arrow::datatypes::Int64Type;
use onefold_connector::SinkSpec;
use onefold_connectors::file_sink;
use onefold_types::BatchId;
use std::io::Read;
use std::sync::Arc;

fn flat_columns() -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("id", Arc::new(Int64Array::from(vec![Some(1), None, Some(-3)]))),
        ("tiny", Arc::new(Int8Array::from(vec![Some(-1), None, Some(7)]))),
        ("text", Arc::new(StringArray::from(vec![Some("a,\"b\"\nc\\"), None, Some("")]))),
        ("view", Arc::new(StringViewArray::from(vec![Some("é"), None, Some(" x ")]))),
        ("yes", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("real", Arc::new(Float64Array::from(vec![Some(1.5), None, Some(f64::NAN)]))),
        ("day", Arc::new(Date32Array::from(vec![Some(19_000), None, Some(-1)]))),
        (
            "ts",
            Arc::new(
                TimestampMicrosecondArray::from(vec![Some(1), None, Some(-2_500_000)])
                    .with_timezone("UTC"),
            ),
        ),
        ("raw", Arc::new(BinaryArray::from(vec![Some(&b"xyz"[..]), None, Some(b"")]))),
    ]
}

fn decimal() -> ArrayRef {
    let numbers = Decimal128Array::from(vec![Some(12_345), None, Some(-1)]);
    Arc::new(numbers.with_precision_and_scale(20, 3).unwrap())
}

fn list() -> ArrayRef {
    let items = vec![Some(vec![Some(1), None]), None, Some(vec![])];
    Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(items))
}

async fn survives(spec: &'static SinkSpec, codec: Option<&str>, columns: Vec<(&str, ArrayRef)>) {
    let out = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(out.path());
    rig.spec = spec;
    if let Some(codec) = codec {
        rig.options.set("compression", codec);
    }
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap();
    rig.schema = batch.schema();
    let sink = rig.open(1, None, None).await.unwrap();
    let parts = vec![vec![batch.clone(), batch]];
    let published = rig.run(&*sink, 1, 0, parts).await.unwrap();
    let empty = rig.run(&*sink, 1, 1, vec![vec![]]).await.unwrap();
    let name = (spec.name, codec);
    assert_eq!(published.totals.unwrap().rows, 6, "{name:?}");
    assert_eq!(sink.audit(BatchId(0)).await.unwrap(), published.totals, "{name:?}");
    assert_eq!(sink.audit(BatchId(1)).await.unwrap(), empty.totals, "{name:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_format_and_codec_reads_back_as_it_was_written() {
    for codec in ["none", "snappy", "gzip", "lz4", "zstd", "brotli"] {
        let mut columns = flat_columns();
        columns.extend([("dec", decimal()), ("list", list())]);
        survives(&file_sink::PARQUET, Some(codec), columns).await;
    }
    for codec in ["none", "gzip", "deflate", "bzip2", "zstd"] {
        let mut columns = flat_columns();
        columns.extend([("dec", decimal()), ("list", list())]);
        survives(&file_sink::JSON, Some(codec), columns).await;
        let mut columns = flat_columns();
        columns.push(("dec", decimal()));
        survives(&file_sink::CSV, Some(codec), columns).await;
    }
    for codec in ["uncompressed", "snappy", "deflate", "bzip2", "xz", "zstandard"] {
        let mut columns = flat_columns();
        columns.extend([("dec", decimal()), ("list", list())]);
        survives(&file_sink::AVRO, Some(codec), columns).await;
    }
    for codec in ["none", "snappy", "zlib", "lz4", "zstd"] {
        survives(&file_sink::ORC, Some(codec), flat_columns()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_files_hold_one_column_and_count_lines() {
    let out = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(out.path());
    rig.spec = &file_sink::TEXT;
    rig.options.set("compression", "gzip");
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b\nc")]));
    let batch = RecordBatch::try_from_iter([("value", text)]).unwrap();
    assert!(rig.open(1, None, None).await.is_err(), "two columns");
    rig.schema = batch.schema();
    let sink = rig.open(1, None, None).await.unwrap();
    let published = rig.run(&*sink, 1, 0, vec![vec![batch]]).await.unwrap();
    assert_eq!(published.totals.unwrap().rows, 4);
    assert_eq!(sink.audit(BatchId(0)).await.unwrap(), published.totals);
    let file = std::fs::File::open(&listed(out.path())[0]).unwrap();
    let mut read = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut read).unwrap();
    assert_eq!(read, "a\n\nb\nc\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_stands_in_every_csv_file_and_counts_as_no_row() {
    let out = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(out.path());
    rig.spec = &file_sink::CSV;
    rig.options.set("header", "true");
    let sink = rig.open(1, None, None).await.unwrap();
    let published = rig.run(&*sink, 1, 0, vec![vec![super::rig::rows(&[1, 2])]]).await.unwrap();
    assert_eq!(
        std::fs::read_to_string(&listed(out.path())[0]).unwrap(),
        "id,k\n1,k 1/x\n2,k 2/x\n"
    );
    assert_eq!(sink.audit(BatchId(0)).await.unwrap(), published.totals);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_a_format_does_not_hold_are_refused_by_name() {
    let out = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(out.path());
    for (spec, column) in [(&file_sink::CSV, list()), (&file_sink::ORC, decimal())] {
        rig.spec = spec;
        rig.schema = RecordBatch::try_from_iter([("odd", column)]).unwrap().schema();
        let error = rig.open(1, None, None).await.unwrap_err();
        assert!(error.to_string().contains("`odd`"), "{error}");
    }
}
