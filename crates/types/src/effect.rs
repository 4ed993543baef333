//! Calls to the outside world, as a checkpoint remembers them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The name of one call, the same in every try of its batch. Receivers see it as `Idempotency-Key`:
/// 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKey(pub u128);

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for CallKey {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(CallKey)
    }
}

impl Serialize for CallKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CallKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What a receiver answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// The status of HTTP.
    pub status: u16,
    /// Its headers that are kept, by name in lower case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Its body, or as much of it as is kept.
    pub body: String,
    /// When it came, in milliseconds since 1970, UTC.
    pub at_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_thirty_two_digits_and_reads_back() {
        let key = CallKey(0xab);
        assert_eq!(key.to_string(), "000000000000000000000000000000ab");
        assert_eq!(key.to_string().parse(), Ok(key));
        assert!("no key".parse::<CallKey>().is_err());
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<CallKey>(&json).unwrap(), key);
    }
}
