//! The producer over librdkafka.

use super::cluster::{Failure, Producer, Record};
use super::mark::Written;
use super::transaction::{Call, Trouble};
use crate::kafka::aside::drop_aside;
use crate::kafka::client::Listener;
use crate::kafka::errors;
use async_trait::async_trait;
use onefold_types::{Error, ErrorKind, Result};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Looks until the last report is cleared away.
const CLEARING: u32 = 200;

/// What a producer is made of.
#[derive(Debug, Clone)]
pub(crate) struct Making {
    pub(crate) config: ClientConfig,
    /// The topic whose records are no rows.
    pub(crate) progress: Option<String>,
    /// The longest that a call may take.
    pub(crate) timeout: Duration,
    /// The largest record that is taken, for messages.
    pub(crate) largest: u64,
}

/// By partition: the first offset and the one after the last.
type Ranges = Vec<Option<(i64, i64)>>;

/// What the brokers said of records.
#[derive(Debug, Default)]
struct Reports {
    /// By topic. There are few, and one record in a row after the other is mostly of the same.
    written: Vec<(String, Ranges)>,
    rejected: Option<(Code, String)>,
}

impl Reports {
    fn place(&mut self, topic: &str) -> Option<&mut Ranges> {
        let known = self.written.iter().position(|(name, _)| name == topic);
        let at = known.unwrap_or_else(|| {
            self.written.push((topic.to_owned(), Vec::new()));
            self.written.len() - 1
        });
        self.written.get_mut(at).map(|(_, partitions)| partitions)
    }

    fn add(&mut self, topic: &str, partition: i32, offset: i64) {
        let Ok(at) = usize::try_from(partition) else { return };
        let Some(partitions) = self.place(topic) else { return };
        if partitions.len() <= at {
            partitions.resize(at + 1, None);
        }
        if let Some(range) = partitions.get_mut(at) {
            let (first, end) = range.unwrap_or((offset, offset + 1));
            *range = Some((first.min(offset), end.max(offset + 1)));
        }
    }

    fn written(&self) -> Written {
        let partitions = |all: &[Option<(i64, i64)>]| {
            (0..).zip(all).filter_map(|(at, range)| Some((at, (*range)?))).collect()
        };
        self.written.iter().map(|(topic, all)| (topic.clone(), partitions(all))).collect()
    }
}

#[derive(Debug)]
struct Events {
    listener: Listener,
    progress: Option<String>,
    /// Records handed over of which nothing was said yet.
    open: AtomicU64,
    reports: Mutex<Reports>,
    /// Told when no record is open.
    all_told: Condvar,
}

impl Events {
    /// Waits until something was said of every record.
    fn wait(&self, timeout: Duration) -> Result<(), KafkaError> {
        let open = |_: &mut Reports| self.open.load(Ordering::SeqCst) > 0;
        let waited = self.all_told.wait_timeout_while(self.reports(), timeout, open);
        match waited.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
            false => Ok(()),
            true => Err(KafkaError::Flush(Code::OperationTimedOut)),
        }
    }

    /// Takes down what the brokers said of one record.
    fn note(&self, reports: &mut Reports, result: &DeliveryResult<'_>) {
        match result {
            Ok(message) if self.progress.as_deref() == Some(message.topic()) => {}
            Ok(message) => reports.add(message.topic(), message.partition(), message.offset()),
            Err((error, message)) => {
                let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
                // Records are purged because of another one, of which may be told later.
                let follows = matches!(code, Code::PurgeQueue | Code::PurgeInflight);
                let known = reports.rejected.as_ref().map(|(code, _)| *code);
                let only_followed = matches!(known, Some(Code::PurgeQueue | Code::PurgeInflight));
                if known.is_some() && (follows || !only_followed) {
                    return;
                }
                let size = message.key_len() + message.payload_len();
                let place = match message.partition() {
                    partition if partition >= 0 => format!("{}-{partition}", message.topic()),
                    _ => message.topic().to_owned(),
                };
                reports.rejected = Some((code, format!("a record of {size} bytes for {place}")));
            }
        }
    }

    /// One record less is open; how many were. Those of a transaction that was given up may be told
    /// of when they are not counted any more.
    fn told(&self) -> u64 {
        let less = |open: u64| Some(open.saturating_sub(1));
        self.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).unwrap_or_default()
    }

    fn reports(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Events {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.listener.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.listener.error(error, reason);
    }
}

impl ProducerContext for Events {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let mut reports = self.reports();
        self.note(&mut reports, result);
        // Under the lock, so that who just looked is waiting when it is told.
        if self.told() <= 1 {
            self.all_told.notify_all();
        }
    }
}

/// A producer of librdkafka.
pub(crate) struct Native {
    /// `None` only while it is dropped.
    inner: Option<Arc<ThreadedProducer<Events>>>,
    making: Making,
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Native")
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // Ending a client waits for its threads.
        let inner = self.inner.take();
        drop_aside(inner);
    }
}

impl Native {
    /// A new client.
    ///
    /// # Errors
    /// Invalid: settings that librdkafka does not take.
    pub(crate) fn new(making: Making, listener: Listener) -> Result<Native> {
        let events = Events {
            listener,
            progress: making.progress.clone(),
            open: AtomicU64::new(0),
            reports: Mutex::default(),
            all_told: Condvar::new(),
        };
        let inner = making
            .config
            .create_with_context(events)
            .map_err(|e| errors::reading("a Kafka producer could not be made", e))?;
        Ok(Native { inner: Some(Arc::new(inner)), making })
    }

    fn inner(&self) -> Result<&Arc<ThreadedProducer<Events>>, Failure> {
        self.inner.as_ref().ok_or_else(|| Failure {
            trouble: Trouble::Lost,
            error: Error::internal("the producer is gone"),
        })
    }

    fn failure(&self, what: &str, error: KafkaError) -> Failure {
        let Ok(inner) = self.inner() else {
            return Failure { trouble: Trouble::Lost, error: Error::internal("no producer") };
        };
        let fatal = inner.client().fatal_error();
        let trouble = match &fatal {
            Some((code, _)) if fenced(*code) => Trouble::Fenced,
            Some(_) => Trouble::Lost,
            None => trouble(&error),
        };
        let complaint = inner.client().context().listener.complaint();
        let told = match (fatal, complaint) {
            (Some((_, text)), _) => format!("{what}: {text}"),
            (None, Some(complaint)) => format!("{what}: {complaint}"),
            (None, None) => what.to_owned(),
        };
        Failure { trouble, error: errors::writing(told, error) }
    }

    /// The failure of a record that is refused before it is sent, or was refused by a broker.
    fn refused(&self, code: Code, what: String) -> Failure {
        let error = match code {
            Code::MessageSizeTooLarge | Code::MessageBatchTooLarge => Error::invalid(format!(
                "{what}, or one sent together with it, is larger with key and headers than is taken: the producer takes {} \
                 bytes of key and value (kafka.max.request.size) and the topic as many of all as \
                 its max.message.bytes says; raise both, or make records smaller",
                self.making.largest
            )),
            Code::UnknownPartition => Error::invalid(format!(
                "{what} has a partition that the topic does not have; add partitions to the topic, \
                 or leave column `partition` out"
            )),
            Code::UnknownTopic | Code::UnknownTopicOrPartition => Error::invalid(format!(
                "{what} has a topic that does not exist and that brokers do not make by themselves; \
                 make the topic"
            )),
            Code::NotEnoughReplicas | Code::NotEnoughReplicasAfterAppend => {
                Error::unavailable(format!(
                    "{what} was not taken: the partition has fewer replicas in sync than \
                     min.insync.replicas; bring brokers back"
                ))
            }
            Code::MessageTimedOut => Error::unavailable(format!(
                "{what} was not confirmed within kafka.delivery.timeout.ms"
            )),
            _ => {
                return self.failure(
                    &format!("{what} was not taken"),
                    KafkaError::MessageProduction(code),
                );
            }
        };
        let refused = error.kind() == ErrorKind::Invalid;
        Failure { trouble: if refused { Trouble::Refused } else { Trouble::MustAbort }, error }
    }
}

/// Waits until all records are told of. The crate's own flush looks at intervals of 100 ms only.
fn flush(inner: &ThreadedProducer<Events>, timeout: Duration) -> Result<(), KafkaError> {
    inner.client().context().wait(timeout)?;
    // The last report counts as open until it is cleared away, just after it was told.
    for _ in 0..CLEARING {
        if inner.in_flight_count() == 0 {
            break;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

fn fenced(code: Code) -> bool {
    matches!(code, Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch)
}

/// Of which sort an error is that is not fatal to the client.
fn trouble(error: &KafkaError) -> Trouble {
    let Some(code) = error.rdkafka_error_code() else { return Trouble::Lost };
    if fenced(code) {
        return Trouble::Fenced;
    }
    if matches!(code, Code::OperationTimedOut | Code::RequestTimedOut | Code::MessageTimedOut) {
        return Trouble::Lost;
    }
    if errors::kind_of_code(code) == Some(ErrorKind::Invalid) {
        return Trouble::Refused;
    }
    match error {
        KafkaError::Transaction(native) if native.is_fatal() => Trouble::Lost,
        KafkaError::Transaction(native) if native.txn_requires_abort() => Trouble::MustAbort,
        KafkaError::Transaction(native) if native.is_retriable() => Trouble::Retriable,
        // The transaction has failed already.
        KafkaError::MessageProduction(_) => Trouble::MustAbort,
        _ => Trouble::Lost,
    }
}

#[async_trait]
impl Producer for Native {
    async fn call(&self, call: Call) -> Result<Duration, Failure> {
        let inner = Arc::clone(self.inner()?);
        let timeout = self.making.timeout;
        let made = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let done = match call {
                Call::Init => inner.init_transactions(timeout),
                Call::Begin => {
                    let events = inner.client().context();
                    *events.reports() = Reports::default();
                    events.open.store(0, Ordering::SeqCst);
                    inner.begin_transaction()
                }
                Call::Send => Ok(()),
                Call::Flush => flush(&inner, timeout),
                Call::Commit => inner.commit_transaction(timeout),
                Call::Abort => inner.abort_transaction(timeout),
            };
            done.map(|()| began.elapsed())
        });
        match made.await {
            Ok(Ok(took)) => Ok(took),
            Ok(Err(error)) => Err(self.failure(name(call), error)),
            Err(error) => Err(Failure {
                trouble: Trouble::Lost,
                error: Error::internal("a call to Kafka ended abruptly").because(error),
            }),
        }
    }

    fn send(&self, record: &Record<'_>) -> Result<bool, Failure> {
        let mut native: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(record.topic);
        (native.partition, native.key, native.payload) =
            (record.partition, record.key, record.value);
        if !record.headers.is_empty() {
            let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
            for &(key, value) in record.headers {
                headers = headers.insert(Header { key, value });
            }
            native.headers = Some(headers);
        }
        let inner = self.inner()?;
        let events = inner.client().context();
        events.open.fetch_add(1, Ordering::SeqCst);
        let Err((error, _)) = inner.send(native) else { return Ok(true) };
        events.told();
        match error {
            KafkaError::MessageProduction(Code::QueueFull) => Ok(false),
            KafkaError::MessageProduction(code) => {
                let size = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
                let size = size(record.key) + size(record.value);
                Err(self.refused(code, format!("a record of {size} bytes for {}", record.topic)))
            }
            error => Err(self.failure("a record was not taken", error)),
        }
    }

    fn written(&self) -> Written {
        self.inner()
            .map_or_else(|_| Written::new(), |inner| inner.client().context().reports().written())
    }

    fn rejected(&self) -> Option<Failure> {
        let rejected = self.inner().ok()?.client().context().reports().rejected.clone();
        rejected.map(|(code, what)| self.refused(code, what))
    }
}

fn name(call: Call) -> &'static str {
    match call {
        Call::Init => "taking the transactional id over failed",
        Call::Begin => "beginning a transaction failed",
        Call::Send | Call::Flush => "writing records failed",
        Call::Commit => "committing the transaction failed",
        Call::Abort => "aborting the transaction failed",
    }
}
