//! What must hold at every moment, as functions over what an observer from outside can see.
//!
//! The search over crashes and interleavings calls them in each state that it reaches; a checker of
//! a real checkpoint can fill in an [`Observed`] and call them as well. Rows are numbers: row `i`
//! of the input is the number `i`, and a batch is a half-open range of them.

use onefold_types::{BatchId, Generation};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// A batch as its intent describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intended {
    /// The driver that intended it.
    pub generation: Option<Generation>,
    /// The rows.
    pub rows: Range<u64>,
}

/// A batch as the sink holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The driver that published it.
    pub generation: Option<Generation>,
    /// The rows that a reader who follows the sink's marks sees.
    pub rows: Vec<u64>,
}

/// Everything that can be seen from outside at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Intents that are retained.
    pub intents: BTreeMap<BatchId, Intended>,
    /// Commits that are retained, with the generation that they name.
    pub commits: BTreeMap<BatchId, Option<Generation>>,
    /// All batches that the sink ever took.
    pub published: BTreeMap<BatchId, Held>,
    /// Rows that a reader sees who looks at the sink without its marks (a plain listing of a
    /// folder), by batch.
    pub listed: BTreeMap<BatchId, Vec<u64>>,
    /// Rows before this one were released by the source.
    pub released: u64,
    /// Durable steps of each generation that took effect after a newer generation was there.
    pub late_steps: BTreeMap<Generation, u64>,
    /// Batches that the logs must keep before the newest.
    pub batches_retained: u64,
}

/// A rule that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule's name.
    pub rule: &'static str,
    /// What was seen.
    pub seen: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.seen)
    }
}

/// What a rule finds.
pub type Verdict = Result<(), Violation>;

fn broken(rule: &'static str, seen: String) -> Verdict {
    Err(Violation { rule, seen })
}

/// All rules about one moment.
///
/// # Errors
/// The first rule that does not hold.
pub fn check(now: &Observed) -> Verdict {
    exactly_once(now)?;
    listing_exact(now)?;
    dense(now)?;
    marks_in_order(now)?;
    intended_first(now)?;
    reachable(now)?;
    released_after_commit(now)?;
    fenced(now)
}

/// All rules about a step from one moment to the next.
///
/// # Errors
/// The first rule that does not hold.
pub fn check_step(before: &Observed, after: &Observed) -> Verdict {
    immutable(before, after)?;
    only_grows(before, after)
}

/// I1, I4: what readers see is the input from its first row up to some batch's end, each row once.
///
/// # Errors
/// Names the batch at which rows are lost, doubled or out of place.
pub fn exactly_once(now: &Observed) -> Verdict {
    let mut next = 0;
    for (batch, held) in &now.published {
        for row in &held.rows {
            if *row != next {
                let seen = format!("batch {batch} shows row {row} where row {next} belongs");
                return broken("exactly once", seen);
            }
            next += 1;
        }
    }
    Ok(())
}

/// A plain listing never shows a row of a committed batch twice, nor one that its mark does not
/// name.
///
/// # Errors
/// Names the batch.
pub fn listing_exact(now: &Observed) -> Verdict {
    for (batch, held) in &now.published {
        let listed = listed(now, *batch);
        if committed(now, *batch) && !listed.is_empty() && listed != held.rows {
            let seen =
                format!("committed batch {batch} holds {:?} but lists {listed:?}", held.rows);
            return broken("plain listing", seen);
        }
    }
    Ok(())
}

/// A plain listing shows every row of a committed batch.
///
/// Not part of [`check`]: an old driver that was overtaken in the middle of its recovery takes a
/// file out of sight for a moment, then sees the mark and brings it back; if it dies in between,
/// the next start does. So this holds whenever no overtaken driver is at that step.
///
/// # Errors
/// Names the batch.
pub fn listing_complete(now: &Observed) -> Verdict {
    for (batch, held) in &now.published {
        if committed(now, *batch) && listed(now, *batch) != held.rows {
            return broken("plain listing", format!("committed batch {batch} is out of sight"));
        }
    }
    Ok(())
}

fn listed(now: &Observed, batch: BatchId) -> Vec<u64> {
    now.listed.get(&batch).cloned().unwrap_or_default()
}

/// Whether a batch is committed, though its commit may be purged.
fn committed(now: &Observed, batch: BatchId) -> bool {
    now.commits.last_key_value().is_some_and(|(newest, _)| batch <= *newest)
}

/// I2: each batch begins where the one before ended, and no id is missing among those retained.
///
/// # Errors
/// Names the batch.
pub fn dense(now: &Observed) -> Verdict {
    let mut before: Option<(BatchId, &Intended)> = None;
    for (batch, intent) in now.intents.range(kept_from(now)..) {
        if let Some((last, ended)) = before {
            if *batch != last.next() {
                return broken("dense", format!("intent {batch} follows intent {last}"));
            }
            if intent.rows.start != ended.rows.end {
                let seen = format!(
                    "batch {batch} begins at row {}, batch {last} ended at {}",
                    intent.rows.start, ended.rows.end
                );
                return broken("dense", seen);
            }
        }
        before = Some((*batch, intent));
    }
    Ok(())
}

/// Records of older batches prove nothing: a driver that slept through a purge may have created
/// them again.
fn kept_from(now: &Observed) -> BatchId {
    let newest = now.commits.last_key_value().map_or(BatchId::FIRST, |(newest, _)| *newest);
    crate::retention::keep_from(newest, now.batches_retained)
}

/// I3: last commit ≤ mark ≤ last intent, and the mark is at most one ahead of the commit.
///
/// # Errors
/// Says which are out of order.
pub fn marks_in_order(now: &Observed) -> Verdict {
    let mark = now.published.last_key_value().map(|(batch, _)| *batch);
    let commit = now.commits.last_key_value().map(|(batch, _)| *batch);
    let intent = now.intents.last_key_value().map(|(batch, _)| *batch);
    let count = |batch: Option<BatchId>| batch.map_or(0, |batch| batch.0 + 1);
    let (mark, commit, intent) = (count(mark), count(commit), count(intent));
    if commit <= mark && mark <= intent && mark <= commit + 1 && intent <= commit + 1 {
        return Ok(());
    }
    broken("order of marks", format!("{intent} intended, {mark} published, {commit} committed"))
}

/// I10: nothing is to be seen of a batch that is not intended, and what is published is what was
/// intended.
///
/// # Errors
/// Names the batch.
pub fn intended_first(now: &Observed) -> Verdict {
    let newest = now.intents.last_key_value().map(|(batch, _)| *batch);
    for batch in now.listed.keys().chain(now.published.keys()) {
        if newest.is_none_or(|newest| *batch > newest) {
            return broken("intended first", format!("batch {batch} is seen but not intended"));
        }
    }
    for (batch, held) in now.published.range(kept_from(now)..) {
        if let Some(intent) = now.intents.get(batch)
            && !held.rows.iter().copied().eq(intent.rows.clone())
        {
            let seen = format!("batch {batch} means {:?} but holds {:?}", intent.rows, held.rows);
            return broken("same input again", seen);
        }
    }
    Ok(())
}

/// I8: after a newer generation is there, an older one takes at most one durable step.
///
/// # Errors
/// Names the generation.
pub fn fenced(now: &Observed) -> Verdict {
    match now.late_steps.iter().find(|(_, steps)| **steps > 1) {
        Some((generation, steps)) => {
            broken("fenced", format!("generation {generation} took {steps} steps after its time"))
        }
        None => Ok(()),
    }
}

/// I11: what the newest commits need is still there.
///
/// # Errors
/// Names what is gone.
pub fn reachable(now: &Observed) -> Verdict {
    let Some((newest, _)) = now.commits.last_key_value() else {
        return match now.published.len() {
            0 | 1 => Ok(()),
            _ => broken("reachable is kept", "no commit is left".to_owned()),
        };
    };
    for batch in kept_from(now).0..=newest.0 {
        let batch = BatchId(batch);
        if !now.intents.contains_key(&batch) || !now.commits.contains_key(&batch) {
            return broken("reachable is kept", format!("batch {batch} lost its records"));
        }
    }
    Ok(())
}

/// I12: a source lets go only of rows whose batch is committed.
///
/// # Errors
/// Says how far it went.
pub fn released_after_commit(now: &Observed) -> Verdict {
    let committed = now.commits.last_key_value().and_then(|(batch, _)| now.intents.get(batch));
    let until = committed.map_or(0, |intent| intent.rows.end);
    if now.released <= until {
        return Ok(());
    }
    let seen = format!("released up to row {}, committed up to row {until}", now.released);
    broken("release after commit", seen)
}

/// I9: a record, once there, never changes; it may only be purged.
///
/// # Errors
/// Names the record.
pub fn immutable(before: &Observed, after: &Observed) -> Verdict {
    for (batch, intent) in &before.intents {
        if after.intents.get(batch).is_some_and(|now| now != intent) {
            return broken("immutable", format!("intent {batch} changed"));
        }
    }
    for (batch, commit) in &before.commits {
        if after.commits.get(batch).is_some_and(|now| now != commit) {
            return broken("immutable", format!("commit {batch} changed"));
        }
    }
    for (batch, held) in &before.published {
        let same = after.published.get(batch).is_some_and(|now| now.generation == held.generation);
        if !same {
            return broken("immutable", format!("mark {batch} changed"));
        }
    }
    Ok(())
}

/// I4: what readers see of committed batches never shrinks, and a source never takes back.
///
/// # Errors
/// Says what shrank.
pub fn only_grows(before: &Observed, after: &Observed) -> Verdict {
    let newest = |seen: &Observed| seen.commits.last_key_value().map(|(batch, _)| *batch);
    if newest(after) < newest(before) {
        return broken("only grows", "the newest commit is gone".to_owned());
    }
    if after.released < before.released {
        return broken("only grows", "the source took back what it released".to_owned());
    }
    Ok(())
}
