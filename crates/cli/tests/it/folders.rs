//! Pipelines whose folders are in each other's way do not start.

use crate::support::{names, onefold, snapshot};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(place.path("in")).unwrap();
        fs::write(place.path("in/a.json"), "{\"id\":1}\n").unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn at(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A table that reads a folder.
    fn table(&self, name: &str, clauses: &str, input: &str, options: &str) -> String {
        format!(
            "CREATE STREAMING TABLE {name} {clauses}\nAS SELECT id FROM STREAM \
             read_files('{input}', format => 'json', schema => 'id BIGINT'{options});\n"
        )
    }

    /// Runs a pipeline that must be refused with nothing made; what it says.
    #[track_caller]
    fn refused(&self, pipeline: &str) -> String {
        fs::write(self.path("p.sql"), pipeline).unwrap();
        let before = snapshot(self.dir.path());
        let said = onefold(&["run", &self.at("p.sql"), "--trigger", "available-now"]).code(2);
        assert!(before == snapshot(self.dir.path()), "{:?}", names(self.dir.path()));
        let explained = onefold(&["explain", &self.at("p.sql")]).code(2);
        assert_eq!(explained.err, said.err);
        said.err
    }

    #[track_caller]
    fn accepted(&self, pipeline: &str) {
        fs::write(self.path("p.sql"), pipeline).unwrap();
        onefold(&["run", &self.at("p.sql"), "--trigger", "available-now"]).code(0);
    }
}

#[test]
fn an_output_that_is_the_input_in_any_spelling_is_refused() {
    let place = Place::new();
    symlink("in", place.path("link")).unwrap();
    let input = place.at("in");
    for output in [
        input.clone(),
        format!("{input}/"),
        format!("{input}/out"),
        place.at("link"),
        place.at("link/out"),
        place.at("other/../in"),
        format!("file:{input}"),
        format!("file://localhost{}", place.at("link")),
        place.dir.path().to_str().unwrap().to_owned(),
    ] {
        let clauses = format!("USING json LOCATION '{output}'");
        let text = place.refused(&place.table("t", &clauses, &input, ""));
        assert!(text.contains("table `t`: the output folder "), "{output}: {text}");
        assert!(text.contains(&input) && text.contains("choose another output folder"), "{text}");
    }
    let clauses = format!("USING json LOCATION '{}'", place.at("link"));
    let text = place.refused(&place.table("t", &clauses, &input, ""));
    assert!(text.contains("/link (that is file://"), "{text}");
    // The other way round: what is read is the link.
    let clauses = format!("USING json LOCATION '{input}'");
    place.refused(&place.table("t", &clauses, &place.at("link"), ""));
}

#[test]
fn a_pattern_that_would_take_the_output_is_refused_and_another_is_not() {
    let place = Place::new();
    let clauses = format!("USING json LOCATION '{}'", place.at("out"));
    for pattern in ["*", "o*", "{in,out}", "[a-z]*"] {
        let text = place.refused(&place.table("t", &clauses, &place.at(pattern), ""));
        assert!(text.contains("the output folder "), "{pattern}: {text}");
    }
    place.accepted(&place.table("t", &clauses, &place.at("i*"), ""));
    assert!(place.path("out/_spark_metadata/0").exists());
}

#[test]
fn a_checkpoint_where_the_query_reads_is_refused_unless_it_is_hidden() {
    let place = Place::new();
    let input = place.at("in");
    let clauses = |checkpoint: &str| {
        format!(
            "USING json LOCATION '{}' OPTIONS ('checkpointLocation' = '{}')",
            place.at("out"),
            place.at(checkpoint)
        )
    };
    symlink(place.path("in"), place.path("link")).unwrap();
    for checkpoint in ["in", "in/checkpoint", "link/checkpoint", "."] {
        for options in ["", ", recursiveFileLookup => true"] {
            let text = place.refused(&place.table("t", &clauses(checkpoint), &input, options));
            assert!(text.contains("table `t`: the checkpoint "), "{checkpoint}: {text}");
            assert!(text.contains("choose another checkpointLocation"), "{text}");
        }
    }
    let hidden = clauses("in/_checkpoint");
    place.accepted(&place.table("t", &hidden, &input, ", recursiveFileLookup => true"));
    assert!(place.path("in/_checkpoint/commits/0").exists());
}

#[test]
fn two_tables_with_one_folder_are_refused_by_name_and_place() {
    let place = Place::new();
    let input = place.at("in");
    fs::create_dir(place.path("c")).unwrap();
    symlink("c", place.path("link")).unwrap();
    let table = |name: &str, output: &str, checkpoint: &str| {
        let clauses = format!(
            "USING json LOCATION '{}' OPTIONS ('checkpointLocation' = '{}')",
            place.at(output),
            place.at(checkpoint)
        );
        place.table(name, &clauses, &input, "")
    };
    for (second, what) in [
        (("b", "c"), "its checkpoint is the checkpoint of table `a` (line 1, column 1)"),
        (("b", "link"), "its checkpoint is the checkpoint of table `a`"),
        (("b", "x/../c/"), "its checkpoint is the checkpoint of table `a`"),
        (("a/", "d"), "its output is the output of table `a`"),
        (("c", "d"), "its output is the checkpoint of table `a`"),
    ] {
        let text = place.refused(&(table("a", "a", "c") + &table("b", second.0, second.1)));
        assert!(text.contains("p.sql, line 3, column 1: table `b`: "), "{text}");
        assert!(text.contains(what), "{text}");
    }
    // Without checkpointLocation each has its own by its name, but an option may name that one too.
    let default = place.at("onefold-data/_checkpoints/a");
    let first = format!("USING json LOCATION '{}'", place.at("a"));
    let second = format!(
        "USING json LOCATION '{}' OPTIONS ('checkpointLocation' = '{default}')",
        place.at("b")
    );
    let both = place.table("a", &first, &input, "") + &place.table("b", &second, &input, "");
    assert!(place.refused(&both).contains("its checkpoint is the checkpoint of table `a`"));
    place.accepted(&(table("a", "a", "c") + &table("b", "b", "d")));
}

#[test]
fn a_table_that_would_read_the_logs_of_another_one_is_refused() {
    let place = Place::new();
    let first = format!(
        "USING json LOCATION '{}' OPTIONS ('checkpointLocation' = '{}')",
        place.at("a"),
        place.at("more/c")
    );
    fs::create_dir(place.path("more")).unwrap();
    let second = format!("USING json LOCATION '{}'", place.at("b"));
    let text = place.refused(
        &(place.table("a", &first, &place.at("in"), "")
            + &place.table("b", &second, &place.at("more"), ", recursiveFileLookup => true")),
    );
    assert!(text.contains("line 3, column 1: table `b`: its input "), "{text}");
    assert!(text.contains("of table `a` (line 1, column 1)"), "{text}");
}

#[test]
fn a_sink_without_files_takes_no_folder() {
    let place = Place::new();
    for (clauses, wanted) in [
        ("USING console LOCATION '/x'", "USING console keeps no files, so that LOCATION"),
        ("USING noop OPTIONS ('path' = '/x')", "option `path` means nothing"),
        ("USING memory PARTITIONED BY (id)", "PARTITIONED BY means nothing"),
    ] {
        let text = place.refused(&place.table("t", clauses, &place.at("in"), ""));
        assert!(text.contains("p.sql, line 1, column 1: table `t`: "), "{text}");
        assert!(text.contains(wanted), "{text}");
    }
    place.accepted(&place.table("t", "USING noop", &place.at("in"), ""));
}

#[test]
fn errors_are_told_in_sql() {
    let place = Place::new();
    let schema = "id BIGINT, name STRING, ts TIMESTAMP, a ARRAY<INT>";
    let stream =
        format!("STREAM read_files('{}', format => 'json', schema => '{schema}')", place.at("in"));
    for (query, wanted) in [
        ("SELECT nope FROM $", "no field named nope. Did you mean 'name'? Valid fields are id"),
        ("SELECT id + ts FROM $", "BIGINT + TIMESTAMP"),
        ("SELECT * FROM $ WHERE name", "'name' returning STRING"),
        ("SELECT a = 1 AS x FROM $", "ARRAY<INT> = INT"),
        ("SELECT id, count(*) FROM $", "column \"id\" must appear in the GROUP BY clause"),
        ("SELECT id, id FROM $", "The column `id` already exists"),
        ("SELECT abs(name) AS x FROM $", "abs(STRING)"),
        ("SELECT substring(id, ts) AS x FROM $", "substring(BIGINT, TIMESTAMP)"),
        ("SELECT date_add(ts, 'x') AS x FROM $", "date_add(TIMESTAMP, STRING)"),
        ("SELECT concat(a, id) AS x FROM $", "concat takes texts or arrays, not both"),
        ("SELECT NOT id AS x FROM $", "got BIGINT"),
        ("SELECT w.nope FROM $ WATERMARK ts DELAY OF INTERVAL 1 SECOND AS w", "id"),
        ("SELECT nope FROM $ GROUP BY window(ts, '1 second')", "nope"),
        ("SELECT * FROM $ ORDER BY id", "table `t`: sorting is not supported"),
        ("SELECT CASE WHEN id = 1 THEN a ELSE ts END AS x FROM $", "ARRAY<INT>"),
        ("SELECT id FROM $ WHERE id IN (1, ts)", "TIMESTAMP"),
    ] {
        let query = query.replace('$', &stream);
        fs::write(place.path("p.sql"), format!("CREATE STREAMING TABLE t USING noop AS {query}"))
            .unwrap();
        let said = onefold(&["run", &place.at("p.sql"), "--trigger", "available-now"]);
        assert_ne!(said.code, Some(0), "{query}");
        let text = said.err;
        assert!(text.contains(wanted), "{query}: {text}");
        for internal in ["__onefold", "Utf8", "Int64", "Timestamp(", "List(", "DataFusion"] {
            assert!(!text.contains(internal), "{query}: {text}");
        }
        assert_eq!(text.trim_end().lines().count(), 1, "{query}: {text}");
    }
    let explained =
        format!("CREATE STREAMING TABLE t USING noop AS SELECT id + 1 AS x FROM {stream}");
    fs::write(place.path("p.sql"), explained).unwrap();
    let text = onefold(&["explain", &place.at("p.sql")]).code(0).out;
    assert!(!text.contains("__onefold") && !text.contains("Int64("), "{text}");
}

#[test]
fn a_setting_that_nobody_knows_is_told_at_its_own_line() {
    let place = Place::new();
    let table = place.table("t", "", &place.at("in"), "");
    let said = place.refused(&format!(
        "SET spark.sql.shuffle.partitions = 2;\n\n  SET onefold.nothing = 1;\n{table}"
    ));
    assert!(said.contains("line 3, column 3: ") && said.contains("onefold.nothing"), "{said}");
}

#[test]
fn an_entry_lost_from_the_middle_of_the_manifest_is_seen_by_show_as_by_run() {
    let place = Place::new();
    for name in ["b", "c"] {
        fs::write(place.path(&format!("in/{name}.json")), "{\"id\":1}\n").unwrap();
    }
    let location = format!("LOCATION '{}'", place.at("out"));
    let options = ", maxFilesPerTrigger => 1";
    place.accepted(&place.table("t", &location, &place.at("in"), options));
    let checkpoint = place.at("onefold-data/_checkpoints/t");
    onefold(&["checkpoint", "show", &checkpoint]).code(0);
    let whole = onefold(&["state", "read", "--json", &checkpoint]).code(0).json();
    assert_eq!(whole["operators"], serde_json::json!([]));
    assert!(onefold(&["state", "read", &checkpoint]).code(0).out.contains("none: its query keeps"));
    fs::remove_file(place.path("out/_spark_metadata/1")).unwrap();
    let shown = onefold(&["checkpoint", "show", "--json", &checkpoint]).code(1).json();
    assert_eq!(shown["restart"]["act"], "stop");
    let text = shown["restart"]["text"].as_str().unwrap();
    assert!(text.contains("_spark_metadata/1 is missing") && text.contains("repair"), "{text}");
    let run = onefold(&["run", &place.at("p.sql"), "--trigger", "available-now"]).code(4);
    assert!(run.err.contains("_spark_metadata/1 is missing"), "{}", run.err);
}
