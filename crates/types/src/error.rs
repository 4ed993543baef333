//! The error that crosses borders between crates: few kinds for code, one sentence for people.

use std::error::Error as StdError;
use std::fmt;

/// What a caller should do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Change the request: an option, a schema, the query. Trying again never helps.
    Invalid,
    /// Nothing happened; try again later.
    Unavailable,
    /// It may have happened; look before acting again.
    Unknown,
    /// Stop: someone newer runs this query.
    Fenced,
    /// Stop, and start the process again: this one no longer knows what the disk holds.
    Restart,
    /// A person must look: files are missing, damaged or foreign.
    Corrupt,
    /// A bug in Onefold; report it.
    Internal,
}

/// An error with its kind, one clause of text and, where there is one, its cause.
///
/// `Display` shows the clause alone; callers print the chain of sources.
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of a kind with a message: lower case, one clause, no full stop, saying what
    /// happened, where, and what to do next.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), source: None }
    }

    /// [`ErrorKind::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// [`ErrorKind::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// [`ErrorKind::Unknown`].
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unknown, message)
    }

    /// [`ErrorKind::Fenced`].
    pub fn fenced(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Fenced, message)
    }

    /// [`ErrorKind::Restart`].
    pub fn restart(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Restart, message)
    }

    /// [`ErrorKind::Corrupt`].
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// [`ErrorKind::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// The same error with its cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the caller should do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The whole chain in one line: `message: cause: cause of the cause`. Many errors of others tell
    /// their cause in their own text: a cause that the text ends with already is not said again.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut next = self.source();
        while let Some(cause) = next {
            let said = cause.to_string();
            if !ends_with_words(&text, &said) {
                text.push_str(": ");
                text.push_str(&said);
            }
            next = cause.source();
        }
        text
    }
}

/// Whether a text ends with another one, which does not begin within a word.
fn ends_with_words(text: &str, end: &str) -> bool {
    text.strip_suffix(end).is_some_and(|before| {
        let inside = |text: Option<char>| text.is_some_and(char::is_alphanumeric);
        !(inside(before.chars().next_back()) && inside(end.chars().next()))
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.chain())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As errors of others: the text ends with that of the cause.
    #[derive(Debug)]
    struct Telling(&'static str, Option<Box<dyn StdError + Send + Sync>>);

    impl fmt::Display for Telling {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match &self.1 {
                Some(cause) => write!(f, "{}: {cause}", self.0),
                None => f.write_str(self.0),
            }
        }
    }

    impl StdError for Telling {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1.as_deref().map(|cause| cause as &(dyn StdError + 'static))
        }
    }

    #[test]
    fn a_cause_that_was_told_already_is_not_told_again() {
        let footer = Telling("no footer", None);
        let reader = Telling("parquet error", Some(Box::new(footer)));
        let error = Error::corrupt("f.parquet cannot be read").because(reader);
        assert_eq!(error.chain(), "f.parquet cannot be read: parquet error: no footer");
    }

    #[test]
    fn a_cause_that_only_looks_told_is_told() {
        let error = Error::corrupt("bad data").because(Error::invalid("a"));
        assert_eq!(error.chain(), "bad data: a");
        let error = Error::corrupt("a").because(Error::invalid("b").because(Error::invalid("a")));
        assert_eq!(error.chain(), "a: b: a");
    }
}
