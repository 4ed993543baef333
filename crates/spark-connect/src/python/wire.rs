//! The bytes that PySpark's workers read and write: whole numbers big-endian, texts as a length and
//! UTF-8 (`pyspark/serializers.py`).

use onefold_types::{Error, Result};
use std::io::{self, Read, Write};

/// Longest text that a worker sends: a traceback.
const TEXT_MAX: usize = 16 << 20;

/// What stands where a length would stand, with a meaning of its own.
pub(super) mod special {
    pub(crate) const END_OF_DATA: i32 = -1;
    pub(crate) const PYTHON_EXCEPTION: i32 = -2;
    pub(crate) const TIMING: i32 = -3;
    pub(crate) const END_OF_STREAM: i32 = -4;
    pub(crate) const START_ARROW: i32 = -6;
}

/// An end of the connection as what it means to the user.
pub(super) fn lost(error: io::Error) -> Error {
    let ended = matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    );
    if ended {
        return Error::invalid("Python worker exited unexpectedly (crashed)");
    }
    Error::unavailable("the Python worker does not answer").because(error)
}

/// The error of a function that raised, with its traceback.
pub(super) fn raised(traceback: &str) -> Error {
    Error::invalid(format!(
        "An exception was thrown from the Python worker:\n{}",
        traceback.trim_end()
    ))
}

pub(super) fn read_int(stream: &mut impl Read) -> io::Result<i32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(i32::from_be_bytes(bytes))
}

pub(super) fn read_text(stream: &mut impl Read) -> io::Result<String> {
    let length = usize::try_from(read_int(stream)?).unwrap_or(usize::MAX);
    if length > TEXT_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a text is too long"));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn skip(stream: &mut impl Read, count: u64) -> io::Result<()> {
    let skipped = io::copy(&mut stream.by_ref().take(count), &mut io::sink())?;
    if skipped < count { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

pub(super) fn write_int(stream: &mut impl Write, value: i32) -> io::Result<()> {
    stream.write_all(&value.to_be_bytes())
}

pub(super) fn write_count(stream: &mut impl Write, count: usize) -> io::Result<()> {
    write_int(stream, i32::try_from(count).map_err(io::Error::other)?)
}

pub(super) fn write_bytes(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    write_count(stream, bytes.len())?;
    stream.write_all(bytes)
}

pub(super) fn write_text(stream: &mut impl Write, text: &str) -> io::Result<()> {
    write_bytes(stream, text.as_bytes())
}

/// Reads a worker's whole answer of one number: 0, or a traceback.
pub(super) fn answer(stream: &mut impl Read) -> Result<()> {
    match read_int(stream).map_err(lost)? {
        0 => Ok(()),
        special::PYTHON_EXCEPTION => Err(raised(&read_text(stream).map_err(lost)?)),
        other => Err(Error::unavailable(format!(
            "the Python worker answered {other}; is its pyspark of version 4.2, as the client's?"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::{read_int, read_text, write_text};

    #[test]
    fn texts_go_there_and_back() {
        let mut bytes = Vec::new();
        write_text(&mut bytes, "é").unwrap();
        assert_eq!(bytes, [0, 0, 0, 2, 0xc3, 0xa9]);
        assert_eq!(read_text(&mut bytes.as_slice()).unwrap(), "é");
        assert_eq!(read_int(&mut [0xff_u8, 0xff, 0xff, 0xfe].as_slice()).unwrap(), -2);
        assert!(read_text(&mut [0x7f_u8, 0, 0, 0].as_slice()).is_err());
    }
}
