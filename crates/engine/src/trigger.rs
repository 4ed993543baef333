//! When a query looks for new data.

use onefold_connector::options::parse_duration_ms;
use onefold_types::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// When a query looks for new data, as Spark's `Trigger`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trigger {
    /// At every multiple of this interval since 1970; zero means back to back.
    ProcessingTime(Duration),
    /// Takes what is there at start, in as many batches as the sources' limits ask for, and ends.
    AvailableNow,
    /// Takes what is there at start in one batch, whatever the sources' limits say, and ends.
    Once,
}

impl Default for Trigger {
    fn default() -> Self {
        Trigger::ProcessingTime(Duration::ZERO)
    }
}

impl Trigger {
    /// A processing-time trigger.
    #[must_use]
    pub fn processing_time(interval: Duration) -> Self {
        Trigger::ProcessingTime(interval)
    }

    /// Whether the query ends by itself.
    #[must_use]
    pub fn ends(self) -> bool {
        matches!(self, Trigger::AvailableNow | Trigger::Once)
    }

    /// When to look again after a look that began at `began_ms`, if it is `now_ms` now
    /// (milliseconds since 1970). Never more than one interval ahead, so that a clock set back
    /// cannot stall the query; never in the past, so that missed looks do not pile up.
    #[must_use]
    pub fn next_look_ms(self, began_ms: i64, now_ms: i64) -> i64 {
        let Trigger::ProcessingTime(interval) = self else { return now_ms };
        let interval = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
        if interval == 0 {
            return now_ms;
        }
        let due = began_ms.div_euclid(interval).saturating_add(1).saturating_mul(interval);
        due.clamp(now_ms, now_ms.saturating_add(interval))
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trigger::ProcessingTime(interval) => write!(f, "{} ms", interval.as_millis()),
            Trigger::AvailableNow => f.write_str("available-now"),
            Trigger::Once => f.write_str("once"),
        }
    }
}

impl FromStr for Trigger {
    type Err = Error;

    /// `available-now`, `once`, or a span of time such as `10 seconds`.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text.trim().to_lowercase().as_str() {
            "available-now" | "availablenow" => return Ok(Trigger::AvailableNow),
            "once" => return Ok(Trigger::Once),
            _ => {}
        }
        match parse_duration_ms(text) {
            Some(ms) => Ok(Trigger::ProcessingTime(Duration::from_millis(ms))),
            None => Err(Error::invalid(format!(
                "trigger `{text}` is not known; use available-now, once, or a span of time such \
                 as '10 seconds'"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_aligned_to_multiples_of_the_interval() {
        let every_ten = Trigger::ProcessingTime(Duration::from_secs(10));
        assert_eq!(every_ten.next_look_ms(12_345, 13_000), 20_000);
        assert_eq!(every_ten.next_look_ms(20_000, 20_500), 30_000);
    }

    #[test]
    fn a_late_look_is_made_at_once_and_missed_ones_are_not_made_up_for() {
        let every_ten = Trigger::ProcessingTime(Duration::from_secs(10));
        assert_eq!(every_ten.next_look_ms(12_345, 57_000), 57_000);
    }

    #[test]
    fn a_clock_set_back_stalls_no_longer_than_one_interval() {
        let every_ten = Trigger::ProcessingTime(Duration::from_secs(10));
        assert_eq!(every_ten.next_look_ms(3_600_000, 5), 10_005);
    }

    #[test]
    fn triggers_read_from_text() {
        assert_eq!("available-now".parse::<Trigger>().unwrap(), Trigger::AvailableNow);
        assert_eq!("Once".parse::<Trigger>().unwrap(), Trigger::Once);
        assert_eq!(
            "10 seconds".parse::<Trigger>().unwrap(),
            Trigger::ProcessingTime(Duration::from_secs(10))
        );
        assert!("soon".parse::<Trigger>().is_err());
    }
}
