//! The conformance suite over each database: every call goes wrong in each way.

use super::faulty::Faulty;
use super::rig::{Kind, Rig};
use async_trait::async_trait;
use onefold_connector::conformance::{Faults, SinkFixture, Walked, walk_faults, walk_two_drivers};
use onefold_connector::{OutputMode, Sink, SinkContext};
use onefold_connectors::jdbc::Cell;
use onefold_types::{Delivery, Result};
use std::sync::Arc;
use tempfile::TempDir;

/// A table of its own.
struct Fixture {
    _folder: TempDir,
    rig: Rig,
}

impl Fixture {
    fn new(kind: Kind) -> Option<Fixture> {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::new(kind, folder.path())?.with("onefold.jdbc.lockTimeout", "50ms");
        Some(Fixture { _folder: folder, rig })
    }

    fn upsert(kind: Kind) -> Option<Fixture> {
        let mut fixture = Fixture::new(kind)?;
        fixture.rig = fixture.rig.with("upsertKeys", "id");
        fixture.rig.output_mode = OutputMode::Update;
        Some(fixture)
    }
}

#[async_trait]
impl SinkFixture for Fixture {
    fn delivery(&self) -> Delivery {
        self.rig.definition().unwrap().delivery()
    }

    async fn open(&self, context: SinkContext, faults: Arc<Faults>) -> Result<Arc<dyn Sink>> {
        let inner = self.rig.database();
        self.rig.definition_over(Arc::new(Faulty { inner, faults }))?.open(context).await
    }

    async fn ids(&self) -> Vec<i64> {
        // The table may not be there yet.
        let mut session = self.rig.database().connect().await.unwrap();
        let sql = format!("SELECT id FROM {}", self.rig.table);
        let rows = session.query(&sql, &[]).await.unwrap_or_default();
        rows.iter().filter_map(|row| row.first().and_then(Cell::as_int)).collect()
    }
}

async fn faults(fresh: impl Fn() -> Option<Fixture>, twice: bool) -> Walked {
    if fresh().is_none() {
        return Walked { cases: u64::MAX, faults: u64::MAX };
    }
    walk_faults(|| fresh().unwrap(), twice).await
}

async fn drivers(fresh: impl Fn() -> Option<Fixture>, stride: u64) -> Walked {
    if fresh().is_none() {
        return Walked { cases: u64::MAX, faults: u64::MAX };
    }
    walk_two_drivers(|| fresh().unwrap(), stride).await
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_of_the_sqlite_sink_may_fail_or_lose_its_reply_or_be_the_last() {
    let walked = faults(|| Fixture::new(Kind::Sqlite), false).await;
    assert!(walked.faults > 40, "{walked:?}");
    let walked = faults(|| Fixture::upsert(Kind::Sqlite), false).await;
    assert!(walked.faults > 40, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_of_the_postgres_sink_may_fail_or_lose_its_reply_or_be_the_last() {
    let walked = faults(|| Fixture::new(Kind::Postgres), false).await;
    assert!(walked.faults > 40, "{walked:?}");
    let walked = faults(|| Fixture::upsert(Kind::Postgres), false).await;
    assert!(walked.faults > 40, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_of_the_mariadb_sink_may_fail_or_lose_its_reply_or_be_the_last() {
    let walked = faults(|| Fixture::new(Kind::MariaDb), false).await;
    assert!(walked.faults > 40, "{walked:?}");
    let walked = faults(|| Fixture::upsert(Kind::MariaDb), false).await;
    assert!(walked.faults > 40, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_driver_held_up_anywhere_doubles_nothing_in_postgres() {
    let walked = drivers(|| Fixture::new(Kind::Postgres), 5).await;
    assert!(walked.faults > 40, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_driver_held_up_anywhere_doubles_nothing_in_sqlite() {
    let walked = drivers(|| Fixture::new(Kind::Sqlite), 7).await;
    assert!(walked.faults > 40, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_driver_held_up_anywhere_doubles_nothing_in_mariadb() {
    let walked = drivers(|| Fixture::new(Kind::MariaDb), 11).await;
    assert!(walked.faults > 40, "{walked:?}");
}
