//! What went wrong in a database, and what that says about what happened there.

use onefold_types::{Error, ErrorKind};
use std::fmt;

/// What a failed call leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The database said no: trying the same again never helps.
    Refused,
    /// There is no such table.
    NoTable,
    /// Nothing happened, and later it may work: a lock, a deadlock, too many connections.
    Busy,
    /// The connection broke: what was under way may have happened.
    Lost,
}

/// A failed call.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What it leaves behind.
    pub kind: FailureKind,
    /// What the database, or its client, said.
    pub text: String,
    /// The row of the rows sent, counted from 0, if it is about one.
    pub row: Option<u64>,
    /// The column, if it is about one.
    pub column: Option<String>,
}

impl Failure {
    /// A failure about no row.
    #[must_use]
    pub fn new(kind: FailureKind, text: impl Into<String>) -> Failure {
        Failure { kind, text: text.into(), row: None, column: None }
    }

    /// [`FailureKind::Refused`].
    #[must_use]
    pub fn refused(text: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Refused, text)
    }

    /// [`FailureKind::Lost`].
    #[must_use]
    pub fn lost(text: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Lost, text)
    }

    /// The same, where the disk of the database has no room: what a person does then.
    #[must_use]
    pub fn disk_full(mut self) -> Failure {
        self.kind = FailureKind::Busy;
        self.text.push_str(
            "; nothing of the batch is written: free space on the disk of the database, then start \
             the query again, which goes on where it stopped",
        );
        self
    }

    /// The same about a value.
    #[must_use]
    pub fn at(mut self, row: Option<u64>, column: Option<String>) -> Failure {
        self.row = row.or(self.row);
        self.column = column.or(self.column);
        self
    }

    /// As an error of something that leaves nothing behind when it fails: a statement of a
    /// transaction, a staging table, a look.
    #[must_use]
    pub fn nothing_done(self, what: impl fmt::Display) -> Error {
        let kind = match self.kind {
            FailureKind::Refused | FailureKind::NoTable => ErrorKind::Invalid,
            FailureKind::Busy | FailureKind::Lost => ErrorKind::Unavailable,
        };
        let row = self.row.map(|row| format!("row {row}"));
        let column = self.column.map(|column| format!("column `{column}`"));
        let place: Vec<String> = row.into_iter().chain(column).collect();
        let place =
            if place.is_empty() { String::new() } else { format!(", {}", place.join(", ")) };
        Error::new(kind, format!("{what}{place}: {}", self.text))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_value_is_named_and_a_lost_connection_is_tried_again() {
        let refused = Failure::refused("too long").at(Some(3), Some("name".to_owned()));
        let error = refused.nothing_done("rows of batch 7 were not staged");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = "rows of batch 7 were not staged, row 3, column `name`: too long";
        assert_eq!(error.to_string(), text);
        assert_eq!(Failure::lost("gone").nothing_done("x").kind(), ErrorKind::Unavailable);
    }
}
