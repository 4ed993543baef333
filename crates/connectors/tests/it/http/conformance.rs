//! The walk over all that can go wrong, for a receiver that honours keys and for one that does not say so.

use super::receiver::{DRIVER, Receiver};
use async_trait::async_trait;
use onefold_connector::conformance::{
    Faults, SinkFixture, walk_faults, walk_plain, walk_two_drivers,
};
use onefold_connector::{Options, OutputMode, Sink, SinkContext, SinkDefinition, SinkRequest};
use onefold_connectors::http::SINK;
use onefold_types::{Delivery, OptionMap, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Fixture {
    receiver: Receiver,
    honours: bool,
    drivers: AtomicU64,
}

impl Fixture {
    fn new(honours: bool) -> Fixture {
        Fixture { receiver: Receiver::new(), honours, drivers: AtomicU64::new(0) }
    }

    fn definition(&self, driver: &str) -> Arc<dyn SinkDefinition> {
        let given = OptionMap::new()
            .with("url", self.receiver.url("/rows"))
            .with("idempotentReceiver", self.honours.to_string())
            // So that calls are in the same order in each run.
            .with("maxInFlight", "1")
            .with("maxRetries", "0")
            .with("failureThreshold", "0")
            .with(format!("headers.{DRIVER}"), driver);
        let options = Options::check("http", SINK.options, given).unwrap();
        let request = SinkRequest {
            options,
            path: None,
            partition_by: Vec::new(),
            query_name: None,
            output_mode: OutputMode::Append,
        };
        (SINK.define)(request).unwrap()
    }
}

#[async_trait]
impl SinkFixture for Fixture {
    fn delivery(&self) -> Delivery {
        self.definition("").delivery()
    }

    async fn open(&self, context: SinkContext, faults: Arc<Faults>) -> Result<Arc<dyn Sink>> {
        let driver = self.drivers.fetch_add(1, Ordering::SeqCst).to_string();
        self.receiver.plan(&driver, faults);
        self.definition(&driver).open(context).await
    }

    async fn ids(&self) -> Vec<i64> {
        let id = |body: &String| {
            let row: serde_json::Value = serde_json::from_str(body).unwrap();
            row["id"].as_i64().unwrap()
        };
        self.receiver.done().iter().map(id).collect()
    }

    fn audits(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_any_fault_each_row_is_done_once_by_a_receiver_that_honours_keys() {
    assert!(Fixture::new(true).delivery().exactly_once());
    let walked = walk_faults(|| Fixture::new(true), false).await;
    assert!(walked.faults > 50, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_drivers_at_odds_still_have_each_row_done_once() {
    let walked = walk_two_drivers(|| Fixture::new(true), 3).await;
    assert!(walked.faults > 50, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_of_which_nothing_is_said_gets_each_row_at_least_once() {
    assert!(!Fixture::new(false).delivery().exactly_once());
    walk_plain(|| Fixture::new(false)).await;
}
