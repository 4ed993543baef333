//! From where a user says that reading begins or ends to offsets.

use super::broker::Broker;
use super::offsets::{self, EARLIEST, LATEST, Positions, TopicPartition};
use super::options::{Bound, Choice};
use super::topology::Look;
use onefold_types::{Error, Result};
use std::collections::BTreeSet;

/// Which end is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Start,
    Last,
}

impl End {
    fn option(self, by_time: bool) -> &'static str {
        match (self, by_time) {
            (End::Start, false) => "startingOffsets",
            (End::Start, true) => "startingOffsetsByTimestamp",
            (End::Last, false) => "endingOffsets",
            (End::Last, true) => "endingOffsetsByTimestamp",
        }
    }
}

/// The offsets of one end, for all partitions of the look. Blocks.
///
/// # Errors
/// Invalid, when the user's partitions are not those that there are, or none has a record of a time.
pub(crate) fn resolve(
    choice: &Choice,
    end: End,
    look: &Look,
    broker: &Broker,
) -> Result<Positions> {
    let bound = if end == End::Start { &choice.starting } else { &choice.ending };
    match bound {
        Bound::Earliest => Ok(look.earliest.clone()),
        Bound::Latest => Ok(look.latest.clone()),
        Bound::Offsets(given) => {
            same_partitions(given, look, end, false)?;
            Ok(given.iter().map(|(at, offset)| (at.clone(), special(at, *offset, look))).collect())
        }
        Bound::Time(ms) => {
            let times = look.latest.keys().map(|at| (at.clone(), *ms)).collect();
            by_time(choice, end, &times, look, broker)
        }
        Bound::Times(times) => {
            same_partitions(times, look, end, true)?;
            by_time(choice, end, times, look, broker)
        }
    }
}

fn special(at: &TopicPartition, offset: i64, look: &Look) -> i64 {
    let found = match offset {
        EARLIEST => look.earliest.get(at),
        LATEST => look.latest.get(at),
        _ => None,
    };
    found.copied().unwrap_or(offset)
}

fn same_partitions(given: &Positions, look: &Look, end: End, by_time: bool) -> Result<()> {
    let given: BTreeSet<_> = given.keys().collect();
    let there: BTreeSet<_> = look.latest.keys().collect();
    if given == there {
        return Ok(());
    }
    let hint = if by_time { "" } else { " (-1 for latest, -2 for earliest)" };
    Err(Error::invalid(format!(
        "if {} names partitions it must name all of them{hint}; it names {}, and there are {}",
        end.option(by_time),
        offsets::names(given),
        offsets::names(there)
    )))
}

fn by_time(
    choice: &Choice,
    end: End,
    times: &Positions,
    look: &Look,
    broker: &Broker,
) -> Result<Positions> {
    let mut found = broker.offsets(times)?;
    for (at, offset) in &mut found {
        if *offset >= 0 {
            continue;
        }
        if end == End::Start && !choice.late_start_is_latest {
            let time = times.get(at).copied().unwrap_or_default();
            return Err(Error::invalid(format!(
                "no offset matched from request of topic-partition {at} and timestamp {time}; to start \
                 such partitions at their end set startingOffsetsByTimestampStrategy to latest"
            )));
        }
        *offset = look.latest.get(at).copied().unwrap_or(0);
    }
    Ok(found)
}
