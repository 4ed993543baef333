//! What users say of a column, as Spark's `StructField.metadata`: an object of JSON.
//!
//! Arrow keeps texts by key. What Spark itself says of a column (a comment, a declared length, the
//! delay of a watermark) has a key of its own, since it is asked for one by one; all else is one
//! text of JSON, so that numbers and lists come back as they went in.

use super::{CHAR_VARCHAR, COMMENT};
use crate::stream::WATERMARK_DELAY;
use arrow::datatypes::Field;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Metadata key of what users say of a column: one object of JSON.
pub const METADATA: &str = "spark.metadata";

/// A field's metadata as Spark has it.
#[must_use]
pub fn spark_metadata(field: &Field) -> Map<String, Value> {
    let own = field.metadata();
    let said = own.get(METADATA).and_then(|text| serde_json::from_str(text).ok());
    let mut kept = match said {
        Some(Value::Object(said)) => said,
        _ => [COMMENT, CHAR_VARCHAR]
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), Value::String(own.get(key)?.clone()))))
            .collect(),
    };
    if let Some(delay) = own.get(WATERMARK_DELAY).and_then(|text| text.parse::<i64>().ok()) {
        kept.insert(WATERMARK_DELAY.to_owned(), delay.into());
    }
    kept
}

/// Spark's metadata as Arrow's. It says all there is to say: an empty object takes back what a
/// column below says.
#[must_use]
pub fn arrow_metadata(said: &Map<String, Value>) -> HashMap<String, String> {
    let mut entries = HashMap::from([(METADATA.to_owned(), Value::from(said.clone()).to_string())]);
    for key in [COMMENT, CHAR_VARCHAR] {
        if let Some(text) = said.get(key).and_then(Value::as_str) {
            entries.insert(key.to_owned(), text.to_owned());
        }
    }
    entries
}

/// As [`arrow_metadata`], of a new column: nothing is said where there is nothing to say beyond
/// Spark's own keys.
pub(super) fn of_new_field(said: &Map<String, Value>) -> HashMap<String, String> {
    let mut entries = arrow_metadata(said);
    let own = [COMMENT, CHAR_VARCHAR];
    if said.keys().all(|key| own.contains(&key.as_str())) {
        entries.remove(METADATA);
    }
    entries
}
