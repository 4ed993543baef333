//! JSON: one value a line, or one a file (`multiLine`).

use super::json_scan::{Scanner, Slot};
use super::lines::{Line, for_each_line};
use super::rows::Rows;
use onefold_types::{Error, Result};
use std::io::Read;

/// Reads one file.
pub(crate) fn read(
    mut input: Box<dyn Read + Send>,
    multi_line: bool,
    separator: Option<&[u8]>,
    rows: &mut Rows<'_>,
) -> Result<()> {
    if multi_line {
        let mut bytes = Vec::new();
        input
            .read_to_end(&mut bytes)
            .map_err(|error| Error::corrupt("the bytes cannot be unpacked").because(error))?;
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        rows.next_line();
        match std::str::from_utf8(bytes) {
            Ok(text) => document(text, rows)?,
            Err(_) => rows.malformed(&String::from_utf8_lossy(bytes))?,
        };
        return Ok(());
    }
    for_each_line(input, separator, |line| {
        rows.next_line();
        match line {
            Line::Text(text) => document(text, rows),
            Line::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => document(text, rows),
                Err(_) => rows.malformed(&String::from_utf8_lossy(bytes)),
            },
        }
    })
}

/// One text: an object is a row, an array a row for each element, white space nothing. What
/// follows the value is left aside, as in Spark.
fn document(text: &str, rows: &mut Rows<'_>) -> Result<bool> {
    let mut scanner = Scanner::new(text, 0, rows.reading.leniency);
    if scanner.skip_space().is_err() {
        return rows.malformed(text);
    }
    match scanner.peek() {
        None => Ok(true),
        Some(b'{') => {
            let outcome = rows.record.push_json(text, scanner.position, &rows.reading);
            rows.added(outcome, text)
        }
        Some(b'[') => {
            let mut elements: Vec<Slot> = Vec::new();
            let scanned = scanner.array(0, |slot| elements.push(slot));
            let objects =
                elements.iter().all(|slot| text.as_bytes().get(slot.start).copied() == Some(b'{'));
            if scanned.is_err() || !objects {
                return rows.malformed(text);
            }
            for slot in elements {
                let outcome = rows.record.push_json(text, slot.start, &rows.reading);
                if !rows.added(outcome, text)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Some(_) => rows.malformed(text),
    }
}
