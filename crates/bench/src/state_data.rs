//! The inputs of `state`: Parquet files of rows that are a pure function of their number.

use crate::Failure;
use datafusion::arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::WriterProperties;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Files of each input; both engines take two of them a batch.
pub const FILES: u64 = 20;
/// Rows of the input of both windows.
pub const EVENTS: u64 = 10_000_000;
/// Different ids of the deduplication; every fifth comes a second time.
pub const IDS: u64 = 10_000_000;
/// Rows of each side of the join.
pub const PAIRS: u64 = 1_000_000;

const USERS: u64 = 200_000;
const KINDS: u64 = 16;
/// Rows of a second of event time.
const RATE: u64 = 10_000;
/// 2026-01-01 in microseconds since 1970.
const START_US: i64 = 1_767_225_600_000_000;
const CHUNK: u64 = 65_536;

/// Looks random and depends on the number alone.
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Event times go up with the number, each up to three seconds late.
fn time_us(number: u64, rate: u64) -> i64 {
    let late = mix(number ^ 0x5eed) % 3_000_000;
    START_US + (number * 1_000_000 / rate) as i64 - late as i64
}

fn times(numbers: &[u64], rate: u64) -> ArrayRef {
    let values = numbers.iter().map(|number| time_us(*number, rate));
    Arc::new(TimestampMicrosecondArray::from_iter_values(values).with_timezone("UTC"))
}

fn longs(numbers: &[u64], value: impl Fn(u64) -> u64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(numbers.iter().map(|number| value(*number) as i64)))
}

/// `ts, kind, user, amount`, for both windows.
pub fn events(folder: &Path) -> Result<(), Failure> {
    write(folder, EVENTS, |numbers| {
        let kinds = numbers.iter().map(|number| format!("kind-{}", mix(*number) % KINDS));
        let amounts = numbers.iter().map(|number| (mix(*number) >> 44) as f64 / 100.0);
        Ok(RecordBatch::try_from_iter([
            ("ts", times(numbers, RATE)),
            ("kind", Arc::new(StringArray::from_iter_values(kinds)) as ArrayRef),
            ("user", longs(numbers, |number| (mix(number) >> 20) % USERS)),
            ("amount", Arc::new(Float64Array::from_iter_values(amounts)) as ArrayRef),
        ])?)
    })
}

/// `ts, id`, every fifth id twice, the second time far from the first.
pub fn ids(folder: &Path) -> Result<(), Failure> {
    let total = IDS + IDS / 5;
    write(folder, total, |numbers| {
        let id = |number: u64| {
            if number % 6 == 5 { ((number / 6) * 5 + IDS / 2) % IDS } else { number - number / 6 }
        };
        Ok(RecordBatch::try_from_iter([
            ("ts", times(numbers, RATE)),
            ("id", longs(numbers, |number| mix(id(number)) >> 1)),
        ])?)
    })
}

/// `left` and `right`, each `ts, id`: an id's right row is up to eight seconds after its left one.
pub fn pairs(folder: &Path) -> Result<(), Failure> {
    const PAIR_RATE: u64 = 1_000;
    write(&folder.join("left"), PAIRS, |numbers| {
        Ok(RecordBatch::try_from_iter([
            ("ts", times(numbers, PAIR_RATE)),
            ("id", longs(numbers, |number| mix(number) >> 1)),
        ])?)
    })?;
    write(&folder.join("right"), PAIRS, |numbers| {
        let after = numbers
            .iter()
            .map(|number| time_us(*number, PAIR_RATE) + (mix(number ^ 0xfee1) % 8_000_000) as i64);
        let after = TimestampMicrosecondArray::from_iter_values(after).with_timezone("UTC");
        Ok(RecordBatch::try_from_iter([
            ("ts", Arc::new(after) as ArrayRef),
            ("id", longs(numbers, |number| mix(number) >> 1)),
        ])?)
    })
}

/// Cuts the numbers below `total` into [`FILES`] files; file times ascend, so that every reader
/// takes them in the same order.
#[allow(clippy::disallowed_methods, reason = "input of a measurement, made anew each time")]
fn write(
    folder: &Path,
    total: u64,
    rows: impl Fn(&[u64]) -> Result<RecordBatch, Failure>,
) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    let schema = rows(&[])?.schema();
    let share = total.div_ceil(FILES);
    for file in 0..FILES {
        let path = folder.join(format!("part-{file:04}.parquet"));
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let target = std::fs::File::create(&path)?;
        let mut writer = ArrowWriter::try_new(target, Arc::clone(&schema), Some(properties))?;
        for chunk in chunks(file * share..total.min((file + 1) * share)) {
            writer.write(&rows(&chunk.collect::<Vec<u64>>())?)?;
        }
        writer.close()?;
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_767_225_600 + file);
        std::fs::OpenOptions::new().append(true).open(&path)?.set_modified(time)?;
    }
    Ok(())
}

fn chunks(numbers: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = numbers.end;
    let starts = numbers.step_by(CHUNK as usize);
    starts.map(move |start| start..end.min(start + CHUNK))
}
