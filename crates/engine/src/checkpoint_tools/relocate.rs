//! Moves the addresses inside log records to another folder.
//!
//! A checkpoint names files by address: in the file source's own log, in the notes of intents, in
//! the definitions of generations. When a checkpoint or its data moves, these must move along.

use onefold_storage::location::{decode_path, encode_path};
use onefold_types::{Error, Result};
use serde_json::Value;

/// Replaces one folder by another wherever a record names a file in it.
#[derive(Debug, Clone)]
pub struct Relocation {
    /// (old, new) without a slash at the end, in every spelling that records use.
    spellings: Vec<(String, String)>,
}

impl Relocation {
    /// From `OLD=NEW`, each an absolute path or a URL.
    ///
    /// # Errors
    /// Invalid, when one side is missing or relative.
    pub fn parse(text: &str) -> Result<Self> {
        let (old, new) = text.split_once('=').ok_or_else(|| {
            Error::invalid(format!("`{text}` is no relocation: write it as OLD=NEW"))
        })?;
        let mut spellings = Vec::new();
        match (Folder::parse(old)?, Folder::parse(new)?) {
            (Folder::Local(old), Folder::Local(new)) => {
                let (old_url, new_url) = (encode_path(&old), encode_path(&new));
                spellings.push((format!("file://{old_url}"), format!("file://{new_url}")));
                spellings.push((format!("file:{old_url}"), format!("file:{new_url}")));
                spellings.push((old, new));
            }
            (old, new) => spellings.push((old.url(), new.url())),
        }
        spellings.retain(|(old, new)| old != new);
        Ok(Relocation { spellings })
    }

    /// The text with addresses replaced; `None` if it names no file in the old folder.
    fn text(&self, text: &str) -> Option<String> {
        if let Ok(mut value) = serde_json::from_str::<Value>(text)
            && (value.is_object() || value.is_array())
        {
            return self.value(&mut value).then(|| value.to_string());
        }
        self.spellings.iter().find_map(|(old, new)| {
            let (before, after) = text.split_once(old.as_str())?;
            let whole = after.is_empty() || after.starts_with(['/', ']']);
            // Nothing before it, or Spark's description: `FileStreamSource[file:/a/b]`.
            let starts = before.is_empty() || before.ends_with('[');
            (whole && starts).then(|| format!("{before}{new}{after}"))
        })
    }

    /// Replaces addresses in a JSON value; whether there was one.
    fn value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.text(text) {
                Some(moved) => {
                    *text = moved;
                    true
                }
                None => false,
            },
            // All of them, not only up to the first that moves.
            Value::Array(items) => items.iter_mut().filter_map(|item| self.moved(item)).count() > 0,
            Value::Object(fields) => {
                fields.iter_mut().filter_map(|(_, item)| self.moved(item)).count() > 0
            }
            _ => false,
        }
    }

    fn moved(&self, value: &mut Value) -> Option<()> {
        self.value(value).then_some(())
    }

    /// A whole record, line by line. Lines that name no file of the old folder keep their bytes.
    #[must_use]
    pub fn record(&self, record: &str) -> String {
        let lines: Vec<String> = record
            .split('\n')
            .map(|line| {
                // `ID:JSON` in offsets of version 2.
                let json = line.find('{').unwrap_or(0);
                let (id, json) = line.split_at(json);
                match self.text(json) {
                    Some(moved) => format!("{id}{moved}"),
                    None => line.to_owned(),
                }
            })
            .collect();
        lines.join("\n")
    }
}

/// A folder as a user names it.
enum Folder {
    /// A decoded absolute path.
    Local(String),
    /// A URL of another store.
    Remote(String),
}

impl Folder {
    fn parse(text: &str) -> Result<Self> {
        let trimmed = text.trim_end_matches('/');
        if let Some(rest) = trimmed.strip_prefix("file:") {
            let path = format!("/{}", rest.trim_start_matches('/'));
            return Ok(Folder::Local(decode_path(&path)?));
        }
        if trimmed.contains("://") {
            return Ok(Folder::Remote(trimmed.to_owned()));
        }
        if text.starts_with('/') {
            return Ok(Folder::Local(trimmed.to_owned()));
        }
        Err(Error::invalid(format!(
            "`{text}` in a relocation is neither an absolute path nor a URL: give the whole path"
        )))
    }

    fn url(&self) -> String {
        match self {
            Folder::Local(path) => format!("file://{}", encode_path(path)),
            Folder::Remote(url) => url.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_folder_moves_and_other_folders_stay() {
        let relocation = Relocation::parse("/old dir/in=/new/in").unwrap();
        let record = "v1\n{\"path\":\"file:///old%20dir/in/a.json\",\"timestamp\":1}\n\
                      {\"path\":\"file:///old%20dir/in2/b.json\",\"timestamp\":2}";
        assert_eq!(
            relocation.record(record),
            "v1\n{\"path\":\"file:///new/in/a.json\",\"timestamp\":1}\n\
             {\"path\":\"file:///old%20dir/in2/b.json\",\"timestamp\":2}"
        );
        let described = r#"{"source":"FileStreamSource[file:/old%20dir/in]","path":"/old dir/in"}"#;
        assert_eq!(
            relocation.record(described),
            r#"{"source":"FileStreamSource[file:/new/in]","path":"/new/in"}"#
        );
    }

    #[test]
    fn addresses_in_notes_inside_settings_move() {
        let relocation = Relocation::parse("/in=s3://bucket/in").unwrap();
        let intent =
            r#"{"conf":{"onefold.source.0.note":"{\"files\":[\"file:///in/a\"]}","k":"v"}}"#;
        assert_eq!(
            relocation.record(intent),
            r#"{"conf":{"onefold.source.0.note":"{\"files\":[\"s3://bucket/in/a\"]}","k":"v"}}"#
        );
    }

    #[test]
    fn lines_without_the_folder_keep_their_bytes() {
        let relocation = Relocation::parse("/in=/out").unwrap();
        for record in ["v2\n{\"a\": 1}\nalpha:{\"off\": 4}\n-", "", "v1\n1795962561203"] {
            assert_eq!(relocation.record(record), record);
        }
    }

    #[test]
    fn a_relative_folder_is_refused() {
        assert!(Relocation::parse("in=/out").is_err());
        assert!(Relocation::parse("/in").is_err());
    }
}
