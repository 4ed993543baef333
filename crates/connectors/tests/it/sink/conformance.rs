//! The conformance suite over the file sink: each outside call goes wrong in each way.

use super::faulty::Faulty;
use super::rig::{ids, listed};
use async_trait::async_trait;
use onefold_connector::conformance::{Faults, SinkFixture, walk_faults, walk_two_drivers};
use onefold_connector::{Options, OutputMode, Sink, SinkContext, SinkDefinition, SinkRequest};
use onefold_connectors::file_sink;
use onefold_storage::{LocalStore, Store};
use onefold_types::{Delivery, OptionMap, Result};
use std::sync::Arc;
use tempfile::TempDir;

/// A Parquet sink in a folder of its own.
struct LocalParquet {
    folder: TempDir,
    store: Arc<dyn Store>,
    /// Batches between two compactions of the manifest.
    interval: &'static str,
}

impl LocalParquet {
    fn fresh(interval: &'static str) -> LocalParquet {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(LocalStore::new(folder.path()).unwrap());
        LocalParquet { folder, store, interval }
    }

    fn definition(&self, faults: Arc<Faults>) -> Arc<dyn SinkDefinition> {
        let spec = &file_sink::PARQUET;
        let options = Options::check(spec.name, spec.options, OptionMap::new()).unwrap();
        let request = SinkRequest {
            options,
            path: None,
            partition_by: Vec::new(),
            query_name: None,
            output_mode: OutputMode::Append,
        };
        let store = Faulty { inner: Arc::clone(&self.store), faults };
        file_sink::define_over(spec, &request, Arc::new(store)).unwrap()
    }
}

#[async_trait]
impl SinkFixture for LocalParquet {
    fn delivery(&self) -> Delivery {
        self.definition(Faults::none()).delivery()
    }

    async fn open(&self, mut context: SinkContext, faults: Arc<Faults>) -> Result<Arc<dyn Sink>> {
        let name = "spark.sql.streaming.fileSink.log.compactInterval";
        context.conf.insert(name.to_owned(), self.interval.to_owned());
        self.definition(faults).open(context).await
    }

    async fn ids(&self) -> Vec<i64> {
        ids(&listed(self.folder.path()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_of_the_file_sink_may_fail_or_lose_its_reply_or_be_the_last() {
    let walked = walk_faults(|| LocalParquet::fresh("10"), false).await;
    assert!(walked.faults > 60, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_restart_may_go_wrong_at_any_call_as_well() {
    let walked = walk_faults(|| LocalParquet::fresh("10"), true).await;
    assert!(walked.faults > 1_000, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_may_go_wrong_where_the_mark_is_a_compact_file() {
    let walked = walk_faults(|| LocalParquet::fresh("2"), false).await;
    assert!(walked.faults > 60, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_driver_held_up_anywhere_doubles_nothing() {
    let walked = walk_two_drivers(|| LocalParquet::fresh("10"), 1).await;
    assert!(walked.faults > 300, "{walked:?}");
}
