//! `state read`, `checkpoint plan` and `checkpoint verify` over a query with state.

use crate::support::{names, onefold};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

struct Counts {
    dir: tempfile::TempDir,
}

/// Windows of 10 seconds, a watermark of 5 seconds.
const BY_KEY: &str = "k, count(*) AS n";
const GROUP: &str = "k, window(ts, '10 seconds')";

impl Counts {
    fn new() -> Counts {
        let counts = Counts { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(counts.path("in")).unwrap();
        counts.feed(0, &[("a", 1), ("b", 2), ("a", 11)]);
        counts.feed(1, &[("a", 12), ("b", 17)]);
        counts.pipeline(BY_KEY, GROUP);
        counts
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn feed(&self, file: u32, rows: &[(&str, i64)]) {
        let line = |(k, second): &(&str, i64)| {
            format!("{{\"k\":\"{k}\",\"v\":{second},\"ts\":\"2026-01-01T00:00:{second:02}Z\"}}\n")
        };
        let text: String = rows.iter().map(line).collect();
        let hidden = self.path(&format!("in/.{file}"));
        fs::write(&hidden, text).unwrap();
        fs::rename(hidden, self.path(&format!("in/f{file:03}.json"))).unwrap();
    }

    fn pipeline(&self, columns: &str, group: &str) {
        let text = format!(
            "SET spark.sql.shuffle.partitions = 2;\n\
             CREATE STREAMING TABLE counts USING parquet LOCATION '{}'\n\
             AS SELECT {columns} FROM STREAM read_files('{}', format => 'json',\n\
             schema => 'k STRING, v BIGINT, ts TIMESTAMP', maxFilesPerTrigger => 1)\n\
             WATERMARK ts DELAY OF INTERVAL 5 SECONDS GROUP BY {group};\n",
            self.path("out").display(),
            self.path("in").display()
        );
        fs::write(self.path("pipeline.sql"), text).unwrap();
    }

    fn run(&self) -> Vec<String> {
        let (pipeline, checkpoints) = (self.text("pipeline.sql"), self.text("checkpoints"));
        ["run", &pipeline, "--checkpoint", &checkpoints, "--trigger", "available-now"]
            .map(str::to_owned)
            .to_vec()
    }

    fn checkpoint(&self) -> String {
        self.text("checkpoints/counts")
    }

    fn read(&self, more: &[&str]) -> Vec<Value> {
        let checkpoint = self.checkpoint();
        let mut args = vec!["state", "read", &checkpoint, "--json"];
        args.extend(more);
        let said = onefold(&args).code(0);
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn plan(&self, code: i32, more: &[&str]) -> Value {
        let (checkpoint, pipeline) = (self.checkpoint(), self.text("pipeline.sql"));
        let mut args = vec!["checkpoint", "plan", &checkpoint, &pipeline, "--json"];
        args.extend(more);
        onefold(&args).code(code).json()
    }
}

/// What is told of one operator.
fn changes(plan: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let operators = plan["operators"].as_array().unwrap();
    operators.iter().map(|it| (text(&it["operator"]), text(&it["change"]))).collect()
}

const END: &str = "window(ts,'10 seconds').end";
const NAME: &str = "aggregate by k, window";

#[test]
fn state_is_read_as_a_list_of_operators_and_as_rows_at_each_version() {
    let counts = Counts::new();
    onefold(&counts.run()).code(0);
    // Two files, then a batch without input that lets go what ended before 12 s.
    let checkpoint = counts.checkpoint();
    let overview = onefold(&["state", "read", &checkpoint, "--json"]).code(0).json();
    assert_eq!((&overview["version"], &overview["batch"]), (&json!(3), &json!(2)));
    assert_eq!(overview["versions"], json!([1, 2, 3]));
    let operator = &overview["operators"][0];
    assert_eq!((&operator["name"], &operator["rows"]), (&json!(NAME), &json!(2)));
    assert_eq!((&operator["kind"], &operator["partitions"]), (&json!("stateStoreSave"), &json!(2)));
    let family = &operator["families"][0];
    let text = format!("{} {}", family["key"], family["value"]);
    assert!(!text.contains("onefold_stream"), "{text}");

    let rows = counts.read(&["--operator", NAME]);
    let mut keys: Vec<(String, String)> = rows
        .iter()
        .map(|row| {
            let key = row["key"].as_object().unwrap();
            (key["k"].as_str().unwrap().to_owned(), key[END].as_str().unwrap().to_owned())
        })
        .collect();
    keys.sort();
    let end = "2026-01-01T00:00:20";
    assert!(keys.iter().all(|(_, at)| at.starts_with(end)), "{keys:?}");
    assert_eq!(keys.iter().map(|(k, _)| k.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(counts.read(&["--operator", "0"]).len(), 2);
    assert_eq!(counts.read(&["--operator", "0", "--version", "1"]).len(), 3);
    assert_eq!(counts.read(&["--operator", "0", "--limit", "1"]).len(), 1);
    let changes = counts.read(&["--operator", "0", "--changes"]);
    let kinds: Vec<&Value> = changes.iter().map(|it| &it["change_type"]).collect();
    assert_eq!(kinds, [&json!("delete"), &json!("delete")]);

    let unknown = onefold(&["state", "read", &checkpoint, "--operator", "7"]).code(2);
    assert!(unknown.err.contains(NAME), "{unknown:?}");
    let table = onefold(&["state", "read", &checkpoint, "--operator", "0"]).code(0);
    assert!(table.out.contains(END), "{table:?}");
}

#[test]
fn a_plan_says_what_becomes_of_state_and_drops_none_that_was_not_given_up() {
    let counts = Counts::new();
    onefold(&counts.run()).code(0);
    let same = counts.plan(0, &[]);
    assert_eq!(changes(&same), [(NAME.to_owned(), "unchanged".to_owned())]);
    assert_eq!((&same["nextBatch"], &same["drops"]), (&json!(3), &json!([])));

    counts.pipeline("k, count(*) AS n, max(v) AS newest", GROUP);
    let more = counts.plan(0, &[]);
    assert_eq!(changes(&more), [(NAME.to_owned(), "compatible".to_owned())]);

    counts.pipeline("count(*) AS n", "v % 2, window(ts, '10 seconds')");
    let other = counts.plan(1, &[]);
    assert_eq!(other["drops"], json!([NAME]));
    let drivers = || fs::read_dir(counts.path("checkpoints/counts/_onefold/generations")).unwrap();
    let before = drivers().count();
    let refused = onefold(&counts.run());
    assert_ne!(refused.code, Some(0));
    assert!(refused.err.contains(NAME) && refused.err.contains("--accept"), "{refused:?}");
    assert_eq!(drivers().count(), before, "it would have fenced the query as it was");
    counts.feed(2, &[("a", 40)]);
    let accepted = counts.plan(0, &["--accept"]);
    assert_eq!(accepted["accepted"], json!([NAME]));
    // What was accepted for this query lets no other one drop the state.
    counts.pipeline("count(*) AS n", "v % 3, window(ts, '10 seconds')");
    assert_eq!(counts.plan(1, &[])["accepted"], json!([]));
    assert!(onefold(&counts.run()).err.contains("--accept"));
    counts.pipeline("count(*) AS n", "v % 2, window(ts, '10 seconds')");
    onefold(&counts.run()).code(0);
    let overview = onefold(&["state", "read", &counts.checkpoint(), "--json"]).code(0).json();
    assert_eq!(overview["operators"][0]["name"], "aggregate by v % 2, window");
    // Only what came since is in the state.
    let rows = counts.read(&["--operator", "0"]);
    assert_eq!(rows.len(), 1, "{rows:?}");
}

#[test]
fn a_damaged_state_file_is_named_with_what_is_in_it() {
    let counts = Counts::new();
    onefold(&counts.run()).code(0);
    let checkpoint = counts.checkpoint();
    let whole = onefold(&["checkpoint", "verify", &checkpoint, "--json"]).code(0).json();
    let files = names(&counts.path("checkpoints/counts/_onefold/state/changes"));
    assert_eq!(whole["stateFiles"], json!(files.len()));
    let path = counts.path("checkpoints/counts/_onefold/state/changes").join(&files[1]);
    let good = fs::read(&path).unwrap();
    for at in [0, 20, good.len() / 2, good.len() - 3] {
        let mut bytes = good.clone();
        bytes[at] ^= 4;
        fs::write(&path, bytes).unwrap();
        let damaged = onefold(&["checkpoint", "verify", &checkpoint, "--json"]).code(1).json();
        assert_eq!(damaged["ok"], false);
        let first = &damaged["findings"][0];
        assert!(first["path"].as_str().unwrap().ends_with(&files[1]), "byte {at}: {first}");
    }
    fs::remove_file(&path).unwrap();
    let text = onefold(&["checkpoint", "verify", &checkpoint]).code(1).out;
    assert!(text.contains("it is missing") && text.contains("rewind"), "{text}");
}
