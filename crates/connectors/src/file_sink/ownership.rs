//! Whose output is this? What opening a file sink finds out before anything is written.

use super::manifest::{FOLDER, Newest};
use super::names::{DataFile, hidden};
use onefold_connector::SinkContext;
use onefold_storage::Store;
use onefold_types::{Error, Mark, QueryId, Result};

/// Compares the newest mark of the output with the checkpoint.
///
/// # Errors
/// Corrupt, with the choices, when the output belongs to another query or does not fit the
/// checkpoint.
pub(crate) async fn check(
    store: &dyn Store,
    newest: Option<&Newest>,
    context: &SinkContext,
) -> Result<()> {
    let Some(newest) = newest else { return check_absence(store, context).await };
    let mark = newest.published.mark;
    let writer = mark.query.or(newest.writer);
    if writer.is_some_and(|writer| writer != context.query) {
        return Err(foreign(store.url(), Mark { query: writer, ..mark }, context.query));
    }
    if context.last_intent.is_none_or(|intent| mark.batch > intent) {
        let reached = match context.last_intent {
            Some(intent) => format!("the checkpoint only reaches batch {intent}"),
            None => "the checkpoint has no batch yet".to_owned(),
        };
        return Err(Error::corrupt(format!(
            "the output {} holds {mark}, but {reached}: {}",
            store.url(),
            choices()
        )));
    }
    match context.last_commit {
        Some(commit) if mark.batch < commit => Err(behind(store, &mark.to_string(), context)),
        _ => Ok(()),
    }
}

/// Without a manifest nothing may be committed.
async fn check_absence(store: &dyn Store, context: &SinkContext) -> Result<()> {
    let Some(commit) = context.last_commit else { return Ok(()) };
    let files = store.list_deep("", false).await?;
    let ours = files.iter().filter(|entry| {
        !hidden(&entry.path)
            && DataFile::parse(&entry.path)
                .is_some_and(|file| file.query == context.query && file.batch <= commit)
    });
    match ours.count() {
        0 => Err(behind(store, "nothing of this query", context)),
        count => Err(Error::corrupt(format!(
            "{}/{FOLDER} is missing, but {count} data files of query {} are there: it was deleted \
             or not copied with the data; restore that folder from a backup, or make it again \
             with `onefold checkpoint repair`",
            store.url(),
            context.query
        ))),
    }
}

fn behind(store: &dyn Store, held: &str, context: &SinkContext) -> Error {
    let commit = context.last_commit.map(|batch| batch.to_string()).unwrap_or_default();
    Error::corrupt(format!(
        "the checkpoint committed batch {commit} of query {0}, but the output {1} holds {held}: the \
         output was moved, emptied, restored from an older copy or is a new one; put back the \
         output that belongs to this checkpoint (where only entries of its manifest are lost, \
         `onefold checkpoint repair` makes them again), go on into an empty one, without the \
         batches before, with `onefold checkpoint fork CHECKPOINT NEW --sink {1}`, or replay the \
         query with a new checkpoint into a new output folder",
        context.query,
        store.url()
    ))
}

/// The output belongs to another query.
pub(crate) fn foreign(output: &str, mark: Mark, query: QueryId) -> Error {
    Error::corrupt(format!(
        "the output {output} belongs to another query: it holds {mark}, and this is query \
         {query}: {}",
        choices()
    ))
}

fn choices() -> &'static str {
    "either start with the checkpoint that wrote this output, or give this query a new output \
     folder, or empty this one (data and `_spark_metadata`) to replay the query into it"
}
