//! `kafka`: reading, passing on and being quick over a real broker on this machine, beside a bare
//! consumer of librdkafka and beside PySpark.
//!
//! `ONEFOLD_BENCH_DIVIDE=N` takes an N-th of the records, to see that all works.

mod cluster;
mod latency;
pub mod own;
pub mod plain;

use crate::Failure;
use crate::measure::{Report, child, median, python};
use cluster::Cluster;
use std::io::Write;
use std::path::Path;

/// Measures one thing over a cluster, with files in a folder, and prints it.
type Part = fn(&Cluster, &Path) -> Result<(), Failure>;

const PARTS: &[(&str, Part)] = &[("source", source), ("pipeline", pipeline), ("latency", waiting)];

/// Runs of each side, in turn.
const RUNS: usize = 3;

/// Records of the pipeline.
const EVENTS: u64 = 3_000_000;

/// Measures and prints the parts named, or all.
pub fn run(names: &[&str]) -> Result<(), Failure> {
    let known: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("there is no part {name}; there are {}", known.join(", ")).into());
    }
    let disk = tempfile::tempdir()?;
    let cluster = Cluster::start(&disk.path().join("broker"))?;
    for (name, part) in PARTS.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        let folder = disk.path().join(name);
        std::fs::create_dir_all(&folder)?;
        part(&cluster, &folder)?;
    }
    Ok(())
}

fn divided(records: u64) -> u64 {
    let divide = std::env::var("ONEFOLD_BENCH_DIVIDE").ok().and_then(|it| it.parse().ok());
    records / divide.unwrap_or(1).max(1)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn rate(reports: &[Report]) -> f64 {
    median(&reports.iter().map(|it| it.rows as f64 / it.seconds).collect::<Vec<_>>())
}

/// The source alone, against a bare consumer of the same topic.
fn source(cluster: &Cluster, folder: &Path) -> Result<(), Failure> {
    for (size, records) in [(100_usize, 5_000_000_u64), (1_024, 1_000_000)] {
        let (topic, records) = (format!("source-{size}"), divided(records));
        cluster.fill(&topic, records, |number, value| {
            value.resize(size, b'x');
            // A vector takes all that fits.
            let _ = value.as_mut_slice().write_all(number.to_string().as_bytes());
        })?;
        let (mut plain, mut own) = (Vec::new(), Vec::new());
        for run in 0..RUNS {
            let checkpoint = text(&folder.join(format!("{topic}-{run}")));
            let bootstrap = cluster.bootstrap.as_str();
            plain.push(child(&["child-kafka-plain", bootstrap, &topic, &records.to_string()])?);
            own.push(child(&["child-kafka-source", bootstrap, &topic, &checkpoint])?);
        }
        if plain.iter().chain(&own).any(|it| it.rows != records) {
            return Err("records are missing".into());
        }
        let (plain, own) = (rate(&plain), rate(&own));
        println!(
            "{records} records of {size} bytes: {own:.0} a second, a bare consumer {plain:.0}: \
             {:.2} of it (at least 0.8 is wanted)",
            own / plain
        );
    }
    Ok(())
}

/// Kafka, `from_json`, filter, Kafka, against PySpark.
fn pipeline(cluster: &Cluster, folder: &Path) -> Result<(), Failure> {
    let records = divided(EVENTS);
    cluster.fill("events", records, |number, value| {
        // A vector takes all that is written.
        let _ = write!(
            value,
            r#"{{"id":{number},"user":"user-{}","kind":"click","amount":{}.25}}"#,
            number % 10_007,
            number % 1_000
        );
    })?;
    let bootstrap = cluster.bootstrap.as_str();
    let (mut own, mut spark) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let place = |engine: &str| {
            let checkpoint = text(&folder.join(format!("{engine}-{run}")));
            (format!("out-{engine}-{run}"), checkpoint)
        };
        let (to, checkpoint) = place("own");
        own.push(child(&["child-kafka-drain", bootstrap, "events", &to, &checkpoint])?);
        if run == 0 {
            let (to, checkpoint) = place("spark");
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("spark/kafka.py");
            spark.push(python(&[&text(&script), bootstrap, "events", &to, &checkpoint])?);
            let (there, expected) = (spark.iter().map(|it| it.rows), records / 2);
            if there.chain(own.iter().map(|it| it.rows)).any(|rows| rows != expected) {
                return Err(format!("{expected} rows were to come out, not {:?}", own).into());
            }
        }
    }
    let seconds = |all: &[Report]| median(&all.iter().map(|it| it.seconds).collect::<Vec<_>>());
    let (own, spark) = (seconds(&own), seconds(&spark));
    println!(
        "{records} records through from_json and a filter to another topic: {:.0} a second, exactly \
         once; PySpark {:.0}, at least once: {:.1} times as fast (at least 5 is wanted)",
        records as f64 / own,
        records as f64 / spark,
        spark / own
    );
    Ok(())
}

/// From produce to visible at a steady rate.
fn waiting(cluster: &Cluster, folder: &Path) -> Result<(), Failure> {
    let checkpoint = text(&folder.join("checkpoint"));
    let own = latency::measure(cluster, "slow-in", "slow-out", &checkpoint)?;
    let direct = latency::measure(cluster, "direct", "direct", &checkpoint)?;
    println!(
        "{} records a second through a query to readers with read_committed: median {:.1} ms, p99 \
         {:.1} ms (under 20 and 60 are wanted); without a query in between {:.1} and {:.1}; a batch \
         takes {:.1} ms",
        latency::RATE,
        own.within(50),
        own.within(99),
        direct.within(50),
        direct.within(99),
        own.query.map_or(f64::NAN, |it| median(&it.batch_ms))
    );
    Ok(())
}
