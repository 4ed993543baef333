//! The conformance suite over the Kafka sink: over a log in memory with every call going wrong in
//! every way and with strays, and over a real broker.

mod faulty;
mod log;
mod numbers;
mod real;

use super::cluster::Cluster;
use super::columns::Columns;
use super::define;
use super::exactly_once::{ExactlyOnce, Opener};
use super::letters::Letters;
use async_trait::async_trait;
use faulty::Faulty;
use log::Log;
use numbers::{Numbers, schema};
use onefold_connector::conformance::{
    Fault, Faults, SinkFixture, World, walk_faults, walk_two_drivers,
};
use onefold_connector::{Options, OutputMode, Sink, SinkContext, SinkRequest};
use onefold_types::{Delivery, OptionMap, Result};
use std::sync::Arc;
use std::time::Duration;

/// Longer than a call to the log in memory takes.
const BACKOFF: Duration = Duration::from_millis(100);

/// A sink over a log in memory.
struct InMemory {
    log: Arc<Log>,
    backoff: Duration,
}

impl InMemory {
    fn fresh() -> InMemory {
        InMemory { log: Arc::new(Log::default()), backoff: BACKOFF }
    }

    /// Requests to commit that are lost come late, in the middle of a later transaction.
    fn with_strays() -> InMemory {
        let log = Log { strays: true, ..Log::default() };
        InMemory { log: Arc::new(log), backoff: BACKOFF }
    }
}

fn opener(context: &SinkContext) -> Opener {
    Opener {
        query: context.query,
        generation: context.generation,
        last_commit: context.last_commit,
        looks: false,
        letters: None,
    }
}

fn request(options: &[(&str, &str)]) -> Result<SinkRequest> {
    let given = options.iter().fold(OptionMap::new(), |all, (name, value)| all.with(*name, *value));
    Ok(SinkRequest {
        options: Options::check("sink `kafka`", super::SPEC.options, given)?,
        path: None,
        partition_by: Vec::new(),
        query_name: None,
        output_mode: OutputMode::Append,
    })
}

fn claim() -> Delivery {
    let options = [("kafka.bootstrap.servers", "127.0.0.1:1"), ("topic", "out")];
    define(request(&options).unwrap()).unwrap().delivery()
}

#[async_trait]
impl SinkFixture for InMemory {
    fn delivery(&self) -> Delivery {
        claim()
    }

    async fn open(&self, context: SinkContext, faults: Arc<Faults>) -> Result<Arc<dyn Sink>> {
        let columns = Columns::of(&schema(), Some("out"))?;
        let cluster = Arc::new(Faulty {
            inner: Arc::clone(&self.log) as Arc<dyn Cluster>,
            faults,
            strays: self.log.strays.then(|| Arc::clone(&self.log)),
        });
        let sink = ExactlyOnce::open(cluster, columns, opener(&context), self.backoff).await?;
        Ok(Arc::new(Numbers(Arc::new(sink))))
    }

    async fn ids(&self) -> Vec<i64> {
        self.log.numbers("out")
    }
}

#[tokio::test]
async fn any_call_may_fail_or_lose_its_reply_or_be_the_last() {
    let walked = walk_faults(InMemory::fresh, false).await;
    assert!(walked.faults > 40, "{walked:?}");
}

#[tokio::test]
async fn the_restart_may_go_wrong_at_any_call_as_well() {
    let walked = walk_faults(InMemory::fresh, true).await;
    assert!(walked.faults > 400, "{walked:?}");
}

#[tokio::test]
async fn a_commit_that_comes_late_ends_no_later_transaction() {
    let walked = walk_faults(InMemory::with_strays, true).await;
    assert!(walked.faults > 400, "{walked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_driver_held_up_anywhere_doubles_nothing() {
    let walked = walk_two_drivers(InMemory::fresh, 1).await;
    assert!(walked.faults > 200, "{walked:?}");
}

#[tokio::test]
async fn a_request_that_the_client_sent_twice_ends_no_later_transaction() {
    let fixture = InMemory::fresh();
    fixture.log.commit_twice();
    run_all(&fixture).await;
    assert_eq!(fixture.ids().await, World::new(2).all_ids());
    assert_eq!(fixture.log.torn(), 0);
}

#[tokio::test]
async fn a_producer_that_begins_again_after_a_slow_commit_is_caught_by_the_log() {
    // What the sink would do without its rule.
    let fixture = InMemory { backoff: Duration::MAX, ..InMemory::fresh() };
    fixture.log.commit_twice();
    run_all(&fixture).await;
    assert_eq!(fixture.log.torn(), 1, "rows were committed without their mark");
}

async fn run_all(fixture: &InMemory) {
    let world = World::new(2);
    world.drive_until_stopped(fixture, Faults::none()).await;
}

#[tokio::test]
async fn a_driver_that_is_fenced_by_a_late_starter_of_old_is_told_to_try_again() {
    let fixture = InMemory::fresh();
    let world = World::new(2);
    // Another process takes the id over while rows of batch 0 are under way, and does nothing more.
    fixture.log.take_over_at_flush(1);
    let outcome = world.drive_until_stopped(&fixture, Faults::none()).await;
    assert_eq!(outcome, onefold_connector::conformance::Outcome::Done);
    assert_eq!(fixture.ids().await, world.all_ids());
}

#[tokio::test]
async fn every_call_of_a_transaction_had_its_turn() {
    let plan = Faults::fail_at(u64::MAX, Fault::NotDone);
    let world = World::new(1);
    world.drive_until_stopped(&InMemory::fresh(), Arc::clone(&plan)).await;
    let names = plan.names();
    for name in ["Init", "Begin", "Flush", "Commit"] {
        assert!(names.iter().any(|it| it == name), "{name} in {names:?}");
    }
}

#[tokio::test]
async fn a_checkpoint_that_another_engine_committed_goes_on_after_its_last_batch() {
    let log = Arc::new(Log::default());
    let open = |generation, looks| {
        let opener = Opener {
            query: onefold_types::QueryId(uuid::Uuid::from_u128(7)),
            generation: onefold_types::Generation(generation),
            last_commit: Some(onefold_types::BatchId(4)),
            looks,
            letters: None,
        };
        let columns = Columns::of(&schema(), Some("out")).unwrap();
        let cluster = Arc::clone(&log) as Arc<dyn Cluster>;
        ExactlyOnce::open(cluster, columns, opener, BACKOFF)
    };
    let batch = async |generation, looks| {
        let mark = open(generation, looks).await.unwrap().last_mark().await.unwrap();
        mark.map(|it| it.mark.batch.0)
    };
    assert_eq!(batch(2, false).await, None, "a driver of ours was there: the mark is lost");
    assert_eq!(batch(1, true).await, None, "who only looks writes nothing");
    assert_eq!(batch(1, false).await, Some(4));
    assert_eq!(batch(2, false).await, Some(4), "the mark stays when the first driver died");
}

fn refused(options: &[(&str, &str)]) -> String {
    request(options).and_then(define).err().map(|error| error.chain()).unwrap_or_default()
}

#[test]
fn settings_that_take_the_promise_back_are_refused_by_name() {
    let with = |name, value| {
        refused(&[("kafka.bootstrap.servers", "127.0.0.1:1"), ("topic", "t"), (name, value)])
    };
    assert!(with("kafka.acks", "1").contains("kafka.acks=1 does not go with exactly-once"));
    assert!(with("kafka.enable.idempotence", "false").contains("at-least-once"));
    assert_eq!(with("kafka.acks", "all"), "");
    assert!(with("onefold.kafka.progressTopic", "t").contains("the topic of marks"));
    assert!(with(super::LETTERS, "_onefold_marks").contains("the topic of marks"));
    assert!(with(super::LETTERS, " ").contains("must name a topic"));
    assert!(with(super::LETTERS, "t").contains("another one than option `topic`"));
    assert_eq!(with(super::LETTERS, "dead"), "");
    assert!(refused(&[("topic", "t")]).contains("kafka.bootstrap.servers"));
}

#[test]
fn a_secret_is_in_no_text_that_the_definition_gives() {
    let options = [
        ("kafka.bootstrap.servers", "127.0.0.1:1"),
        ("topic", "t"),
        ("kafka.security.protocol", "SASL_PLAINTEXT"),
        ("kafka.sasl.mechanism", "PLAIN"),
        ("kafka.sasl.username", "ann"),
        ("kafka.sasl.password", "hunter2"),
    ];
    let definition = define(request(&options).unwrap()).unwrap();
    let texts = format!("{definition:?} {} {:?}", definition.description(), definition.delivery());
    assert!(!texts.contains("hunter2"), "{texts}");
}

#[tokio::test]
async fn rows_dead_letters_and_the_sources_offsets_are_seen_together() {
    use arrow::array::{ArrayRef, RecordBatch, StringArray};
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use onefold_connector::{Attempt, RowStream};
    let rows = |columns: Vec<(&str, &str)>| -> RowStream {
        let columns = columns
            .into_iter()
            .map(|(name, text)| (name, Arc::new(StringArray::from(vec![text])) as ArrayRef, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        Box::pin(RecordBatchStreamAdapter::new(batch.schema(), futures::stream::iter([Ok(batch)])))
    };
    let log = Arc::new(Log::default());
    let query = onefold_types::QueryId(uuid::Uuid::from_u128(7));
    let generation = onefold_types::Generation(1);
    let opener = Opener {
        query,
        generation,
        last_commit: None,
        looks: false,
        letters: Some(Letters { topic: "dead".to_owned(), alone: false }),
    };
    let columns = Columns::of(&schema(), Some("out")).unwrap();
    let cluster = Arc::clone(&log) as Arc<dyn Cluster>;
    let sink = ExactlyOnce::open(cluster, columns, opener, BACKOFF).await.unwrap();
    let attempt = Attempt { query, batch: onefold_types::BatchId(0), generation };
    let staged = sink.stage(&attempt, 0, rows(vec![("value", "1")])).await.unwrap();
    let letters = rows(vec![("value", "2"), ("_error", "bad")]);
    let letters = sink.stage_dead_letters(&attempt, 1, letters).await.unwrap();
    assert_eq!((log.numbers("out"), log.numbers("dead")), (vec![], vec![]));
    let ends = serde_json::json!({"0": {"in": {"0": 23}}});
    sink.ends_at(&attempt, &ends);
    let published = sink.publish(&attempt, vec![staged, letters], &Owner).await.unwrap();
    assert_eq!((log.numbers("out"), log.numbers("dead")), (vec![1], vec![2]));
    assert_eq!(published.totals.unwrap().rows, 2);
    let mark = log.newest_mark(query, true).await.unwrap().unwrap();
    assert_eq!((mark.rows, mark.offsets), (2, Some(ends)));
}

/// A driver that owns its checkpoint.
#[derive(Debug)]
struct Owner;

#[async_trait]
impl onefold_connector::Fence for Owner {
    async fn check(&self) -> Result<()> {
        Ok(())
    }
}
