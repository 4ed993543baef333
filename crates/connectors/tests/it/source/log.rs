//! The source's log: what stays of it after power cuts, purges and other drivers.

use super::rig::{Rig, propose};
use onefold_connectors::file_source;
use onefold_storage::{Created, Durability, Store};
use onefold_testkit::{Fault, FaultPlan, MemoryStore};
use onefold_types::ErrorKind;
use std::sync::Arc;

/// How a power cut treats what was not synced.
#[derive(Debug, Clone, Copy)]
enum Cut {
    Lost,
    Torn(usize),
}

impl Cut {
    fn all() -> Vec<Cut> {
        let line =
            r#"{"path":"file:///tmp/.tmpABCDEF/000.json","timestamp":1000,"batchId":0}"#.len();
        let lengths = [0, 2, 3, line, 3 + 2 * line, 3 + 5 * line];
        std::iter::once(Cut::Lost).chain(lengths.map(Cut::Torn)).collect()
    }

    fn happens(self, disk: &MemoryStore) {
        match self {
            Cut::Lost => disk.cut_power(),
            Cut::Torn(bytes) => disk.cut_power_tearing(bytes),
        }
    }
}

fn rig(interval: u64, keep: u64) -> Rig {
    Rig::new(&file_source::JSON)
        .with("maxFilesPerTrigger", "1")
        .conf("spark.sql.streaming.fileSource.log.compactInterval", &interval.to_string())
        .conf("spark.sql.streaming.minBatchesToRetain", &keep.to_string())
}

/// What Spark finds of the log: from the newest compacted file on, every number is there.
async fn spark_reads(disk: &MemoryStore) -> Vec<String> {
    let names: Vec<String> = disk
        .paths()
        .iter()
        .filter_map(|path| Some(path.strip_prefix("sources/0/")?.to_owned()))
        .filter(|name| !name.starts_with('.'))
        .collect();
    let number = |name: &String| name.trim_end_matches(".compact").parse::<u64>().unwrap();
    let compact = names.iter().filter(|name| name.ends_with(".compact")).map(number).max();
    let latest = names.iter().map(number).max();
    let mut paths = Vec::new();
    for number in compact.unwrap_or(0)..latest.map_or(0, |latest| latest + 1) {
        let end = if Some(number) == compact { ".compact" } else { "" };
        let bytes = disk.read(&format!("sources/0/{number}{end}")).await.unwrap();
        let text = String::from_utf8(bytes.unwrap().to_vec()).unwrap();
        let mut lines = text.split('\n');
        assert_eq!(lines.next(), Some("v1"));
        for line in lines {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            paths.push(line["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned());
        }
    }
    paths
}

/// Runs batches, cuts the power after one of them (or after the plan of the next), restarts, and
/// runs on: every file is read once and the log holds all of them.
async fn cut_after(batch: i64, planned: bool, interval: u64, keep: u64, cut: Cut) {
    let case = format!("{cut:?} after {batch}, planned: {planned}, every {interval}, keep {keep}");
    let mut rig = rig(interval, keep);
    let last = batch + 5;
    for id in 0..=last {
        rig.row(&format!("{id:03}.json"), id, 1_000 + id as u64);
    }
    let mut source = rig.open().await.unwrap();
    let mut seen = Vec::new();
    for id in 0..=batch {
        seen.extend(rig.batch(source.as_ref()).await.unwrap().unwrap());
        assert_eq!(seen.last(), Some(&id), "{case}");
        rig.purge(source.as_ref(), keep).await.unwrap();
    }
    if planned {
        // The entry is made, its intent is not.
        let start = rig.intents.last().and_then(|(_, range)| range.end.clone());
        propose(source.as_ref(), start).await.unwrap();
    }
    drop(source);
    cut.happens(&rig.memory);
    source = rig.open().await.unwrap_or_else(|error| panic!("{case}: {}", error.chain()));
    while let Some(ids) = rig.batch(source.as_ref()).await.unwrap() {
        seen.extend(ids);
        rig.purge(source.as_ref(), keep).await.unwrap();
    }
    assert_eq!(seen, (0..=last).collect::<Vec<_>>(), "{case}");
    let names: Vec<String> = (0..=last).map(|id| format!("{id:03}.json")).collect();
    assert_eq!(spark_reads(&rig.memory).await, names, "{case}");
}

#[tokio::test]
async fn a_power_cut_after_any_batch_loses_and_doubles_no_file() {
    for cut in Cut::all() {
        for keep in [1, 2, 7, 100] {
            for batch in 0..12 {
                cut_after(batch, batch % 2 == 0, 4, keep, cut).await;
            }
        }
        cut_after(5, true, 1, 3, cut).await;
        cut_after(14, true, 20, 3, cut).await;
    }
}

#[tokio::test]
async fn the_log_costs_no_sync_and_is_purged_behind_a_synced_compacted_file() {
    let mut rig = rig(3, 4);
    for id in 0..20 {
        rig.row(&format!("{id:03}.json"), id, 1_000);
    }
    let plan = FaultPlan::clean();
    rig.checkpoint = plan.wrap(Arc::new(rig.memory.clone()));
    let source = rig.open().await.unwrap();
    for _ in 0..20 {
        let before = plan.acts();
        rig.batch(source.as_ref()).await.unwrap();
        let acts: Vec<_> = plan.log().drain(before as usize..).map(|act| act.name).collect();
        assert_eq!(acts, ["create"]);
        rig.purge(source.as_ref(), 4).await.unwrap();
    }
    let left = rig.memory.paths();
    let left: Vec<&str> =
        left.iter().filter(|path| !path.contains("/.")).map(|path| path.as_str()).collect();
    let wanted = ["sources/0/14.compact", "sources/0/15", "sources/0/16", "sources/0/17.compact"];
    assert_eq!(left[..4], wanted);
    // Each deletion comes after the sync of what replaces the files.
    let log = plan.log();
    let first_delete = log.iter().position(|act| act.name == "delete").unwrap();
    assert!(log[..first_delete].iter().any(|act| act.name == "sync"));
}

#[tokio::test]
async fn a_sync_that_fails_deletes_nothing() {
    let mut rig = rig(2, 1);
    for id in 0..6 {
        rig.row(&format!("{id}.json"), id, 1_000);
    }
    let source = rig.open().await.unwrap();
    for _ in 0..6 {
        rig.batch(source.as_ref()).await.unwrap();
    }
    drop(source);
    let before = rig.memory.paths();
    rig.checkpoint = FaultPlan::at(1, Fault::NotDone).wrap(Arc::new(rig.memory.clone()));
    let source = rig.open().await.unwrap();
    source.release(&rig.intents.last().unwrap().1.clone()).await.unwrap();
    let error = rig.purge(source.as_ref(), 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(rig.memory.paths(), before);
}

#[tokio::test]
async fn an_entry_of_another_driver_is_the_next_batch() {
    for number in [1, 3] {
        let mut rig = rig(2, 100);
        for id in 0..6 {
            rig.row(&format!("{id}.json"), id, 1_000);
        }
        let source = rig.open().await.unwrap();
        for _ in 0..number {
            rig.batch(source.as_ref()).await.unwrap();
        }
        let uri = |id: i64| format!("file://{}/{id}.json", rig.folder.path().display());
        let line = |id: i64, batch: i64| {
            format!("\n{{\"path\":\"{}\",\"timestamp\":1000000,\"batchId\":{batch}}}", uri(id))
        };
        let mut text = "v1".to_owned();
        (0..number).for_each(|id| text.push_str(&line(id, id)));
        text.push_str(&line(5, number));
        let path = format!("sources/0/{number}.compact");
        let created = rig.memory.create(&path, text.into(), Durability::Now).await.unwrap();
        assert_eq!(created, Created::New);
        assert_eq!(rig.batch(source.as_ref()).await.unwrap(), Some(vec![5]));
        assert_eq!(rig.batch(source.as_ref()).await.unwrap(), Some(vec![number]));
    }
}

#[tokio::test]
async fn a_compacted_file_that_nothing_can_replace_is_named() {
    let mut rig = rig(2, 1);
    for id in 0..8 {
        rig.row(&format!("{id}.json"), id, 1_000);
    }
    let source = rig.open().await.unwrap();
    for _ in 0..8 {
        rig.batch(source.as_ref()).await.unwrap();
        rig.purge(source.as_ref(), 1).await.unwrap();
    }
    drop(source);
    rig.memory.delete("sources/0/7.compact").await.unwrap();
    rig.memory.delete("sources/0/5.compact").await.unwrap();
    for compact in ["5.compact", "7.compact"] {
        let path = format!("sources/0/{compact}");
        rig.memory.create(&path, "v1\n{\"pa".into(), Durability::Now).await.unwrap();
    }
    let error = rig.open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains(".compact"), "{error}");
    assert!(rig.memory.paths().contains(&"sources/0/5.compact".to_owned()));
}

#[tokio::test]
async fn a_hidden_file_of_a_process_that_died_is_taken_away() {
    let mut rig = rig(10, 100);
    rig.row("0.json", 0, 1_000);
    let leftover = "sources/0/.9.compact.abc.staged";
    rig.memory.create(leftover, "v1".into(), Durability::Now).await.unwrap();
    rig.memory.create("sources/0/.0.crc", "crc".into(), Durability::Now).await.unwrap();
    assert_eq!(rig.drain().await.unwrap(), [[0]]);
    assert_eq!(rig.memory.paths(), ["sources/0/.0.crc", "sources/0/0"]);
}
