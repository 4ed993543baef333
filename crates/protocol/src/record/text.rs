//! The shapes of records: Spark's (a version line, then the content), and ours (a version line with a
//! checksum, then one line of JSON).

use onefold_types::{Error, Result};

/// Splits `vN\nREST` into the version and the rest (empty when the file is the version line only).
///
/// # Errors
/// Corrupt: no version line, or a version above `newest`.
pub(super) fn versioned<'a>(what: &str, text: &'a str, newest: u32) -> Result<(u32, &'a str)> {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    let version = line
        .trim_end_matches('\r')
        .strip_prefix('v')
        .and_then(|digits| digits.parse::<u32>().ok())
        .filter(|version| *version > 0);
    match version {
        Some(version) if version <= newest => Ok((version, rest)),
        Some(version) => Err(Error::corrupt(format!(
            "line 1 of the {what} says version v{version}, but this Onefold reads up to v{newest}; \
             use a newer Onefold"
        ))),
        None => Err(Error::corrupt(format!(
            "line 1 of the {what} should be a version such as v1, but is `{}`",
            shortened(line)
        ))),
    }
}

/// At most 80 characters of a text, for messages.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// The error of a line that should hold JSON and does not.
pub(super) fn not_json(what: &str, line: usize, error: serde_json::Error) -> Error {
    Error::corrupt(format!("line {line} of the {what} is not the JSON that belongs there"))
        .because(error)
}

/// A text of JSON behind its checksum line: `v1 CRC32C`, eight hexadecimal digits over the JSON.
pub(super) fn sealed(json: &str) -> String {
    format!("{}\n{json}", heading(json))
}

/// The JSON behind a checksum line.
///
/// # Errors
/// Corrupt: the checksum does not fit.
pub(super) fn unsealed<'a>(what: &str, text: &'a str) -> Result<&'a str> {
    let (head, json) = text.split_once('\n').unwrap_or((text, ""));
    if head == heading(json) {
        return Ok(json);
    }
    Err(Error::corrupt(format!(
        "the checksum line of the {what} is `{}`, but its content gives `{}`",
        shortened(head),
        heading(json)
    )))
}

fn heading(json: &str) -> String {
    format!("v1 {:08x}", crc32c::crc32c(json.as_bytes()))
}
