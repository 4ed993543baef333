//! Whether a table holds what the checkpoint says it does. A table takes rows of many queries and
//! other writers; only this query's own mark is compared.

use super::features::forgets_marks;
use super::known::Known;
use onefold_connector::SinkContext;
use onefold_types::{Error, Result};
use std::collections::HashMap;

/// Compares the newest mark of the query in the table with its checkpoint.
///
/// # Errors
/// Corrupt, with the choices: the table is ahead of the checkpoint or behind it.
pub(crate) fn check(url: &str, known: &Known, context: &SinkContext) -> Result<()> {
    let Some((published, _)) = &known.mark else {
        return match context.last_commit {
            None => Ok(()),
            Some(_) => Err(behind(url, "nothing of this query", known, context)),
        };
    };
    let mark = published.mark;
    if context.last_intent.is_none_or(|intent| mark.batch > intent) {
        let reached = match context.last_intent {
            Some(intent) => format!("the checkpoint only reaches batch {intent}"),
            None => "the checkpoint has no batch yet".to_owned(),
        };
        return Err(Error::corrupt(format!(
            "the table {url} holds {mark}, but {reached}: the checkpoint is an older copy, or it was \
             made anew under the same id; put back the checkpoint that wrote this, or write into \
             another table"
        )));
    }
    match context.last_commit {
        Some(commit) if mark.batch < commit => Err(behind(url, &mark.to_string(), known, context)),
        _ => Ok(()),
    }
}

fn behind(url: &str, held: &str, known: &Known, context: &SinkContext) -> Error {
    let commit = context.last_commit.map(|batch| batch.to_string()).unwrap_or_default();
    let settings = known.facts.as_ref().map(|facts| &facts.settings);
    let settings: HashMap<String, String> =
        settings.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect();
    let forgets = match forgets_marks(&settings) {
        Some(time) => format!(
            ", or the mark is older than delta.setTransactionRetentionDuration ({time}), after which \
             the table forgets it"
        ),
        None => String::new(),
    };
    Error::corrupt(format!(
        "the checkpoint committed batch {commit} of query {}, but the table {url} holds {held}: the \
         table was dropped, restored to an older version or is another one{forgets}; put back the \
         table that belongs to this checkpoint, or replay the query with a new checkpoint into a \
         new table",
        context.query
    ))
}
