//! The sources through their contract: what they read, and what a restart finds.

mod log;
#[allow(dead_code, reason = "the next tests use it")]
mod rig;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit};
use datafusion::prelude::SessionContext;
use onefold_connector::{
    Clock, Options, ReadLimit, ScanRequest, Source, SourceContext, SourceRequest, SourceSpec,
};
use onefold_connectors::file_source;
use onefold_storage::{LocalStore, Store};
use onefold_types::{BatchId, ErrorKind, Offset, OffsetRange, OptionMap, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now_ms(&self) -> i64 {
        0
    }
}

fn schema(corrupt: bool) -> SchemaRef {
    let mut fields = vec![
        Field::new("id", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
    ];
    if corrupt {
        fields.push(Field::new("_corrupt_record", DataType::Utf8, true));
    }
    Arc::new(Schema::new(fields))
}

async fn open(
    spec: &SourceSpec,
    folder: &Path,
    checkpoint: &Path,
    options: OptionMap,
    schema: SchemaRef,
    history: Vec<(BatchId, OffsetRange)>,
) -> Result<Arc<dyn Source>> {
    let request = SourceRequest {
        options: Options::check(spec.name, spec.options, options)?,
        schema: Some(schema),
        paths: vec![folder.to_str().unwrap().to_owned()],
    };
    let definition = (spec.define)(request).await?;
    let store: Arc<dyn Store> = Arc::new(LocalStore::new(checkpoint)?);
    let context = SourceContext {
        query: "6fa0ab59-0d2c-4b1e-9d5c-1f2d3c4b5a69".parse().unwrap(),
        checkpoint: store,
        log_folder: "sources/0".to_owned(),
        history,
        clock: Arc::new(Still),
        conf: BTreeMap::new(),
    };
    definition.open(context).await
}

async fn next(source: &dyn Source, start: Option<&Offset>) -> Result<Option<OffsetRange>> {
    let latest = source.latest_offset(start, ReadLimit::Options).await?;
    let range = OffsetRange { start: start.cloned(), end: latest.end, note: latest.note };
    Ok((!range.empty()).then_some(range))
}

async fn rows(source: &dyn Source, range: &OffsetRange) -> Result<Vec<RecordBatch>> {
    let context = SessionContext::new();
    let state = context.state();
    let projection = vec![0, 1, 2];
    let scan = ScanRequest { projection: Some(&projection), filters: &[], session: &state };
    let plan = source.read(range, scan).await?;
    Ok(datafusion::physical_plan::collect(plan, context.task_ctx()).await.unwrap())
}

fn ids(batches: &[RecordBatch]) -> Vec<Option<i64>> {
    batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().iter()).collect()
}

#[tokio::test]
async fn every_file_is_read_once_through_restarts_and_odd_names() {
    let input = tempfile::tempdir().unwrap();
    let checkpoint = tempfile::tempdir().unwrap();
    let names = ["a b.json", "c%20d.json", "e=é+'.json", "_hidden.json", "q\"\n.json"];
    for (at, name) in names.iter().enumerate() {
        fs::write(input.path().join(name), format!("{{\"id\":{at},\"text\":\"x\"}}\n")).unwrap();
    }
    let options = || OptionMap::new().with("maxFilesPerTrigger", "1");
    let mut history: Vec<(BatchId, OffsetRange)> = Vec::new();
    let mut seen = Vec::new();
    for batch in 0..30_u64 {
        let source = open(
            &file_source::JSON,
            input.path(),
            checkpoint.path(),
            options(),
            schema(false),
            history.clone(),
        )
        .await
        .unwrap();
        let start = history.last().and_then(|(_, range)| range.end.clone());
        let planned = next(source.as_ref(), start.as_ref()).await.unwrap();
        // Asked again it gives the same range: the entry is there and no intent names it.
        assert_eq!(next(source.as_ref(), start.as_ref()).await.unwrap(), planned);
        if let Some(range) = planned {
            seen.extend(ids(&rows(source.as_ref(), &range).await.unwrap()));
            history.push((BatchId(batch), range));
        }
        if batch < 20 {
            let name = format!("later-{batch}.json");
            fs::write(input.path().join(name), format!("{{\"id\":{}}}", 100 + batch)).unwrap();
        }
    }
    seen.sort();
    let mut wanted: Vec<Option<i64>> = [0, 1, 2, 4].into_iter().map(Some).collect();
    wanted.extend((100..120).map(Some));
    assert_eq!(seen, wanted);
    assert!(checkpoint.path().join("sources/0/9.compact").exists());
    // A power cut took the newest entry: it comes back from the intent's note.
    fs::write(checkpoint.path().join("sources/0/23"), "").unwrap();
    let source = open(
        &file_source::JSON,
        input.path(),
        checkpoint.path(),
        options(),
        schema(false),
        history.clone(),
    )
    .await
    .unwrap();
    let start = history.last().and_then(|(_, range)| range.end.clone());
    assert_eq!(next(source.as_ref(), start.as_ref()).await.unwrap(), None);
    assert!(fs::read_to_string(checkpoint.path().join("sources/0/23")).unwrap().contains("path"));
}

#[tokio::test]
async fn malformed_lines_become_nulls_and_a_changed_file_is_named() {
    let input = tempfile::tempdir().unwrap();
    let checkpoint = tempfile::tempdir().unwrap();
    let lines = "\u{feff}{\"id\":1,\"text\":5.0,\"at\":\"1970-01-01T00:00:01Z\"}\r\n\n\
                 {\"id\":\"2\"}\n{\"id\":3.5}\n{\"id\":99999999999999999999}\n[{\"id\":6},{\"id\":7}]\n{\"id\":8";
    fs::write(input.path().join("f.json"), lines).unwrap();
    fs::write(input.path().join("empty.json"), "").unwrap();
    let source = open(
        &file_source::JSON,
        input.path(),
        checkpoint.path(),
        OptionMap::new(),
        schema(true),
        Vec::new(),
    )
    .await
    .unwrap();
    let range = next(source.as_ref(), None).await.unwrap().unwrap();
    let batches = rows(source.as_ref(), &range).await.unwrap();
    assert_eq!(ids(&batches), [Some(1), None, None, None, Some(6), Some(7), None]);
    assert_eq!(batches[0].column(1).as_string::<i32>().value(0), "5.0");
    fs::write(input.path().join("f.json"), "{}").unwrap();
    let error = rows(source.as_ref(), &range).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("allowChangedFiles"), "{error}");
}

async fn all_rows(
    spec: &SourceSpec,
    folder: &Path,
    options: OptionMap,
    columns: Vec<usize>,
) -> Result<Vec<RecordBatch>> {
    let checkpoint = tempfile::tempdir().unwrap();
    let source = open(spec, folder, checkpoint.path(), options, schema(false), Vec::new()).await?;
    let range = next(source.as_ref(), None).await?.unwrap();
    let context = SessionContext::new();
    let state = context.state();
    let scan = ScanRequest { projection: Some(&columns), filters: &[], session: &state };
    let plan = source.read(&range, scan).await?;
    Ok(datafusion::physical_plan::collect(plan, context.task_ctx()).await.unwrap())
}

#[tokio::test]
async fn csv_reads_quotes_header_and_short_records_in_partition_folders() {
    let input = tempfile::tempdir().unwrap();
    fs::create_dir(input.path().join("day=7")).unwrap();
    let text = "id,text,at\n1,\"a,\\\"b\",1970-01-01 00:00:01\n\n2\nx,y,\n";
    fs::write(input.path().join("day=7/f.csv"), text).unwrap();
    let options = || OptionMap::new().with("header", "true");
    let batches =
        all_rows(&file_source::CSV, input.path(), options(), vec![0, 1, 3, 4]).await.unwrap();
    assert_eq!(ids(&batches), [Some(1), Some(2), None]);
    assert_eq!(batches[0].column(1).as_string::<i32>().value(0), "a,\"b");
    assert_eq!(batches[0].schema().field(2).data_type(), &DataType::Int32);
    let names = batches[0].column(3).as_struct().column(1).as_string::<i32>().clone();
    assert_eq!(names.value(2), "f.csv");
    let dropping = options().with("mode", "DROPMALFORMED");
    let batches = all_rows(&file_source::CSV, input.path(), dropping, vec![0]).await.unwrap();
    assert_eq!(ids(&batches), [Some(1)]);
}

#[tokio::test]
async fn parquet_reads_missing_columns_as_null_and_numbers_rows() {
    use parquet::arrow::ArrowWriter;
    let input = tempfile::tempdir().unwrap();
    let ids_only = Arc::new(Schema::new(vec![Field::new("ID", DataType::Int32, true)]));
    let batch = RecordBatch::try_new(
        Arc::clone(&ids_only),
        vec![Arc::new(arrow::array::Int32Array::from(vec![Some(5), None, Some(6)]))],
    )
    .unwrap();
    for (name, count) in [("a.parquet", 3), ("empty.parquet", 0)] {
        let file = fs::File::create(input.path().join(name)).unwrap();
        let mut writer = ArrowWriter::try_new(file, Arc::clone(&ids_only), None).unwrap();
        writer.write(&batch.slice(0, count)).unwrap();
        writer.close().unwrap();
    }
    let batches = all_rows(&file_source::PARQUET, input.path(), OptionMap::new(), vec![0, 1, 3])
        .await
        .unwrap();
    assert_eq!(ids(&batches), [Some(5), None, Some(6)]);
    assert_eq!(batches[0].column(1).null_count(), 3);
    let numbers = batches[0].column(2).as_struct().column(6).as_primitive::<Int64Type>().clone();
    assert_eq!(numbers.values().to_vec(), [0, 1, 2]);
}
