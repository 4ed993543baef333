//! Folders of `partitionBy`: `k=v` with Spark's text of a value and Spark's escaping.

use super::spark_text::Texts;
use arrow::array::RecordBatch;
use onefold_types::Result;
use std::collections::HashMap;
use std::fmt::Write;

/// What stands for null, and for an empty text.
const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

/// What becomes of a text that spells the folder of null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NullFolder {
    /// It shares that folder, as Spark's files do.
    Shared,
    /// Its folder is spelled otherwise, for tables whose folders are not what readers go by.
    Apart,
}

/// Escapes a name or a value as Spark's catalog does.
pub(crate) fn escape(text: &str, into: &mut String) {
    for letter in text.chars() {
        if escaped(letter) {
            // Writing to a string cannot fail.
            let _ = write!(into, "%{:02X}", u32::from(letter));
        } else {
            into.push(letter);
        }
    }
}

fn escaped(letter: char) -> bool {
    matches!(letter, '\u{1}'..='\u{1f}' | '\u{7f}') || "\"#%'*/:=?\\{[]^".contains(letter)
}

/// `k=v`, or several of them with `/` between.
pub(crate) fn folder<'a>(
    values: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    null_folder: NullFolder,
) -> String {
    let mut path = String::new();
    for (name, value) in values {
        if !path.is_empty() {
            path.push('/');
        }
        escape(name, &mut path);
        path.push('=');
        match value {
            None | Some("") => path.push_str(NULL_FOLDER),
            Some(NULL_FOLDER) if null_folder == NullFolder::Apart => {
                path.push_str(&NULL_FOLDER.replacen('_', "%5F", 1));
            }
            Some(value) => escape(value, &mut path),
        }
    }
    path
}

/// The rows of a batch by the folder they belong to, in order of first appearance.
///
/// # Errors
/// Invalid, for a column type that has no text.
pub(crate) fn by_folder(
    rows: &RecordBatch,
    folders: &[(usize, String)],
    null_folder: NullFolder,
    time_zone: &str,
) -> Result<Vec<(String, Vec<u32>)>> {
    let columns = folders
        .iter()
        .filter_map(|(at, name)| Some((rows.columns().get(*at)?, name)))
        .map(|(column, name)| Ok((Texts::of(name, column, time_zone)?, name)))
        .collect::<Result<Vec<_>>>()?;
    let mut found: Vec<(String, Vec<u32>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut key = String::new();
    for row in 0..rows.num_rows() {
        key.clear();
        for (texts, _) in &columns {
            // A tag before each value keeps ("a", "bc") and ("ab", "c") and null apart.
            match texts.get(row) {
                None => key.push('\u{0}'),
                Some(text) => {
                    let _ = write!(key, "\u{1}{}:{text}", text.len());
                }
            }
        }
        let row_number = u32::try_from(row).unwrap_or(u32::MAX);
        if let Some((_, members)) = known.get(&key).and_then(|at| found.get_mut(*at)) {
            members.push(row_number);
            continue;
        }
        known.insert(key.clone(), found.len());
        let values = columns.iter().map(|(texts, name)| (name.as_str(), texts.get(row)));
        let path = folder(values, null_folder);
        found.push((path, vec![row_number]));
    }
    Ok(merge_same(found))
}

/// Null and empty text share a folder.
fn merge_same(found: Vec<(String, Vec<u32>)>) -> Vec<(String, Vec<u32>)> {
    let mut merged: Vec<(String, Vec<u32>)> = Vec::with_capacity(found.len());
    let mut known: HashMap<String, usize> = HashMap::with_capacity(found.len());
    for (path, members) in found {
        match known.get(&path).and_then(|at| merged.get_mut(*at)) {
            Some((_, rows)) => {
                rows.extend(members);
                rows.sort_unstable();
            }
            None => {
                known.insert(path.clone(), merged.len());
                merged.push((path, members));
            }
        }
    }
    merged
}

/// The folder for a batch without any row: every value null.
pub(crate) fn empty_folder(folders: &[(usize, String)]) -> String {
    folder(folders.iter().map(|(_, name)| (name.as_str(), None)), NullFolder::Shared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use std::sync::Arc;

    #[test]
    fn folders_are_escaped_as_spark_escapes_them() {
        let path = folder(
            [("k", Some("k 0/x")), ("é=", Some("100%")), ("n", None), ("e", Some(""))].into_iter(),
            NullFolder::Shared,
        );
        assert_eq!(
            path,
            "k=k 0%2Fx/é%3D=100%25/n=__HIVE_DEFAULT_PARTITION__/e=__HIVE_DEFAULT_PARTITION__"
        );
    }

    #[test]
    fn a_text_that_spells_the_folder_of_null_may_have_its_own() {
        let spelled = || [("k", Some(NULL_FOLDER))].into_iter();
        assert_eq!(folder(spelled(), NullFolder::Shared), format!("k={NULL_FOLDER}"));
        assert_eq!(folder(spelled(), NullFolder::Apart), "k=%5F_HIVE_DEFAULT_PARTITION__");
    }

    #[test]
    fn rows_are_grouped_by_folder() {
        let k: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some(""), Some("a")]));
        let v: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        let rows = RecordBatch::try_from_iter([("k", k), ("v", v)]).unwrap();
        let folders = [(0, "k".to_owned())];
        let groups = by_folder(&rows, &folders, NullFolder::Shared, "UTC").unwrap();
        assert_eq!(
            groups,
            vec![
                ("k=a".to_owned(), vec![0, 3]),
                ("k=__HIVE_DEFAULT_PARTITION__".to_owned(), vec![1, 2]),
            ]
        );
    }
}
