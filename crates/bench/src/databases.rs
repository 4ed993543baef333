//! `databases`: into a real PostgreSQL on this machine, beside its own COPY of the same files and
//! beside PySpark.
//!
//! `ONEFOLD_BENCH_DIVIDE=N` takes an N-th of the rows, to see that all works.

pub mod own;
mod server;

use crate::Failure;
use crate::measure::{Report, child, median, python};
use server::Server;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Measures one thing on a server, with files in a folder, and prints it.
type Part = fn(&Server, &Path) -> Result<(), Failure>;

const PARTS: &[(&str, Part)] = &[("append", append), ("upsert", upsert)];

/// Runs of each side, in turn.
const RUNS: usize = 3;

/// Files of the append, and rows of each: a batch of the bounded run.
const APPENDED: (u64, u64) = (12, 250_000);

/// Files of the upsert, and rows of each: a batch.
const UPSERTED: (u64, u64) = (10, 100_000);

/// Different keys of the upsert.
const KEYS: u64 = 500_000;

/// A table as all sides write it.
const COLUMNS: &str = "id bigint, customer text, amount double precision, quantity integer, \
                       at timestamp with time zone";

/// Measures and prints the parts named, or all.
pub fn run(names: &[&str]) -> Result<(), Failure> {
    let known: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("there is no part {name}; there are {}", known.join(", ")).into());
    }
    let disk = tempfile::tempdir()?;
    let server = Server::start()?;
    for (name, part) in PARTS.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        let folder = disk.path().join(name);
        std::fs::create_dir_all(&folder)?;
        part(&server, &folder)?;
    }
    Ok(())
}

fn divided(rows: u64) -> u64 {
    let divide = std::env::var("ONEFOLD_BENCH_DIVIDE").ok().and_then(|it| it.parse().ok());
    rows / divide.unwrap_or(1).max(1)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn seconds(reports: &[Report]) -> f64 {
    median(&reports.iter().map(|it| it.seconds).collect::<Vec<_>>())
}

fn mib(report: Option<&Report>) -> u64 {
    report.map_or(0, |it| it.peak_kib / 1024)
}

/// Files of rows as CSV, in the order of their times. Ids are those of `id`, made from a row's number.
#[allow(clippy::disallowed_methods, reason = "input of a measurement, made anew each time")]
fn fill(folder: &Path, (files, rows): (u64, u64), id: fn(u64) -> u64) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    for file in 0..files {
        let mut lines = String::new();
        for number in file * rows..(file + 1) * rows {
            // A multiplicative mix: values look random and depend on the number alone.
            let mix = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let (minute, second) = ((number / 60) % 60, number % 60);
            writeln!(
                lines,
                "{},customer-{},{}.{:02},{},2026-01-01 12:{minute:02}:{second:02}Z",
                id(number),
                (mix >> 40) % 50_000,
                (mix >> 20) % 1_000,
                mix % 100,
                (mix >> 8) % 9 + 1
            )?;
        }
        let path = folder.join(format!("rows-{file:04}.csv"));
        std::fs::write(&path, lines)?;
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_767_225_600 + file);
        std::fs::OpenOptions::new().append(true).open(&path)?.set_modified(time)?;
    }
    Ok(())
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

/// Files into a table, against COPY of the same files in one transaction; and the memory of batches
/// of one file against one batch of all.
fn append(server: &Server, folder: &Path) -> Result<(), Failure> {
    let (files, rows) = (APPENDED.0, divided(APPENDED.1));
    let (input, all) = (folder.join("in"), files * rows);
    fill(&input, (files, rows), |number| number)?;
    let copies: Vec<String> = files_of(&input)?
        .iter()
        .map(|file| format!("\\copy copied FROM '{}' WITH (FORMAT csv)\n", text(file)))
        .collect();
    let copies = format!("BEGIN;\n{}COMMIT;\n", copies.concat());
    let (mut copied, mut own, mut bounded) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS {
        server.table("copied", COLUMNS)?;
        let started = Instant::now();
        server.psql(&copies)?;
        copied.push(Report { seconds: started.elapsed().as_secs_f64(), ..Report::with_peak() });
        for (name, each, reports) in [("own", files, &mut own), ("small", 1, &mut bounded)] {
            server.table(name, COLUMNS)?;
            let checkpoint = text(&folder.join(format!("{name}-{run}")));
            let (input, each) = (text(&input), each.to_string());
            let url = server.url.as_str();
            reports.push(child(&["child-database", url, name, &input, &checkpoint, &each, ""])?);
        }
        for table in ["copied", "own", "small"] {
            server.expect(&format!("SELECT count(DISTINCT id) FROM {table}"), all)?;
        }
    }
    let rate = |reports: &[Report]| all as f64 / seconds(reports);
    println!(
        "{all} rows appended: {:.0} a second in one batch, {:.0} in batches of {rows}; COPY {:.0}: \
         {:.2} and {:.2} of it (at least 0.8 is wanted)",
        rate(&own),
        rate(&bounded),
        rate(&copied),
        rate(&own) / rate(&copied),
        rate(&bounded) / rate(&copied),
    );
    println!(
        "peak memory: {} MiB in one batch of {all} rows, {} MiB in batches of {rows}",
        mib(own.first()),
        mib(bounded.first())
    );
    Ok(())
}

/// Batches of rows that take the place of those with the same key, against PySpark's writer into a
/// staging table and an `INSERT … ON CONFLICT`.
fn upsert(server: &Server, folder: &Path) -> Result<(), Failure> {
    let (files, rows) = (UPSERTED.0, divided(UPSERTED.1));
    let input = folder.join("in");
    // A key comes again in a later file, and in no file twice.
    fill(&input, (files, rows), |number| number % divided(KEYS))?;
    let keyed = format!("{COLUMNS}, PRIMARY KEY (id)");
    let (mut own, mut plain, mut tuned) = (Vec::new(), Vec::new(), Vec::new());
    let script = text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("spark/databases.py"));
    for run in 0..RUNS {
        server.table("own", &keyed)?;
        let place = |name: &str| text(&folder.join(format!("{name}-{run}")));
        let (given, url) = (text(&input), server.url.as_str());
        own.push(child(&["child-database", url, "own", &given, &place("own"), "1", "id"])?);
        if run > 0 {
            continue;
        }
        for (name, reports) in [("plain", &mut plain), ("tuned", &mut tuned)] {
            server.table(name, &keyed)?;
            reports.push(python(&[&script, url, name, &given, &place(name)])?);
            let differ = format!(
                "SELECT count(*) FROM own FULL JOIN {name} AS t USING (id) WHERE (own.amount, \
                 own.at) IS DISTINCT FROM (t.amount, t.at)"
            );
            server.expect(&differ, 0)?;
        }
        server.expect("SELECT count(*) FROM own", divided(KEYS))?;
    }
    let all = (files * rows) as f64;
    for (how, spark) in
        [("as it is", &plain), ("with batchsize=10000 and reWriteBatchedInserts=true", &tuned)]
    {
        println!(
            "{all} rows by key, {rows} a batch: {:.0} a second; PySpark {how} {:.0}: {:.1} times as \
             fast (at least 5 is wanted); peak memory {} MiB against {}",
            all / seconds(&own),
            all / seconds(spark),
            seconds(spark) / seconds(&own),
            mib(own.first()),
            mib(spark.first())
        );
    }
    Ok(())
}
