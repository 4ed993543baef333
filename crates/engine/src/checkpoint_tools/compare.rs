//! Checkpoint and sink, batch by batch: does the sink still hold what was committed?

use super::contents::{Contents, Record};
use onefold_connector::Sink;
use onefold_protocol::record::Commit;
use onefold_types::{BatchId, Delivery, Generation, Published, Result, Totals};
use serde::Serialize;

/// What to do about batches that a sink lacks.
const REPAIR: &str =
    "where only entries of a manifest are lost, `onefold checkpoint repair` makes them again";

/// The result of `onefold verify`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The checkpoint.
    pub checkpoint: String,
    /// The sink's name in the query; `None` for the main one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The sink, as it describes itself.
    pub sink: String,
    /// Whether all holds that could be compared, and nothing is missing.
    pub ok: bool,
    /// The lowest batch whose commit is still there; those before it were purged.
    pub from_batch: Option<BatchId>,
    /// The newest commit.
    pub last_commit: Option<BatchId>,
    /// The newest batch that the sink holds.
    pub mark: Option<Published>,
    /// Batches whose rows and hash are as they were committed.
    pub equal: u64,
    /// Rows in those batches.
    pub rows: u64,
    /// Batches without totals in their commit (another engine committed them), or of which the
    /// sink can no longer tell.
    pub not_comparable: Vec<NotComparable>,
    /// The first batch that differs.
    pub first_difference: Option<Difference>,
    /// How many batches differ.
    pub differing: u64,
    /// The same of the query's further sinks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<Comparison>,
}

/// A batch that could not be compared.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct NotComparable {
    /// The batch.
    pub batch: BatchId,
    /// Why not.
    pub why: &'static str,
}

/// A batch that differs.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The batch.
    pub batch: BatchId,
    /// What the commit says.
    pub expected: Option<Totals>,
    /// What the sink holds.
    pub found: Option<Totals>,
    /// The difference in words, with the file where the sink names one.
    pub text: String,
}

/// Compares every commit that was read with what a sink holds: the main one, or the further one of
/// that name, of which batches count that it took part in.
///
/// # Errors
/// As the sink's `last_mark`. A batch that the sink cannot read is a difference, not an error.
pub async fn compare(
    contents: &Contents,
    name: Option<&str>,
    (sink, description, delivery): (&dyn Sink, String, &Delivery),
) -> Result<Comparison> {
    let side = Side { name, since: name.and_then(|name| contents.further_sink_since(name)) };
    let mark = sink.last_mark().await?;
    let mut comparison = Comparison {
        checkpoint: contents.url.clone(),
        name: name.map(str::to_owned),
        sink: description,
        ok: false,
        from_batch: took_part(contents, side).next(),
        last_commit: took_part(contents, side).last(),
        mark,
        equal: 0,
        rows: 0,
        not_comparable: Vec::new(),
        first_difference: None,
        differing: 0,
        further: Vec::new(),
    };
    for (batch, record) in &contents.commits {
        let outcome = match side.part(record) {
            Part::None => continue,
            Part::Elsewhere => Outcome::Not("the query put them into another place then"),
            Part::Here => compare_batch(*batch, record, name, sink).await,
        };
        comparison.add(*batch, outcome);
    }
    // One that promises less may keep no marks.
    if delivery.exactly_once() || mark.is_some() {
        comparison.compare_marks(contents);
    }
    comparison.ok = comparison.first_difference.is_none();
    Ok(comparison)
}

/// Which of a query's sinks is looked at.
#[derive(Clone, Copy)]
struct Side<'a> {
    /// The name of a further one; `None` for the main one.
    name: Option<&'a str>,
    /// The first driver that put a further one where it is now.
    since: Option<Generation>,
}

/// A sink's part in a batch.
#[derive(PartialEq)]
enum Part {
    None,
    /// What the batch put into it lies where it was before.
    Elsewhere,
    Here,
}

impl Side<'_> {
    /// The main one takes part in all batches, also where the commit cannot say.
    fn part(self, record: &Record<Commit>) -> Part {
        let (Some(name), Ok(commit)) = (self.name, &record.content) else { return Part::Here };
        if !commit.sinks.contains_key(name) {
            return Part::None;
        }
        match (commit.generation, self.since) {
            (Some(by), Some(since)) if by < since => Part::Elsewhere,
            _ => Part::Here,
        }
    }
}

/// The committed batches of which a sink holds something, ascending.
fn took_part<'a>(contents: &'a Contents, side: Side<'a>) -> impl Iterator<Item = BatchId> + 'a {
    let known = move |batch: &BatchId| {
        let record = contents.commits.get(batch);
        record.map_or(side.name.is_none(), |record| side.part(record) == Part::Here)
    };
    contents.commit_ids.iter().copied().filter(known)
}

enum Outcome {
    Equal(Totals),
    Not(&'static str),
    Differs { expected: Option<Totals>, found: Option<Totals>, text: String },
}

async fn compare_batch(
    batch: BatchId,
    record: &Record<Commit>,
    name: Option<&str>,
    sink: &dyn Sink,
) -> Outcome {
    let commit = match &record.content {
        Ok(commit) => commit,
        Err(error) => {
            let text = format!("commits/{batch} cannot be read: {}", error.chain());
            return Outcome::Differs { expected: None, found: None, text };
        }
    };
    let expected = match name {
        None => commit.totals,
        Some(name) => commit.sinks.get(name).copied(),
    };
    let Some(expected) = expected else {
        return Outcome::Not(
            "its commit holds no totals: another engine committed it, or another query before a fork",
        );
    };
    match sink.audit(batch).await {
        Ok(Some(found)) if found == expected => Outcome::Equal(found),
        Ok(Some(found)) => {
            let text = if found.rows == expected.rows {
                format!("the sink holds {} rows as committed, but other ones", found.rows)
            } else {
                format!("{} rows were committed, the sink holds {}", expected.rows, found.rows)
            };
            Outcome::Differs { expected: Some(expected), found: Some(found), text }
        }
        Ok(None) => Outcome::Not("the sink can no longer tell what belongs to it"),
        Err(error) => {
            Outcome::Differs { expected: Some(expected), found: None, text: error.chain() }
        }
    }
}

impl Comparison {
    fn add(&mut self, batch: BatchId, outcome: Outcome) {
        match outcome {
            Outcome::Equal(totals) => {
                self.equal += 1;
                self.rows = self.rows.saturating_add(totals.rows);
            }
            Outcome::Not(why) => self.not_comparable.push(NotComparable { batch, why }),
            Outcome::Differs { expected, found, text } => {
                self.differing += 1;
                self.first_difference.get_or_insert(Difference { batch, expected, found, text });
            }
        }
    }

    /// The sink's newest batch lies between the newest commit and the newest intent.
    fn compare_marks(&mut self, contents: &Contents) {
        let held = self.mark.map(|published| published.mark.batch);
        let last_intent = contents.intent_ids.last().copied();
        let (batch, text) = match (held, self.last_commit) {
            (None, Some(commit)) => {
                let text = format!("batches up to {commit} are committed, the sink holds none");
                (commit, format!("{text}; {REPAIR}"))
            }
            (Some(held), Some(commit)) if held < commit => (
                held.next(),
                format!(
                    "batches up to {commit} are committed, the sink holds up to {held} only; \
                     {REPAIR}"
                ),
            ),
            (Some(held), _) if last_intent.is_none_or(|intent| intent < held) => {
                (held, format!("the sink holds batch {held}, which the checkpoint never planned"))
            }
            _ => return,
        };
        self.differing += 1;
        self.first_difference.get_or_insert(Difference {
            batch,
            expected: None,
            found: None,
            text,
        });
    }
}
