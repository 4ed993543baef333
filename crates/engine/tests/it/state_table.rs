//! The state in a checkpoint as a table, with Spark's options and columns.

use crate::world::{Host, World};
use onefold_engine::{DataFrame, OutputMode, Trigger};
use onefold_types::Result;

/// Counts of the numbers, left by three batches.
fn counted(host: &Host) -> World {
    let world = host.world(0, 2);
    *world.source.rows.lock().unwrap() = vec![1, 1, 2, 1, 2, 3];
    let counts = world.frame().group_by(&["id"]).agg(&["count(*) AS n"]).unwrap();
    let counts = counts.select_expr(&["id * 100 + n AS id"]).unwrap();
    let writer = world.writer_of(&counts, Trigger::AvailableNow).output_mode(OutputMode::Update);
    writer.start_default().unwrap().await_termination(None).unwrap();
    world
}

pub(crate) fn read(world: &World, format: &str, options: &[(&str, &str)]) -> Result<DataFrame> {
    let reader = world.session.read().format(format).options(options.iter().copied());
    reader.load_paths([world.place.clone()])
}

/// The rows as texts, sorted.
pub(crate) fn texts(frame: &DataFrame, columns: &[&str]) -> Vec<String> {
    let rows = frame.select_expr(columns).unwrap().collect().unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string();
    let mut lines: Vec<String> = text
        .lines()
        .skip(3)
        .filter(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim).filter(|it| !it.is_empty()).collect::<Vec<_>>())
        .map(|cells| cells.join(" "))
        .collect();
    lines.sort();
    lines
}

#[test]
fn state_is_read_at_the_newest_and_at_an_older_batch() {
    let host = Host::new(true);
    let world = counted(&host);
    let newest = read(&world, "statestore", &[]).unwrap();
    let names: Vec<String> =
        newest.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["key", "value", "partition_id"]);
    assert_eq!(texts(&newest, &["key.id AS k"]), ["1", "2", "3"]);
    let first = read(&world, "statestore", &[("batchId", "0")]).unwrap();
    assert_eq!(texts(&first, &["key.id AS k"]), ["1"]);
    let error = read(&world, "statestore", &[("batchId", "9")]).unwrap_err().to_string();
    assert!(error.contains("keeps no version 10 of its state"), "{error}");
    let error = read(&world, "statestore", &[("operatorId", "4")]).unwrap_err().to_string();
    assert!(error.contains("there are 0 (aggregate by id)"), "{error}");
}

#[test]
fn the_changes_of_batches_are_read_as_a_feed() {
    let host = Host::new(true);
    let world = counted(&host);
    let options = [("readChangeFeed", "true"), ("changeStartBatchId", "1")];
    let feed = read(&world, "statestore", &options).unwrap();
    let columns = ["batch_id", "change_type", "key.id AS k"];
    let all = ["1 update 1", "1 update 2", "2 update 2", "2 update 3"];
    assert_eq!(texts(&feed, &columns), all);
    let options = [&options[..], &[("changeEndBatchId", "1")]].concat();
    let feed = read(&world, "statestore", &options).unwrap();
    assert_eq!(texts(&feed, &columns), all[..2]);
    let error = read(&world, "statestore", &[("readChangeFeed", "true")]).unwrap_err();
    assert!(error.to_string().contains("changeStartBatchId"), "{error}");
}

#[test]
fn sql_reads_state_and_what_there_is_of_it_by_the_path_of_the_checkpoint() {
    let host = Host::new(true);
    let world = counted(&host);
    let sql = |text: &str| world.session.sql(&text.replace("PLACE", &world.place)).unwrap();
    let rows = sql("SELECT key.id AS k FROM statestore.`PLACE` WHERE key.id > 1");
    assert_eq!(texts(&rows, &["k"]), ["2", "3"]);
    let metadata = sql("SELECT * FROM `state-metadata`.`PLACE`");
    let columns = ["operatorId", "operatorName", "stateStoreName", "minBatchId", "maxBatchId"];
    assert_eq!(texts(&metadata, &columns), ["0 stateStoreSave default 0 2"]);
    assert_eq!(texts(&read(&world, "state-metadata", &[]).unwrap(), &columns).len(), 1);
}
