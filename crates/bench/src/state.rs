//! `state`: stateful queries, beside PySpark with two local threads over the same input, and what
//! is measured of the state alone.
//!
//! `ONEFOLD_BENCH_DIVIDE=N` takes an N-th of the rows and batches, to see that all works.

use crate::measure::{Report, child, median, python};
use crate::stateful::bytes_below;
use crate::{Failure, state_data};
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

/// One query: its name, what writes its input, and how many rows that has.
struct Case {
    name: &'static str,
    what: &'static str,
    input: fn(&Path) -> Result<(), Failure>,
    rows: fn() -> u64,
}

const CASES: &[Case] = &[
    Case {
        name: "tumbling",
        what: "10-second window by one of 16 keys",
        input: state_data::events,
        rows: state_data::event_rows,
    },
    Case {
        name: "per-user",
        what: "60-second window by one of 200,000 users",
        input: state_data::events,
        rows: state_data::event_rows,
    },
    Case {
        name: "dedup",
        what: "dropDuplicates of 10,000,000 ids",
        input: state_data::ids,
        rows: || state_data::id_count() + state_data::id_count() / 5,
    },
    Case {
        name: "join",
        what: "stream-stream join within 5 seconds",
        input: state_data::pairs,
        rows: || 2 * state_data::pair_count(),
    },
];

/// Measures something in a folder, and prints it.
type Part = fn(&Path) -> Result<(), Failure>;

/// What is measured without PySpark.
const PARTS: &[(&str, Part)] = &[("aggregate", aggregate), ("touched", touched), ("flat", flat)];

/// Measures and prints the cases named, or all.
pub fn run(names: &[&str]) -> Result<(), Failure> {
    let known = CASES.iter().map(|case| case.name).chain(PARTS.iter().map(|(name, _)| *name));
    let known: Vec<&str> = known.collect();
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("there is no case {name}; there are {}", known.join(", ")).into());
    }
    let wanted = |name: &str| names.is_empty() || names.contains(&name);
    for case in CASES.iter().filter(|case| wanted(case.name)) {
        let disk = tempfile::tempdir()?;
        beside_spark(case, disk.path())?;
    }
    for (_, part) in PARTS.iter().filter(|(name, _)| wanted(name)) {
        let disk = tempfile::tempdir()?;
        part(disk.path())?;
    }
    Ok(())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn beside_spark(case: &Case, root: &Path) -> Result<(), Failure> {
    let input = root.join("input");
    (case.input)(&input)?;
    println!("{}, {} rows in:", case.what, (case.rows)());
    let spark = spark(case, &input, root)?;
    line("PySpark", case, &spark);
    for provider in ["rocksdb", "memory"] {
        let (output, checkpoint) =
            (root.join(format!("{provider}-out")), root.join(format!("{provider}-checkpoint")));
        let (input, output, checkpoint) = (text(&input), text(&output), text(&checkpoint));
        let own = child(&["child-state", case.name, &input, &output, &checkpoint, provider])?;
        line(provider, case, &own);
        println!(
            "           {:.1} times as fast, {:.2} of the memory{}",
            spark.seconds / own.seconds,
            own.peak_kib as f64 / spark.peak_kib as f64,
            if own.rows == spark.rows { "" } else { "; OTHER ROWS CAME OUT" }
        );
    }
    Ok(())
}

fn spark(case: &Case, input: &Path, root: &Path) -> Result<Report, Failure> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("spark/state.py");
    let (output, checkpoint) = (root.join("spark-out"), root.join("spark-checkpoint"));
    python(&[&text(&script), case.name, &text(input), &text(&output), &text(&checkpoint)])
}

fn line(engine: &str, case: &Case, report: &Report) {
    println!(
        "  {engine:<8} {:>9.0} rows/s, {:.1} s, peak {:.0} MiB, {} rows out",
        (case.rows)() as f64 / report.seconds,
        report.seconds,
        report.peak_kib as f64 / 1024.0,
        report.rows
    );
}

/// The aggregation in memory against DataFusion's own.
fn aggregate(root: &Path) -> Result<(), Failure> {
    let input = root.join("input");
    state_data::events(&input)?;
    let rows = state_data::event_rows();
    println!("count and sum by one of 200,000 users in one batch, {rows} rows in:");
    let plain = child(&["child-plain-aggregate", &text(&input)])?;
    println!("  DataFusion {:>9.0} rows/s, {} groups", rows as f64 / plain.seconds, plain.rows);
    let (output, checkpoint) = (text(&root.join("out")), text(&root.join("checkpoint")));
    let own = child(&["child-aggregate", &text(&input), &output, &checkpoint, "memory"])?;
    println!(
        "  Onefold    {:>9.0} rows/s, {} groups: {:.2} of the speed (at least 0.6 is wanted)",
        rows as f64 / own.seconds,
        own.rows,
        plain.seconds / own.seconds
    );
    Ok(())
}

/// Few keys touched of many, on RocksDB, then a restart.
fn touched(root: &Path) -> Result<(), Failure> {
    let run = |name: &str, keys: u64| -> Result<(Report, f64, u64), Failure> {
        let folder = root.join(name);
        let (input, checkpoint) = (folder.join("input"), folder.join("checkpoint"));
        state_data::few_of_many(&input, keys)?;
        let (input, checkpoint_text) = (text(&input), text(&checkpoint));
        let args = ["child-touched", &input, "", &checkpoint_text, "rocksdb"];
        let first = child(&args)?;
        let changes = bytes_below(&checkpoint.join("_onefold/state/changes"));
        let again = Instant::now();
        child(&args)?;
        Ok((first, again.elapsed().as_secs_f64(), changes))
    };
    let keys = state_data::id_count();
    println!("counts of {keys} ids on RocksDB, then batches that touch 1,000 of them:");
    let many = run("many", keys)?;
    let few = run("few", 1_000)?;
    let later = |report: &Report| median(report.batch_ms.get(1..).unwrap_or_default());
    println!("  all ids in one batch  {:.1} s", many.0.batch_ms.first().unwrap_or(&0.0) / 1e3);
    println!("  a batch, {keys} ids  {:.1} ms; 1,000 ids {:.1} ms", later(&many.0), later(&few.0));
    println!("  6 syncs on that disk  {:.1} ms", sync_ms(root)?);
    println!(
        "  restart to the end    {:.2} s; 1,000 ids {:.2} s (under 2 s is wanted)",
        many.1, few.1
    );
    println!("  bytes of changelogs   {}; 1,000 ids {}", many.2, few.2);
    Ok(())
}

/// What six synced creates cost, as many as a batch with state makes: the median of twenty.
#[allow(clippy::disallowed_methods, reason = "it is the sync that is measured")]
fn sync_ms(root: &Path) -> Result<f64, Failure> {
    let mut all = Vec::new();
    for turn in 0..20 {
        let started = Instant::now();
        for file in 0..6 {
            let mut made = std::fs::File::create(root.join(format!("sync-{turn}-{file}")))?;
            made.write_all(&[7; 4096])?;
            made.sync_all()?;
            std::fs::File::open(root)?.sync_all()?;
        }
        all.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(&all))
}

/// Whether state with a watermark stays as large as it was.
fn flat(root: &Path) -> Result<(), Failure> {
    let batches = state_data::flat_batches();
    println!("{batches} batches of 100 rows in windows that come and go, in memory:");
    let sizes = |share: u64| -> Result<(Report, u64, u64), Failure> {
        let folder = root.join(format!("{share}"));
        let (input, checkpoint) = (folder.join("input"), folder.join("checkpoint"));
        state_data::windows_that_go(&input, batches / share)?;
        let report = child(&["child-flat", &text(&input), "", &text(&checkpoint), "memory"])?;
        let state = bytes_below(&checkpoint.join("_onefold/state"));
        Ok((report, state, bytes_below(&checkpoint)))
    };
    for (share, name) in [(5, "a fifth of them"), (1, "all of them")] {
        let (report, state, checkpoint) = sizes(share)?;
        let tenth = (report.batch_ms.len() / 10).max(1);
        let first = report.batch_ms.get(tenth..2 * tenth).unwrap_or_default();
        let last = report.batch_ms.get(report.batch_ms.len() - tenth..).unwrap_or_default();
        println!(
            "  {name:<16} {:.1} ms a batch at the start, {:.1} at the end; {} rows of state, {state} \
             bytes of state on disk, {checkpoint} of checkpoint; resident {:.0} MiB, peak {:.0} MiB",
            median(first),
            median(last),
            report.rows,
            report.resident_kib.last().copied().unwrap_or(0) as f64 / 1024.0,
            report.peak_kib as f64 / 1024.0,
        );
    }
    Ok(())
}
