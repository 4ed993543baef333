//! The conformance suite over the Delta sink: each outside call goes wrong in each way.

use super::rig::{Rig, ids};
use crate::sink::faulty::Faulty;
use async_trait::async_trait;
use onefold_connector::conformance::{Faults, SinkFixture, walk_faults, walk_two_drivers};
use onefold_connector::{Sink, SinkContext};
use onefold_storage::{LocalStore, Store};
use onefold_testkit::S3Server;
use onefold_types::{Delivery, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// A table of its own.
struct Fixture {
    _folder: Option<TempDir>,
    store: Arc<dyn Store>,
    /// Commits between two checkpoints of the log.
    interval: &'static str,
}

impl Fixture {
    fn local(interval: &'static str) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(LocalStore::new(folder.path()).unwrap());
        Fixture { _folder: Some(folder), store, interval }
    }

    fn remote(server: &S3Server) -> Fixture {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let prefix = format!("table {}", NEXT.fetch_add(1, Ordering::SeqCst));
        let store = onefold_storage::open(&server.url(&prefix), &server.options()).unwrap();
        Fixture { _folder: None, store, interval: "10" }
    }
}

#[async_trait]
impl SinkFixture for Fixture {
    fn delivery(&self) -> Delivery {
        Rig::over(Arc::clone(&self.store)).definition().unwrap().delivery()
    }

    async fn open(&self, mut context: SinkContext, faults: Arc<Faults>) -> Result<Arc<dyn Sink>> {
        let name = "spark.databricks.delta.properties.defaults.checkpointInterval";
        context.conf.insert(name.to_owned(), self.interval.to_owned());
        let store = Faulty { inner: Arc::clone(&self.store), faults };
        Rig::over(Arc::new(store)).definition()?.open(context).await
    }

    async fn ids(&self) -> Vec<i64> {
        ids(self.store.as_ref()).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_of_the_delta_sink_may_fail_or_lose_its_reply_or_be_the_last() {
    let walked = walk_faults(|| Fixture::local("10"), false).await;
    assert!(walked.faults > 40, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_restart_of_the_delta_sink_may_go_wrong_at_any_call_as_well() {
    let walked = walk_faults(|| Fixture::local("10"), true).await;
    assert!(walked.faults > 500, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_may_go_wrong_where_every_commit_gets_a_checkpoint() {
    let walked = walk_faults(|| Fixture::local("1"), false).await;
    assert!(walked.faults > 40, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_driver_of_the_delta_sink_held_up_anywhere_doubles_nothing() {
    let walked = walk_two_drivers(|| Fixture::local("10"), 1).await;
    assert!(walked.faults > 200, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_of_the_delta_sink_may_go_wrong_in_an_object_store() {
    let server = S3Server::start().unwrap();
    let walked = walk_faults(|| Fixture::remote(&server), false).await;
    assert!(walked.faults > 40, "{walked:?}");
    let walked = walk_two_drivers(|| Fixture::remote(&server), 3).await;
    assert!(walked.faults > 40, "{walked:?}");
}
