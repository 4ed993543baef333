//! Runs one measured thing in a child process and reads the line that it prints.

use crate::Failure;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What a child reports.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Wall time of the measured part, seconds.
    pub seconds: f64,
    /// Largest resident memory of the process, KiB.
    pub peak_kib: u64,
    /// Rows written.
    pub rows: u64,
    /// Wall time of each batch, milliseconds, where there are batches.
    pub batch_ms: Vec<f64>,
    /// Resident memory after each batch, KiB.
    pub resident_kib: Vec<u64>,
}

impl Report {
    /// A report with this process's peak memory and nothing else.
    pub fn with_peak() -> Self {
        Report {
            seconds: 0.0,
            peak_kib: memory_kib("VmHWM"),
            rows: 0,
            batch_ms: Vec::new(),
            resident_kib: Vec::new(),
        }
    }
}

/// Runs this program again with a hidden subcommand.
pub fn child(args: &[&str]) -> Result<Report, Failure> {
    let output =
        Command::new(std::env::current_exe()?).args(args).stderr(Stdio::inherit()).output()?;
    report_of(args, output)
}

/// Runs a script under the Python of `ONEFOLD_BENCH_PYTHON` (or `python3`), which has PySpark.
pub fn python(args: &[&str]) -> Result<Report, Failure> {
    let program =
        std::env::var_os("ONEFOLD_BENCH_PYTHON").unwrap_or_else(|| OsString::from("python3"));
    let output = Command::new(program).args(args).stderr(Stdio::inherit()).output()?;
    report_of(args, output)
}

/// Calls of `fsync` and `fdatasync`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Syncs {
    /// Of files: one for each durable create.
    pub files: u64,
    /// Of folders, which make names durable.
    pub folders: u64,
}

/// As [`child`], under `strace`: also the syncs that the kernel saw.
pub fn child_counting_syncs(args: &[&str], log: &Path) -> Result<(Report, Syncs), Failure> {
    let output = Command::new("strace")
        .args(["-f", "-qq", "-y", "-e", "trace=fsync,fdatasync", "-o"])
        .arg(log)
        .arg(std::env::current_exe()?)
        .args(args)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("strace is needed to count syncs: {error}"))?;
    let report = report_of(args, output)?;
    let mut syncs = Syncs::default();
    for line in std::fs::read_to_string(log)?.lines() {
        // `123 fsync(7</folder/file>) = 0`; a call that another thread cuts in two ends elsewhere.
        let Some((_, called)) = line.split_once("sync(") else { continue };
        let path = called.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
        match path {
            Some((path, _)) if Path::new(path).is_dir() => syncs.folders += 1,
            _ => syncs.files += 1,
        }
    }
    Ok((report, syncs))
}

fn report_of(args: &[&str], output: Output) -> Result<Report, Failure> {
    if !output.status.success() {
        return Err(format!("{} failed: {}", args.join(" "), output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
}

/// Prints a child's report for its parent.
pub fn report(report: &Report) -> Result<(), Failure> {
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}

/// One of the kernel's memory figures of this process, in KiB: `VmHWM` (peak) or `VmRSS`.
pub fn memory_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// The middle value.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
