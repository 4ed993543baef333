//! Which files a batch takes, and what becomes of them afterwards.

use super::rig::{Rig, ids, propose, rows, touch};
use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int32Type};
use onefold_connector::ReadLimit;
use onefold_connectors::file_source;
use onefold_storage::Store;
use onefold_types::ErrorKind;
use std::fs;
use std::os::unix::ffi::OsStrExt;

fn json() -> Rig {
    Rig::new(&file_source::JSON)
}

fn three(rig: &Rig) {
    // Names are against the order of times.
    rig.row("c.json", 1, 1_000);
    rig.row("b.json", 2, 2_000);
    rig.row("a.json", 3, 3_000);
}

#[tokio::test]
async fn every_file_is_read_once_through_restarts_and_odd_names() {
    let mut rig = json().with("maxFilesPerTrigger", "1");
    let names = ["a b.json", "c%20d.json", "e=é+'.json", "_hidden.json", "q\"\n.json", ".x.json"];
    for (at, name) in names.iter().enumerate() {
        rig.row(name, at as i64, 1_000 + at as u64);
    }
    let odd = rig.folder.path().join(std::ffi::OsStr::from_bytes(b"\xff%41.json"));
    fs::write(&odd, "{\"id\":7}").unwrap();
    touch(&odd, 1_500);
    let mut seen = Vec::new();
    for later in 0..30 {
        let source = rig.open().await.unwrap();
        let start = rig.intents.last().and_then(|(_, range)| range.end.clone());
        let planned = propose(source.as_ref(), start.clone()).await.unwrap();
        // Asked again it gives the same range: the entry is there and no intent names it.
        assert_eq!(propose(source.as_ref(), start).await.unwrap(), planned);
        seen.extend(rig.batch(source.as_ref()).await.unwrap().unwrap_or_default());
        if later < 20 {
            rig.row(&format!("later-{later}.json"), 100 + later, 2_000);
        }
    }
    seen.sort_unstable();
    let wanted: Vec<i64> = [0, 1, 2, 4, 7].into_iter().chain(100..120).collect();
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn files_go_by_time_oldest_or_newest_first() {
    let mut oldest = json().with("maxFilesPerTrigger", "2");
    three(&oldest);
    assert_eq!(oldest.drain().await.unwrap(), [vec![1, 2], vec![3]]);
    let mut newest = json().with("maxFilesPerTrigger", "2").with("latestFirst", "true");
    three(&newest);
    assert_eq!(newest.drain().await.unwrap(), [vec![3, 2], vec![1]]);
    // An old file that comes later is not too old then.
    newest.row("old.json", 4, 1);
    assert_eq!(newest.drain().await.unwrap(), [[4]]);
}

#[tokio::test]
async fn bytes_bound_a_batch_but_one_file_is_always_taken() {
    // A file has 9 bytes.
    for (bytes, batches) in [("1", 3), ("17", 3), ("18", 2), ("26b", 2), ("1k", 1)] {
        let mut rig = json().with("maxBytesPerTrigger", bytes);
        three(&rig);
        let read = rig.drain().await.unwrap();
        assert_eq!(read.len(), batches, "{bytes}");
        assert_eq!(read.concat(), [1, 2, 3], "{bytes}");
    }
    let both = json().with("maxBytesPerTrigger", "1").with("maxFilesPerTrigger", "1");
    assert_eq!(both.define().await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_trigger_that_takes_everything_ignores_the_limit() {
    let rig = json().with("maxFilesPerTrigger", "1");
    three(&rig);
    let source = rig.open().await.unwrap();
    let latest = source.latest_offset(None, ReadLimit::All).await.unwrap();
    let range = onefold_types::OffsetRange { start: None, end: latest.end, note: latest.note };
    assert_eq!(ids(&rows(source.as_ref(), &range, &[0]).await.unwrap()), [1, 2, 3]);
}

#[tokio::test]
async fn files_older_than_the_age_allowed_are_left_out_once_newer_ones_were_read() {
    let mut rig = json().with("maxFileAge", "1h");
    rig.row("first.json", 1, 10_000);
    assert_eq!(rig.drain().await.unwrap(), [[1]]);
    rig.row("new.json", 2, 20_000);
    assert_eq!(rig.drain().await.unwrap(), [[2]]);
    // 3,600 s before the newest are still in.
    rig.row("old.json", 3, 16_399);
    rig.row("young.json", 4, 16_400);
    assert_eq!(rig.drain().await.unwrap(), [[4]]);
    // A file that was forgotten is not read again either.
    assert_eq!(rig.drain().await.unwrap(), [[0_i64; 0]; 0]);
}

#[tokio::test]
async fn with_names_alone_a_file_in_another_folder_is_known() {
    for (names_only, wanted) in [("true", vec![vec![1]]), ("false", vec![vec![1], vec![2]])] {
        let mut rig = json().with("fileNameOnly", names_only).with("recursiveFileLookup", "true");
        rig.row("x/a.json", 1, 1_000);
        let mut read = rig.drain().await.unwrap();
        rig.row("y/a.json", 2, 2_000);
        read.extend(rig.drain().await.unwrap());
        assert_eq!(read, wanted, "{names_only}");
    }
}

#[tokio::test]
async fn an_available_now_run_takes_what_was_there_at_its_start() {
    let mut rig = json().with("maxFilesPerTrigger", "2");
    three(&rig);
    let source = rig.open().await.unwrap();
    source.pin_available().await.unwrap();
    assert_eq!(rig.batch(source.as_ref()).await.unwrap(), Some(vec![1, 2]));
    rig.row("late.json", 4, 500);
    assert_eq!(rig.batch(source.as_ref()).await.unwrap(), Some(vec![3]));
    assert_eq!(rig.batch(source.as_ref()).await.unwrap(), None);
    let next = rig.open().await.unwrap();
    next.pin_available().await.unwrap();
    assert_eq!(rig.batch(next.as_ref()).await.unwrap(), Some(vec![4]));
}

#[tokio::test]
async fn patterns_name_folders_and_files() {
    let files = |rig: &Rig| {
        for (at, below) in
            ["2026-01/a.json", "2026-02/b.json", "2027-01/c.json", "x.json"].iter().enumerate()
        {
            rig.row(below, at as i64, 1_000 + at as u64);
        }
        rig.row("2026-01/note.txt", 9, 2_000);
        rig.row(".hidden/h.json", 10, 2_000);
        rig.row("_tmp/t.json", 11, 2_000);
    };
    let cases: [(&str, &[i64]); 7] = [
        ("2026-*", &[0, 1, 9]),
        ("2026-*/*.json", &[0, 1]),
        ("{2026,2027}-01/?.json", &[0, 2]),
        ("20[0-9][0-9]-0[2-9]", &[1]),
        ("*.json", &[3]),
        ("2026-01/a.json", &[0]),
        ("nothing*", &[]),
    ];
    for (pattern, wanted) in cases {
        let mut rig = json();
        files(&rig);
        rig = rig.path(pattern);
        assert_eq!(rig.drain().await.unwrap().concat(), wanted, "{pattern}");
    }
    // A folder that comes later fits the pattern too.
    let mut rig = json();
    files(&rig);
    rig = rig.path("2026-*");
    assert_eq!(rig.drain().await.unwrap(), [[0, 1, 9]]);
    rig.row("2026-03/d.json", 4, 3_000);
    assert_eq!(rig.drain().await.unwrap(), [[4]]);
    let mut filtered = json().with("pathGlobFilter", "*.json");
    files(&filtered);
    filtered = filtered.path("2026-*");
    assert_eq!(filtered.drain().await.unwrap(), [[0, 1]]);
    let bad = json().with("pathGlobFilter", "[");
    assert_eq!(bad.define().await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn several_paths_are_one_source() {
    let mut rig = json();
    rig.row("x/a.json", 1, 1_000);
    rig.row("y/b.json", 2, 2_000);
    rig.row("z/c.json", 3, 3_000);
    rig = rig.path("y").path("x");
    assert_eq!(rig.drain().await.unwrap(), [[1, 2]]);
}

#[tokio::test]
async fn folders_in_folders_are_read_if_asked_for_without_partitions() {
    let files = |rig: &Rig| {
        rig.row("a.json", 1, 1_000);
        rig.row("sub/b.json", 2, 2_000);
        rig.row("k=7/c.json", 3, 3_000);
        rig.row("k=8/deep/d.json", 4, 4_000);
    };
    let mut flat = json();
    files(&flat);
    // As in Spark, partition folders are looked into and others are not.
    assert_eq!(flat.drain().await.unwrap(), [[1, 3, 4]]);
    let mut deep = json().with("recursiveFileLookup", "true");
    files(&deep);
    assert_eq!(deep.define().await.unwrap().schema().fields().len(), 4);
    assert_eq!(deep.drain().await.unwrap(), [[1, 2, 3, 4]]);
    std::os::unix::fs::symlink(deep.folder.path(), deep.at("sub/loop")).unwrap();
    let source = deep.open().await.unwrap();
    let error = propose(source.as_ref(), None).await;
    assert!(error.is_ok() || error.unwrap_err().to_string().contains("loop"));
}

#[tokio::test]
async fn partition_folders_begin_at_the_base_path() {
    let mut rig = json();
    rig.row("k=1/f.json", 1, 1_000);
    rig.row("k=__HIVE_DEFAULT_PARTITION__/g.json", 2, 2_000);
    let base = rig.folder.path().to_str().unwrap().to_owned();
    rig = rig.path("k=1");
    assert!(rig.define().await.unwrap().schema().column_with_name("k").is_none());
    rig = rig.with("basePath", &base);
    let schema = rig.define().await.unwrap().schema();
    let (at, field) = schema.column_with_name("k").unwrap();
    assert_eq!(field.data_type(), &DataType::Int32);
    let batches = rig.rows(&[0, at]).await.unwrap();
    assert_eq!(ids(&batches), [1]);
    assert_eq!(batches[0].column(1).as_primitive::<Int32Type>().values().to_vec(), [1]);
    let mut all = json();
    all.row("k=1/f.json", 1, 1_000);
    all.row("k=__HIVE_DEFAULT_PARTITION__/g.json", 2, 2_000);
    let batches = all.rows(&[0, 3]).await.unwrap();
    let keys: Vec<_> = batches
        .iter()
        .flat_map(|b| b.column(1).as_primitive::<Int32Type>().iter().collect::<Vec<_>>())
        .collect();
    assert_eq!(keys, [Some(1), None]);
    // A value that is no number any more, in a column whose type was fixed at the start.
    let source = all.open().await.unwrap();
    all.row("k=two/h.json", 3, 3_000);
    let range = all.plan(source.as_ref()).await.unwrap().unwrap();
    let error = rows(source.as_ref(), &range, &[0, 3]).await.unwrap_err();
    assert!(error.to_string().contains("partition column `k`"), "{error}");
}

#[tokio::test]
async fn files_are_archived_or_deleted_once_their_batch_is_over() {
    let archive = tempfile::tempdir().unwrap();
    let folder = archive.path().to_str().unwrap().to_owned();
    let mut rig = json().with("cleanSource", "archive").with("sourceArchiveDir", &folder);
    let path = rig.row("k=1/a b.json", 1, 1_000);
    let source = rig.open().await.unwrap();
    let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
    assert_eq!(ids(&rows(source.as_ref(), &range, &[0]).await.unwrap()), [1]);
    assert!(path.exists(), "nothing is moved before the commit");
    source.release(&range).await.unwrap();
    let archived = archive.path().join(path.strip_prefix("/").unwrap());
    assert_eq!(fs::read_to_string(&archived).unwrap(), "{\"id\":1}\n");
    assert!(!path.exists());
    // Asked again after a crash it does nothing; a taken name is left alone.
    source.release(&range).await.unwrap();
    rig.row("k=1/a b.json", 2, 2_000);
    source.release(&range).await.unwrap();
    assert_eq!(fs::read_to_string(&archived).unwrap(), "{\"id\":1}\n");
    assert!(path.exists());

    let mut rig = json().with("cleanSource", "delete").with("maxFilesPerTrigger", "1");
    three(&rig);
    let source = rig.open().await.unwrap();
    rig.batch(source.as_ref()).await.unwrap();
    assert!(!rig.at("c.json").exists() && rig.at("b.json").exists());
    // A crash before the release: the next start releases again.
    let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
    drop(source);
    let source = rig.open().await.unwrap();
    source.release(&range).await.unwrap();
    assert!(!rig.at("b.json").exists() && rig.at("a.json").exists());
}

#[tokio::test]
async fn an_archive_inside_the_source_or_around_it_is_refused() {
    for below in ["", "archive", "..", "k/../archive"] {
        let rig = json();
        let folder = rig.at(below).to_str().unwrap().to_owned();
        let rig = rig.with("cleanSource", "archive").with("sourceArchiveDir", &folder);
        let error = rig.define().await.unwrap_err();
        assert!(error.to_string().contains("sourceArchiveDir"), "{below}: {error}");
    }
    let error = json().with("cleanSource", "archive").define().await.unwrap_err();
    assert!(error.to_string().contains("sourceArchiveDir"), "{error}");
}

fn manifest_line(rig: &Rig, name: &str, size: usize) -> String {
    let path = format!("file://{}/{}", rig.folder.path().display(), name.replace(' ', "%20"));
    format!(
        "\n{{\"path\":\"{path}\",\"size\":{size},\"isDir\":false,\"modificationTime\":1,\
         \"blockReplication\":1,\"blockSize\":33554432,\"action\":\"add\"}}"
    )
}

#[tokio::test]
async fn the_output_of_a_file_sink_is_read_through_its_manifest() {
    let mut rig = json().with("maxFilesPerTrigger", "1");
    for (at, name) in ["a b.json", "b.json", "c.json", "orphan.json"].iter().enumerate() {
        rig.row(name, at as i64, 1_000 + at as u64);
    }
    let line = |rig: &Rig, name: &str| manifest_line(rig, name, 9);
    let compact = format!("v1{}{}", line(&rig, "a b.json"), line(&rig, "b.json"));
    rig.file("_spark_metadata/1", "v1\nnot read: the compacted file holds it");
    rig.file("_spark_metadata/1.compact", compact);
    rig.file("_spark_metadata/2", "v1");
    assert_eq!(rig.drain().await.unwrap(), [[0], [1]]);
    let text = format!("v1{}", line(&rig, "c.json"));
    rig.file("_spark_metadata/3", text);
    assert_eq!(rig.drain().await.unwrap(), [[2]]);
    assert_eq!(rig.drain().await.unwrap(), [[0_i64; 0]; 0]);
    rig.file("_spark_metadata/4", "v1\n{");
    let source = rig.open().await.unwrap();
    let start = rig.intents.last().and_then(|(_, range)| range.end.clone());
    let error = propose(source.as_ref(), start).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("_spark_metadata/4"), "{error}");
}

#[tokio::test]
async fn a_long_note_goes_into_a_file_of_its_own_and_is_purged_later() {
    let mut rig = json()
        .conf("spark.sql.streaming.minBatchesToRetain", "2")
        .conf("spark.sql.streaming.fileSource.log.compactInterval", "3");
    let mut wanted = Vec::new();
    for batch in 0..8_i64 {
        for at in 0..400_i64 {
            let name = format!("{batch}-{at:03}-{}.json", "x".repeat(150));
            rig.row(&name, batch * 1_000 + at, 1_000 + at as u64);
        }
        wanted.push((0..400).map(|at| batch * 1_000 + at).collect::<Vec<_>>());
        let source = rig.open().await.unwrap();
        assert_eq!(rig.batch(source.as_ref()).await.unwrap().as_ref(), wanted.last());
        let note = rig.intents.last().unwrap().1.note.clone().unwrap();
        assert_eq!(note, format!("{{\"see\":\"_onefold/sources/0/{batch}\"}}"));
        // A power cut leaves side files, and the log is made again from them.
        drop(source);
        rig.memory.cut_power();
        let source = rig.open().await.unwrap();
        let range = rig.intents.last().unwrap().1.clone();
        let read = ids(&rows(source.as_ref(), &range, &[0]).await.unwrap());
        assert_eq!(Some(&read), wanted.last());
        source.release(&range).await.unwrap();
        rig.purge(source.as_ref(), 2).await.unwrap();
    }
    let paths = rig.memory.paths();
    let side: Vec<&String> = paths.iter().filter(|path| path.starts_with("_onefold")).collect();
    assert_eq!(
        side,
        [
            "_onefold/sources/0/3",
            "_onefold/sources/0/4",
            "_onefold/sources/0/5",
            "_onefold/sources/0/6",
            "_onefold/sources/0/7"
        ]
    );
    // The newest note is needed; an older one is not, since the log holds its entry.
    rig.memory.delete("_onefold/sources/0/6").await.unwrap();
    assert_eq!(rig.drain().await.unwrap(), [[0_i64; 0]; 0]);
}

#[tokio::test]
async fn the_hidden_column_tells_the_file() {
    let mut rig = json();
    rig.row("a b.json", 1, 1_000);
    let batches = rig.rows(&[0, 3]).await.unwrap();
    let metadata = batches[0].column(1).as_struct();
    let path = metadata.column(0).as_string::<i32>().value(0).to_owned();
    assert_eq!(path, format!("file://{}/a%20b.json", rig.folder.path().display()));
    assert_eq!(metadata.column(1).as_string::<i32>().value(0), "a b.json");
}
