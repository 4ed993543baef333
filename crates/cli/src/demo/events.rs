//! Makes orders: JSON files that appear one after another, each whole at once.

use super::kill_plan::Random;
use super::place::{cannot, write};
use crate::exit::Failure;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Orders in one file.
const ORDERS_PER_FILE: u64 = 400;

/// Pause between two files.
const PAUSE: Duration = Duration::from_millis(8);

/// A thread that makes files when told how many.
pub struct Maker {
    files: Option<Sender<u64>>,
    left: u64,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Maker {
    /// A maker of so many orders.
    ///
    /// # Errors
    /// Failed, when no thread can be started.
    pub fn start(folder: &Path, events: u64, seed: u64) -> Result<Maker, Failure> {
        let (files, wanted) = channel();
        let folder = folder.to_owned();
        let work = move || make(&folder, events, seed, &wanted);
        let thread = std::thread::Builder::new()
            .name("orders".to_owned())
            .spawn(work)
            .map_err(|error| Failure::failed(format!("no thread can be started: {error}")))?;
        let left = events.div_ceil(ORDERS_PER_FILE);
        Ok(Maker { files: Some(files), left, thread })
    }

    /// Lets a share of what is left appear, in its own time.
    pub fn make_share(&mut self, shares: u64) {
        let share = self.left.div_ceil(shares.max(1)).min(self.left);
        self.left -= share;
        if let Some(files) = &self.files {
            // A maker that failed tells so at the end.
            let _ = files.send(share);
        }
    }

    /// Waits until all is there.
    ///
    /// # Errors
    /// What the maker met.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.files.take();
        self.thread.join().unwrap_or_else(|_| Err(Failure::failed("the maker of orders panicked")))
    }
}

fn make(folder: &Path, events: u64, seed: u64, wanted: &Receiver<u64>) -> Result<(), Failure> {
    let mut random = Random(seed);
    let mut file = 0;
    while let Ok(files) = wanted.recv() {
        for _ in 0..files {
            let first = file * ORDERS_PER_FILE;
            let text = orders(first..(first + ORDERS_PER_FILE).min(events), &mut random);
            appear(folder, file, &text)?;
            file += 1;
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// The file gets its name when it is whole: names that start with a dot are not read.
#[expect(clippy::disallowed_methods, reason = "the demonstration's own input")]
fn appear(folder: &Path, number: u64, text: &str) -> Result<(), Failure> {
    let name = format!("orders-{number:06}.json");
    let hidden: PathBuf = folder.join(format!(".{name}"));
    write(&hidden, text)?;
    let path = folder.join(name);
    std::fs::rename(&hidden, &path).map_err(|error| cannot("be written", &path, error))
}

fn orders(ids: std::ops::Range<u64>, random: &mut Random) -> String {
    let mut text = String::new();
    for id in ids {
        let (customer, cents) = (random.below(1_000), 100 + random.below(50_000));
        let (second, minute, hour) = (id % 60, id / 60 % 60, id / 3_600 % 24);
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "{{\"id\":{id},\"customer\":\"c{customer:03}\",\"amount\":{}.{:02},\
             \"ts\":\"2026-01-01T{hour:02}:{minute:02}:{second:02}.000Z\"}}",
            cents / 100,
            cents % 100
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut maker = Maker::start(dir.path(), 1_000, 3).unwrap();
        maker.make_share(3);
        maker.make_share(2);
        maker.make_share(1);
        maker.finish().unwrap();
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            for line in text.lines() {
                let order: serde_json::Value = serde_json::from_str(line).unwrap();
                ids.push(order["id"].as_u64().unwrap());
            }
        }
        ids.sort_unstable();
        assert_eq!(ids, (0..1_000).collect::<Vec<_>>());
    }
}
