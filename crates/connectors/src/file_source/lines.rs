//! Cuts bytes into lines, many at a time.

use onefold_types::{Error, Result};
use std::io::Read;

/// A line longer than this is refused, so that memory stays bounded.
const LINE_BYTES_MAX: usize = 1 << 30;
const CHUNK_BYTES: usize = 1 << 20;

/// One line, without its end; as text where the bytes around it are UTF-8.
pub(crate) enum Line<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// Gives each line of `input` to `each`, which says whether to go on. `separator` replaces the
/// usual ends `\n`, `\r\n`, `\r`. A byte-order mark at the start is skipped.
pub(crate) fn for_each_line(
    mut input: impl Read,
    separator: Option<&[u8]>,
    mut each: impl FnMut(Line<'_>) -> Result<bool>,
) -> Result<()> {
    // Grows to what a piece needs: most files of a stream are far smaller than a whole one.
    let mut buffer: Vec<u8> = Vec::new();
    let mut started = false;
    loop {
        let before = buffer.len();
        let read = (&mut input).take(CHUNK_BYTES as u64).read_to_end(&mut buffer);
        let ended = buffer.len() - before < CHUNK_BYTES;
        if !started && (buffer.len() >= 3 || ended || read.is_err()) {
            started = true;
            if buffer.starts_with(b"\xef\xbb\xbf") {
                buffer.drain(..3);
            }
        }
        let whole = read.is_ok() && ended;
        let boundary = if whole { buffer.len() } else { last_end(&buffer, separator) };
        if !cut(buffer.get(..boundary).unwrap_or_default(), separator, &mut each)? {
            return Ok(());
        }
        if let Err(error) = read {
            return Err(Error::corrupt("the bytes cannot be unpacked").because(error));
        }
        if ended {
            return Ok(());
        }
        buffer.drain(..boundary);
        if buffer.len() > LINE_BYTES_MAX {
            return Err(Error::invalid("a line is longer than 1 GiB; is the lineSep right?"));
        }
    }
}

/// Where the last whole line ends.
fn last_end(bytes: &[u8], separator: Option<&[u8]>) -> usize {
    match separator {
        Some(separator) => memchr::memmem::rfind(bytes, separator).map(|at| at + separator.len()),
        None => memchr::memrchr(b'\n', bytes).map(|at| at + 1).or_else(|| {
            // A carriage return at the very end may be half of a pair.
            let inner = bytes.get(..bytes.len().saturating_sub(1)).unwrap_or_default();
            memchr::memrchr(b'\r', inner).map(|at| at + 1)
        }),
    }
    .unwrap_or(0)
}

fn cut(
    bytes: &[u8],
    separator: Option<&[u8]>,
    each: &mut impl FnMut(Line<'_>) -> Result<bool>,
) -> Result<bool> {
    let text = std::str::from_utf8(bytes).ok();
    let mut start = 0;
    while start < bytes.len() {
        let rest = bytes.get(start..).unwrap_or_default();
        let (length, skip) = match separator {
            Some(separator) => match memchr::memmem::find(rest, separator) {
                Some(at) => (at, separator.len()),
                None => (rest.len(), 0),
            },
            None => match memchr::memchr2(b'\n', b'\r', rest) {
                Some(at) if rest.get(at..at + 2) == Some(b"\r\n") => (at, 2),
                Some(at) => (at, 1),
                None => (rest.len(), 0),
            },
        };
        let line = match text.and_then(|text| text.get(start..start + length)) {
            Some(line) => Line::Text(line),
            None => Line::Bytes(rest.get(..length).unwrap_or_default()),
        };
        if !each(line)? {
            return Ok(false);
        }
        start += length + skip;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_hadoop_ends_them() {
        let mut seen = Vec::new();
        for_each_line(&b"\xef\xbb\xbfa\r\nb\n\nc\rd\xff"[..], None, |line| {
            seen.push(match line {
                Line::Text(text) => text.as_bytes().to_vec(),
                Line::Bytes(bytes) => bytes.to_vec(),
            });
            Ok(true)
        })
        .unwrap();
        assert_eq!(seen, [&b"a"[..], b"b", b"", b"c", b"d\xff"]);
    }
}
