//! What a commit means to a stream. Decides only.

use super::super::commit::{Add, Commit};
use super::options::ReadOptions;
use onefold_types::{Error, Result};

/// A file that a batch may take.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// Its number among those that its version brought.
    pub(crate) index: i64,
    /// As the log spells it.
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

/// The files that a commit brings to a stream. Numbers count every file with new rows, as Spark's.
///
/// # Errors
/// Invalid, naming the options: the commit takes rows away or changes them.
pub(crate) fn brought(
    commit: &Commit,
    version: u64,
    place: &str,
    options: &ReadOptions,
) -> Result<Vec<Found>> {
    let removes = commit.removes.iter().any(|remove| remove.data_change);
    let adds: Vec<&Add> = commit.adds.iter().filter(|add| add.data_change).collect();
    if removes && options.skip_changes {
        return Ok(Vec::new());
    }
    if removes && !options.ignore_changes {
        let by = commit.operation().unwrap_or("a commit");
        let stops = |what: &str, choices: &str| {
            Error::invalid(format!(
                "version {version} of the table {place} ({by}) {what}, which a stream cannot take \
                 back; {choices}, or start with a new checkpoint"
            ))
        };
        if !adds.is_empty() {
            return Err(stops(
                "changed rows that were there",
                "set option skipChangeCommits=true to pass such commits over, or ignoreChanges=true \
                 to read the files that they wrote",
            ));
        }
        if !options.ignore_deletes {
            return Err(stops(
                "deleted rows",
                "set option ignoreDeletes=true (or skipChangeCommits=true) to pass such commits over",
            ));
        }
    }
    Ok(numbered(adds.iter().map(|add| (add.path.as_str(), add.size)), options))
}

/// Files with their numbers, without those that an option leaves out.
pub(crate) fn numbered<'a>(
    files: impl Iterator<Item = (&'a str, i64)>,
    options: &ReadOptions,
) -> Vec<Found> {
    let left_out = |path: &str| options.exclude.as_ref().is_some_and(|it| it.is_match(path));
    (0..)
        .zip(files)
        .filter(|(_, (path, _))| !left_out(path))
        .map(|(index, (path, bytes))| Found {
            index,
            path: path.to_owned(),
            bytes: u64::try_from(bytes).unwrap_or(0),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::commit::Remove;
    use super::super::SPEC;
    use super::*;
    use onefold_connector::Options;
    use onefold_types::OptionMap;

    fn options(pairs: &[(&str, &str)]) -> ReadOptions {
        let mut map = OptionMap::new();
        for (name, value) in pairs {
            map.set(*name, *value);
        }
        ReadOptions::read(&Options::check("s", SPEC.options, map).unwrap(), false).unwrap()
    }

    fn add(path: &str, data_change: bool) -> Add {
        Add {
            path: path.to_owned(),
            partition_values: Default::default(),
            size: 5,
            modification_time: 0,
            data_change,
            stats: None,
            deletion_vector: None,
        }
    }

    fn remove(data_change: bool) -> Remove {
        Remove {
            path: "old".to_owned(),
            deletion_timestamp: None,
            data_change,
            extended_file_metadata: None,
            partition_values: None,
            size: None,
            deletion_vector: None,
        }
    }

    fn commit(adds: &[(&str, bool)], removes: &[bool]) -> Commit {
        Commit {
            adds: adds.iter().map(|(path, change)| add(path, *change)).collect(),
            removes: removes.iter().map(|change| remove(*change)).collect(),
            ..Commit::default()
        }
    }

    /// All kinds of commits against all options.
    #[test]
    fn every_kind_of_commit_is_taken_passed_over_or_refused() {
        let kinds = [
            ("append", commit(&[("a", true)], &[])),
            ("compaction", commit(&[("a", false)], &[false])),
            ("delete", commit(&[], &[true])),
            ("update", commit(&[("a", true)], &[true])),
        ];
        let none = options(&[]);
        let deletes = options(&[("ignoreDeletes", "true")]);
        let changes = options(&[("ignoreChanges", "true")]);
        let skips = options(&[("skipChangeCommits", "true")]);
        for (options, expected) in [
            (none, [Some(1), Some(0), None, None]),
            (deletes, [Some(1), Some(0), Some(0), None]),
            (changes, [Some(1), Some(0), Some(0), Some(1)]),
            (skips, [Some(1), Some(0), Some(0), Some(0)]),
        ] {
            for ((name, commit), expected) in kinds.iter().zip(expected) {
                let found = brought(commit, 3, "t", &options);
                assert_eq!(found.as_ref().ok().map(Vec::len), expected, "{name}");
                if let Err(error) = found {
                    let error = error.to_string();
                    assert!(error.contains("version 3") && error.contains("skipChange"), "{error}");
                }
            }
        }
    }

    #[test]
    fn files_that_are_left_out_keep_their_numbers() {
        let commit = commit(&[("a.tmp", true), ("moved", false), ("b", true)], &[]);
        let found = brought(&commit, 3, "t", &options(&[("excludeRegex", "\\.tmp$")])).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].index, found[0].path.as_str()), (1, "b"));
    }
}
