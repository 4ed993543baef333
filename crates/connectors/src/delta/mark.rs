//! The mark of a batch in a table: what is written with its rows, and what another writer's commit
//! means to a batch that wants to be published.
//!
//! The table remembers the batch as Spark's sink does, so that a checkpoint can change hands: a
//! transaction of the application whose id is the query's, with the batch as its version. Beside it
//! stand three that only Onefold reads (`QUERY.onefold.batch`, `.generation`, `.commit`): they tell
//! who published and in which version, and they count only while their batch is the query's.

use super::commit::{Commit, Txn};
use onefold_connector::Attempt;
use onefold_types::{
    BatchId, ContentHash, Error, Generation, Mark, Published, QueryId, Result, Totals,
};
use serde_json::{Map, Value, json};

/// The key of what Onefold notes in a commit's description.
const NOTE: &str = "onefold";

/// The applications under whose ids a query's mark is remembered.
pub(crate) struct Names {
    /// The batch, as Spark has it.
    pub(crate) query: String,
    /// The batch, when Onefold published it.
    pub(crate) batch: String,
    /// The driver.
    pub(crate) generation: String,
    /// The table's version that holds the mark.
    pub(crate) commit: String,
}

impl Names {
    /// The names of a query.
    pub(crate) fn of(query: QueryId) -> Names {
        Names {
            query: query.to_string(),
            batch: format!("{query}.onefold.batch"),
            generation: format!("{query}.onefold.generation"),
            commit: format!("{query}.onefold.commit"),
        }
    }
}

fn number(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|error| Error::internal("a number is too large").because(error))
}

/// The transactions that a batch's commit holds.
///
/// # Errors
/// Internal: a number is too large for a transaction.
pub(crate) fn txns(attempt: &Attempt, version: u64, now_ms: i64) -> Result<Vec<Txn>> {
    let names = Names::of(attempt.query);
    let txn = |app_id: String, version: u64| -> Result<Txn> {
        Ok(Txn { app_id, version: number(version)?, last_updated: Some(now_ms) })
    };
    Ok(vec![
        txn(names.query, attempt.batch.0)?,
        txn(names.batch, attempt.batch.0)?,
        txn(names.generation, attempt.generation.0)?,
        txn(names.commit, version)?,
    ])
}

/// What a commit's description says of the batch.
pub(crate) fn note(totals: Totals) -> (String, Value) {
    (NOTE.to_owned(), json!({"rows": totals.rows, "hash": totals.hash}))
}

fn noted(info: Option<&Map<String, Value>>) -> Option<Totals> {
    let note = info?.get(NOTE)?;
    let hash: ContentHash = serde_json::from_value(note.get("hash")?.clone()).ok()?;
    Some(Totals { rows: note.get("rows")?.as_u64()?, hash })
}

/// What a table remembers of a query, however it was found: the newest version of each name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) query: Option<i64>,
    pub(crate) batch: Option<i64>,
    pub(crate) generation: Option<i64>,
    pub(crate) commit: Option<i64>,
}

impl Remembered {
    /// The mark, without totals, and the version that holds it.
    pub(crate) fn mark(&self, query: QueryId) -> Option<(Mark, Option<u64>)> {
        let batch = u64::try_from(self.query?).ok()?;
        // Another engine may have published a batch after ours.
        let ours = self.batch == self.query;
        let generation = self.generation.filter(|_| ours).and_then(|it| u64::try_from(it).ok());
        let commit = self.commit.filter(|_| ours).and_then(|it| u64::try_from(it).ok());
        let generation = generation.map(Generation);
        Some((Mark { query: Some(query), batch: BatchId(batch), generation }, commit))
    }
}

/// The batch of a query that a commit publishes.
pub(crate) fn published(commit: &Commit, query: QueryId) -> Option<Published> {
    let names = Names::of(query);
    let find = |name: &str| {
        let found = commit.txns.iter().rev().find(|txn| txn.app_id == name);
        found.map(|txn| txn.version)
    };
    let remembered = Remembered {
        query: find(&names.query),
        batch: find(&names.batch),
        generation: find(&names.generation),
        commit: find(&names.commit),
    };
    let (mark, _) = remembered.mark(query)?;
    let totals = noted(commit.info.as_ref()).filter(|_| mark.generation.is_some());
    Some(Published { mark, totals })
}

/// What another commit means to a batch that found its version taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It holds the same batch: another driver published it first, or this one did and its reply was
    /// lost.
    Published(Published),
    /// A newer driver went on from here.
    Fenced(Mark),
    /// Another writer's: the batch goes behind it.
    Behind(Changes),
}

/// What a commit changed that a batch behind it must look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    /// Columns, settings or the protocol.
    pub(crate) table: bool,
    /// Files came or went.
    pub(crate) files: bool,
}

/// Decides what follows from a commit that took the version that an attempt wanted.
pub(crate) fn judge(commit: &Commit, attempt: &Attempt) -> Verdict {
    match published(commit, attempt.query) {
        Some(published) => against(published, attempt).unwrap_or(Verdict::Behind(changes(commit))),
        None => Verdict::Behind(changes(commit)),
    }
}

/// What a mark of the same query, known before, means to an attempt; `None`: nothing.
pub(crate) fn against(published: Published, attempt: &Attempt) -> Option<Verdict> {
    let mark = published.mark;
    if mark.batch == attempt.batch {
        return Some(Verdict::Published(published));
    }
    let newer = mark.generation.is_some_and(|generation| generation > attempt.generation);
    (mark.batch > attempt.batch || newer).then_some(Verdict::Fenced(mark))
}

fn changes(commit: &Commit) -> Changes {
    Changes {
        table: commit.metadata.is_some() || commit.protocol.is_some(),
        files: !commit.adds.is_empty() || !commit.removes.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> QueryId {
        QueryId(uuid::Uuid::from_u128(7))
    }

    fn attempt(batch: u64, generation: u64) -> Attempt {
        Attempt { query: query(), batch: BatchId(batch), generation: Generation(generation) }
    }

    fn commit(batch: u64, generation: u64) -> Commit {
        let totals = Totals { rows: 4, hash: ContentHash(99) };
        Commit {
            info: Some(Map::from_iter([note(totals)])),
            txns: txns(&attempt(batch, generation), 12, 1).unwrap(),
            ..Commit::default()
        }
    }

    fn by_spark(batch: i64) -> Commit {
        let txn = Txn { app_id: query().to_string(), version: batch, last_updated: None };
        Commit { txns: vec![txn], ..Commit::default() }
    }

    #[test]
    fn a_mark_is_found_in_the_commit_that_holds_it() {
        let found = published(&commit(3, 2), query()).unwrap();
        let mark =
            Mark { query: Some(query()), batch: BatchId(3), generation: Some(Generation(2)) };
        let totals = Totals { rows: 4, hash: ContentHash(99) };
        assert_eq!(found, Published { mark, totals: Some(totals) });
        let other = QueryId(uuid::Uuid::from_u128(8));
        assert_eq!(published(&commit(3, 2), other), None);
    }

    #[test]
    fn a_mark_that_spark_wrote_after_ours_has_no_driver() {
        let mine =
            Remembered { query: Some(3), batch: Some(3), generation: Some(2), commit: Some(12) };
        let (mark, at) = mine.mark(query()).unwrap();
        assert_eq!((mark.generation, at), (Some(Generation(2)), Some(12)));
        let spark = Remembered { query: Some(4), ..mine };
        let (mark, at) = spark.mark(query()).unwrap();
        assert_eq!((mark.batch, mark.generation, at), (BatchId(4), None, None));
        assert_eq!(Remembered::default().mark(query()), None);
        assert_eq!(published(&by_spark(4), query()).unwrap().totals, None);
    }

    /// All batches and generations up to three on both sides.
    #[test]
    fn every_pair_of_mark_and_attempt_has_one_verdict() {
        for batch in 0..4 {
            for generation in 1..4 {
                for (ours, driver) in [(1, 1), (1, 2), (2, 2)] {
                    let verdict = judge(&commit(batch, generation), &attempt(ours, driver));
                    let published = published(&commit(batch, generation), query()).unwrap();
                    let expected = if batch == ours {
                        Verdict::Published(published)
                    } else if batch > ours || generation > driver {
                        Verdict::Fenced(published.mark)
                    } else {
                        Verdict::Behind(Changes::default())
                    };
                    assert_eq!(verdict, expected, "{batch} {generation} {ours} {driver}");
                }
            }
        }
        let spark = judge(&by_spark(1), &attempt(1, 1));
        assert!(matches!(spark, Verdict::Published(found) if found.mark.generation.is_none()));
    }

    #[test]
    fn what_others_changed_is_told() {
        let mut other = Commit::default();
        assert_eq!(judge(&other, &attempt(0, 1)), Verdict::Behind(Changes::default()));
        other.metadata = Some(Value::Null);
        let Verdict::Behind(changes) = judge(&other, &attempt(0, 1)) else { panic!() };
        assert!(changes.table && !changes.files);
    }
}
