//! The Kafka sink: each batch is one transaction, and its mark is in it.
//!
//! Rows are handed to the brokers while the batch runs, in a transaction that no reader with
//! `isolation.level=read_committed` sees. Publishing adds the batch's mark, a record in a compacted
//! topic, and commits: that commit is the atomic act. The transactional id is the query's, so that
//! a new driver ends what an older one left open and fences it, before it reads the mark.
//!
//! *Where to start:* `transaction` decides what follows from each call, `exactly_once` makes the
//! calls, `cluster` says what a cluster must do, `brokers`, `producer` and `marks` do it over
//! librdkafka.

mod at_least_once;
mod brokers;
mod checks;
mod cluster;
mod columns;
mod content;
mod exactly_once;
mod letters;
mod mark;
mod marks;
mod producer;
mod row;
mod transaction;

use super::settings;
use arrow::datatypes::Schema;
use async_trait::async_trait;
use at_least_once::AtLeastOnce;
use brokers::{Brokers, Plan};
use cluster::Cluster;
use columns::Columns;
use exactly_once::{ExactlyOnce, Opener};
use letters::Letters;
use onefold_connector::{
    OptionKind, OptionSpec, Options, Sink, SinkContext, SinkDefinition, SinkRequest, SinkSpec,
    SourceDefinition,
};
use onefold_types::{Delivery, Error, Result};
use std::sync::Arc;
use std::time::Duration;

/// librdkafka's back-off where the user says nothing.
const RETRY_BACKOFF_MS: u64 = 100;

/// The option of the topic of dead letters.
const LETTERS: &str = "onefold.deadLetters.topic";

static OWN: &[OptionSpec] = &[
    OptionSpec::new("topic", OptionKind::Text, "the topic of all rows; wins over column `topic`"),
    OptionSpec::new(
        LETTERS,
        OptionKind::Text,
        "a topic for records that cannot be processed, in the same transaction: the query goes on \
         without them",
    ),
    OptionSpec::new(
        "includeHeaders",
        OptionKind::Bool,
        "taken as in Spark; column `headers` is written whenever there is one",
    ),
    OptionSpec::new(
        "onefold.kafka.guarantee",
        OptionKind::Choice(&["exactly-once", "at-least-once"]),
        "at-least-once does without transactions, for brokers that have none",
    )
    .default("exactly-once"),
    OptionSpec::new(
        "onefold.kafka.progressTopic",
        OptionKind::Text,
        "the compacted topic of marks, for all queries of a cluster; made if missing",
    )
    .default("_onefold_marks"),
    OptionSpec::new(
        "onefold.kafka.transactionalIdPrefix",
        OptionKind::Text,
        "what the transactional id begins with, before the query's id",
    )
    .default("onefold-"),
];

/// The Kafka sink.
pub static SPEC: SinkSpec = SinkSpec {
    name: "kafka",
    summary: "records in topics of Kafka",
    options: &[settings::CLIENT, settings::PRODUCER, OWN, settings::REFUSED],
    define,
};

fn define(request: SinkRequest) -> Result<Arc<dyn SinkDefinition>> {
    let options = request.options;
    settings::producer(&options)?;
    if !request.partition_by.is_empty() {
        return Err(Error::invalid(
            "the kafka sink takes no partitionBy; give partitions in column `partition`, or keys",
        ));
    }
    let exactly_once =
        options.choice("onefold.kafka.guarantee").as_deref() != Some("at-least-once");
    let named = |name: &str| options.text(name).map(str::trim).filter(|it| !it.is_empty());
    let (topic, letters) = (named("topic"), named(LETTERS));
    if options.given(LETTERS) && (letters.is_none() || letters == topic) {
        return Err(Error::invalid(format!(
            "option `{LETTERS}` must name a topic, another one than option `topic`"
        )));
    }
    if exactly_once {
        fits_transactions(&options)?;
        let marks = options.text("onefold.kafka.progressTopic");
        for (name, topic) in [("topic", topic), (LETTERS, letters)] {
            if topic.is_some() && topic == marks {
                return Err(Error::invalid(format!(
                    "option `{name}` names the topic of marks (onefold.kafka.progressTopic); rows \
                     need another one"
                )));
            }
        }
    }
    let topic = topic.map(str::to_owned);
    let letters = letters.map(|topic| Letters { topic: topic.to_owned(), alone: false });
    Ok(Arc::new(Definition { options: Arc::new(options), topic, letters, exactly_once }))
}

/// Settings that take back what a transaction promises.
fn fits_transactions(options: &Options) -> Result<()> {
    let said = |name: &str| options.text(name).map(str::to_lowercase);
    let acks = said("kafka.acks").filter(|it| !matches!(it.as_str(), "all" | "-1"));
    let doubles = said("kafka.enable.idempotence").filter(|it| it == "false");
    let broken = acks.map(|it| format!("kafka.acks={it}"));
    match broken.or_else(|| doubles.map(|it| format!("kafka.enable.idempotence={it}"))) {
        Some(setting) => Err(Error::invalid(format!(
            "{setting} does not go with exactly-once; leave it out, or set \
             onefold.kafka.guarantee=at-least-once"
        ))),
        None => Ok(()),
    }
}

#[derive(Debug, Clone)]
struct Definition {
    options: Arc<Options>,
    topic: Option<String>,
    letters: Option<Letters>,
    exactly_once: bool,
}

impl Definition {
    /// The topics that are known before there are rows.
    fn topics(&self) -> impl Iterator<Item = &str> {
        let letters = self.letters.as_ref().filter(|it| !it.alone);
        self.topic.as_deref().into_iter().chain(letters.map(|it| it.topic.as_str()))
    }

    /// What is written of rows with these columns.
    fn columns(&self, rows: &Schema) -> Result<Columns> {
        match self.letters.as_ref().filter(|it| it.alone) {
            Some(letters) => Letters::check(rows).and_then(|()| letters.columns()),
            None => Columns::of(rows, self.topic.as_deref()),
        }
    }

    fn plan(&self, context: &SinkContext, looks: bool) -> Plan {
        // What is written once is not asked for its mark.
        let marks = self.exactly_once
            && context.conf.get(onefold_connector::ONE_BATCH).is_none_or(|value| value != "true");
        let text = |name: &str| self.options.text(name).unwrap_or_default().to_owned();
        let prefix = text("onefold.kafka.transactionalIdPrefix");
        Plan {
            transactional: self.exactly_once,
            progress: marks.then(|| text("onefold.kafka.progressTopic")),
            topics: self.topics().map(str::to_owned).collect(),
            transactional_id: format!("{prefix}{}", context.query),
            looks,
        }
    }
}

#[async_trait]
impl SinkDefinition for Definition {
    fn delivery(&self) -> Delivery {
        if self.exactly_once {
            Delivery::ExactlyOnce {
                how: "rows and mark of a batch are one Kafka transaction, for readers with \
                      isolation.level=read_committed"
                    .to_owned(),
            }
        } else {
            Delivery::AtLeastOnce {
                why:
                    "onefold.kafka.guarantee=at-least-once writes without transactions; rows of a \
                      batch that runs again are written again"
                        .to_owned(),
            }
        }
    }

    fn description(&self) -> String {
        match &self.topic {
            Some(topic) => format!("KafkaSink[{topic}]"),
            None => "KafkaSink[column topic]".to_owned(),
        }
    }

    fn dead_letters(&self) -> Option<String> {
        self.letters.as_ref().map(|it| format!("KafkaSink[{}]", it.topic))
    }

    fn of_dead_letters(&self) -> Result<Option<Arc<dyn SinkDefinition>>> {
        let Some(topic) = self.topic.clone() else {
            return Err(Error::invalid(
                "dead letters need a topic: give onefold.deadLetters.topic (their column `topic` is \
                 the one that they came from)",
            ));
        };
        let letters = Some(Letters { topic, alone: true });
        Ok(Some(Arc::new(Definition { letters, ..self.clone() })))
    }

    fn check_dead_letters(
        &self,
        letters: &Schema,
        sources: &[Arc<dyn SourceDefinition>],
    ) -> Result<()> {
        let Some(Letters { topic, .. }) = &self.letters else { return Ok(()) };
        let servers = settings::servers(&self.options).unwrap_or_default();
        if let Some(source) = sources.iter().find(|it| it.reads_topic(servers, topic)) {
            return Err(Error::invalid(format!(
                "the topic of dead letters, `{topic}`, is one that the query reads ({}): each letter \
                 would come back as a record, for ever; give {LETTERS} another topic",
                source.description()
            )));
        }
        Letters::check(letters)
    }

    async fn open(&self, context: SinkContext) -> Result<Arc<dyn Sink>> {
        let looks = context.conf.get("onefold.readOnly").is_some_and(|value| value == "true");
        if context.follows && self.exactly_once {
            return Err(Error::invalid(
                "a Kafka transaction cannot wait for another sink's decision: write these rows to \
                 files, or set onefold.kafka.guarantee=at-least-once on this sink",
            ));
        }
        let columns = match self.columns(&context.schema) {
            // Who only looks need not know the columns.
            Err(_) if looks => Columns::unknown(),
            columns => columns?,
        };
        let plan = self.plan(&context, looks);
        let brokers: Arc<dyn Cluster> =
            Arc::new(Brokers::open(Arc::clone(&self.options), plan).await?);
        if !self.exactly_once {
            let producer = brokers.producer().await?;
            let letters = self.letters.clone();
            return Ok(Arc::new(AtLeastOnce { producer, columns, letters }));
        }
        let opener = Opener {
            letters: self.letters.clone(),
            query: context.query,
            generation: context.generation,
            last_commit: context.last_commit,
            looks,
        };
        let backoff = self.options.count("kafka.retry.backoff.ms").unwrap_or(RETRY_BACKOFF_MS);
        let backoff = Duration::from_millis(backoff);
        Ok(Arc::new(ExactlyOnce::open(brokers, columns, opener, backoff).await?))
    }
}

#[cfg(test)]
mod tests;
