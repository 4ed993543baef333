//! The conformance suite over the file sink in an object store.

use super::faulty::Faulty;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use async_trait::async_trait;
use onefold_connector::conformance::{Faults, SinkFixture, walk_faults, walk_two_drivers};
use onefold_connector::{Options, OutputMode, Sink, SinkContext, SinkDefinition, SinkRequest};
use onefold_connectors::file_sink;
use onefold_storage::Store;
use onefold_testkit::S3Server;
use onefold_types::{Delivery, OptionMap, Result};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A Parquet sink below a prefix of its own.
struct RemoteParquet {
    store: Arc<dyn Store>,
    interval: &'static str,
}

impl RemoteParquet {
    fn fresh(server: &S3Server, interval: &'static str) -> RemoteParquet {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let prefix = format!("out {}", NEXT.fetch_add(1, Ordering::SeqCst));
        let store = onefold_storage::open(&server.url(&prefix), &server.options()).unwrap();
        RemoteParquet { store, interval }
    }

    fn definition(&self, faults: Arc<Faults>) -> Arc<dyn SinkDefinition> {
        let spec = &file_sink::PARQUET;
        let request = SinkRequest {
            options: Options::check(spec.name, spec.options, OptionMap::new()).unwrap(),
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
impl SinkFixture for RemoteParquet {
    fn delivery(&self) -> Delivery {
        self.definition(Faults::none()).delivery()
    }

    async fn open(&self, mut context: SinkContext, faults: Arc<Faults>) -> Result<Arc<dyn Sink>> {
        let name = "spark.sql.streaming.fileSink.log.compactInterval";
        context.conf.insert(name.to_owned(), self.interval.to_owned());
        self.definition(faults).open(context).await
    }

    async fn ids(&self) -> Vec<i64> {
        let mut ids = Vec::new();
        for entry in self.store.list_deep("", false).await.unwrap() {
            if entry.path.starts_with('_') {
                continue;
            }
            let bytes = self.store.read(&entry.path).await.unwrap().unwrap();
            for batch in ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap() {
                let batch = batch.unwrap();
                ids.extend(batch.column(0).as_primitive::<Int64Type>().values());
            }
        }
        ids
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_may_go_wrong_in_an_object_store() {
    let server = S3Server::start().unwrap();
    let walked = walk_faults(|| RemoteParquet::fresh(&server, "10"), false).await;
    assert!(walked.faults > 60, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_may_go_wrong_in_an_object_store_where_the_mark_is_a_compact_file() {
    let server = S3Server::start().unwrap();
    let walked = walk_faults(|| RemoteParquet::fresh(&server, "2"), false).await;
    assert!(walked.faults > 60, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_driver_held_up_in_an_object_store_doubles_nothing() {
    let server = S3Server::start().unwrap();
    let walked = walk_two_drivers(|| RemoteParquet::fresh(&server, "10"), 3).await;
    assert!(walked.faults > 60, "{walked:?}");
}
