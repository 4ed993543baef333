//! What recovery decides about a query's further sinks.

use super::{Facts, StopReason, Unpublished};
use crate::record::{Commit, Prepared};
use onefold_types::{BatchId, Generation, Published, Totals};
use std::collections::BTreeMap;

/// A sink beside the one whose mark decides, which remembers what it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Follower {
    /// Its name in the query.
    pub name: String,
    /// As it describes itself.
    pub description: String,
    /// The newest batch that it holds. Read before the decider's, so that it is never ahead of it
    /// because a batch was published in between.
    pub mark: Option<Published>,
}

/// Marks of followers lie between the newest commit, if they took part in it, and the decider's.
pub(super) fn check(facts: &Facts, last_intent: Option<BatchId>) -> Result<(), StopReason> {
    for follower in &facts.followers {
        check_one(facts, follower, last_intent).map_err(|reason| StopReason::InSink {
            name: follower.name.clone(),
            reason: Box::new(reason),
        })?;
    }
    Ok(())
}

fn check_one(
    facts: &Facts,
    follower: &Follower,
    last_intent: Option<BatchId>,
) -> Result<(), StopReason> {
    let mark = follower.mark.map(|published| published.mark);
    check_owner(facts, follower.mark, last_intent)?;
    let last_commit = facts.commit_ids.last().copied();
    check_joined(facts, Some(&follower.name), follower.mark)?;
    let open = last_intent.filter(|newest| last_commit != Some(*newest));
    let decided = facts.mark.map(|published| published.mark.batch);
    match mark {
        Some(mark) if open == Some(mark.batch) && decided != open => {
            Err(StopReason::FollowerAhead { mark })
        }
        _ => Ok(()),
    }
}

/// The mark is this query's, and of a batch that was intended.
pub(super) fn check_owner(
    facts: &Facts,
    mark: Option<Published>,
    last_intent: Option<BatchId>,
) -> Result<(), StopReason> {
    let Some(Published { mark, .. }) = mark else { return Ok(()) };
    if facts.query.zip(mark.query).is_some_and(|(ours, theirs)| ours != theirs) {
        return Err(StopReason::ForeignMark { mark });
    }
    if last_intent.is_none_or(|newest| mark.batch > newest) {
        return Err(StopReason::SinkAhead { mark, last_intent });
    }
    Ok(())
}

/// A sink that took part in the newest commit holds that batch. One that did not may join with the
/// next batch, but not a second time: batches would be missing in it.
pub(super) fn check_joined(
    facts: &Facts,
    name: Option<&str>,
    mark: Option<Published>,
) -> Result<(), StopReason> {
    let Some(last_commit) = facts.commit_ids.last().copied() else { return Ok(()) };
    let mark = mark.map(|published| published.mark);
    let sinks = facts.last_commit.as_ref().map(|commit| &commit.sinks);
    let took_part = name.is_none_or(|name| sinks.is_some_and(|sinks| sinks.contains_key(name)));
    match (took_part, mark) {
        (true, None) => Err(StopReason::SinkBehind { mark, last_commit }),
        (true, Some(held)) if held.batch < last_commit => {
            Err(StopReason::SinkBehind { mark, last_commit })
        }
        (false, Some(mark)) if mark.batch <= last_commit => {
            Err(StopReason::SinkRejoins { mark, last_commit })
        }
        _ => Ok(()),
    }
}

/// Of a batch that the decider holds by `generation`: what is still to be published, and what its
/// commit says of the query's further sinks.
pub(super) fn follow(
    facts: &Facts,
    batch: BatchId,
    generation: Option<Generation>,
    prepared: Option<&Prepared>,
) -> Result<(Vec<Unpublished>, BTreeMap<String, Totals>), StopReason> {
    let mut unpublished = Vec::new();
    let mut committed = BTreeMap::new();
    for (name, output) in prepared.iter().flat_map(|record| &record.sinks) {
        let follower = facts.followers.iter().find(|it| it.name == *name);
        let open = !output.outputs.is_null() && facts.decider.as_ref() != Some(name);
        let same = follower.is_some_and(|it| it.description == output.sink);
        if open && !same {
            if output.totals.rows == 0 {
                continue;
            }
            let (name, was) = (name.clone(), output.sink.clone());
            return Err(match follower {
                None => StopReason::SinkGone { name, was, batch },
                Some(_) => StopReason::SinkMoved { name, was, batch },
            });
        }
        committed.insert(name.clone(), output.totals);
        if !open {
            continue;
        }
        match follower.and_then(|it| it.mark).map(|published| published.mark) {
            Some(mark) if mark.batch == batch && mark.generation != generation => {
                let reason = Box::new(StopReason::FollowerAhead { mark });
                return Err(StopReason::InSink { name: name.clone(), reason });
            }
            Some(mark) if mark.batch == batch => {}
            _ => unpublished
                .push(Unpublished { name: name.clone(), outputs: output.outputs.clone() }),
        }
    }
    Ok((unpublished, committed))
}

/// What the newest commit says of the query's further sinks.
#[must_use]
pub fn took_part(last_commit: Option<&Commit>, name: &str) -> bool {
    last_commit.is_some_and(|commit| commit.sinks.contains_key(name))
}
