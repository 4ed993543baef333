//! How much clients may ask of a server, and for how long.

use crate::operation::StreamLimits;
use onefold_types::{Error, Result};
use std::time::Duration;

/// A setting of the server: its name, and where its value goes.
struct Setting {
    name: &'static str,
    take: fn(&mut Limits, &str) -> Option<()>,
}

/// The setting that bounds sessions.
pub(crate) const SESSIONS: &str = "onefold.connect.maxSessions";
/// The setting that bounds operations of a session.
pub(crate) const OPERATIONS: &str = "onefold.connect.maxOperations";
/// The setting that bounds what a session uploads.
pub(crate) const ARTIFACTS: &str = "onefold.connect.maxArtifactBytes";

const SETTINGS: &[Setting] = &[
    Setting {
        name: "spark.connect.execute.reattachable.senderMaxStreamDuration",
        take: |limits, text| span(text).map(|span| limits.stream.duration = span),
    },
    Setting {
        name: "spark.connect.execute.reattachable.senderMaxStreamSize",
        take: |limits, text| size(text).map(|size| limits.stream.bytes = size),
    },
    Setting {
        name: "spark.connect.execute.manager.detachedTimeout",
        take: |limits, text| span(text).map(|span| limits.detached = span),
    },
    Setting {
        name: "spark.connect.session.manager.defaultSessionTimeout",
        take: |limits, text| span(text).map(|span| limits.idle = span),
    },
    Setting {
        name: SESSIONS,
        take: |limits, text| text.parse().ok().map(|count| limits.sessions = count),
    },
    Setting {
        name: OPERATIONS,
        take: |limits, text| text.parse().ok().map(|count| limits.operations = count),
    },
    Setting {
        name: ARTIFACTS,
        take: |limits, text| size(text).map(|size| limits.artifacts = size),
    },
];

/// What begins the names of settings that are the server's alone, not its sessions'.
const OWN: &str = "onefold.connect.";

/// The limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// When the server ends a stream of responses by itself.
    pub stream: StreamLimits,
    /// After what time without a client an operation ends.
    pub detached: Duration,
    /// After what time without a request a session without queries is closed.
    pub idle: Duration,
    /// Sessions at once.
    pub sessions: usize,
    /// Operations of a session that are not released.
    pub operations: usize,
    /// Bytes of what a session uploaded.
    pub artifacts: usize,
}

impl Default for Limits {
    /// Spark's own where it has such a limit.
    fn default() -> Self {
        Limits {
            stream: StreamLimits::default(),
            detached: Duration::from_secs(300),
            idle: Duration::from_secs(3_600),
            sessions: 1_000,
            operations: 1_000,
            artifacts: 1 << 30,
        }
    }
}

impl Limits {
    /// As the settings of the server say.
    ///
    /// # Errors
    /// Invalid: a setting is no span of time, size or number, or there is none of this name.
    pub fn from_conf(conf: &[(String, String)]) -> Result<Self> {
        let mut limits = Limits::default();
        for (name, value) in conf {
            let known = SETTINGS.iter().find(|row| row.name.eq_ignore_ascii_case(name));
            match known {
                Some(row) => {
                    (row.take)(&mut limits, value.trim()).ok_or_else(|| {
                        Error::invalid(format!("setting {name} cannot be `{value}`"))
                    })?;
                }
                None if is_server_setting(name) => {
                    let names: Vec<&str> = SETTINGS.iter().map(|row| row.name).collect();
                    return Err(Error::invalid(format!(
                        "there is no setting {name} of the server; it has {}",
                        names.join(", ")
                    )));
                }
                None => {}
            }
        }
        Ok(limits)
    }
}

/// Whether a setting is the server's alone, so that no session knows it.
#[must_use]
pub fn is_server_setting(name: &str) -> bool {
    name.get(..OWN.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN))
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.to_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(known, _)| *known == unit.trim())?;
    digits.parse::<u64>().ok()?.checked_mul(*factor)
}

fn span(text: &str) -> Option<Duration> {
    let units = [("ms", 1), ("s", 1_000), ("", 1_000), ("m", 60_000), ("h", 3_600_000)];
    scaled(text, &units).map(Duration::from_millis)
}

fn size(text: &str) -> Option<usize> {
    let units = [("", 1), ("b", 1), ("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30)];
    scaled(text, &units).and_then(|size| usize::try_from(size).ok())
}

#[cfg(test)]
mod tests {
    use super::{Limits, is_server_setting};
    use std::time::Duration;

    fn limits(pairs: &[(&str, &str)]) -> Result<Limits, String> {
        let conf: Vec<_> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Limits::from_conf(&conf).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_of_the_server_are_spans_sizes_and_numbers() {
        let limits = limits(&[
            ("onefold.connect.maxSessions", "7"),
            ("onefold.connect.maxArtifactBytes", "2k"),
            ("spark.connect.session.manager.defaultSessionTimeout", "10m"),
            ("spark.connect.execute.reattachable.senderMaxStreamDuration", "5ms"),
            ("spark.sql.shuffle.partitions", "3"),
        ]);
        let limits = limits.unwrap();
        assert_eq!((limits.sessions, limits.artifacts), (7, 2_048));
        assert_eq!(limits.idle, Duration::from_secs(600));
        assert_eq!(limits.stream.duration, Duration::from_millis(5));
    }

    #[test]
    fn a_setting_that_is_wrong_or_unknown_is_named() {
        let error = limits(&[("onefold.connect.maxSessions", "many")]).unwrap_err();
        assert_eq!(error, "setting onefold.connect.maxSessions cannot be `many`");
        let error = limits(&[("onefold.connect.maxSession", "1")]).unwrap_err();
        assert!(error.starts_with("there is no setting onefold.connect.maxSession "), "{error}");
        assert!(is_server_setting("Onefold.Connect.x") && !is_server_setting("onefold.x"));
    }
}
