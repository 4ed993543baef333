//! Whole queries: files to files, restarts, tables in memory, pipelines.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests may fail loudly, and write their input as any program would"
)]

mod apart;
mod golden_own_state;
mod golden_state;
mod object_store;
mod places;
mod readme;
mod sparks_rules;

use onefold::pipeline::{self, PipelineOptions};
use onefold::{Session, StreamingQuery, Trigger};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LIMIT: Option<Duration> = Some(Duration::from_secs(120));

struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Place { root: tempfile::tempdir().unwrap() };
        fs::create_dir(place.path("in")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn put(&self, file: &str, ids: std::ops::Range<i64>) {
        let lines: Vec<String> =
            ids.map(|id| format!("{{\"id\":{id},\"userName\":\"u{}\"}}", id % 3)).collect();
        fs::write(self.path("in").join(file), lines.join("\n") + "\n").unwrap();
    }
}

fn session() -> Session {
    onefold::session().threads(2).build().unwrap()
}

fn copy(session: &Session, place: &Place) -> StreamingQuery {
    session
        .read_stream()
        .format("json")
        .schema("id BIGINT, userName STRING")
        .option("maxFilesPerTrigger", "1")
        .load(place.text("in"))
        .unwrap()
        .select_expr(&["id", "upper(username) AS name"])
        .unwrap()
        .filter("id >= 0")
        .unwrap()
        .write_stream()
        .format("parquet")
        .option("checkpointLocation", place.text("checkpoint"))
        .trigger(Trigger::AvailableNow)
        .start(place.text("out"))
        .unwrap()
}

/// How often each id stands in the Parquet files of a folder: a plain listing, no manifest.
fn ids(folder: &Path) -> BTreeMap<i64, usize> {
    let mut seen = BTreeMap::new();
    let Ok(entries) = fs::read_dir(folder) else { return seen };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with(['.', '_']) {
            continue;
        }
        let file = fs::File::open(&path).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file)
            .unwrap()
            .build()
            .unwrap();
        for batch in reader {
            let batch = batch.unwrap();
            let column = batch.column_by_name("id").unwrap();
            let column = column.as_any().downcast_ref::<arrow::array::Int64Array>().unwrap();
            for id in column.values() {
                *seen.entry(*id).or_insert(0) += 1;
            }
        }
    }
    seen
}

fn once_each(ids_wanted: std::ops::Range<i64>) -> BTreeMap<i64, usize> {
    ids_wanted.map(|id| (id, 1)).collect()
}

#[test]
fn json_files_become_parquet_files_once_over_restarts() {
    let place = Place::new();
    place.put("a.json", 0..10);
    place.put("b.json", 10..20);
    let first = copy(&session(), &place);
    first.await_termination(LIMIT).unwrap();
    assert_eq!(ids(&place.path("out")), once_each(0..20));
    assert_eq!(first.recent_progress().len(), 2, "one file a batch");
    let explained = first.explain();
    assert!(explained.guarantee.whole.exactly_once(), "{explained}");
    place.put("c.json", 20..25);
    let second = copy(&session(), &place);
    second.await_termination(LIMIT).unwrap();
    assert_eq!(second.id(), first.id());
    assert_eq!(second.last_progress().unwrap().batch_id.0, 2);
    assert_eq!(second.last_progress().unwrap().rows_published(), Some(5));
    assert_eq!(ids(&place.path("out")), once_each(0..25));
}

#[test]
fn a_lost_commit_is_adopted_and_nothing_is_written_again() {
    let place = Place::new();
    place.put("a.json", 0..10);
    copy(&session(), &place).await_termination(LIMIT).unwrap();
    fs::remove_file(place.path("checkpoint/commits/0")).unwrap();
    let query = copy(&session(), &place);
    query.await_termination(LIMIT).unwrap();
    assert_eq!(query.last_progress().unwrap().num_input_rows, 0, "nothing is computed");
    assert_eq!(ids(&place.path("out")), once_each(0..10));
    assert!(place.path("checkpoint/commits/0").exists());
}

#[test]
fn a_memory_sink_is_a_table_under_the_query_s_name() {
    let place = Place::new();
    place.put("a.json", 0..10);
    let session = session();
    let query = session
        .read_stream()
        .format("json")
        .schema("id BIGINT, userName STRING")
        .load(place.text("in"))
        .unwrap()
        .write_stream()
        .format("memory")
        .query_name("events")
        .start_default()
        .unwrap();
    query.process_all_available().unwrap();
    let count = session.sql("SELECT count(*) AS n FROM events").unwrap().collect().unwrap();
    let count = count[0].column(0).as_any().downcast_ref::<arrow::array::Int64Array>().unwrap();
    assert_eq!(count.value(0), 10);
    query.stop().unwrap();
    assert!(!query.explain().guarantee.whole.exactly_once());
}

#[test]
fn a_pipeline_runs_a_query_a_table_also_one_that_reads_another() {
    let place = Place::new();
    place.put("a.json", 0..10);
    let text = format!(
        "CREATE STREAMING TABLE evens USING parquet AS
           SELECT id, userName FROM STREAM(events) WHERE id % 2 = 0;
         CREATE STREAMING TABLE events USING parquet AS
           SELECT id, userName FROM STREAM read_files('{}', format => 'json',
             schema => 'id BIGINT, userName STRING');",
        place.text("in")
    );
    let options = PipelineOptions {
        trigger: Trigger::AvailableNow,
        storage: Some(place.text("tables")),
        checkpoint: None,
    };
    let session = session();
    let queries = pipeline::start(&session, &text, &options).unwrap();
    assert_eq!(queries.len(), 2);
    for query in &queries {
        query.await_termination(LIMIT).unwrap();
    }
    assert_eq!(ids(&place.path("tables/events")), once_each(0..10));
    let evens: BTreeMap<i64, usize> = (0..10).step_by(2).map(|id| (id, 1)).collect();
    assert_eq!(ids(&place.path("tables/evens")), evens);
    assert!(place.path("tables/_checkpoints/events/metadata").exists());
}

#[test]
fn options_are_checked_and_the_nearest_is_named() {
    let place = Place::new();
    let stream =
        session().read_stream().format("json").schema("id BIGINT").load(place.text("in")).unwrap();
    let start = |name: &str| {
        let writer = stream.write_stream().format("parquet").option(name, "x");
        writer.start(place.text("out")).unwrap_err().to_string()
    };
    assert!(start("checkpointLocatio").contains("`checkpointLocation`"));
    assert!(start("compresion").contains("`compression`"));
    assert!(start("onefold.retry.maxAttempt").contains("`onefold.retry.maxAttempts`"));
}

#[test]
fn a_table_of_files_lies_below_the_warehouse_and_goes_on_there() {
    let place = Place::new();
    place.put("a.json", 0..10);
    let session = onefold::session()
        .threads(2)
        .conf("spark.sql.warehouse.dir", place.text("warehouse"))
        .build()
        .unwrap();
    let writer = || {
        let stream = session.read_stream().format("json").schema("id BIGINT, userName STRING");
        let stream = stream.load(place.text("in")).unwrap();
        let writer = stream.write_stream().option("checkpointLocation", place.text("checkpoint"));
        writer.trigger(Trigger::AvailableNow)
    };
    writer().to_table("Sales.Events").unwrap().await_termination(LIMIT).unwrap();
    place.put("b.json", 10..20);
    writer().to_table("sales.events").unwrap().await_termination(LIMIT).unwrap();
    assert_eq!(ids(&place.path("warehouse/sales.db/events")), once_each(0..20));
    let error = writer().format("memory").to_table("t").unwrap_err().to_string();
    assert!(error.contains("`t`"), "{error}");
    let elsewhere = writer()
        .option("checkpointLocation", place.text("another"))
        .option("path", place.text("external"));
    elsewhere.to_table("t").unwrap().await_termination(LIMIT).unwrap();
    assert_eq!(ids(&place.path("external")), once_each(0..20));
}
