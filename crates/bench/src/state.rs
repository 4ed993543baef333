//! `state`: stateful queries, beside PySpark with two local threads over the same input.

use crate::measure::{Report, python};
use crate::{Failure, state_data};
use std::path::Path;

/// One query: its name, what writes its input, and how many rows that has.
struct Case {
    name: &'static str,
    what: &'static str,
    input: fn(&Path) -> Result<(), Failure>,
    rows: u64,
}

const CASES: &[Case] = &[
    Case {
        name: "tumbling",
        what: "10-second window by one of 16 keys",
        input: state_data::events,
        rows: state_data::EVENTS,
    },
    Case {
        name: "per-user",
        what: "60-second window by one of 200,000 users",
        input: state_data::events,
        rows: state_data::EVENTS,
    },
    Case {
        name: "dedup",
        what: "dropDuplicates of 10,000,000 ids",
        input: state_data::ids,
        rows: state_data::IDS + state_data::IDS / 5,
    },
    Case {
        name: "join",
        what: "stream-stream join within 5 seconds",
        input: state_data::pairs,
        rows: 2 * state_data::PAIRS,
    },
];

/// Measures and prints the cases named, or all.
pub fn run(names: &[&str]) -> Result<(), Failure> {
    if let Some(name) = names.iter().find(|name| CASES.iter().all(|case| case.name != **name)) {
        return Err(format!("there is no case {name}").into());
    }
    for case in CASES.iter().filter(|case| names.is_empty() || names.contains(&case.name)) {
        let disk = tempfile::tempdir()?;
        let input = disk.path().join("input");
        (case.input)(&input)?;
        println!("{}, {} rows in:", case.what, case.rows);
        let spark = spark(case, &input, disk.path())?;
        line("PySpark", case, &spark);
    }
    Ok(())
}

fn spark(case: &Case, input: &Path, root: &Path) -> Result<Report, Failure> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("spark/state.py");
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (output, checkpoint) = (root.join("spark-out"), root.join("spark-checkpoint"));
    python(&[&text(&script), case.name, &text(input), &text(&output), &text(&checkpoint)])
}

fn line(engine: &str, case: &Case, report: &Report) {
    println!(
        "  {engine:<8} {:>9.0} rows/s, {:.1} s, peak {:.0} MiB, {} rows out",
        case.rows as f64 / report.seconds,
        report.seconds,
        report.peak_kib as f64 / 1024.0,
        report.rows
    );
}
