//! A log file of Spark's in general: a version line, then lines of JSON.

use onefold_types::{Error, Result};
use serde_json::{Map, Value};

/// The content of such a file.
#[derive(Debug, Clone, PartialEq)]
pub struct TextLog {
    /// The number after `v` in the first line.
    pub version: u32,
    /// The lines after it that are not empty; JSON where they are, text where not.
    pub lines: Vec<Value>,
}

impl TextLog {
    /// Reads a file.
    ///
    /// # Errors
    /// Corrupt, when the first line is no version.
    pub fn parse(text: &str) -> Result<TextLog> {
        // Kafka's own log starts with a zero byte.
        let text = text.strip_prefix('\0').unwrap_or(text);
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let version = first
            .trim_end_matches('\r')
            .strip_prefix('v')
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| {
                Error::corrupt(format!("its first line is `{}`, not a version", shortened(first)))
            })?;
        let lines = rest
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| line.into()))
            .collect();
        Ok(TextLog { version, lines })
    }

    /// The lines that are JSON objects.
    pub fn objects(&self) -> impl Iterator<Item = &Map<String, Value>> {
        self.lines.iter().filter_map(Value::as_object)
    }

    /// The lines that are neither JSON objects nor JSON at all: a torn line shows up here.
    pub fn broken_lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(Value::as_str)
    }
}

/// At most 40 characters, for errors.
fn shortened(text: &str) -> String {
    let mut characters = text.chars();
    let head: String = characters.by_ref().take(40).collect();
    if characters.next().is_some() { format!("{head}…") } else { head }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_lines_are_told_apart() {
        let log = TextLog::parse("v1\n{\"path\":\"/a\"}\n\n{\"path\":\"/b\"").unwrap();
        assert_eq!(log.version, 1);
        assert_eq!(log.objects().count(), 1);
        assert_eq!(log.broken_lines().collect::<Vec<_>>(), ["{\"path\":\"/b\""]);
        assert_eq!(TextLog::parse("v1\n1795962561203").unwrap().lines, [1_795_962_561_203_u64]);
        assert!(TextLog::parse("").is_err());
        assert!(TextLog::parse("vx").is_err());
    }
}
