//! The sink over a real broker: the suite in fewer cases, since each takes its time, and what only
//! a broker can say. Skipped where there is no Java; CI skips nothing.

use super::faulty::Faulty;
use super::numbers::{Numbers, schema};
use super::{BACKOFF, claim, opener, request};
use crate::kafka::client::Listener;
use crate::kafka::settings;
use crate::kafka::sink::brokers::{Brokers, Plan};
use crate::kafka::sink::cluster::Cluster;
use crate::kafka::sink::columns::Columns;
use crate::kafka::sink::exactly_once::ExactlyOnce;
use crate::kafka::sink::marks::Reader;
use async_trait::async_trait;
use onefold_connector::conformance::{Fault, Faults, SinkFixture, World};
use onefold_connector::{Options, Sink, SinkContext};
use onefold_testkit::kafka::Broker;
use onefold_types::{Delivery, ErrorKind, Result};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::config::FromClientConfigAndContext;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// One broker for all tests of this process. It ends with it.
fn broker() -> Option<&'static Broker> {
    static BROKER: OnceLock<Option<(Broker, tempfile::TempDir)>> = OnceLock::new();
    let started = BROKER.get_or_init(|| {
        let java = std::process::Command::new("java").arg("-version").output();
        if java.is_err() {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI needs Java");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        Some((Broker::start(folder.path()).unwrap(), folder))
    });
    started.as_ref().map(|(broker, _)| broker)
}

fn unique(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn options(more: &[(&str, &str)]) -> Arc<Options> {
    let bootstrap = broker().unwrap().bootstrap();
    let all: Vec<(&str, &str)> =
        [("kafka.bootstrap.servers", bootstrap)].iter().chain(more).copied().collect();
    Arc::new(request(&all).unwrap().options)
}

async fn make_topic(name: &str, partitions: i32, settings_of: &[(&str, &str)]) {
    let options = options(&[]);
    let config = settings::producer(&options).unwrap();
    let admin = AdminClient::from_config_and_context(&config, Listener::new(&options)).unwrap();
    let new = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    let new = settings_of.iter().fold(new, |new, (name, value)| new.set(name, value));
    let wait = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
    admin.create_topics([&new], &wait).await.unwrap().remove(0).unwrap();
}

/// A sink over topics of its own.
struct Real {
    options: Arc<Options>,
    plan: Plan,
    made: AtomicBool,
}

impl Real {
    fn fresh() -> Real {
        let (out, marks) = (unique("out"), unique("marks"));
        let plan = Plan {
            transactional: true,
            progress: Some(marks.clone()),
            topics: vec![out],
            transactional_id: marks,
            looks: false,
        };
        Real { options: options(&[]), plan, made: AtomicBool::default() }
    }

    /// The first of the drivers that comes makes them.
    async fn make_topics(&self) {
        if !self.made.swap(true, Ordering::SeqCst) {
            make_topic(self.plan.topics.first().unwrap(), 2, &[]).await;
            let marks = self.plan.progress.as_deref().unwrap();
            make_topic(marks, 1, &[("cleanup.policy", "compact")]).await;
        }
    }

    async fn brokers(&self) -> Result<Brokers> {
        Brokers::open(Arc::clone(&self.options), self.plan.clone()).await
    }

    fn reader(&self) -> Reader {
        Reader { options: Arc::clone(&self.options), timeout: Duration::from_secs(30) }
    }
}

#[async_trait]
impl SinkFixture for Real {
    fn delivery(&self) -> Delivery {
        claim()
    }

    async fn open(&self, context: SinkContext, faults: Arc<Faults>) -> Result<Arc<dyn Sink>> {
        self.make_topics().await;
        let columns = Columns::of(&schema(), self.plan.topics.first().map(String::as_str))?;
        let inner = Arc::new(self.brokers().await?);
        let cluster = Arc::new(Faulty { inner, faults, strays: None });
        let sink = ExactlyOnce::open(cluster, columns, opener(&context), BACKOFF).await?;
        Ok(Arc::new(Numbers(Arc::new(sink))))
    }

    async fn ids(&self) -> Vec<i64> {
        let values = self.reader().values(self.plan.topics.first().unwrap()).await.unwrap();
        values
            .into_iter()
            .map(|it| String::from_utf8(it.unwrap()).unwrap().parse().unwrap())
            .collect()
    }
}

/// Each fault at every `STRIDE`-th call, shifted by one for each fault.
const STRIDE: u64 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn any_call_to_a_real_broker_may_go_wrong() {
    if broker().is_none() {
        return;
    }
    let mut met = 0;
    for (first, fault) in (0..).zip(Fault::ALL) {
        for at in (first..).step_by(usize::try_from(STRIDE).unwrap()) {
            let (fixture, world) = (Real::fresh(), World::new(2));
            let plan = Faults::fail_at(at, *fault);
            world.drive_until_stopped(&fixture, Arc::clone(&plan)).await;
            let case = format!("{fault:?} at call {at}: {:?}", plan.names());
            world.check_seen(&fixture, &case).await;
            world.finish(&fixture, &case).await;
            if !plan.met() {
                break;
            }
            met += 1;
        }
    }
    assert!(met > 8, "{met}");
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_are_read_back_with_where_their_rows_lie() {
    if broker().is_none() {
        return;
    }
    let fixture = Real::fresh();
    let world = World::new(2);
    world.drive_until_stopped(&fixture, Faults::none()).await;
    // It reads each batch back and compares it with its commit.
    world.finish(&fixture, "nothing goes wrong").await;
}

async fn open_error(plan: Plan, more: &[(&str, &str)]) -> onefold_types::Error {
    Brokers::open(options(more), plan).await.map(drop).unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_brokers_that_break_the_promise_are_named_at_the_start() {
    if broker().is_none() {
        return;
    }
    let Real { plan, .. } = Real::fresh();
    let missing = open_error(plan.clone(), &[]).await;
    assert_eq!(missing.kind(), ErrorKind::Invalid);
    assert!(missing.to_string().contains("does not exist"), "{missing}");
    let out = plan.topics.first().cloned().unwrap();
    make_topic(&out, 1, &[]).await;
    let long = open_error(plan.clone(), &[("kafka.transaction.timeout.ms", "900001")]).await;
    assert!(long.to_string().contains("900000 at most"), "{long}");
    let marks = unique("not-compacted");
    make_topic(&marks, 1, &[("cleanup.policy", "delete")]).await;
    let plan = Plan { progress: Some(marks.clone()), ..plan };
    let deleted = open_error(plan, &[]).await;
    assert!(deleted.to_string().contains(&format!("topic {marks} is not compacted")), "{deleted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_only_looks_makes_no_topic_and_fences_nobody() {
    if broker().is_none() {
        return;
    }
    let fixture = Real::fresh();
    let plan = Plan { looks: true, ..fixture.plan.clone() };
    let brokers = Brokers::open(Arc::clone(&fixture.options), plan).await.unwrap();
    let query = onefold_types::QueryId(uuid::Uuid::from_u128(5));
    assert_eq!(brokers.newest_mark(query, false).await.unwrap(), None);
    let topics = fixture.reader().topics().await.unwrap();
    assert!(!topics.contains(fixture.plan.progress.as_ref().unwrap()), "{topics:?}");
}
