//! Failures of the server's own business: limits, and sessions that cannot be cloned.

use super::{Failure, SPARK, SQL};

impl Failure {
    /// More than the server allows, and the setting that says how much that is.
    pub(crate) fn limit(what: &str, setting: &str) -> Self {
        Failure::new(
            &[SPARK, "java.lang.Exception"],
            format!("{what} at most; raise {setting} (onefold serve --conf) if it must be more"),
        )
    }

    /// A new session that cannot have this id.
    pub(crate) fn clone_target(class: &'static str, id: &str) -> Self {
        let why = match class {
            CLONE_CLOSED => "it was closed",
            CLONE_EXISTS => "there is one already",
            _ => "it is no UUID",
        };
        Failure::new(
            &[SQL],
            format!("Invalid session clone request. The session cannot have the id {id}: {why}."),
        )
        .class(class, "42K04")
        .with("targetSessionId", id)
    }
}

pub(crate) const CLONE_CLOSED: &str =
    "INVALID_CLONE_SESSION_REQUEST.TARGET_SESSION_ID_ALREADY_CLOSED";
pub(crate) const CLONE_EXISTS: &str =
    "INVALID_CLONE_SESSION_REQUEST.TARGET_SESSION_ID_ALREADY_EXISTS";
pub(crate) const CLONE_FORMAT: &str = "INVALID_CLONE_SESSION_REQUEST.TARGET_SESSION_ID_FORMAT";
