//! The source: what a stream reads of a table, and a table as of a version.

use super::rig::Rig;
use crate::sink::rig::rows;
use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::prelude::SessionContext;
use deltalake_core::{DeltaTable, DeltaTableBuilder};
use onefold_connector::{
    Options, ReadLimit, ScanRequest, Source, SourceContext, SourceDefinition, SourceRequest,
};
use onefold_connectors::delta::source::SPEC;
use onefold_storage::LocalStore;
use onefold_types::{ErrorKind, Offset, OffsetRange, OptionMap, QueryId, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use url::Url;

async fn define(
    folder: &Path,
    options: &[(&str, &str)],
    whole: bool,
) -> Result<Arc<dyn SourceDefinition>> {
    let mut map = OptionMap::new();
    for (name, value) in options {
        map.set(*name, *value);
    }
    (SPEC.define)(SourceRequest {
        options: Options::check("source `delta`", SPEC.options, map)?,
        schema: None,
        paths: vec![folder.to_str().unwrap().to_owned()],
        conf: BTreeMap::new(),
        whole,
    })
    .await
}

async fn open(folder: &Path, options: &[(&str, &str)], whole: bool) -> Result<Reader> {
    let definition = define(folder, options, whole).await?;
    let checkpoint = tempfile::tempdir().unwrap();
    let context = SourceContext {
        query: QueryId(uuid::Uuid::from_u128(3)),
        checkpoint: Arc::new(LocalStore::new(checkpoint.path()).unwrap()),
        log_folder: "sources/0".to_owned(),
        history: Vec::new(),
        clock: Arc::new(crate::sink::rig::ManualClock(AtomicI64::new(0))),
        conf: BTreeMap::new(),
    };
    let schema = definition.schema();
    Ok(Reader {
        source: definition.open(context).await?,
        schema,
        at: None,
        _checkpoint: checkpoint,
    })
}

/// A stream and where it stands.
struct Reader {
    source: Arc<dyn Source>,
    schema: SchemaRef,
    at: Option<Offset>,
    _checkpoint: tempfile::TempDir,
}

impl Reader {
    /// The next batch's range; `None` when there is nothing new.
    async fn plan(&mut self) -> Result<Option<OffsetRange>> {
        let latest = self.source.latest_offset(self.at.as_ref(), ReadLimit::Options).await?;
        let range = OffsetRange { start: self.at.clone(), end: latest.end, note: latest.note };
        if range.empty() {
            return Ok(None);
        }
        self.at = range.end.clone();
        Ok(Some(range))
    }

    async fn ids(&self, range: &OffsetRange) -> Result<Vec<i64>> {
        let context = SessionContext::new();
        let state = context.state();
        let scan = ScanRequest { projection: None, filters: &[], session: &state };
        let plan = self.source.read(range, scan).await?;
        assert_eq!(plan.schema().fields().len(), self.schema.fields().len());
        let rows = datafusion::physical_plan::collect(plan, context.task_ctx()).await.unwrap();
        let mut ids: Vec<i64> = Vec::new();
        for rows in rows {
            let column = rows.column_by_name("id").unwrap();
            ids.extend(column.as_primitive::<Int64Type>().values());
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// The ids of all batches until there is nothing new. Each range is read twice.
    async fn batches(&mut self) -> Result<Vec<Vec<i64>>> {
        let mut batches = Vec::new();
        while let Some(range) = self.plan().await? {
            let ids = self.ids(&range).await?;
            assert_eq!(self.ids(&range).await?, ids, "a range reads the same again");
            batches.push(ids);
        }
        Ok(batches)
    }
}

async fn table(folder: &Path) -> DeltaTable {
    let url = Url::from_directory_path(folder).unwrap();
    DeltaTableBuilder::from_url(url).unwrap().load().await.unwrap()
}

/// A table with versions 0, 1 and 2 of one row each.
async fn three() -> (tempfile::TempDir, Rig) {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = Rig::local(folder.path());
    rig.partition_by = vec!["k".to_owned()];
    for id in 0..3 {
        rig.write(rows(&[id])).await.unwrap();
    }
    (folder, rig)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_the_table_and_follows_its_commits() {
    let (folder, rig) = three().await;
    let mut reader = open(folder.path(), &[], false).await.unwrap();
    assert_eq!(reader.batches().await.unwrap(), [vec![0, 1, 2]]);
    assert!(reader.at.as_ref().unwrap().json().contains("\"reservoirVersion\":3,\"index\":-1"));
    rig.write(rows(&[3, 4])).await.unwrap();
    rig.write(rows(&[5])).await.unwrap();
    assert_eq!(reader.batches().await.unwrap(), [vec![3, 4, 5]]);
    assert_eq!(reader.plan().await.unwrap(), None);
    // A stream that starts again goes on where it stood.
    let mut again = open(folder.path(), &[], false).await.unwrap();
    again.at = reader.at.clone();
    assert_eq!(again.plan().await.unwrap(), None);
    rig.write(rows(&[6])).await.unwrap();
    assert_eq!(again.batches().await.unwrap(), [vec![6]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_as_large_as_asked() {
    let (folder, rig) = three().await;
    rig.write(rows(&[3, 4, 5])).await.unwrap();
    let options = [("maxFilesPerTrigger", "2")];
    let mut reader = open(folder.path(), &options, false).await.unwrap();
    let batches = reader.batches().await.unwrap();
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2]);
    let options = [("startingVersion", "1"), ("maxBytesPerTrigger", "1")];
    let mut reader = open(folder.path(), &options, false).await.unwrap();
    let batches = reader.batches().await.unwrap();
    assert_eq!(batches.len(), 5);
    assert_eq!(batches.concat().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_at_a_version_or_a_time() {
    let (folder, rig) = three().await;
    let mut reader = open(folder.path(), &[("startingVersion", "1")], false).await.unwrap();
    assert_eq!(reader.batches().await.unwrap().concat(), [1, 2]);
    let options = [("startingVersion", "latest")];
    let mut reader = open(folder.path(), &options, false).await.unwrap();
    assert!(reader.batches().await.unwrap().concat().is_empty());
    rig.write(rows(&[9])).await.unwrap();
    assert_eq!(reader.batches().await.unwrap().concat(), [9]);
    // Commits of 10:00, 11:00, 12:00 and 13:00; a stream from 10:30 takes those after it.
    for version in 0..4 {
        let path = folder.path().join(format!("_delta_log/{version:020}.json"));
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs((10 + version) * 3_600);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    let options = [("startingTimestamp", "1970-01-01 10:30:00")];
    let mut reader = open(folder.path(), &options, false).await.unwrap();
    assert_eq!(reader.batches().await.unwrap().concat(), [1, 2, 9]);
    let options = [("timestampAsOf", "1970-01-01 11:00:00")];
    let mut reader = open(folder.path(), &options, true).await.unwrap();
    assert_eq!(reader.batches().await.unwrap(), [vec![0, 1]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_read_as_of_a_version() {
    let (folder, rig) = three().await;
    for (version, expected) in [("0", vec![0]), ("2", vec![0, 1, 2])] {
        let options = [("versionAsOf", version)];
        let mut reader = open(folder.path(), &options, true).await.unwrap();
        assert_eq!(reader.batches().await.unwrap(), [expected]);
    }
    let error = define(folder.path(), &[("versionAsOf", "7")], true).await.unwrap_err();
    assert!(error.to_string().contains("versions up to 2"), "{error}");
    let error = define(Path::new("/nowhere/at/all"), &[], true).await.unwrap_err();
    assert!(error.to_string().contains("is not a Delta table"), "{error}");
    drop(rig);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_go_or_change_stop_a_stream_unless_it_is_told_what_they_mean() {
    let (folder, rig) = three().await;
    let mut reader = open(folder.path(), &[], false).await.unwrap();
    reader.batches().await.unwrap();
    let at = reader.at.clone();
    table(folder.path()).await.optimize().await.unwrap();
    // One that rewrites nothing but the layout brings nothing.
    assert_eq!(reader.plan().await.unwrap(), None);
    table(folder.path()).await.delete().with_predicate("id = 1").await.unwrap();
    let error = reader.plan().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("skipChangeCommits"), "{error}");
    rig.write(rows(&[7])).await.unwrap();
    let mut skips = open(folder.path(), &[("skipChangeCommits", "true")], false).await.unwrap();
    skips.at = at.clone();
    assert_eq!(skips.batches().await.unwrap(), [vec![7]]);
    let mut deletes = open(folder.path(), &[("ignoreDeletes", "true")], false).await.unwrap();
    deletes.at = at;
    assert_eq!(deletes.batches().await.unwrap(), [vec![7]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_that_were_cleaned_away_unread_are_told() {
    let (folder, rig) = three().await;
    let mut reader = open(folder.path(), &[], false).await.unwrap();
    reader.batches().await.unwrap();
    for id in 3..6 {
        rig.write(rows(&[id])).await.unwrap();
    }
    let path = |version: u64| folder.path().join(format!("_delta_log/{version:020}.json"));
    deltalake_core::checkpoints::create_checkpoint(&table(folder.path()).await, None)
        .await
        .unwrap();
    for version in 0..5 {
        std::fs::remove_file(path(version)).unwrap();
    }
    let at = reader.at.clone();
    let error = reader.plan().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("versions 3 to 4"), "{error}");
    let mut goes_on = open(folder.path(), &[("failOnDataLoss", "false")], false).await.unwrap();
    goes_on.at = at;
    assert_eq!(goes_on.batches().await.unwrap(), [vec![5]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_vacuumed_away_unread_is_told() {
    let (folder, rig) = three().await;
    let mut reader = open(folder.path(), &[("startingVersion", "2")], false).await.unwrap();
    let range = reader.plan().await.unwrap().unwrap();
    for path in super::rig::files(rig.store.as_ref()).await.into_keys() {
        let path = onefold_storage::location::decode_path(&path).unwrap();
        rig.store.delete(&path).await.unwrap();
    }
    let error = reader.ids(&range).await.unwrap_err();
    assert!(error.to_string().contains("vacuumed"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_columns_stop_a_stream_and_are_there_after_its_restart() {
    let (folder, mut rig) = three().await;
    let mut reader = open(folder.path(), &[("startingVersion", "0")], false).await.unwrap();
    let range = reader.plan().await.unwrap().unwrap();
    rig.options = OptionMap::new().with("mergeSchema", "true");
    let wider = rows(&[8]);
    let more = arrow::array::RecordBatch::try_from_iter([
        ("id", Arc::clone(wider.column(0))),
        ("k", Arc::clone(wider.column(1))),
        ("more", Arc::clone(wider.column(0))),
    ])
    .unwrap();
    rig.write(more).await.unwrap();
    let error = reader.plan().await.unwrap_err();
    assert!(error.to_string().contains("adds column `more`"), "{error}");
    let mut again = open(folder.path(), &[], false).await.unwrap();
    assert_eq!(again.schema.fields().len(), 3);
    assert_eq!(again.ids(&range).await.unwrap(), [0, 1, 2]);
    again.at = range.end.clone();
    assert_eq!(again.batches().await.unwrap(), [vec![8]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_made_anew_is_told_from_the_one_before() {
    let (folder, _rig) = three().await;
    let mut reader = open(folder.path(), &[], false).await.unwrap();
    reader.batches().await.unwrap();
    let (other, _rig) = three().await;
    let mut stray = open(other.path(), &[], false).await.unwrap();
    stray.at = reader.at.clone();
    let error = stray.plan().await.unwrap_err();
    assert!(error.to_string().contains("made anew"), "{error}");
}
