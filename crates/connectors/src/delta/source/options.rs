//! The options of the Delta source: Spark's names.

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use onefold_connector::{OptionKind, OptionSpec, Options};
use onefold_types::{Error, Result};
use regex::Regex;

/// Options of the source.
pub(crate) static READ: &[OptionSpec] = &[
    OptionSpec::new("path", OptionKind::Text, "the table's folder"),
    OptionSpec::new("versionAsOf", OptionKind::Text, "a table only: the version to read"),
    OptionSpec::new(
        "timestampAsOf",
        OptionKind::Text,
        "a table only: the newest version that is not younger than this",
    ),
    OptionSpec::new(
        "startingVersion",
        OptionKind::Text,
        "a stream only: the first version whose changes are read; `latest` for what comes from now on",
    ),
    OptionSpec::new(
        "startingTimestamp",
        OptionKind::Text,
        "a stream only: changes of versions that are not older than this are read",
    ),
    OptionSpec::new(
        "maxFilesPerTrigger",
        OptionKind::Count { min: 1, max: u64::MAX },
        "files of a batch at most",
    )
    .default("1000"),
    OptionSpec::new(
        "maxBytesPerTrigger",
        OptionKind::Bytes,
        "bytes of a batch at most, about; one file is always taken",
    ),
    OptionSpec::new(
        "ignoreDeletes",
        OptionKind::Bool,
        "commits that only take rows away are passed over",
    ),
    OptionSpec::new(
        "ignoreChanges",
        OptionKind::Bool,
        "files that were written again are read again, unchanged rows with changed ones",
    ),
    OptionSpec::new(
        "skipChangeCommits",
        OptionKind::Bool,
        "commits that take rows away or change them are passed over",
    ),
    OptionSpec::new(
        "excludeRegex",
        OptionKind::Text,
        "files whose path has this in it are left out",
    ),
    OptionSpec::new(
        "failOnDataLoss",
        OptionKind::Bool,
        "false: commits that were deleted before they were read are passed over",
    )
    .default("true"),
    OptionSpec::refused(
        "readChangeFeed",
        "leave it out and follow the commits themselves (skipChangeCommits, ignoreChanges)",
    ),
    OptionSpec::refused("readChangeData", "leave it out and follow the commits themselves"),
    OptionSpec::refused(
        "schemaTrackingLocation",
        "leave it out; after a change of columns, start the query again",
    ),
    OptionSpec::refused("withEventTimeOrder", "leave it out; set a watermark that is late enough"),
];

/// Where a stream or a table begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Since {
    /// With the rows that are there now, or there is no other choice.
    Now,
    /// The rows, or the changes, of a version.
    Version(u64),
    /// The changes after now.
    Latest,
    /// Milliseconds since 1970.
    Time(i64),
}

/// What a read was asked for.
#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    pub(crate) since: Since,
    pub(crate) files_max: u64,
    pub(crate) bytes_max: Option<u64>,
    pub(crate) ignore_deletes: bool,
    pub(crate) ignore_changes: bool,
    pub(crate) skip_changes: bool,
    pub(crate) exclude: Option<Regex>,
    pub(crate) fails_on_loss: bool,
}

impl ReadOptions {
    /// Reads checked options. `whole`: a table, and not a stream.
    ///
    /// # Errors
    /// Invalid: options that do not go together, or a value that is none.
    pub(crate) fn read(options: &Options, whole: bool) -> Result<ReadOptions> {
        let (own, other) = if whole {
            (["versionAsOf", "timestampAsOf"], ["startingVersion", "startingTimestamp"])
        } else {
            (["startingVersion", "startingTimestamp"], ["versionAsOf", "timestampAsOf"])
        };
        if let Some(name) = other.into_iter().find(|name| options.given(name)) {
            let (what, not) = if whole { ("a stream", "a table") } else { ("a table", "a stream") };
            return Err(Error::invalid(format!(
                "option {name} is for {what}, and this reads {not}; use {} or {}",
                own[0], own[1]
            )));
        }
        let [version, time] = own;
        let since = match (options.text(version), options.text(time)) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid(format!(
                    "options {version} and {time} exclude each other; give one"
                )));
            }
            (Some(text), None) if !whole && text.eq_ignore_ascii_case("latest") => Since::Latest,
            (Some(text), None) => Since::Version(text.trim().parse().map_err(|_| {
                Error::invalid(format!(
                    "option {version} is `{text}`, but it takes a version: 0, 1 …"
                ))
            })?),
            (None, Some(text)) => Since::Time(time_ms(text).ok_or_else(|| {
                Error::invalid(format!(
                    "option {time} is `{text}`, but it takes a time such as 2026-01-31 or \
                     2026-01-31T08:00:00Z"
                ))
            })?),
            (None, None) => Since::Now,
        };
        let exclude = options.text("excludeRegex").map(Regex::new).transpose();
        Ok(ReadOptions {
            since,
            files_max: options.count("maxFilesPerTrigger").unwrap_or(1_000),
            bytes_max: options.bytes("maxBytesPerTrigger"),
            ignore_deletes: options.flag("ignoreDeletes"),
            ignore_changes: options.flag("ignoreChanges"),
            skip_changes: options.flag("skipChangeCommits"),
            exclude: exclude
                .map_err(|e| Error::invalid("option excludeRegex is no pattern").because(e))?,
            fails_on_loss: options.flag("failOnDataLoss"),
        })
    }
}

/// Milliseconds since 1970 of a date or a time; without a zone it is UTC.
fn time_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(time) = DateTime::parse_from_rfc3339(&text.replacen(' ', "T", 1)) {
        return Some(time.timestamp_millis());
    }
    let plain = text.replacen('T', " ", 1);
    for pattern in ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"] {
        if let Ok(time) = NaiveDateTime::parse_from_str(&plain, pattern) {
            return Some(time.and_utc().timestamp_millis());
        }
    }
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::super::SPEC;
    use super::*;
    use onefold_types::OptionMap;

    fn read(pairs: &[(&str, &str)], whole: bool) -> Result<ReadOptions> {
        let mut map = OptionMap::new();
        for (name, value) in pairs {
            map.set(*name, *value);
        }
        ReadOptions::read(&Options::check("source `delta`", SPEC.options, map)?, whole)
    }

    #[test]
    fn a_stream_and_a_table_begin_each_in_their_own_way() {
        assert_eq!(read(&[], false).unwrap().since, Since::Now);
        let since = |name, value, whole| read(&[(name, value)], whole).unwrap().since;
        assert_eq!(since("startingVersion", "3", false), Since::Version(3));
        assert_eq!(since("startingVersion", "Latest", false), Since::Latest);
        assert_eq!(since("versionAsOf", "0", true), Since::Version(0));
        let day = 1_767_225_600_000;
        assert_eq!(since("timestampAsOf", "2026-01-01", true), Since::Time(day));
        let text = "2026-01-01 00:00:01.5";
        assert_eq!(since("startingTimestamp", text, false), Since::Time(day + 1_500));
        let text = "2026-01-01T01:00:00+01:00";
        assert_eq!(since("startingTimestamp", text, false), Since::Time(day));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (pairs, whole, part) in [
            (&[("versionAsOf", "1")][..], false, "is for a table"),
            (&[("startingVersion", "1")][..], true, "is for a stream"),
            (&[("versionAsOf", "x")][..], true, "takes a version"),
            (&[("startingTimestamp", "soon")][..], false, "takes a time"),
            (&[("versionAsOf", "1"), ("timestampAsOf", "2026-01-01")][..], true, "exclude"),
            (&[("excludeRegex", "(")][..], false, "excludeRegex"),
            (&[("readChangeFeed", "true")][..], false, "readChangeFeed"),
        ] {
            let error = read(pairs, whole).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
