//! A table that only grows, read as a stream.

use super::rig::{Kind, Rig};
use super::tables::ids;
use crate::on_each_database;
use crate::sink::rig::{ManualClock, rows};
use arrow::compute::concat_batches;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use onefold_connector::{Options, ReadLimit, ScanRequest, Source, SourceContext, SourceRequest};
use onefold_connectors::jdbc::source;
use onefold_storage::LocalStore;
use onefold_types::{ErrorKind, OffsetRange, OptionMap, QueryId, Replay, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

async fn opened(rig: &Rig, options: OptionMap) -> Result<Arc<dyn Source>> {
    let options = options
        .with("url", rig.options.get("url").unwrap())
        .with("dbtable", rig.table.as_str())
        .with("onefold.jdbc.growingColumn", "ID");
    let request = SourceRequest {
        options: Options::check("jdbc", source::SPEC.options, options)?,
        schema: None,
        paths: Vec::new(),
        conf: BTreeMap::new(),
        whole: false,
    };
    let definition = (source::SPEC.define)(request).await?;
    assert!(matches!(definition.replay(), Replay::Exact { .. }));
    let folder = tempfile::tempdir().unwrap();
    let context = SourceContext {
        query: QueryId(uuid::Uuid::new_v4()),
        checkpoint: Arc::new(LocalStore::new(folder.path()).unwrap()),
        log_folder: "sources/0".to_owned(),
        history: Vec::new(),
        clock: Arc::new(ManualClock(AtomicI64::new(0))),
        conf: BTreeMap::new(),
    };
    definition.open(context).await
}

async fn next(source: &dyn Source, before: Option<&OffsetRange>) -> OffsetRange {
    let start = before.and_then(|range| range.end.clone());
    let found = source.latest_offset(start.as_ref(), ReadLimit::Options).await.unwrap();
    OffsetRange { start, end: found.end, note: found.note }
}

/// As [`next`], as soon as there is something: in PostgreSQL a range also waits for transactions of
/// other tests.
async fn some(source: &dyn Source, before: Option<&OffsetRange>) -> OffsetRange {
    loop {
        let range = next(source, before).await;
        if !range.empty() {
            return range;
        }
        tokio::task::yield_now().await;
    }
}

async fn seen(source: &dyn Source, range: &OffsetRange) -> Result<Vec<i64>> {
    let session = SessionContext::new();
    let state = session.state();
    let scan = ScanRequest { projection: None, filters: &[], session: &state };
    let plan = source.read(range, scan).await?;
    let schema = plan.schema();
    let batches = collect(plan, session.task_ctx()).await.unwrap();
    Ok(ids(&concat_batches(&schema, &batches).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_of_a_growing_column_are_read_once_and_again() {
    on_each_database!(rig, {
        rig.write("append", rows(&[1, 2, 3, 4, 5])).await.unwrap();
        let options = OptionMap::new().with("onefold.jdbc.maxRowsPerTrigger", "2");
        let source = opened(&rig, options).await.unwrap();
        let first = some(&*source, None).await;
        assert_eq!(seen(&*source, &first).await.unwrap(), [1, 2]);
        let second = some(&*source, Some(&first)).await;
        let third = some(&*source, Some(&second)).await;
        assert_eq!(seen(&*source, &third).await.unwrap(), [5]);
        let none = next(&*source, Some(&third)).await;
        assert!(none.empty());
        rig.write("append", rows(&[6, 7])).await.unwrap();
        assert_eq!(seen(&*source, &first).await.unwrap(), [1, 2]);
        let fourth = some(&*source, Some(&third)).await;
        assert_eq!(seen(&*source, &fourth).await.unwrap(), [6, 7]);
        // A row that comes too late is noticed as long as its batch may run again.
        rig.execute(&format!("INSERT INTO {} VALUES (2, 'late')", rig.table)).await;
        let error = seen(&*source, &first).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("had 2 rows"), "{error}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_behind_an_open_transaction_of_postgres_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::new(Kind::Postgres, folder.path()) else { return };
    rig.write("append", rows(&[1])).await.unwrap();
    let source = opened(&rig, OptionMap::new()).await.unwrap();
    let mut open = rig.database().connect().await.unwrap();
    open.execute("BEGIN", &[]).await.unwrap();
    open.execute(&format!("INSERT INTO {} VALUES (2, 'slow')", rig.table), &[]).await.unwrap();
    rig.write("append", rows(&[3])).await.unwrap();
    let first = some(&*source, None).await;
    assert_eq!(seen(&*source, &first).await.unwrap(), [1]);
    open.execute("COMMIT", &[]).await.unwrap();
    let second = some(&*source, Some(&first)).await;
    assert_eq!(seen(&*source, &second).await.unwrap(), [2, 3]);
}
