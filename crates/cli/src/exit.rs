//! Exit codes, and the errors that lead to them.

use onefold::types::{Error, ErrorKind};

/// Done, or stopped as asked, or all that was checked holds.
pub const DONE: u8 = 0;
/// A query failed, or something that was checked does not hold.
pub const FAILED: u8 = 1;
/// The command line, the pipeline or an option is wrong.
pub const USAGE: u8 = 2;
/// A newer driver has taken the checkpoint over.
pub const FENCED: u8 = 3;
/// A checkpoint, a sink or an input file is damaged, incomplete or foreign.
pub const CORRUPT: u8 = 4;
/// The disk failed a sync, so that this process could not go on; a new one can.
pub const RESTART: u8 = 5;

/// Why a command ends with another code than 0.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    text: Option<String>,
}

impl Failure {
    /// Something that was checked does not hold; the command has printed what.
    pub fn not_whole() -> Self {
        Failure { code: FAILED, text: None }
    }

    /// A wrong request, with text over several lines.
    pub fn usage(text: String) -> Self {
        Failure { code: USAGE, text: Some(text) }
    }

    /// An outside failure.
    pub fn failed(text: impl Into<String>) -> Self {
        Failure { code: FAILED, text: Some(text.into()) }
    }

    /// A query ended by an error while it ran: what is wrong with a row or an outside system is no
    /// wrong request.
    pub fn of_query(error: &Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Fenced => FENCED,
            ErrorKind::Corrupt => CORRUPT,
            ErrorKind::Restart => RESTART,
            _ => FAILED,
        };
        Failure { code, text: Some(error.chain()) }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// What to print to standard error, if anything.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Invalid => USAGE,
            ErrorKind::Fenced => FENCED,
            ErrorKind::Corrupt => CORRUPT,
            ErrorKind::Restart => RESTART,
            _ => FAILED,
        };
        Failure { code, text: Some(error.chain()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_its_code() {
        assert_eq!(Failure::from(Error::invalid("x")).code(), USAGE);
        assert_eq!(Failure::of_query(&Error::invalid("x")).code(), FAILED);
        assert_eq!(Failure::of_query(&Error::fenced("x")).code(), FENCED);
        assert_eq!(Failure::from(Error::corrupt("x")).code(), CORRUPT);
        assert_eq!(Failure::from(Error::restart("x")).code(), RESTART);
        assert_eq!(Failure::of_query(&Error::restart("x")).code(), RESTART);
        assert_eq!(Failure::from(Error::unavailable("x")).code(), FAILED);
        let error = Error::corrupt("a").because(Error::invalid("b"));
        assert_eq!(Failure::from(error).text(), Some("a: b"));
    }
}
