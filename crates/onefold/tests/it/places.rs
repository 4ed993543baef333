//! Where a query keeps its things: odd names, two tables of one name.

use crate::{LIMIT, Place, ids, once_each, session};
use onefold::Trigger;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn entries(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect()
}

/// Names of folders whose characters mean something in addresses.
const CHECKPOINT: &str = "chk %#x=é+";
const OUTPUT: &str = "out %#x=é+";

fn run(place: &Place, output: &str) {
    let session = session();
    let stream = session.read_stream().format("json").schema("id BIGINT, userName STRING");
    let query = stream
        .load(place.text("in"))
        .unwrap()
        .write_stream()
        .option("checkpointLocation", place.text(CHECKPOINT))
        .trigger(Trigger::AvailableNow)
        .start(output)
        .unwrap();
    query.await_termination(LIMIT).unwrap();
}

/// SPARK-26824, SPARK-46339: names stay as they are written, over restarts too, and a folder with
/// a number in the log is no batch.
#[test]
fn odd_names_of_folders_stay_as_they_are_written() {
    let place = Place::new();
    place.put("a.json", 0..10);
    run(&place, &place.text(OUTPUT));
    fs::create_dir(place.path(CHECKPOINT).join("offsets/7")).unwrap();
    place.put("b.json", 10..20);
    run(&place, &place.text(OUTPUT));
    let wanted = ["in", CHECKPOINT, OUTPUT].map(str::to_owned);
    assert_eq!(entries(place.root.path()), BTreeSet::from(wanted));
    assert_eq!(ids(&place.path(OUTPUT)), once_each(0..20));
}

/// SPARK-50854: a relative path is that of the process, for each part of the query.
#[test]
fn a_relative_path_is_one_place() {
    let place = Place::new();
    place.put("a.json", 0..10);
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count() - 1);
    let relative = format!("{up}{}", place.text(OUTPUT).trim_start_matches('/'));
    run(&place, &relative);
    place.put("b.json", 10..20);
    run(&place, &place.text(OUTPUT));
    assert_eq!(ids(&place.path(OUTPUT)), once_each(0..20));
}

/// SPARK-54358: tables of one name in two databases share nothing.
#[test]
fn tables_of_one_name_in_two_databases_have_checkpoints_of_their_own() {
    let place = Place::new();
    place.put("a.json", 0..10);
    let session = onefold::session()
        .threads(2)
        .conf("spark.sql.warehouse.dir", place.text("warehouse"))
        .conf("spark.sql.streaming.checkpointLocation", place.text("checkpoints"))
        .build()
        .unwrap();
    for table in ["s1.t", "s2.t"] {
        let stream = session.read_stream().format("json").schema("id BIGINT, userName STRING");
        let writer = stream.load(place.text("in")).unwrap().write_stream();
        let query = writer.trigger(Trigger::AvailableNow).to_table(table).unwrap();
        query.await_termination(LIMIT).unwrap();
    }
    assert_eq!(entries(&place.path("checkpoints")).len(), 2);
    for database in ["s1.db", "s2.db"] {
        assert_eq!(ids(&place.path("warehouse").join(database).join("t")), once_each(0..10));
    }
}
