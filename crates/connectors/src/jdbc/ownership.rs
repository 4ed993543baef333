//! Whether a table holds what the checkpoint says it does.

use super::marks::Foreign;
use super::options::Mode;
use onefold_connector::SinkContext;
use onefold_types::{Error, Published, Result};

/// Compares the newest mark of the query with its checkpoint.
///
/// # Errors
/// Corrupt, with the choices: the table is ahead of the checkpoint or behind it.
pub(crate) fn check(
    place: &str,
    published: Option<Published>,
    context: &SinkContext,
) -> Result<()> {
    let Some(mark) = published.map(|published| published.mark) else {
        return match context.last_commit {
            None => Ok(()),
            Some(_) => Err(behind(place, "nothing of this query", context)),
        };
    };
    if context.last_intent.is_none_or(|intent| mark.batch > intent) {
        let reached = match context.last_intent {
            Some(intent) => format!("the checkpoint only reaches batch {intent}"),
            None => "the checkpoint has no batch yet".to_owned(),
        };
        return Err(Error::corrupt(format!(
            "table {place} holds {mark}, but {reached}: the checkpoint is an older copy, or it was \
             made anew under the same id; put back the checkpoint that wrote this, or write into \
             another table"
        )));
    }
    match context.last_commit {
        Some(commit) if mark.batch < commit => Err(behind(place, &mark.to_string(), context)),
        _ => Ok(()),
    }
}

fn behind(place: &str, held: &str, context: &SinkContext) -> Error {
    let commit = context.last_commit.map(|batch| batch.to_string()).unwrap_or_default();
    Error::corrupt(format!(
        "the checkpoint committed batch {commit} of query {}, but the marks beside table {place} \
         tell of {held}: the database was restored to an earlier state, is another one, or its marks \
         were deleted; put back the database that belongs to this checkpoint, or replay the query \
         with a new checkpoint into a new table",
        context.query
    ))
}

/// A query that has written nothing finds what another one wrote: a checkpoint that was deleted and
/// made anew would add all rows a second time.
///
/// # Errors
/// Corrupt, with the choices.
pub(crate) fn check_alone(place: &str, other: Option<Foreign>, mode: &Mode) -> Result<()> {
    let Some(Foreign { query, batch }) = other else { return Ok(()) };
    // The same rows again change nothing there.
    if matches!(mode, Mode::Upsert { .. }) {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "table {place} holds rows of query {query} up to batch {batch}, and this query is another \
         one: if its checkpoint was deleted or made anew, it would write all rows again; put the \
         checkpoint back, empty the table and delete the marks of that query, or set \
         onefold.jdbc.sharedTable=true if both queries shall write into it"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_query_in_the_table_stops_a_new_one_unless_rows_are_brought_together() {
        let other = || Some(Foreign { query: "q".to_owned(), batch: 7 });
        let upsert = Mode::Upsert { keys: vec!["k".to_owned()], order_by: None, delete_when: None };
        assert!(check_alone("t", None, &Mode::Append).is_ok());
        assert!(check_alone("t", other(), &upsert).is_ok());
        let error = check_alone("t", other(), &Mode::Append).unwrap_err().to_string();
        assert!(error.contains("batch 7") && error.contains("sharedTable"), "{error}");
    }
}
