//! What a data file holds, for readers that skip files: rows, and for each column the smallest and
//! the largest value and how many are null, taken from the file's own footer.

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::datatypes::SchemaRef;
use chrono::{DateTime, NaiveDate, SecondsFormat};
use datafusion::common::ScalarValue;
use onefold_types::{Error, Result};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;
use serde_json::{Map, Value, json};
use std::cmp::Ordering;

/// Columns with statistics where the table says nothing.
pub(crate) const COLUMNS: usize = 32;

/// The statistics of a file as the log has them.
///
/// # Errors
/// Internal: the footer does not fit the file's columns.
pub(crate) fn of_file(
    footer: &ParquetMetaData,
    columns: &SchemaRef,
    most: usize,
) -> Result<String> {
    let (mut smallest, mut largest, mut nulls) = (Map::new(), Map::new(), Map::new());
    for field in columns.fields().iter().take(most) {
        if field.data_type().is_nested() {
            continue;
        }
        let groups = footer.row_groups();
        let schema = footer.file_metadata().schema_descr();
        let Ok(converter) = StatisticsConverter::try_new(field.name(), columns, schema) else {
            continue;
        };
        let counts = converter.row_group_null_counts(groups).map_err(unfit)?;
        let Some(count) = sum(&counts) else { continue };
        nulls.insert(field.name().clone(), json!(count));
        let (min, max) = (
            extreme(&converter.row_group_mins(groups).map_err(unfit)?, Ordering::Less)?,
            extreme(&converter.row_group_maxes(groups).map_err(unfit)?, Ordering::Greater)?,
        );
        if let (Some(min), Some(max)) = (min, max)
            && let (Some(min), Some(max)) = (shown(&min, false), shown(&max, true))
        {
            smallest.insert(field.name().clone(), min);
            largest.insert(field.name().clone(), max);
        }
    }
    let rows = footer.file_metadata().num_rows();
    let stats = json!({
        "numRecords": rows,
        "minValues": smallest,
        "maxValues": largest,
        "nullCount": nulls,
    });
    Ok(stats.to_string())
}

fn unfit(error: parquet::errors::ParquetError) -> Error {
    Error::internal("a file's footer does not fit its columns").because(error)
}

/// All nulls of a file; `None` where a row group does not tell.
fn sum(counts: &UInt64Array) -> Option<u64> {
    counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(count?))
}

/// The smallest or largest of the row groups' values. A group that tells none may hold only nulls:
/// then the others decide. None at all if one of them is no number.
fn extreme(values: &ArrayRef, wanted: Ordering) -> Result<Option<ScalarValue>> {
    let mut found: Option<ScalarValue> = None;
    for at in 0..values.len() {
        let value = ScalarValue::try_from_array(values, at)
            .map_err(|error| Error::internal("a statistic is no value").because(error))?;
        if value.is_null() {
            continue;
        }
        let better = match &found {
            None => true,
            Some(known) => value.partial_cmp(known) == Some(wanted),
        };
        if better {
            found = Some(value);
        }
    }
    Ok(found)
}

/// A bound as the log has it. Times are cut to milliseconds, as Spark cuts them, away from the
/// values.
fn shown(value: &ScalarValue, upper: bool) -> Option<Value> {
    use ScalarValue as S;
    Some(match value {
        S::Int8(Some(value)) => json!(value),
        S::Int16(Some(value)) => json!(value),
        S::Int32(Some(value)) => json!(value),
        S::Int64(Some(value)) => json!(value),
        S::Float32(Some(value)) if value.is_finite() => json!(value),
        S::Float64(Some(value)) if value.is_finite() => json!(value),
        S::Utf8(Some(text)) | S::Utf8View(Some(text)) | S::LargeUtf8(Some(text)) => json!(text),
        S::Date32(Some(days)) => {
            let epoch = NaiveDate::from_ymd_opt(1970, 1, 1)?;
            let date = epoch.checked_add_signed(chrono::TimeDelta::try_days(i64::from(*days))?)?;
            json!(date.format("%Y-%m-%d").to_string())
        }
        S::TimestampMicrosecond(Some(micros), zone) => {
            let ms = micros.div_euclid(1_000);
            let ms = if upper && micros.rem_euclid(1_000) > 0 { ms + 1 } else { ms };
            let text =
                DateTime::from_timestamp_millis(ms)?.to_rfc3339_opts(SecondsFormat::Millis, true);
            let text = if zone.is_some() { text.as_str() } else { text.trim_end_matches('Z') };
            json!(text)
        }
        // A double holds every decimal of so many digits.
        S::Decimal128(Some(digits), precision, scale) if *precision <= 15 && *scale >= 0 => {
            let power = 10_f64.powi(i32::from(*scale));
            #[expect(clippy::cast_precision_loss, reason = "at most 15 digits")]
            let value = *digits as f64 / power;
            json!(value)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    };
    use arrow::datatypes::{Field, Schema};
    use parquet::arrow::ArrowWriter;
    use std::sync::Arc;

    fn stats(columns: Vec<(&str, ArrayRef)>) -> Value {
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let fields: Vec<Field> = rows
            .schema()
            .fields()
            .iter()
            .map(|field| Field::new(field.name(), field.data_type().clone(), true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let rows = RecordBatch::try_new(Arc::clone(&schema), rows.columns().to_vec()).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), None).unwrap();
        writer.write(&rows).unwrap();
        writer.flush().unwrap();
        writer.write(&rows.slice(0, 1)).unwrap();
        let footer = writer.finish().unwrap();
        serde_json::from_str(&of_file(&footer, &schema, COLUMNS).unwrap()).unwrap()
    }

    #[test]
    fn a_file_is_summed_up_over_its_row_groups() {
        let id: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(-5), Some(7)]));
        let text: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), Some("a"), None]));
        let nothing: ArrayRef = Arc::new(Float64Array::from(vec![None, None, None]));
        let found = stats(vec![("id", id), ("t", text), ("x", nothing)]);
        assert_eq!(found["numRecords"], 4);
        assert_eq!(found["minValues"], json!({"id": -5, "t": "a"}));
        assert_eq!(found["maxValues"], json!({"id": 7, "t": "b"}));
        assert_eq!(found["nullCount"], json!({"id": 2, "t": 1, "x": 4}));
    }

    #[test]
    fn times_are_cut_away_from_the_values() {
        let at: ArrayRef =
            Arc::new(TimestampMicrosecondArray::from(vec![1_500, -1_500]).with_timezone("UTC"));
        let found = stats(vec![("at", at)]);
        assert_eq!(found["minValues"]["at"], "1969-12-31T23:59:59.998Z");
        assert_eq!(found["maxValues"]["at"], "1970-01-01T00:00:00.002Z");
    }
}
