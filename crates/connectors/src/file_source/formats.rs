//! How dates, times and special numbers are written in text files, by Spark's options.

use super::java_number::{self, Float};
use super::json_scan::Leniency;
use super::time_pattern::TimePattern;
use super::times::{Zone, parse_date, parse_timestamp, parse_timestamp_ntz};
use onefold_connector::Options;
use onefold_types::Result;
use std::sync::Arc;

/// How values are read.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) zone: Zone,
    pub(crate) leniency: Leniency,
    pub(crate) formats: Arc<Formats>,
}

/// What the options say of values; each absent where they say nothing.
#[derive(Debug, Default)]
pub(crate) struct Formats {
    date: Option<TimePattern>,
    timestamp: Option<TimePattern>,
    timestamp_ntz: Option<TimePattern>,
    /// `enableDateTimeParsingFallback`: what does not fit the pattern is read as without one.
    fallback: bool,
    nan: Option<String>,
    positive_infinity: Option<String>,
    negative_infinity: Option<String>,
}

impl Formats {
    /// Checks the options.
    ///
    /// # Errors
    /// Invalid, for a pattern that cannot be read.
    pub(crate) fn of(options: &Options) -> Result<Formats> {
        let pattern =
            |name: &str| options.text(name).map(|text| TimePattern::parse(name, text)).transpose();
        let text =
            |name: &str| options.text(name).filter(|_| options.given(name)).map(str::to_owned);
        Ok(Formats {
            date: pattern("dateFormat")?,
            timestamp: pattern("timestampFormat")?,
            timestamp_ntz: pattern("timestampNTZFormat")?,
            fallback: options.flag("enableDateTimeParsingFallback"),
            nan: text("nanValue"),
            positive_infinity: text("positiveInf"),
            negative_infinity: text("negativeInf"),
        })
    }

    fn read<T>(
        &self,
        pattern: Option<&TimePattern>,
        by_pattern: impl FnOnce(&TimePattern) -> Option<T>,
        plain: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        match pattern.map(by_pattern) {
            None => plain(),
            Some(None) if self.fallback => plain(),
            Some(found) => found,
        }
    }
}

impl Reading {
    /// Reading without options.
    pub(crate) fn plain(zone: Zone, leniency: Leniency) -> Reading {
        Reading { zone, leniency, formats: Arc::default() }
    }

    /// Days since 1970.
    pub(crate) fn date(&self, text: &str) -> Option<i32> {
        let formats = &self.formats;
        formats.read(formats.date.as_ref(), |p| p.date(text), || parse_date(text))
    }

    /// Microseconds since 1970 UTC.
    pub(crate) fn timestamp(&self, text: &str) -> Option<i64> {
        let formats = &self.formats;
        let by_pattern = |p: &TimePattern| p.timestamp(text, self.zone);
        formats.read(formats.timestamp.as_ref(), by_pattern, || parse_timestamp(text, self.zone))
    }

    /// Microseconds since 1970 of a time without a zone.
    pub(crate) fn timestamp_ntz(&self, text: &str) -> Option<i64> {
        let formats = &self.formats;
        let pattern = formats.timestamp_ntz.as_ref();
        formats.read(pattern, |p| p.timestamp_ntz(text), || parse_timestamp_ntz(text))
    }

    /// A number, or one of the words that options choose for what is none. As in Spark, the words
    /// stand beside those that Java reads by itself (`NaN`, `Infinity`).
    pub(crate) fn number<F: Float>(&self, text: &str) -> Option<F> {
        let is = |word: &Option<String>, default: &str| text == word.as_deref().unwrap_or(default);
        let formats = &self.formats;
        if is(&formats.nan, "NaN") {
            Some(F::of(f64::NAN))
        } else if is(&formats.negative_infinity, "-Inf") {
            Some(F::of(f64::NEG_INFINITY))
        } else if is(&formats.positive_infinity, "Inf") {
            Some(F::of(f64::INFINITY))
        } else {
            java_number::parse(text)
        }
    }
}
