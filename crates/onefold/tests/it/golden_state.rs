//! Queries with state over the inputs of Spark's own runs: the same rows, batches, watermarks and
//! counts of state.

use onefold::types::ErrorKind;
use onefold::{DataFrame, Session, StreamingQueryProgress, Trigger};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

pub(crate) const EVENTS: &str = "ts TIMESTAMP, k STRING, v BIGINT";
/// When the first input file was written, seconds since 1970; the n-th came n seconds later.
const FIRST_FILE_AT: u64 = 1_767_225_600;

pub(crate) struct Case {
    golden: PathBuf,
    place: tempfile::TempDir,
}

impl Case {
    pub(crate) fn new(name: &str) -> Self {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name);
        let case = Case { golden, place: tempfile::tempdir().unwrap() };
        for folder in ["input", "left", "right"] {
            case.add(folder, folder);
        }
        case
    }

    /// A case whose files the test writes.
    pub(crate) fn of_rows() -> Self {
        Case { golden: PathBuf::new(), place: tempfile::tempdir().unwrap() }
    }

    /// Writes the n-th file of a folder.
    pub(crate) fn put(&self, folder: &str, number: u64, rows: &[Value]) {
        let folder = self.place.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("f{number:03}.json"));
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        fs::write(&path, text).unwrap();
        let at = UNIX_EPOCH + Duration::from_secs(FIRST_FILE_AT + number);
        fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
    }

    /// Copies a folder of the case, with the times that its files had.
    fn add(&self, from: &str, to: &str) {
        let Ok(entries) = fs::read_dir(self.golden.join(from)) else { return };
        fs::create_dir_all(self.place.path().join(to)).unwrap();
        for entry in entries {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let number: u64 = name[1..4].parse().unwrap();
            let target = self.place.path().join(to).join(&name);
            fs::copy(self.golden.join(from).join(&name), &target).unwrap();
            let at = UNIX_EPOCH + Duration::from_secs(FIRST_FILE_AT + number);
            let file = fs::File::options().write(true).open(&target).unwrap();
            file.set_modified(at).unwrap();
        }
    }

    fn add_more(&self) {
        for folder in ["input", "left", "right"] {
            self.add(&format!("{folder}_more"), folder);
        }
    }

    fn text(&self, name: &str) -> String {
        self.place.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn read(&self, session: &Session, folder: &str, schema: &str) -> DataFrame {
        session
            .read_stream()
            .format("json")
            .schema(schema)
            .option("maxFilesPerTrigger", "1")
            .load(self.text(folder))
            .unwrap()
    }

    pub(crate) fn run(&self, frame: &DataFrame, by: &[&str]) -> Vec<Arc<StreamingQueryProgress>> {
        let query = frame
            .write_stream()
            .format("json")
            .partition_by(by)
            .option("checkpointLocation", self.text("checkpoint"))
            .trigger(Trigger::AvailableNow)
            .start(self.text("output"))
            .unwrap();
        query.await_termination(Some(Duration::from_secs(120))).unwrap();
        query.recent_progress()
    }

    pub(crate) fn rows(&self) -> Vec<String> {
        let mut rows = Vec::new();
        gather(&self.place.path().join("output"), &[], &mut rows);
        rows.sort_unstable();
        rows
    }

    fn expected_rows(&self, file: &str) -> Vec<String> {
        let mut rows: Vec<String> = lines(&self.golden.join(file)).iter().map(row).collect();
        rows.sort_unstable();
        rows
    }

    /// Runs both halves of the case, the second with another number of partitions, and compares
    /// each with Spark's.
    pub(crate) fn check(&self, provider: &str, query: impl Fn(&Session) -> DataFrame) {
        self.check_half(provider, false, 2, &[], &query);
        self.add_more();
        self.check_half(provider, true, 5, &[], &query);
    }

    fn check_half(
        &self,
        provider: &str,
        more: bool,
        partitions: u64,
        by: &[&str],
        query: &dyn Fn(&Session) -> DataFrame,
    ) {
        let (rows, progress) = if more {
            ("EXPECTED_after_continuation.jsonl", "EXPECTED_progress_after_continuation.jsonl")
        } else {
            ("EXPECTED_before.jsonl", "progress.jsonl")
        };
        let session = onefold::session()
            .threads(2)
            .conf("spark.sql.shuffle.partitions", partitions.to_string())
            .conf("spark.sql.streaming.stateStore.providerClass", provider)
            .conf("onefold.state.localDir", self.text("local"))
            .build()
            .unwrap();
        let told = self.run(&query(&session), by);
        let told: Vec<String> = told.iter().map(|it| summary(&json(it), partitions)).collect();
        let wanted: Vec<String> =
            lines(&self.golden.join(progress)).iter().map(|it| summary(it, 2)).collect();
        assert_eq!(told, wanted, "{rows} with {provider}");
        assert_eq!(self.rows(), self.expected_rows(rows), "{rows} with {provider}");
    }
}

/// The rows of all files below a folder, with the columns that its partitions have.
fn gather(folder: &Path, by: &[(String, String)], rows: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with(['.', '_']) {
            continue;
        }
        if let Some((column, value)) = name.split_once('=').filter(|_| path.is_dir()) {
            let value = value.replace("%2F", "/");
            gather(&path, &[by, &[(column.to_owned(), value)]].concat(), rows);
            continue;
        }
        for mut line in lines(&path) {
            for (column, value) in by {
                line[column] = Value::from(value.as_str());
            }
            rows.push(row(&line));
        }
    }
}

/// A row as text, columns by name.
fn row(value: &Value) -> String {
    let columns: BTreeMap<&String, &Value> = value.as_object().unwrap().iter().collect();
    serde_json::to_string(&columns).unwrap()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn json(progress: &StreamingQueryProgress) -> Value {
    serde_json::from_str(&progress.json()).unwrap()
}

/// What must be equal of a batch's progress. The number of partitions is checked and left out.
fn summary(progress: &Value, partitions: u64) -> String {
    let state: Vec<Value> = progress["stateOperators"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            assert_eq!(it["numShufflePartitions"], partitions);
            // The same operators under the name of the language that calls them.
            let name = match it["operatorName"].as_str().unwrap() {
                "applyInPandasWithState" => "flatMapGroupsWithState",
                "transformWithStateInPandasExec" => "transformWithStateExec",
                name => name,
            };
            serde_json::json!([
                name,
                it["numRowsTotal"],
                it["numRowsUpdated"],
                it["numRowsRemoved"],
                it["numRowsDroppedByWatermark"],
                it["numStateStoreInstances"].as_u64().unwrap() / partitions,
                it["customMetrics"]["numDroppedDuplicateRows"],
            ])
        })
        .collect();
    let (batch, rows) = (&progress["batchId"], &progress["numInputRows"]);
    format!("{batch}: {rows} rows, {}, {}", progress["eventTime"], Value::Array(state))
}

fn windowed(case: &Case, session: &Session) -> DataFrame {
    case.read(session, "input", EVENTS)
        .with_watermark("ts", "2 minutes")
        .unwrap()
        .group_by(&["window(ts, '2 minutes')", "k"])
        .agg(&["sum(v) AS s", "count(*) AS n"])
        .unwrap()
        .select_expr(&["window.start", "window.end", "k", "s", "n"])
        .unwrap()
}

/// By our names, and by those that Spark's users have in their settings.
pub(crate) const PROVIDERS: &[&str] = &[
    "memory",
    "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
];

#[test]
fn tumbling_windows_are_sparks() {
    for &provider in PROVIDERS {
        let case = Case::new("b_window_agg_hdfs");
        case.check(provider, |session| windowed(&case, session));
    }
}

/// What Spark kept in a RocksDB, with changelogs and with snapshots only.
#[cfg(feature = "rocksdb")]
#[test]
fn tumbling_windows_in_a_rocksdb_are_sparks() {
    for case in ["c_window_agg_rocksdb", "c2_window_agg_rocksdb_snapshot"] {
        for provider in
            ["org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider", "memory"]
        {
            let case = Case::new(case);
            case.check(provider, |session| windowed(&case, session));
        }
    }
}

#[test]
fn duplicates_for_ever_into_a_partitioned_folder_are_sparks() {
    for &provider in PROVIDERS {
        let case = Case::new("l_partitioned_sink_complete_limit");
        case.check_half(provider, false, 2, &["k"], &|session| {
            case.read(session, "input", EVENTS).drop_duplicates(&["k", "v"]).unwrap()
        });
    }
}

#[test]
fn duplicates_within_the_watermark_are_sparks() {
    for &provider in PROVIDERS {
        let case = Case::new("d_dedup_within_watermark");
        case.check(provider, |session| {
            case.read(session, "input", EVENTS)
                .with_watermark("ts", "3 minutes")
                .unwrap()
                .drop_duplicates_within_watermark(&["k"])
                .unwrap()
        });
    }
}

#[test]
fn a_join_of_two_streams_is_sparks() {
    for &provider in PROVIDERS {
        let case = Case::new("f_stream_stream_join");
        case.check(provider, |session| {
            let left = case.read(session, "left", "lts TIMESTAMP, k BIGINT, l STRING");
            let right = case.read(session, "right", "rts TIMESTAMP, k BIGINT, r STRING");
            let left = left.with_watermark("lts", "1 minute").unwrap().alias("a").unwrap();
            let right = right.with_watermark("rts", "2 minutes").unwrap().alias("b").unwrap();
            let on = "a.k = b.k AND rts >= lts AND rts <= lts + INTERVAL 90 SECONDS";
            left.join(&right, on, "inner")
                .unwrap()
                .select_expr(&["a.k", "lts", "rts", "l", "r"])
                .unwrap()
        });
    }
}

#[test]
fn session_windows_are_sparks() {
    for &provider in PROVIDERS {
        let case = Case::new("i_session_window");
        case.check(provider, |session| {
            case.read(session, "input", EVENTS)
                .with_watermark("ts", "10 seconds")
                .unwrap()
                .group_by(&["session_window(ts, '5 seconds')", "k"])
                .agg(&["sum(v) AS s"])
                .unwrap()
                .select_expr(&["session_window.start", "session_window.end", "k", "s"])
                .unwrap()
        });
    }
}

#[test]
fn a_checkpoint_with_state_of_sparks_is_refused_by_name() {
    let case = Case::new("b_window_agg_hdfs");
    copy_all(&case.golden.join("checkpoint"), &case.place.path().join("checkpoint"));
    let session = onefold::session().threads(2).build().unwrap();
    let error = windowed(&case, &session)
        .write_stream()
        .format("noop")
        .option("checkpointLocation", case.text("checkpoint"))
        .trigger(Trigger::AvailableNow)
        .start_default()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.chain();
    assert!(text.contains("Spark's own files (state/)"), "{text}");
    assert!(text.contains("new checkpointLocation"), "{text}");
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_all(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
