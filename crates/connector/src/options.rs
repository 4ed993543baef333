//! Option tables: one static row an option, from which checks, help, docs and redaction derive.

use onefold_types::{Error, OptionMap, Result, Secret};

/// What values an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number within limits, both included.
    Count {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A size in bytes: a number, or one with a suffix `k`, `m`, `g`, `t` (powers of 1,024).
    Bytes,
    /// A span of time as Spark writes it: `7d`, `10s`, `250ms`, `1h`, `10 seconds`.
    Duration,
    /// One of these words, without case.
    Choice(&'static [&'static str]),
    /// A text that must never be shown.
    Secret,
    /// Not taken, whatever its value: users know it from elsewhere, and the row's text says why it
    /// is refused and what to do instead.
    Refused,
}

/// What stands for any text in the name of a row.
const ANY_NAME: &str = "NAME";

/// One option.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// Its name as Spark spells it; `NAME` in it stands for any text.
    pub name: &'static str,
    /// What it takes.
    pub kind: OptionKind,
    /// Its value when not given; `None` if there is none.
    pub default: Option<&'static str>,
    /// What it does, in one clause.
    pub doc: &'static str,
    /// Of a secret: whether a value holds none, and may be written down. `None`: each does.
    pub harmless: Option<fn(&str) -> bool>,
}

impl OptionSpec {
    /// A row of an option table.
    #[must_use]
    pub const fn new(name: &'static str, kind: OptionKind, doc: &'static str) -> Self {
        OptionSpec { name, kind, default: None, doc, harmless: None }
    }

    /// A row for an option that is refused by name, with the reason.
    #[must_use]
    pub const fn refused(name: &'static str, why: &'static str) -> Self {
        Self::new(name, OptionKind::Refused, why)
    }

    /// Whether a name means this option: without case, and with any text for the `NAME` of a row such as
    /// `headers.NAME`.
    #[must_use]
    pub fn means(&self, name: &str) -> bool {
        let Some((head, tail)) = self.name.split_once(ANY_NAME) else {
            return self.name.eq_ignore_ascii_case(name);
        };
        let Some(middle) = name.len().checked_sub(head.len() + tail.len()) else { return false };
        let start = name.get(..head.len()).is_some_and(|it| it.eq_ignore_ascii_case(head));
        let end = name.get(head.len() + middle..).is_some_and(|it| it.eq_ignore_ascii_case(tail));
        start && end && middle > 0
    }

    /// The same, a secret, some of whose values hold none.
    #[must_use]
    pub const fn harmless(mut self, holds_none: fn(&str) -> bool) -> Self {
        self.harmless = Some(holds_none);
        self
    }

    /// Whether a value may stand where others can read it.
    #[must_use]
    pub fn may_be_kept(&self, value: &str) -> bool {
        self.kind != OptionKind::Secret || self.harmless.is_some_and(|holds_none| holds_none(value))
    }

    /// The same with a default.
    #[must_use]
    pub const fn default(mut self, value: &'static str) -> Self {
        self.default = Some(value);
        self
    }
}

/// Options that were checked against a table: each is known and has a value of its kind.
#[derive(Debug, Clone)]
pub struct Options {
    table: &'static [&'static [OptionSpec]],
    given: OptionMap,
}

impl Options {
    /// Checks options against a table.
    ///
    /// # Errors
    /// Invalid: an option that the table does not have (with the nearest one that it has), or a
    /// value that is not of its kind.
    pub fn check(
        connector: &str,
        table: &'static [&'static [OptionSpec]],
        given: OptionMap,
    ) -> Result<Self> {
        let options = Options { table, given };
        for (name, value) in options.given.iter() {
            let Some(spec) = options.spec(name) else {
                return Err(unknown_option(connector, table, name));
            };
            check_value(connector, spec, value)?;
        }
        Ok(options)
    }

    fn spec(&self, name: &str) -> Option<&'static OptionSpec> {
        self.table.iter().flat_map(|rows| rows.iter()).find(|row| row.means(name))
    }

    /// What was given of the options whose names begin so: the rest of each name, and its value.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.given.iter().filter_map(move |(name, value)| {
            let (head, rest) = name.split_at_checked(prefix.len())?;
            (head.eq_ignore_ascii_case(prefix) && !rest.is_empty()).then_some((rest, value))
        })
    }

    /// The value given, or the default.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.given.get(name).or_else(|| self.spec(name).and_then(|spec| spec.default))
    }

    /// Whether the user gave it.
    #[must_use]
    pub fn given(&self, name: &str) -> bool {
        self.given.get(name).is_some()
    }

    /// A boolean; false when absent.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// A whole number.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        self.text(name).and_then(|text| text.trim().parse().ok())
    }

    /// A size in bytes.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<u64> {
        self.text(name).and_then(parse_bytes)
    }

    /// A span in milliseconds.
    #[must_use]
    pub fn duration_ms(&self, name: &str) -> Option<u64> {
        self.text(name).and_then(parse_duration_ms)
    }

    /// A word in lower case.
    #[must_use]
    pub fn choice(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_lowercase)
    }

    /// A secret.
    #[must_use]
    pub fn secret(&self, name: &str) -> Option<Secret> {
        self.text(name).map(Secret::new)
    }
}

fn unknown_option(connector: &str, table: &[&[OptionSpec]], name: &str) -> Error {
    // What stands before the last dot names a family: an option of another one is no help, but the
    // family may have been forgotten.
    let lower = name.to_lowercase();
    let family = lower.rsplit_once('.').map(|(family, _)| family);
    let nearest = table
        .iter()
        .flat_map(|rows| rows.iter())
        .filter(|row| row.kind != OptionKind::Refused)
        .filter_map(|row| {
            let known = row.name.to_lowercase();
            let (known_family, last) = match known.rsplit_once('.') {
                Some((family, last)) => (Some(family), last),
                None => (None, known.as_str()),
            };
            let far = strsim::damerau_levenshtein(&known, &lower);
            match family {
                Some(family) => {
                    let known = known_family.unwrap_or_default();
                    (strsim::damerau_levenshtein(known, family) <= 2).then_some((far, row))
                }
                None => Some((far.min(strsim::damerau_levenshtein(last, &lower)), row)),
            }
        })
        .min_by_key(|(distance, _)| *distance);
    match nearest {
        Some((_, row)) => Error::invalid(format!(
            "{connector} has no option `{name}`; the nearest is `{}` ({})",
            row.name, row.doc
        )),
        None if table.iter().all(|rows| rows.is_empty()) => {
            Error::invalid(format!("{connector} has no option `{name}`; it takes none"))
        }
        None => Error::invalid(format!(
            "{connector} has no option `{name}`, nor any that begins with `{}.`; `onefold connectors` \
             lists those that there are",
            family.unwrap_or_default()
        )),
    }
}

fn check_value(connector: &str, spec: &OptionSpec, value: &str) -> Result<()> {
    let wanted = match spec.kind {
        OptionKind::Text | OptionKind::Secret => return Ok(()),
        OptionKind::Refused => {
            return Err(Error::invalid(format!(
                "option `{}` is refused by {connector}: {}",
                spec.name, spec.doc
            )));
        }
        OptionKind::Bool if matches!(value.to_lowercase().as_str(), "true" | "false") => {
            return Ok(());
        }
        OptionKind::Bool => "true or false".to_owned(),
        OptionKind::Count { min, max } => {
            if value.trim().parse::<u64>().is_ok_and(|count| (min..=max).contains(&count)) {
                return Ok(());
            }
            format!("a whole number from {min} to {max}")
        }
        OptionKind::Bytes if parse_bytes(value).is_some() => return Ok(()),
        OptionKind::Bytes => "a size such as 1048576, 512k or 1g".to_owned(),
        OptionKind::Duration if parse_duration_ms(value).is_some() => return Ok(()),
        OptionKind::Duration => "a span of time such as 250ms, 10s, 1h or 7d".to_owned(),
        OptionKind::Choice(words) => {
            if words.iter().any(|word| word.eq_ignore_ascii_case(value)) {
                return Ok(());
            }
            format!("one of {}", words.join(", "))
        }
    };
    Err(Error::invalid(format!(
        "option `{}` of {connector} is `{value}`, but takes {wanted}",
        spec.name
    )))
}

/// Bytes from `123`, `1k`, `1kb`, `1m`, `1g`, `1t` (powers of 1,024).
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.strip_prefix(digits)? {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Milliseconds from `250ms`, `10s`, `5 minutes`, `1h`, `7d`, `2 weeks`; a bare number counts as
/// milliseconds, as in Spark's settings.
#[must_use]
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    let text = text.trim().to_lowercase();
    let text = text.strip_prefix("interval ").unwrap_or(&text).trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    let unit: u64 = match text.strip_prefix(digits)?.trim() {
        "" | "ms" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "second" | "seconds" => 1_000,
        "m" | "min" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        "w" | "week" | "weeks" => 604_800_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: &[&[OptionSpec]] = &[&[
        OptionSpec::new(
            "maxFilesPerTrigger",
            OptionKind::Count { min: 1, max: 100 },
            "files a batch",
        ),
        OptionSpec::new("maxFileAge", OptionKind::Duration, "age").default("7d"),
        OptionSpec::refused("maxFileAges", "it never was"),
    ]];

    #[test]
    fn a_refused_option_tells_the_reason_and_is_never_proposed() {
        let given = OptionMap::new().with("maxfileages", "hunter2");
        let error = Options::check("file source", TABLE, given).unwrap_err().to_string();
        assert_eq!(error, "option `maxFileAges` is refused by file source: it never was");
        let given = OptionMap::new().with("maxFileAgess", "1");
        let error = Options::check("file source", TABLE, given).unwrap_err().to_string();
        assert!(error.contains("the nearest is `maxFileAge`"), "{error}");
    }

    #[test]
    fn what_is_proposed_is_of_the_same_family() {
        static TABLE: &[&[OptionSpec]] = &[&[
            OptionSpec::new("onefold.jdbc.deadLetterTable", OptionKind::Text, "a table"),
            OptionSpec::new("dbtable", OptionKind::Text, "the table"),
        ]];
        let said = |name: &str| {
            let given = OptionMap::new().with(name, "");
            Options::check("sink", TABLE, given).unwrap_err().to_string()
        };
        for name in ["deadLeterTable", "onefold.jbdc.deadLetterTable", "onefold.jdbc.deadTable"] {
            assert!(said(name).contains("nearest is `onefold.jdbc.deadLetterTable`"), "{name}");
        }
        assert!(said("dbtabel").contains("nearest is `dbtable`"));
        let other = said("onefold.deadLetters.table");
        assert!(!other.contains("nearest") && other.contains("`onefold.deadletters.`"), "{other}");
    }

    #[test]
    fn a_secret_is_kept_only_where_it_is_known_to_hold_none() {
        let secret = OptionSpec::new("url", OptionKind::Secret, "where");
        assert!(!secret.may_be_kept("a"));
        let some = secret.harmless(|value| value == "a");
        assert!(some.may_be_kept("a") && !some.may_be_kept("b"));
        assert!(OptionSpec::new("x", OptionKind::Text, "").may_be_kept("b"));
    }

    #[test]
    fn a_row_with_a_name_in_it_takes_every_such_option() {
        static TABLE: &[&[OptionSpec]] = &[&[
            OptionSpec::new("headers.NAME", OptionKind::Text, "a header"),
            OptionSpec::new("http.NAME.bearer", OptionKind::Secret, "a token"),
        ]];
        let given = OptionMap::new().with("Headers.X-Id", "7").with("http.a.b.bearer", "t");
        let options = Options::check("sink", TABLE, given).unwrap();
        assert_eq!(options.below("headers.").collect::<Vec<_>>(), [("X-Id", "7")]);
        assert_eq!(options.text("http.a.b.bearer"), Some("t"));
        for wrong in ["headers.", "header.x", "http.bearer", "http..beare", "hü"] {
            let given = OptionMap::new().with(wrong, "");
            assert!(Options::check("sink", TABLE, given).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_option_is_named_with_the_nearest() {
        let given = OptionMap::new().with("maxFilePerTrigger", "1");
        let error = Options::check("file source", TABLE, given).unwrap_err();
        assert!(error.to_string().contains("`maxFilesPerTrigger`"), "{error}");
    }

    #[test]
    fn values_outside_their_kind_are_refused_and_defaults_apply() {
        let given = OptionMap::new().with("maxfilespertrigger", "0");
        assert!(Options::check("file source", TABLE, given).is_err());
        let options = Options::check("file source", TABLE, OptionMap::new()).unwrap();
        assert_eq!(options.duration_ms("maxFileAge"), Some(604_800_000));
    }

    #[test]
    fn spans_and_sizes_read_as_spark_writes_them() {
        assert_eq!(parse_duration_ms("10 seconds"), Some(10_000));
        assert_eq!(parse_duration_ms("interval 2 minutes"), Some(120_000));
        assert_eq!(parse_duration_ms("x"), None);
        assert_eq!(parse_bytes("1g"), Some(1 << 30));
        assert_eq!(parse_bytes("99999999999t"), None);
    }
}
