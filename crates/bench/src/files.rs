//! `files`: the spine's targets, each measured and printed with its target beside it.

use crate::measure::{Report, child, child_counting_syncs, median};
use crate::{Failure, data};
use std::path::{Path, PathBuf};

/// Rounds of the throughput comparison; each round runs both sides, in turn first.
const ROUNDS: usize = 5;
const BIG_FILES: u64 = 16;
const BIG_ROWS: u64 = 150_000;
/// Batches of the long run, and rows of each small file.
const BATCHES: u64 = 10_000;
const SMALL_ROWS: u64 = 10;
/// Batches measured on a memory file system, where a sync costs nothing.
const UNSYNCED_BATCHES: u64 = 500;
const SYNC_BATCHES: u64 = 40;

/// The parts, by name.
const PARTS: [&str; 4] = ["throughput", "small-batch", "syncs", "long-run"];

/// Measures and prints the parts named, or all.
pub fn run(names: &[&str]) -> Result<(), Failure> {
    if let Some(name) = names.iter().find(|name| !PARTS.contains(name)) {
        return Err(format!("there is no part {name}; there are {}", PARTS.join(", ")).into());
    }
    let disk = tempfile::tempdir()?;
    let memory = tempfile::tempdir_in("/dev/shm")?;
    for part in PARTS.iter().filter(|part| names.is_empty() || names.contains(part)) {
        match *part {
            "throughput" => throughput(disk.path())?,
            "small-batch" => small_batch(memory.path())?,
            "syncs" => syncs(disk.path())?,
            _ => long_run(disk.path())?,
        }
    }
    Ok(())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Folders of one run: output and checkpoint, new.
fn folders(root: &Path, name: &str) -> (String, String) {
    let folder: PathBuf = root.join(name);
    (text(&folder.join("out")), text(&folder.join("checkpoint")))
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

fn throughput(root: &Path) -> Result<(), Failure> {
    let input = root.join("big");
    data::write(&input, BIG_FILES, BIG_ROWS, 0)?;
    let input = text(&input);
    let (mut plain, mut onefold): (Vec<Report>, Vec<Report>) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (plain_out, _) = folders(root, &format!("plain-{round}"));
        let (out, checkpoint) = folders(root, &format!("stream-{round}"));
        let ours = ["child-stream", &input, &out, &checkpoint];
        let theirs = ["child-plain", &input, &plain_out];
        if round % 2 == 0 {
            plain.push(child(&theirs)?);
            onefold.push(child(&ours)?);
        } else {
            onefold.push(child(&ours)?);
            plain.push(child(&theirs)?);
        }
    }
    let seconds = |runs: &[Report]| median(&runs.iter().map(|it| it.seconds).collect::<Vec<_>>());
    let peak =
        |runs: &[Report]| median(&runs.iter().map(|it| it.peak_kib as f64).collect::<Vec<_>>());
    let rows = |runs: &[Report]| runs.first().map_or(0, |it| it.rows);
    if rows(&plain) != rows(&onefold) {
        let (plain, onefold) = (rows(&plain), rows(&onefold));
        return Err(format!("plain DataFusion wrote {plain} rows, Onefold {onefold}").into());
    }
    let speed = seconds(&plain) / seconds(&onefold);
    let space = peak(&onefold) / peak(&plain);
    println!(
        "JSON -> filter, project -> Parquet, {} rows in {BIG_FILES} files, median of {ROUNDS}:",
        BIG_FILES * BIG_ROWS
    );
    println!("  plain DataFusion {:.3} s, peak {:.0} MiB", seconds(&plain), peak(&plain) / 1024.0);
    println!(
        "  Onefold          {:.3} s, peak {:.0} MiB",
        seconds(&onefold),
        peak(&onefold) / 1024.0
    );
    println!("  throughput ratio {speed:.2} (target at least 0.85: {})", verdict(speed >= 0.85));
    println!("  peak memory ratio {space:.2} (target at most 1.30: {})", verdict(space <= 1.3));
    Ok(())
}

fn small_batch(root: &Path) -> Result<(), Failure> {
    let input = root.join("unsynced");
    data::write(&input, UNSYNCED_BATCHES, SMALL_ROWS, 0)?;
    let (out, checkpoint) = folders(root, "unsynced-run");
    let report = child(&["child-batches", &text(&input), &out, &checkpoint])?;
    let settled: Vec<f64> = report.batch_ms.iter().skip(50).copied().collect();
    let cost = median(&settled);
    println!("one small file a batch, on a memory file system ({UNSYNCED_BATCHES} batches):");
    println!("  median {cost:.2} ms beyond syncs (target at most 5: {})", verdict(cost <= 5.0));
    Ok(())
}

fn syncs(root: &Path) -> Result<(), Failure> {
    // Two runs of different length: the difference is the cost of the batches alone.
    let mut counts = Vec::new();
    for (name, batches) in [("few", SYNC_BATCHES), ("more", 2 * SYNC_BATCHES)] {
        let input = root.join(format!("sync-{name}"));
        data::write(&input, batches, SMALL_ROWS, 0)?;
        let (out, checkpoint) = folders(root, &format!("sync-{name}-run"));
        let log = root.join(format!("{name}.strace"));
        let args = ["child-batches", &text(&input), &out, &checkpoint];
        counts.push(child_counting_syncs(&args, &log)?.1);
    }
    let (Some(few), Some(more)) = (counts.first(), counts.get(1)) else { return Ok(()) };
    let each = |few: u64, more: u64| (more - few) as f64 / SYNC_BATCHES as f64;
    let creates = each(few.files, more.files);
    println!("syncs of a stateless batch with one output file, compactions included:");
    println!(
        "  {creates:.2} of files = durable creates (target at most 4: {}), {:.2} of folders",
        verdict(creates <= 4.0),
        each(few.folders, more.folders)
    );
    Ok(())
}

fn long_run(root: &Path) -> Result<(), Failure> {
    let input = root.join("long");
    data::write(&input, BATCHES, SMALL_ROWS, 0)?;
    let (out, checkpoint) = folders(root, "long-run");
    let report = child(&["child-batches", &text(&input), &out, &checkpoint])?;
    let mut restarts = Vec::new();
    for _ in 0..ROUNDS {
        restarts.push(child(&["child-restart", &text(&input), &out, &checkpoint])?.seconds);
    }
    let resident: Vec<u64> = report.resident_kib.iter().skip(1_000).copied().collect();
    let at_1000 = resident.first().copied().unwrap_or(0) as f64;
    let largest = resident.iter().copied().max().unwrap_or(0) as f64;
    let growth = largest / at_1000 - 1.0;
    let restart = median(&restarts);
    println!("{} batches of one small file, on disk:", report.batch_ms.len());
    println!("  whole run {:.1} s", report.seconds);
    let (early, late) = early_and_late(root, &input, &out, &checkpoint)?;
    println!(
        "  a batch after the 100th: median {early:.2} ms, after the {BATCHES}th {late:.2} ms, in turn"
    );
    println!(
        "  last as fast as the 100th: ratio {:.2} (target about 1: {})",
        late / early,
        verdict(late / early <= 1.15)
    );
    println!(
        "  resident {:.0} MiB at batch 1,000, at most {:.0} MiB after: {:+.1} % (target within 10 %: {})",
        at_1000 / 1024.0,
        largest / 1024.0,
        growth * 100.0,
        verdict(growth <= 0.10)
    );
    println!(
        "  restart on that checkpoint, process start included, {:.0} ms (target under 300: {})",
        restart * 1e3,
        verdict(restart < 0.3)
    );
    Ok(())
}

/// Medians of batches after the 100th of new checkpoints, and of further batches of the long one:
/// both run in turn, since a disk that others use too changes its speed within minutes.
fn early_and_late(
    root: &Path,
    input: &Path,
    out: &str,
    checkpoint: &str,
) -> Result<(f64, f64), Failure> {
    const EACH: usize = 100;
    let (mut early, mut late): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut written = BATCHES;
    for round in 0..ROUNDS {
        let fresh = root.join(format!("fresh-{round}"));
        data::write(&fresh, 2 * EACH as u64, SMALL_ROWS, 0)?;
        let (fresh_out, fresh_checkpoint) = folders(root, &format!("fresh-{round}-run"));
        let report = child(&["child-batches", &text(&fresh), &fresh_out, &fresh_checkpoint])?;
        early.extend(report.batch_ms.iter().skip(EACH));
        data::write(input, 2 * EACH as u64, SMALL_ROWS, written)?;
        written += 2 * EACH as u64;
        let report = child(&["child-batches", &text(input), out, checkpoint])?;
        late.extend(report.batch_ms.iter().skip(EACH));
    }
    Ok((median(&early), median(&late)))
}
