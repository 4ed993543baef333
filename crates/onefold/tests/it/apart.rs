//! Queries over files whose folders, or whose checkpoints, are in each other's way.

use super::{LIMIT, Place, ids, once_each, session};
use onefold::pipeline::{self, PipelineOptions};
use onefold::types::ErrorKind;
use onefold::{DataStreamWriter, Session, Trigger};
use std::fs;
use std::os::unix::fs::symlink;

fn writer(session: &Session, place: &Place, input: &str, checkpoint: &str) -> DataStreamWriter {
    let stream = session.read_stream().format("json").schema("id BIGINT, userName STRING");
    let stream = stream.option("recursiveFileLookup", "true").load(place.text(input)).unwrap();
    stream
        .write_stream()
        .format("parquet")
        .option("checkpointLocation", place.text(checkpoint))
        .trigger(Trigger::AvailableNow)
}

#[test]
fn a_query_that_would_read_what_it_writes_does_not_start() {
    let place = Place::new();
    place.put("a.json", 0..2);
    symlink("in", place.path("link")).unwrap();
    let session = session();
    for (input, output, checkpoint) in
        [("in", "link/out", "checkpoint"), ("link", "in", "checkpoint"), ("in", "out", "link/c")]
    {
        let error = writer(&session, &place, input, checkpoint).start(place.text(output));
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("lie within each other"), "{error}");
        let mut left: Vec<_> =
            fs::read_dir(place.root.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["in", "link"], "nothing was made");
        assert_eq!(fs::read_dir(place.path("in")).unwrap().count(), 1);
    }
    writer(&session, &place, "in", "checkpoint")
        .start(place.text("out"))
        .unwrap()
        .await_termination(LIMIT)
        .unwrap();
    assert_eq!(ids(&place.path("out")), once_each(0..2));
}

#[test]
fn two_sessions_do_not_drive_one_checkpoint() {
    let place = Place::new();
    place.put("a.json", 0..2);
    let (one, other) = (session(), session());
    let first = writer(&one, &place, "in", "checkpoint").trigger(Trigger::default());
    let first = first.start(place.text("out")).unwrap();
    first.process_all_available().unwrap();
    symlink("checkpoint", place.path("link")).unwrap();
    let error = writer(&other, &place, "in", "link")
        .option("spark.sql.streaming.stopActiveRunOnRestart", "false")
        .start(place.text("out"))
        .unwrap_err();
    assert!(error.to_string().contains("is already active in this process"), "{error}");
    assert!(first.is_active());
    let second = writer(&other, &place, "in", "link").start(place.text("out")).unwrap();
    second.await_termination(LIMIT).unwrap();
    assert!(!first.is_active());
    assert_eq!(ids(&place.path("out")), once_each(0..2));
}

/// Where the folders differ but hold one query, such as copies of a checkpoint, the second table is
/// stopped, and so is the pipeline: the first table was no more.
#[test]
fn tables_whose_checkpoints_are_one_query_end_the_pipeline() {
    let place = Place::new();
    place.put("a.json", 0..2);
    let table = |name: &str| {
        format!(
            "CREATE STREAMING TABLE {name} USING parquet AS SELECT id FROM STREAM read_files('{}', \
             format => 'json', schema => 'id BIGINT');\n",
            place.text("in")
        )
    };
    let start = |text: &str, trigger| {
        let storage = Some(place.text("tables"));
        let options = PipelineOptions { trigger, storage, checkpoint: None };
        let session = session();
        pipeline::start(&session, text, &options).map(|queries| (session, queries))
    };
    let (_session, queries) = start(&table("a"), Trigger::AvailableNow).unwrap();
    queries[0].await_termination(LIMIT).unwrap();
    let checkpoints = place.path("tables/_checkpoints");
    fs::create_dir(checkpoints.join("b")).unwrap();
    fs::copy(checkpoints.join("a/metadata"), checkpoints.join("b/metadata")).unwrap();
    for trigger in [Trigger::AvailableNow, Trigger::default()] {
        let error = start(&(table("a") + &table("b")), trigger).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(
            text.starts_with("line 2, column 1: tables `b` and `a` have one checkpoint"),
            "{text}"
        );
    }
}

#[test]
fn a_file_whose_schema_never_fits_ends_the_query_after_one_try() {
    let place = Place::new();
    let session = session();
    let stream = session.read_stream().format("json").schema("id BIGINT, userName STRING");
    let stream = stream.option("mode", "FAILFAST").load(place.text("in")).unwrap();
    fs::write(place.path("in/a.json"), "{\"id\":\"no number\"}\n").unwrap();
    let query = stream
        .write_stream()
        .format("parquet")
        .option("checkpointLocation", place.text("checkpoint"))
        .option("onefold.retry.maxAttempts", "1000")
        .trigger(Trigger::AvailableNow)
        .start(place.text("out"))
        .unwrap();
    let error = query.await_termination(LIMIT).unwrap_err();
    assert!(error.to_string().contains("a.json"), "{error}");
    let tries = fs::read_dir(place.path("checkpoint/_onefold/generations")).unwrap();
    let tries: Vec<_> = tries.map(|it| it.unwrap().file_name()).collect();
    assert_eq!(tries, ["1"], "one try");
    assert!(ids(&place.path("out")).is_empty());
}
