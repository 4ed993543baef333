//! What drivers left behind that died or were fenced, and what of it may go.
//!
//! - *Staged* files (hidden names with a driver's tag, unfinished uploads) are seen by nobody, and
//!   all that their driver can do with them is to reveal them. Those of older drivers go at once:
//!   one that still lives is fenced, and then its reveal fails before it could publish.
//! - *Concealed* files had their final names when recovery took them out of sight. Their driver may
//!   publish them all the same, so they stay until their batch's mark is decided. If the mark names
//!   them, they come back.
//! - Files under final names that a decided batch's mark does not name go.

use super::manifest::FOLDER;
use super::names::{DataFile, hidden};
use onefold_storage::Store;
use onefold_types::{BatchId, Generation, QueryId, Result};
use std::collections::{BTreeMap, HashSet};

/// How a data file lies in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lies {
    /// Under its final name.
    Seen,
    /// Written, never revealed.
    Staged,
    /// Taken out of sight; this is its final path.
    Concealed(String),
}

/// How a data file lies, from its path.
pub(crate) fn lies(path: &str) -> Lies {
    if !hidden(path) {
        return Lies::Seen;
    }
    match final_path(path) {
        Some((path, "concealed")) => Lies::Concealed(path),
        _ => Lies::Staged,
    }
}

/// The final path and the tag of a hidden name `.NAME.TAG.staged`.
fn final_path(path: &str) -> Option<(String, &str)> {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    let (name, tag) = name.strip_prefix('.')?.strip_suffix(".staged")?.rsplit_once('.')?;
    let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    Some((format!("{folder}{name}"), tag))
}

/// The paths of the output itself, without what `checkpoint rewind` keeps beside it.
fn in_output(paths: Vec<String>) -> impl Iterator<Item = String> {
    paths.into_iter().filter(|path| !path.starts_with("_onefold/"))
}

/// What of an older driver's files is to be done before a batch runs again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BeforeRun {
    /// Goes.
    pub(crate) staged: Vec<String>,
    /// Is taken out of sight.
    pub(crate) seen: Vec<String>,
}

/// Sorts the output's files before `batch`, whose mark is not decided, runs again.
pub(crate) fn before_run(
    paths: Vec<String>,
    query: QueryId,
    generation: Generation,
    batch: BatchId,
) -> BeforeRun {
    let mut found = BeforeRun::default();
    for path in in_output(paths) {
        let Some(file) = DataFile::parse(&path) else { continue };
        if file.query != query || file.generation >= generation {
            continue;
        }
        match lies(&path) {
            Lies::Staged if file.batch <= batch => found.staged.push(path),
            Lies::Seen if file.batch == batch => found.seen.push(path),
            _ => {}
        }
    }
    found
}

/// What is to be done with the output's files once a batch's mark is decided.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Goes.
    pub(crate) lost: Vec<String>,
    /// Final paths of files of the batch that come back into sight.
    pub(crate) won: Vec<String>,
    /// Final paths of concealed files of batches before: their own marks tell what becomes of them.
    pub(crate) doubtful: BTreeMap<BatchId, Vec<String>>,
}

/// Sorts the output's files now that the mark of `batch` names the files `won`.
pub(crate) fn settled(
    paths: Vec<String>,
    query: QueryId,
    batch: BatchId,
    won: &HashSet<String>,
) -> Settled {
    let mut found = Settled::default();
    for path in in_output(paths) {
        let Some(file) = DataFile::parse(&path).filter(|file| file.query == query) else {
            continue;
        };
        match lies(&path) {
            Lies::Staged if file.batch <= batch => found.lost.push(path),
            Lies::Concealed(seen) if file.batch < batch => {
                found.doubtful.entry(file.batch).or_default().push(seen);
            }
            Lies::Concealed(seen) if file.batch == batch && won.contains(&seen) => {
                found.won.push(seen);
            }
            Lies::Concealed(_) | Lies::Seen if file.batch == batch && !won.contains(&path) => {
                found.lost.push(path);
            }
            _ => {}
        }
    }
    found
}

/// At start: removes what dead or fenced drivers left in the manifest's folder, whose hidden files
/// these are, and ends the uploads of drivers before this one, so that none can be completed any
/// more; but not those of batch `open`, which this one may have to complete.
pub(crate) async fn clear(
    store: &dyn Store,
    (query, generation): (QueryId, Generation),
    in_manifest: Vec<String>,
    open: Option<BatchId>,
) -> Result<()> {
    // Of others, a newer driver's must stay: this one may be fenced and not know it. A temporary
    // file that is taken from a living driver is written again by it. Hadoop's checksum files are
    // none of ours.
    let newer = |path: &str| {
        made_by(path).is_some_and(|(owner, made)| owner == query && made >= generation)
    };
    let leftovers = in_manifest
        .into_iter()
        .filter(|path| path.ends_with(".tmp") || (path.ends_with(".staged") && !newer(path)));
    let leftovers: Vec<String> = leftovers.collect();
    if !leftovers.is_empty() {
        store.delete_all(&leftovers).await?;
    }
    // The copy that gives a compact file its name is an upload without an owner; a living driver
    // whose copy ends so makes it again.
    let compact = |path: &str| path.starts_with(FOLDER) && path.ends_with(".compact");
    let may_count =
        |path: &str| open.is_some() && DataFile::parse(path).map(|file| file.batch) == open;
    let older = |path: &str| {
        compact(path)
            || !may_count(path)
                && made_by(path).is_some_and(|(owner, made)| owner == query && made < generation)
    };
    let ended = store.abort_uploads(&older).await?;
    if ended > 0 {
        tracing::info!("{ended} unfinished uploads of earlier drivers were ended");
    }
    Ok(())
}

/// Whose attempt made a data file or a hidden file of the manifest.
fn made_by(path: &str) -> Option<(QueryId, Generation)> {
    if let Some(file) = DataFile::parse(path) {
        return Some((file.query, file.generation));
    }
    let (_, tag) = final_path(path)?;
    let (query, generation) = tag.rsplit_once("-g")?;
    Some((query.parse().ok()?, Generation(generation.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &str = "6fa0ab59-0d2c-4b1e-9d5c-1f2d3c4b5a69";

    fn name(batch: u64, generation: u64) -> String {
        format!("k=1/part-00000-{QUERY}-b{batch}-g{generation}-c000.parquet")
    }

    fn away(batch: u64, generation: u64, tag: &str) -> String {
        format!("k=1/.{}.{tag}.staged", name(batch, generation).strip_prefix("k=1/").unwrap())
    }

    #[test]
    fn before_a_batch_runs_again_only_older_drivers_lose_what_they_staged() {
        let paths = [
            name(4, 1),
            away(4, 1, "g1"),
            away(5, 1, "g1"),
            away(5, 1, "concealed"),
            name(5, 2),
            away(5, 3, "g3"),
            name(5, 3),
            "k=1/part-00000-c000.parquet".to_owned(),
        ];
        let query = QUERY.parse().unwrap();
        let found = before_run(paths.to_vec(), query, Generation(3), BatchId(5));
        assert_eq!(found.staged, [away(4, 1, "g1"), away(5, 1, "g1")]);
        assert_eq!(found.seen, [name(5, 2)]);
    }

    #[test]
    fn a_decided_batch_keeps_what_its_mark_names_wherever_it_lies() {
        let paths = [
            away(3, 1, "g1"),
            away(3, 1, "concealed"),
            name(4, 1),
            name(5, 1),
            away(5, 2, "concealed"),
            away(5, 3, "concealed"),
            away(5, 4, "g4"),
            name(5, 4),
            away(6, 4, "g4"),
            format!("_onefold/rewound/2/{}", name(5, 1)),
        ];
        let won = HashSet::from([name(5, 2)]);
        let found = settled(paths.to_vec(), QUERY.parse().unwrap(), BatchId(5), &won);
        let lost =
            [away(3, 1, "g1"), name(5, 1), away(5, 3, "concealed"), away(5, 4, "g4"), name(5, 4)];
        assert_eq!(found.lost, lost);
        assert_eq!(found.won, [name(5, 2)]);
        assert_eq!(found.doubtful, BTreeMap::from([(BatchId(3), vec![name(3, 1)])]));
    }

    #[test]
    fn the_owner_of_a_hidden_file_of_the_manifest_is_in_its_tag() {
        let path = format!("_spark_metadata/.9.compact.{QUERY}-g7.staged");
        assert_eq!(made_by(&path), Some((QUERY.parse().unwrap(), Generation(7))));
        assert_eq!(made_by(&name(1, 2)), Some((QUERY.parse().unwrap(), Generation(2))));
        assert_eq!(made_by("_spark_metadata/.9.tmp"), None);
    }
}
