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
const FILES: u64 = 20;

/// By what rows and batches are divided: 1, or what `ONEFOLD_BENCH_DIVIDE` says.
fn divide(number: u64) -> u64 {
    let by = std::env::var("ONEFOLD_BENCH_DIVIDE").ok().and_then(|text| text.parse().ok());
    (number / by.unwrap_or(1).max(1)).max(10)
}

/// Rows of the input of both windows.
pub fn event_rows() -> u64 {
    divide(10_000_000)
}

/// Different ids of the deduplication; every fifth comes a second time.
pub fn id_count() -> u64 {
    divide(10_000_000)
}

/// Rows of each side of the join.
pub fn pair_count() -> u64 {
    divide(1_000_000)
}

/// Batches of the query whose state comes and goes.
pub fn flat_batches() -> u64 {
    divide(5_000)
}

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
    write(folder, event_rows(), events_of)
}

fn events_of(numbers: &[u64]) -> Result<RecordBatch, Failure> {
    let kinds = numbers.iter().map(|number| format!("kind-{}", mix(*number) % KINDS));
    let amounts = numbers.iter().map(|number| (mix(*number) >> 44) as f64 / 100.0);
    Ok(RecordBatch::try_from_iter([
        ("ts", times(numbers, RATE)),
        ("kind", Arc::new(StringArray::from_iter_values(kinds)) as ArrayRef),
        ("user", longs(numbers, |number| (mix(number) >> 20) % USERS)),
        ("amount", Arc::new(Float64Array::from_iter_values(amounts)) as ArrayRef),
    ])?)
}

/// `ts, id`, every fifth id twice, the second time far from the first.
pub fn ids(folder: &Path) -> Result<(), Failure> {
    let ids = id_count();
    let total = ids + ids / 5;
    write(folder, total, |numbers| {
        let id = |number: u64| {
            if number % 6 == 5 { ((number / 6) * 5 + ids / 2) % ids } else { number - number / 6 }
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
    let pairs = pair_count();
    write(&folder.join("left"), pairs, |numbers| {
        Ok(RecordBatch::try_from_iter([
            ("ts", times(numbers, PAIR_RATE)),
            ("id", longs(numbers, |number| mix(number) >> 1)),
        ])?)
    })?;
    write(&folder.join("right"), pairs, |numbers| {
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

/// `ts, id`: all of `keys` ids, then 20 files of at most 1,000 of them each.
pub fn few_of_many(folder: &Path, keys: u64) -> Result<(), Failure> {
    let rows = |numbers: &[u64]| {
        Ok(RecordBatch::try_from_iter([
            ("ts", times(numbers, RATE)),
            ("id", longs(numbers, |number| mix(number % keys) >> 1)),
        ])?)
    };
    write_file(folder, 0, 0..keys, &rows)?;
    let step = (keys / 1_000).max(1);
    for file in 1..=20 {
        let rows = |numbers: &[u64]| {
            let spread: Vec<u64> = numbers.iter().map(|number| number * step + file).collect();
            rows(&spread)
        };
        write_file(folder, file, 0..1_000.min(keys), &rows)?;
    }
    Ok(())
}

/// `ts, kind, user, amount`: files of 100 rows, each a second after the one before.
pub fn windows_that_go(folder: &Path, files: u64) -> Result<(), Failure> {
    let rows = |numbers: &[u64]| {
        let seconds: Vec<u64> = numbers.iter().map(|number| number * RATE / 100).collect();
        events_of(&seconds)
    };
    for file in 0..files {
        write_file(folder, file, file * 100..(file + 1) * 100, &rows)?;
    }
    Ok(())
}

/// Cuts the numbers below `total` into [`FILES`] files.
fn write(
    folder: &Path,
    total: u64,
    rows: impl Fn(&[u64]) -> Result<RecordBatch, Failure>,
) -> Result<(), Failure> {
    let share = total.div_ceil(FILES);
    for file in 0..FILES {
        let numbers = (file * share).min(total)..total.min((file + 1) * share);
        write_file(folder, file, numbers, &rows)?;
    }
    Ok(())
}

/// Writes one file; file times ascend, so that every reader takes them in the same order.
#[allow(clippy::disallowed_methods, reason = "input of a measurement, made anew each time")]
fn write_file(
    folder: &Path,
    file: u64,
    numbers: Range<u64>,
    rows: &dyn Fn(&[u64]) -> Result<RecordBatch, Failure>,
) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("part-{file:06}.parquet"));
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let target = std::fs::File::create(&path)?;
    let mut writer = ArrowWriter::try_new(target, rows(&[])?.schema(), Some(properties))?;
    for chunk in chunks(numbers) {
        writer.write(&rows(&chunk.collect::<Vec<u64>>())?)?;
    }
    writer.close()?;
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_767_225_600 + file);
    std::fs::OpenOptions::new().append(true).open(&path)?.set_modified(time)?;
    Ok(())
}

fn chunks(numbers: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = numbers.end;
    let starts = numbers.step_by(CHUNK as usize);
    starts.map(move |start| start..end.min(start + CHUNK))
}
