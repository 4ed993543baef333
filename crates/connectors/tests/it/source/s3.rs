//! Input in a bucket: the same promises as on a disk, told by ETag.

use super::rig::{Rig, ids, rows};
use onefold_connector::Source;
use onefold_connectors::file_source;
use onefold_storage::{Created, Durability, Store};
use onefold_testkit::{Operation, S3Fault, S3Server};
use onefold_types::{ErrorKind, OptionMap, Replay};
use std::sync::Arc;

struct Remote {
    server: S3Server,
    store: Arc<dyn Store>,
}

impl Remote {
    fn start() -> Remote {
        let server = S3Server::start().unwrap();
        let store = onefold_storage::open(server.url("").trim_end_matches('/'), &server.options());
        Remote { store: store.unwrap(), server }
    }

    /// A source over a path in the bucket; how to reach it is said by the session.
    fn rig(&self, spec: &'static onefold_connector::SourceSpec, path: &str) -> Rig {
        let mut rig = Rig::new(spec);
        rig.paths = vec![self.server.url(path)];
        rig.conf = self.conf();
        rig
    }

    fn conf(&self) -> std::collections::BTreeMap<String, String> {
        let options: OptionMap = self.server.options();
        options.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    async fn put(&self, key: &str, bytes: impl Into<bytes::Bytes>) {
        let created = self.store.create(key, bytes.into(), Durability::Now).await.unwrap();
        assert_eq!(created, Created::New);
    }

    async fn replace(&self, key: &str, bytes: impl Into<bytes::Bytes>) {
        self.store.delete(key).await.unwrap();
        self.put(key, bytes).await;
    }

    async fn row(&self, key: &str, id: i64) {
        self.put(key, format!("{{\"id\":{id}}}\n")).await;
    }
}

/// The ids of all batches, in order.
async fn drained(rig: &mut Rig) -> Vec<i64> {
    let mut read = rig.drain().await.unwrap().concat();
    read.sort_unstable();
    read
}

#[tokio::test]
async fn every_object_is_read_once_through_restarts() {
    let remote = Remote::start();
    let mut rig = remote.rig(&file_source::JSON, "in").with("maxFilesPerTrigger", "2");
    let names = ["a b.json", "c%20d.json", "e=é+'.json", "_hidden.json", ".h.json", "k=1/f.json"];
    for (at, name) in names.iter().enumerate() {
        remote.row(&format!("in/{name}"), at as i64).await;
    }
    remote.row("in/sub/no.json", 90).await;
    remote.row("inner/no.json", 91).await;
    remote.put("in", "").await;
    assert_eq!(drained(&mut rig).await, [0, 1, 2, 5]);
    // More than one page of a listing.
    for id in 100..250 {
        remote.row(&format!("in/later-{id}.json"), id).await;
    }
    assert_eq!(drained(&mut rig).await, (100..250).collect::<Vec<_>>());
    assert_eq!(drained(&mut rig).await, [0_i64; 0]);
    let definition = rig.define().await.unwrap();
    assert_eq!(definition.description(), "FileStreamSource[s3://onefold-test/in]");
    assert_eq!(definition.folders(), ["s3://onefold-test/in"]);
    assert!(matches!(definition.replay(), Replay::Exact { .. }));
    let (column, _) =
        definition.schema().column_with_name("k").map(|(at, f)| (at, f.clone())).unwrap();
    assert_eq!(column, 3);
}

#[tokio::test]
async fn patterns_choose_objects() {
    let remote = Remote::start();
    for (at, key) in ["2026-01/a.json", "2026-02/b.json", "2027-01/c.json"].iter().enumerate() {
        remote.row(key, at as i64).await;
    }
    for (pattern, wanted) in
        [("2026-*", vec![0, 1]), ("20*-01/*.json", vec![0, 2]), ("2027-01/c.json", vec![2])]
    {
        let mut rig = remote.rig(&file_source::JSON, pattern);
        assert_eq!(drained(&mut rig).await, wanted, "{pattern}");
    }
}

#[tokio::test]
async fn an_object_that_was_replaced_or_removed_is_named() {
    let remote = Remote::start();
    for (option, allowed) in
        [("", false), ("onefold.source.allowChangedFiles", true), ("ignoreMissingFiles", true)]
    {
        remote.replace("in/a.json", "{\"id\":1}\n").await;
        remote.replace("in/b.json", "{\"id\":2}\n").await;
        let mut rig = remote.rig(&file_source::JSON, "in");
        if !option.is_empty() {
            rig = rig.with(option, "true");
        }
        let source = rig.open().await.unwrap();
        let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
        assert!(range.note.as_ref().unwrap().contains("etag"));
        // Of the same size, within the same second.
        let missing = option == "ignoreMissingFiles";
        match missing {
            true => remote.store.delete("in/a.json").await.unwrap(),
            false => remote.replace("in/a.json", "{\"id\":9}\n").await,
        }
        let source = rig.open().await.unwrap();
        match rows(source.as_ref(), &range, &[0]).await {
            Ok(read) => {
                assert!(allowed, "{option}");
                assert_eq!(ids(&read), if missing { vec![2] } else { vec![9, 2] });
            }
            Err(error) => {
                assert!(!allowed, "{option}: {error}");
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert!(error.to_string().contains("a.json changed"), "{error}");
                assert!(error.to_string().contains("ETag"), "{error}");
            }
        }
    }
    remote.store.delete("in/b.json").await.unwrap();
    remote.replace("in/a.json", "{\"id\":1}\n").await;
    let mut rig = remote.rig(&file_source::JSON, "in");
    let source = rig.open().await.unwrap();
    let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
    remote.store.delete("in/a.json").await.unwrap();
    let error = rows(source.as_ref(), &range, &[0]).await.unwrap_err();
    assert!(error.to_string().contains("vanished"), "{error}");
}

#[tokio::test]
async fn a_store_that_fails_is_not_a_corrupt_file() {
    let remote = Remote::start();
    remote.row("in/a.json", 1).await;
    let mut rig = remote.rig(&file_source::JSON, "in").with("ignoreCorruptFiles", "true");
    let source = rig.open().await.unwrap();
    let range = rig.plan(source.as_ref()).await.unwrap().unwrap();
    remote.server.plan(Operation::Get, S3Fault::Forbidden);
    let error = rows(source.as_ref(), &range, &[0]).await.unwrap_err();
    assert_ne!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(ids(&rows(source.as_ref(), &range, &[0]).await.unwrap()), [1]);
}

#[tokio::test]
async fn parquet_and_packed_text_are_read_in_place() {
    let remote = Remote::start();
    let schema = Arc::new(arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new(
        "id",
        arrow::datatypes::DataType::Int64,
        true,
    )]));
    let column = Arc::new(arrow::array::Int64Array::from_iter_values(0..5_000));
    let batch = arrow::array::RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    remote.put("p/a.parquet", bytes).await;
    let mut rig = remote.rig(&file_source::PARQUET, "p");
    assert_eq!(ids(&rig.rows(&[0]).await.unwrap()), (0..5_000).collect::<Vec<_>>());
    let lines: String = (0..200_000).map(|id| format!("{{\"id\":{id}}}\n")).collect();
    remote.put("z/a.json.zst", zstd::encode_all(lines.as_bytes(), 1).unwrap()).await;
    // Longer than one piece of a read.
    remote.put("z/b.json", lines).await;
    let mut rig = remote.rig(&file_source::JSON, "z");
    let read = ids(&rig.rows(&[0]).await.unwrap());
    assert_eq!((read.len(), read.iter().sum::<i64>()), (400_000, 199_999 * 200_000));
}

#[tokio::test]
async fn the_output_of_a_sink_is_read_through_its_manifest() {
    let remote = Remote::start();
    for (at, name) in ["a b.json", "b.json", "orphan.json"].iter().enumerate() {
        remote.row(&format!("out/{name}"), at as i64).await;
    }
    let line = |name: &str| {
        format!(
            "\n{{\"path\":\"s3a://onefold-test/out/{name}\",\"size\":9,\"isDir\":false,\
             \"modificationTime\":1,\"blockReplication\":1,\"blockSize\":1,\"action\":\"add\"}}"
        )
    };
    remote.put("out/_spark_metadata/0", format!("v1{}", line("a%20b.json"))).await;
    let mut rig = remote.rig(&file_source::JSON, "out");
    assert_eq!(drained(&mut rig).await, [0]);
    remote.put("out/_spark_metadata/1", format!("v1{}", line("b.json"))).await;
    assert_eq!(drained(&mut rig).await, [1]);
}

#[tokio::test]
async fn objects_that_are_done_are_deleted_if_asked_but_not_archived() {
    let remote = Remote::start();
    remote.row("in/a b.json", 1).await;
    let mut rig = remote.rig(&file_source::JSON, "in").with("cleanSource", "delete");
    let source: Arc<dyn Source> = rig.open().await.unwrap();
    assert_eq!(rig.batch(source.as_ref()).await.unwrap(), Some(vec![1]));
    assert!(remote.server.keys().is_empty());
    let rig = remote
        .rig(&file_source::JSON, "in")
        .with("cleanSource", "archive")
        .with("sourceArchiveDir", "/archive");
    let error = rig.define().await.unwrap_err();
    assert!(error.to_string().contains("cleanSource=archive"), "{error}");
}

#[tokio::test]
async fn places_do_not_mix() {
    let remote = Remote::start();
    let mut rig = remote.rig(&file_source::JSON, "in");
    rig.paths.push("/tmp".to_owned());
    let error = rig.define().await.unwrap_err();
    assert!(error.to_string().contains("one bucket"), "{error}");
    rig.paths = vec!["ftp://host/in".to_owned()];
    let error = rig.define().await.unwrap_err();
    assert!(error.to_string().contains("schemes"), "{error}");
}
