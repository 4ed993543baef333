//! `run`, `explain`, `verify` after it, and `demo`.

use crate::support::{command, copy_folder, names, onefold, said, snapshot};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

struct Stream {
    dir: tempfile::TempDir,
}

impl Stream {
    fn new(files: u64) -> Stream {
        let stream = Stream { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(stream.path("in")).unwrap();
        stream.feed(0..files);
        let text = format!(
            "CREATE STREAMING TABLE orders USING parquet LOCATION '{}'\n\
             AS SELECT id, name FROM STREAM read_files('{}', format => 'json',\n\
             schema => 'id BIGINT, name STRING', maxFilesPerTrigger => 1);\n",
            stream.path("out").display(),
            stream.path("in").display()
        );
        fs::write(stream.path("pipeline.sql"), text).unwrap();
        stream
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn feed(&self, files: std::ops::Range<u64>) {
        for file in files {
            let text: String = (file * 10..file * 10 + 10)
                .map(|id| format!("{{\"id\":{id},\"name\":\"n{id}\"}}\n"))
                .collect();
            let hidden = self.path(&format!("in/.{file}"));
            fs::write(&hidden, text).unwrap();
            fs::rename(hidden, self.path(&format!("in/f{file:03}.json"))).unwrap();
        }
    }

    fn args<'a>(&self, more: &[&'a str]) -> Vec<String> {
        let mut args = vec!["run".to_owned(), self.text("pipeline.sql")];
        args.extend(["--checkpoint".to_owned(), self.text("checkpoints")]);
        args.extend(more.iter().map(|&it: &&'a str| it.to_owned()));
        args
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn checkpoint(&self) -> String {
        self.text("checkpoints/orders")
    }

    fn drain(&self) -> Vec<Value> {
        let said = onefold(&self.args(&["--trigger", "available-now"])).code(0);
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn each_batch_is_one_line_of_json_and_its_rows_can_be_verified() {
    let stream = Stream::new(3);
    let progress = stream.drain();
    let batches: Vec<u64> = progress.iter().map(|it| it["batchId"].as_u64().unwrap()).collect();
    assert_eq!(batches, [0, 1, 2]);
    assert!(progress.iter().all(|it| it["numInputRows"] == 10 && it["name"] == "orders"));

    let verified = onefold(&["verify", &stream.checkpoint(), "--json"]).code(0).json();
    assert_eq!((&verified["equal"], &verified["rows"]), (&3.into(), &30.into()));
    let shown = onefold(&["checkpoint", "show", &stream.checkpoint(), "--json"]).code(0).json();
    assert_eq!(shown["restart"]["act"], "plan");
    assert_eq!(shown["generations"].as_array().unwrap().len(), 1);
    onefold(&["checkpoint", "verify", &stream.checkpoint()]).code(0);

    assert_eq!(stream.drain(), Vec::<Value>::new());
    stream.feed(3..4);
    assert_eq!(stream.drain()[0]["batchId"], 3);
}

#[test]
fn verify_names_the_first_batch_that_was_changed() {
    let stream = Stream::new(3);
    stream.drain();
    let out = stream.path("out");
    let files = names(&out);
    let of = |batch: &str| out.join(files.iter().find(|name| name.contains(batch)).unwrap());
    fs::copy(of("-b0-"), of("-b1-")).unwrap();
    let said = onefold(&["verify", &stream.checkpoint(), "--json"]).code(1);
    let json = said.json();
    assert_eq!(json["firstDifference"]["batch"], 1, "{json}");
    assert_eq!(json["equal"], 2);
}

#[test]
fn a_rewind_of_checkpoint_and_sink_delivers_the_same_rows_again() {
    let stream = Stream::new(4);
    stream.drain();
    let checkpoint = stream.checkpoint();
    let args = ["checkpoint", "rewind", &checkpoint, "--to-batch", "1", "--apply"];
    onefold(&args).code(2);
    onefold(&[&args[..], &["--later-marks", "rewind"]].concat()).code(0);
    let progress = stream.drain();
    assert_eq!(progress.len(), 2, "{progress:?}");
    let verified = onefold(&["verify", &checkpoint, "--json"]).code(0).json();
    assert_eq!((&verified["equal"], &verified["rows"]), (&4.into(), &40.into()));
}

#[test]
fn a_rewind_takes_what_a_dead_driver_had_not_published_with_it() {
    let stream = Stream::new(3);
    stream.drain();
    stream.feed(3..4);
    let mut run = command(&stream.args(&["--trigger", "available-now"]));
    let died = run.env("ONEFOLD_CRASH_AT", "publish.before-mark:1").output().unwrap();
    assert_eq!(died.status.code(), None, "{died:?}");
    let listed = || names(&stream.path("out")).iter().filter(|it| it.starts_with("part-")).count();
    assert_eq!(listed(), 4, "no entry names the last one");

    let checkpoint = stream.checkpoint();
    let args = ["checkpoint", "rewind", &checkpoint, "--to-batch", "2"];
    let refused = onefold(&args).code(2);
    assert!(refused.err.contains("1 files of batches after 2"), "{refused:?}");
    assert!(refused.err.contains("--later-marks rewind"), "{refused:?}");
    let rewind = [&args[..], &["--later-marks", "rewind"]].concat();
    let said = onefold(&rewind).code(0);
    assert!(said.out.contains("would go    part-00000-"), "{said:?}");
    assert!(said.out.contains("say --apply to do it; what goes is kept in _onefold/rewound"));
    assert_eq!(listed(), 4, "it only says so");
    let said = onefold(&[&rewind[..], &["--apply"]].concat()).code(0);
    assert!(said.out.contains("kept in     _onefold/rewound/"), "{said:?}");
    assert_eq!(listed(), 3);
    assert_eq!(stream.drain().len(), 1);
    assert_eq!(listed(), 4);
    let verified = onefold(&["verify", &checkpoint, "--json"]).code(0).json();
    assert_eq!((&verified["equal"], &verified["rows"]), (&4.into(), &40.into()));
    let said = onefold(&[&args[..4], &["3", "--apply"]].concat()).code(0);
    assert!(said.out.contains("nothing had to be done"), "{said:?}");
}

#[test]
fn lost_entries_of_the_manifest_are_advised_on_alike_everywhere() {
    for (lost, at_start) in [("2", "committed batch 2"), ("1", "_spark_metadata/1 is missing")] {
        let stream = Stream::new(3);
        stream.drain();
        fs::remove_file(stream.path("out/_spark_metadata").join(lost)).unwrap();
        let ran = onefold(&stream.args(&["--trigger", "available-now"])).code(4);
        assert!(ran.err.contains("checkpoint repair") && ran.err.contains(at_start), "{ran:?}");
        let verified = onefold(&["verify", &stream.checkpoint()]).code(1);
        assert!(verified.out.contains("checkpoint repair"), "{verified:?}");
        if lost == "2" {
            let shown = onefold(&["checkpoint", "show", &stream.checkpoint()]).code(1);
            assert!(shown.out.contains("checkpoint repair"), "{shown:?}");
        }
        onefold(&["checkpoint", "repair", &stream.checkpoint(), "--apply"]).code(0);
        stream.feed(3..4);
        assert_eq!(stream.drain().len(), 1);
    }
}

#[test]
fn a_plan_says_whose_checkpoint_it_is_about() {
    let stream = Stream::new(1);
    stream.drain();
    copy_folder(Path::new(&stream.checkpoint()), &stream.path("copy"));
    let (file, checkpoints) = (stream.text("pipeline.sql"), stream.text("checkpoints"));
    let plan = |folder: &str, more: &[&str]| {
        let args = ["checkpoint", "plan", folder, &file, "--checkpoint", &checkpoints];
        onefold(&[&args[..], more].concat())
    };
    let own = plan(&stream.checkpoint(), &[]).code(0);
    assert!(own.out.contains("table       orders"), "{own:?}");
    assert!(!own.out.contains("keeps its checkpoint"), "{own:?}");
    let copy = plan(&stream.text("copy"), &[]).code(0);
    let note = format!("note        `orders` keeps its checkpoint in {}", stream.checkpoint());
    assert!(copy.out.contains(&note), "{copy:?}");
    let other = plan(&stream.checkpoint(), &["--table", "nope"]).code(2);
    assert!(other.err.contains("no table `nope`; there are: orders"), "{other:?}");
}

#[test]
fn a_fork_goes_on_into_an_output_of_its_own() {
    let stream = Stream::new(2);
    stream.drain();
    let (copy, output) = (stream.text("forks/orders"), stream.text("fork-out"));
    onefold(&["checkpoint", "fork", &stream.checkpoint(), &copy, "--sink", &output]).code(0);
    stream.feed(2..3);
    let pipeline = fs::read_to_string(stream.path("pipeline.sql")).unwrap();
    let forked = pipeline.replace(&stream.text("out"), &output);
    fs::write(stream.path("fork.sql"), forked).unwrap();
    let (file, checkpoints) = (stream.text("fork.sql"), stream.text("forks"));
    let args = ["run", &file, "--checkpoint", &checkpoints, "--trigger", "available-now"];
    let said = onefold(&args).code(0);
    assert_eq!(said.out.lines().count(), 1, "{said:?}");
    let verified = onefold(&["verify", &copy, "--json"]).code(0).json();
    assert_eq!((&verified["ok"], &verified["rows"]), (&true.into(), &10.into()), "{verified}");
}

#[test]
fn sigterm_ends_a_run_with_code_0_and_nothing_half_done() {
    let stream = Stream::new(3);
    let mut child = command(&stream.args(&[])).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("batchId"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    stream.drain();
    let verified = onefold(&["verify", &stream.checkpoint(), "--json"]).code(0).json();
    assert_eq!(verified["rows"], 30);
}

#[test]
fn a_pipeline_that_does_not_parse_is_code_2_with_line_column_and_caret() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.sql");
    fs::write(&path, "CREATE STREAMING TABLE t USING parquet\nAS SELEKT 1;\n").unwrap();
    let said = onefold(&["run", path.to_str().unwrap()]).code(2);
    assert!(said.err.contains("p.sql, line 2, column "), "{said:?}");
    assert!(said.err.lines().any(|line| line.trim_end().ends_with('^')), "{said:?}");
    assert_eq!(names(dir.path()), ["p.sql"], "nothing was made");
    onefold(&["run", "no-such.sql"]).code(2);
}

#[test]
fn explain_tells_the_plan_and_the_guarantee_and_makes_nothing() {
    let stream = Stream::new(1);
    let before = snapshot(stream.dir.path());
    let text = onefold(&["explain", &stream.text("pipeline.sql")]).code(0).out;
    assert!(text.contains("exactly once"), "{text}");
    let json = onefold(&["explain", &stream.text("pipeline.sql"), "--json"]).code(0).json();
    assert_eq!(json[0]["guarantee"]["whole"]["delivery"], "exactlyOnce", "{json}");
    assert!(before == snapshot(stream.dir.path()));
}

#[test]
fn a_damaged_checkpoint_is_code_4() {
    let stream = Stream::new(2);
    stream.drain();
    fs::remove_file(Path::new(&stream.checkpoint()).join("metadata")).unwrap();
    let said = onefold(&stream.args(&["--once"])).code(4);
    assert!(said.err.contains("metadata"), "{said:?}");
}

#[test]
fn the_demo_loses_and_doubles_nothing_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("demo");
    let args = ["demo", "--events", "4000", "--kills", "3", "--dir", place.to_str().unwrap()];
    let said = onefold(&args).code(0);
    for line in ["events             4 000", "lost                   0", "duplicated             0"]
    {
        assert!(said.out.contains(line), "{line}: {}", said.out);
    }
    assert!(!place.exists());
}

#[test]
fn a_demo_that_is_kept_can_be_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("demo");
    let args = ["demo", "--events", "1000", "--kills", "1", "--keep", "--dir"];
    said(command(&[&args[..], &[place.to_str().unwrap()]].concat()).output().unwrap()).code(0);
    let checkpoint = place.join("checkpoint/orders");
    onefold(&["verify", checkpoint.to_str().unwrap()]).code(0);
    onefold(&["checkpoint", "show", checkpoint.to_str().unwrap()]).code(0);
}

#[test]
fn a_table_beside_the_stream_is_read_anew_in_each_batch() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    for name in ["in", "names"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    write(
        "p.sql",
        &format!(
            "CREATE STREAMING TABLE named USING json AS SELECT s.id, n.name \
             FROM STREAM read_files('{}', format => 'json', schema => 'id BIGINT') s \
             LEFT JOIN read_files('{}', format => 'json', schema => 'id BIGINT, name STRING') n \
             USING (id)",
            path("in").display(),
            path("names").display()
        ),
    );
    let pipeline = path("p.sql").to_string_lossy().into_owned();
    let run = || onefold(&["run", &pipeline, "--trigger", "available-now"]).code(0);
    write("in/1.json", "{\"id\":1}\n");
    run();
    write("in/2.json", "{\"id\":1}\n");
    write("names/1.json", "{\"id\":1,\"name\":\"one\"}\n");
    run();
    let mut rows: Vec<String> = std::fs::read_dir(path("onefold-data/named"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    rows.sort();
    assert_eq!(rows, ["{\"id\":1,\"name\":\"one\"}\n", "{\"id\":1}\n"]);
}

#[test]
fn rows_on_a_console_are_not_mixed_with_progress() {
    let stream = Stream::new(1);
    let pipeline = stream.path("pipeline.sql");
    let text = fs::read_to_string(&pipeline).unwrap();
    let location = format!("parquet LOCATION '{}'", stream.text("out"));
    assert!(text.contains(&location));
    fs::write(&pipeline, text.replace(&location, "console")).unwrap();
    let said = onefold(&stream.args(&["--trigger", "available-now"])).code(0);
    assert!(said.out.contains("|  9|  n9|") && !said.out.contains('{'), "{said:?}");
    assert!(said.err.contains("\"numInputRows\":10"), "{said:?}");
}

#[test]
fn a_fork_with_a_new_output_names_it_before_its_first_batch() {
    let stream = Stream::new(2);
    stream.drain();
    let (copy, output) = (stream.text("copy"), stream.text("out2"));
    onefold(&["checkpoint", "fork", &stream.checkpoint(), &copy, "--sink", &output]).code(0);
    let shown = onefold(&["checkpoint", "show", &copy]).code(0);
    assert!(shown.out.contains("out2") && !shown.out.contains("/out\n"), "{shown:?}");
    let checked = onefold(&["verify", &copy]);
    assert!(!checked.err.contains("another query"), "{checked:?}");
}
