//! The source as part of a query's definition: its options are checked, and no broker is asked.

use super::broker::{Broker, Persistence};
use super::open::KafkaSource;
use super::options::Choice;
use super::pool::Pool;
use super::rows;
use super::scan::{Counts, Reading};
use crate::kafka::client::Listener;
use crate::kafka::settings;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use onefold_connector::{Options, Source, SourceContext, SourceDefinition, SourceRequest};
use onefold_types::{Error, Replay, Result};
use rdkafka::ClientConfig;
use std::sync::Arc;
use uuid::Uuid;

/// What a user asked for.
#[derive(Debug)]
pub(crate) struct Definition {
    choice: Arc<Choice>,
    options: Options,
    schema: SchemaRef,
    /// What is there now is read, as a table.
    whole: bool,
}

/// Checks a request.
///
/// # Errors
/// Invalid, as Spark has it.
pub(crate) fn define(request: SourceRequest) -> Result<Arc<dyn SourceDefinition>> {
    if request.schema.is_some() {
        return Err(Error::invalid(
            "Kafka source has a fixed schema and cannot be set with a custom one; leave schema() out",
        ));
    }
    if let Some(path) = request.paths.first() {
        return Err(Error::invalid(format!(
            "the Kafka source takes no path, but was given `{path}`; name topics by subscribe"
        )));
    }
    let choice = Choice::of(&request.options, request.whole)?;
    settings::consumer(&request.options)?;
    Ok(Arc::new(Definition {
        schema: rows::schema(choice.headers),
        choice: Arc::new(choice),
        options: request.options,
        whole: request.whole,
    }))
}

/// KiB that a partition holds ready, unless the user says otherwise: each has a queue of its own, and
/// the library's 64 MiB are too many where there are many.
const HELD_KIB: &str = "16384";

impl Definition {
    fn config(&self, role: &str) -> Result<ClientConfig> {
        let mut config = settings::consumer(&self.options)?;
        if config.get("queued.max.messages.kbytes").is_none() {
            config.set("queued.max.messages.kbytes", HELD_KIB);
        }
        let group =
            self.choice.group.clone().unwrap_or_else(|| {
                format!("{}-{}-{role}", self.choice.group_prefix, Uuid::new_v4())
            });
        config.set("group.id", group);
        Ok(config)
    }

    /// The client that asks: it needs no group.
    fn broker(&self) -> Result<Broker> {
        let persistence = Persistence {
            timeout: settings::call_timeout(&self.options),
            retries: self.choice.retries,
            pause: self.choice.retry_pause,
        };
        let config = settings::consumer(&self.options)?;
        Broker::new(&config, Listener::new(&self.options), persistence)
    }
}

#[async_trait]
impl SourceDefinition for Definition {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn replay(&self) -> Replay {
        let how = "offsets of Kafka's log name records for ever; a topic that was made again is told \
                   by its id";
        Replay::Exact { how: how.to_owned() }
    }

    fn description(&self) -> String {
        format!("KafkaV2[{}]", self.choice.topics)
    }

    fn reads_topic(&self, servers: &str, topic: &str) -> bool {
        let own = settings::servers(&self.options).unwrap_or_default();
        self.choice.topics.has(topic) && settings::share_an_address(own, servers)
    }

    async fn open(&self, context: SourceContext) -> Result<Arc<dyn Source>> {
        let timeout = settings::call_timeout(&self.options);
        let broker = Arc::new(self.broker()?);
        let reading = Reading {
            pool: Pool::new(self.config("executor")?, self.options.clone(), timeout),
            broker: Arc::clone(&broker),
            policy: self.choice.loss.clone(),
            patience: self.choice.poll_timeout,
            counts: Counts::default(),
        };
        let report = match &self.choice.report_group {
            Some(group) => Some(self.reporter(group)?),
            None => None,
        };
        let choice = Arc::clone(&self.choice);
        let source =
            KafkaSource::open(choice, self.whole, broker, reading, report, context).await?;
        Ok(Arc::new(source))
    }
}

impl Definition {
    fn reporter(&self, group: &str) -> Result<super::group::Reporter> {
        let mut config = settings::consumer(&self.options)?;
        config.set("group.id", group);
        super::group::Reporter::new(&config, Listener::new(&self.options), group)
    }
}
