//! The source's options, checked: which topics, from where to where, how much at once.

mod table;
#[cfg(test)]
mod tests;
mod time;

pub(crate) use table::OPTIONS;
pub(crate) use time::parse_times;

use super::limits::Patience;
use super::loss::LossPolicy;
use super::offsets::{self, EARLIEST, LATEST, Positions, TopicPartition};
use super::split::Wish;
use onefold_connector::Options;
use onefold_types::{Error, Result};
use regex::Regex;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// What is read.
#[derive(Debug, Clone)]
pub(crate) enum Topics {
    Assign(BTreeSet<TopicPartition>),
    Subscribe(BTreeSet<String>),
    Pattern { text: String, regex: Regex },
}

impl Topics {
    /// Whether a topic of that name is among them.
    pub(crate) fn has(&self, topic: &str) -> bool {
        match self {
            Topics::Assign(all) => all.iter().any(|it| &*it.topic == topic),
            Topics::Subscribe(topics) => topics.contains(topic),
            Topics::Pattern { regex, .. } => regex.is_match(topic),
        }
    }
}

/// As Spark names it in progress.
impl fmt::Display for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Topics::Assign(all) => write!(f, "Assign[{}]", offsets::names(all)),
            Topics::Subscribe(topics) => {
                let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
                write!(f, "Subscribe[{}]", topics.join(", "))
            }
            Topics::Pattern { text, .. } => write!(f, "SubscribePattern[{text}]"),
        }
    }
}

/// Where reading begins or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bound {
    Earliest,
    Latest,
    /// By partition; [`EARLIEST`] and [`LATEST`] among them.
    Offsets(Positions),
    /// The first record of this time or later, milliseconds since 1970.
    Time(i64),
    /// The same by partition.
    Times(Positions),
}

/// What a user chose.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) topics: Topics,
    pub(crate) starting: Bound,
    pub(crate) ending: Bound,
    /// A partition without a record of the starting time begins at its end, rather than being an
    /// error.
    pub(crate) late_start_is_latest: bool,
    pub(crate) limit: Option<u64>,
    pub(crate) patience: Option<Patience>,
    pub(crate) wish: Wish,
    pub(crate) loss: LossPolicy,
    pub(crate) headers: bool,
    /// How long a read waits for a record that must be there.
    pub(crate) poll_timeout: Duration,
    pub(crate) retries: u64,
    pub(crate) retry_pause: Duration,
    /// The group in whose name records are read.
    pub(crate) group: Option<String>,
    pub(crate) group_prefix: String,
    /// The group that is told what was committed.
    pub(crate) report_group: Option<String>,
}

impl Choice {
    /// Reads the options. With `whole` what is there now is read as a table.
    ///
    /// # Errors
    /// Invalid, as Spark has it.
    pub(crate) fn of(options: &Options, whole: bool) -> Result<Choice> {
        let ms = |name: &str, default| {
            Duration::from_millis(options.duration_ms(name).unwrap_or(default))
        };
        let limit = options.count("maxOffsetsPerTrigger");
        Ok(Choice {
            topics: topics(options)?,
            starting: starting(options, whole)?,
            ending: ending(options, whole)?,
            late_start_is_latest: options
                .choice("startingOffsetsByTimestampStrategy")
                .is_some_and(|strategy| strategy == "latest"),
            limit,
            patience: patience(options, limit)?,
            wish: Wish {
                at_least: options.count("minPartitions"),
                records_max: options.count("maxRecordsPerPartition"),
            },
            loss: LossPolicy::parse(options.text("failOnDataLoss").unwrap_or("true"))?,
            headers: options.flag("includeHeaders"),
            poll_timeout: ms("kafkaConsumer.pollTimeoutMs", 120_000),
            retries: options.count("fetchOffset.numRetries").unwrap_or(3),
            retry_pause: ms("fetchOffset.retryIntervalMs", 10),
            group: text(options, "kafka.group.id"),
            group_prefix: text(options, "groupIdPrefix")
                .unwrap_or_else(|| "spark-kafka-source".to_owned()),
            report_group: text(options, "onefold.kafka.reportGroup"),
        })
    }

    /// Whether the user named partitions one by one.
    pub(crate) fn assigned(&self) -> bool {
        matches!(self.topics, Topics::Assign(_))
    }
}

fn text(options: &Options, name: &str) -> Option<String> {
    options.text(name).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

const STRATEGIES: [&str; 3] = ["subscribe", "subscribePattern", "assign"];

fn topics(options: &Options) -> Result<Topics> {
    let given: Vec<&str> = STRATEGIES.into_iter().filter(|name| options.given(name)).collect();
    let name = match given.as_slice() {
        [name] => *name,
        [] => {
            return Err(Error::invalid(
                "one of these options must be given to the Kafka source: subscribe, \
                 subscribePattern, assign",
            ));
        }
        several => {
            return Err(Error::invalid(format!(
                "only one of these options can be given to the Kafka source: subscribe, \
                 subscribePattern, assign; given are {}",
                several.join(", ")
            )));
        }
    };
    let value = options.text(name).unwrap_or_default().trim();
    let empty = |of: &str| Error::invalid(format!("option '{name}' is `{value}`, but takes {of}"));
    match name {
        "assign" => {
            let all = offsets::parse_partitions(value).filter(|all| !all.is_empty());
            let all =
                all.ok_or_else(|| empty("partitions by topic, such as {\"clicks\":[0,1]}"))?;
            Ok(Topics::Assign(all.into_iter().collect()))
        }
        "subscribe" => {
            let topics: BTreeSet<String> = value
                .split(',')
                .map(str::trim)
                .filter(|t| !t.is_empty())
                .map(str::to_owned)
                .collect();
            if topics.is_empty() {
                return Err(empty("names of topics, such as clicks,orders"));
            }
            Ok(Topics::Subscribe(topics))
        }
        _ if value.is_empty() => Err(empty("a regular expression for names of topics")),
        _ => {
            let regex = Regex::new(&format!("^(?:{value})$")).map_err(|error| {
                Error::invalid(format!(
                    "option 'subscribePattern' is `{value}`, which is not a regular expression that \
                     is understood here (there is no looking around)"
                ))
                .because(error)
            })?;
            Ok(Topics::Pattern { text: value.to_owned(), regex })
        }
    }
}

/// The names of the options for one end of what is read.
struct Names {
    time: &'static str,
    times: &'static str,
    offsets: &'static str,
}

const STARTING: Names = Names {
    time: "startingTimestamp",
    times: "startingOffsetsByTimestamp",
    offsets: "startingOffsets",
};
const ENDING: Names =
    Names { time: "endingTimestamp", times: "endingOffsetsByTimestamp", offsets: "endingOffsets" };

/// The time for all partitions wins over times by partition, and these over offsets, as in Spark.
fn bound(options: &Options, names: &Names, default: Bound) -> Result<Bound> {
    if let Some(time) = options.text(names.time) {
        let time = time.trim().parse().ok().filter(|time: &i64| *time >= 0).ok_or_else(|| {
            Error::invalid(format!(
                "option `{}` is `{time}`, but takes milliseconds since 1970",
                names.time
            ))
        })?;
        return Ok(Bound::Time(time));
    }
    if let Some(json) = options.text(names.times) {
        return parse_times(json).map(Bound::Times).ok_or_else(|| {
            Error::invalid(format!(
                "option `{}` is `{json}`, but takes milliseconds since 1970 by partition, such as \
                 {{\"clicks\":{{\"0\":1000}}}}",
                names.times
            ))
        });
    }
    let Some(given) = options.text(names.offsets) else { return Ok(default) };
    match given.trim().to_lowercase().as_str() {
        "earliest" => Ok(Bound::Earliest),
        "latest" => Ok(Bound::Latest),
        _ => {
            let positions = offsets::parse(given.trim());
            let fits = |all: &Positions| all.values().all(|offset| *offset >= EARLIEST);
            positions.filter(fits).map(Bound::Offsets).ok_or_else(|| {
                Error::invalid(format!(
                    "option `{}` is `{given}`, but takes earliest, latest, or offsets by partition \
                     such as {{\"clicks\":{{\"0\":23,\"1\":-2}}}} (-2 is earliest, -1 latest)",
                    names.offsets
                ))
            })
        }
    }
}

fn starting(options: &Options, whole: bool) -> Result<Bound> {
    let default = if whole { Bound::Earliest } else { Bound::Latest };
    let bound = bound(options, &STARTING, default)?;
    if whole {
        no_offset(&bound, &Bound::Latest, LATEST, "starting offset can't be latest")?;
    }
    Ok(bound)
}

fn ending(options: &Options, whole: bool) -> Result<Bound> {
    if whole {
        let bound = bound(options, &ENDING, Bound::Latest)?;
        no_offset(&bound, &Bound::Earliest, EARLIEST, "ending offset can't be earliest")?;
        return Ok(bound);
    }
    for name in [ENDING.time, ENDING.times, ENDING.offsets] {
        if options.given(name) {
            return Err(Error::invalid(format!(
                "ending offset not valid in streaming queries; leave out `{name}`"
            )));
        }
    }
    Ok(Bound::Latest)
}

fn no_offset(bound: &Bound, word: &Bound, number: i64, what: &str) -> Result<()> {
    let of = match bound {
        _ if bound == word => String::new(),
        Bound::Offsets(all) => match all.iter().find(|(_, offset)| **offset == number) {
            Some((at, _)) => format!(" (of {at})"),
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    Err(Error::invalid(format!("{what} for batch queries on Kafka{of}")))
}

fn patience(options: &Options, limit: Option<u64>) -> Result<Option<Patience>> {
    let Some(min) = options.count("minOffsetsPerTrigger") else { return Ok(None) };
    if let Some(max) = limit.filter(|max| *max < min) {
        return Err(Error::invalid(format!(
            "minOffsetsPerTrigger ({min}) is higher than maxOffsetsPerTrigger ({max})"
        )));
    }
    let delay_ms = options.duration_ms("maxTriggerDelay").unwrap_or(900_000);
    Ok(Some(Patience { min, delay_ms }))
}
