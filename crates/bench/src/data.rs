//! The input: order events as JSON lines, a pure function of their number.

use crate::Failure;
use std::fmt::Write as _;
use std::path::Path;

/// The columns of an event, in Spark's schema language.
pub const SCHEMA: &str =
    "id BIGINT, customer STRING, country STRING, amount DOUBLE, quantity INT, ts TIMESTAMP";

/// Writes `files` files of `rows` events each; file times ascend, so that every reader takes them
/// in the same order. `before` files of such rows are there already, and numbers go on from them.
#[allow(clippy::disallowed_methods, reason = "input of a measurement, made anew each time")]
pub fn write(folder: &Path, files: u64, rows: u64, before: u64) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    for file in before..before + files {
        let mut text = String::new();
        for row in 0..rows {
            event(&mut text, file * rows + row)?;
        }
        let path = folder.join(format!("events-{file:06}.json"));
        std::fs::write(&path, text)?;
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_767_225_600 + file);
        std::fs::OpenOptions::new().append(true).open(&path)?.set_modified(time)?;
    }
    Ok(())
}

fn event(text: &mut String, id: u64) -> Result<(), Failure> {
    const COUNTRIES: [&str; 8] = ["de", "fr", "at", "ch", "nl", "pl", "it", "es"];
    // A multiplicative mix: values look random and depend on the id alone.
    let mix = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let country = COUNTRIES.get((mix >> 61) as usize).copied().unwrap_or("de");
    let amount = ((mix >> 20) % 100_000) as f64 / 100.0;
    let (hour, minute, second) = ((id / 3600) % 24, (id / 60) % 60, id % 60);
    writeln!(
        text,
        "{{\"id\":{id},\"customer\":\"customer-{}\",\"country\":\"{country}\",\"amount\":{amount},\
         \"quantity\":{},\"ts\":\"2026-01-01T{hour:02}:{minute:02}:{second:02}Z\"}}",
        (mix >> 40) % 50_000,
        (mix >> 8) % 9 + 1,
    )?;
    Ok(())
}
