//! Writing to standard output and standard error.

use std::io::{ErrorKind, IsTerminal, Write};

/// Writes a line to standard output. A reader that went away (`onefold … | head`) ends the command
/// as if it were done.
pub fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() == ErrorKind::BrokenPipe
    {
        std::process::exit(i32::from(crate::exit::DONE));
    }
}

/// Writes a value as JSON to standard output.
pub fn json(value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => line(&text),
        Err(cause) => error(&format!("the result cannot be written as JSON: {cause}")),
    }
}

/// Writes a note for people to standard error.
pub fn note(text: &str) {
    // Nothing can be said where the terminal is gone.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes an error to standard error: one clause chain, or text over several lines.
pub fn error(text: &str) {
    note(&format!("error: {text}"));
}

/// Whether people read standard output as it comes.
pub fn interactive() -> bool {
    std::io::stdout().is_terminal()
}

/// A line that is written over by the next, on a terminal; nothing elsewhere.
pub fn status(text: &str) {
    if interactive() {
        let mut out = std::io::stdout().lock();
        let _ = write!(out, "\r\x1b[2K{text}").and_then(|()| out.flush());
    }
}

/// Removes the status line.
pub fn clear_status() {
    status("");
}
