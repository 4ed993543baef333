//! `connect`: what a program of PySpark waits for, against `onefold serve` on this machine.
//!
//! The server is the command that `ONEFOLD_BENCH_BINARY` names, the client PySpark's own.

use crate::Failure;
use crate::measure::{Report, child, median, python, report};
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures::StreamExt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Rows of the collect.
const ROWS: u64 = 10_000_000;

/// A server that ends with this.
struct Server {
    process: Child,
    remote: String,
}

impl Server {
    fn start() -> Result<Self, Failure> {
        let binary = std::env::var_os("ONEFOLD_BENCH_BINARY")
            .ok_or("ONEFOLD_BENCH_BINARY must name the onefold command")?;
        let mut process = Command::new(binary)
            .args(["serve", "--bind", "127.0.0.1:0"])
            .env("PYSPARK_PYTHON", std::env::var_os("ONEFOLD_BENCH_PYTHON").unwrap_or_default())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().ok_or("the server has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let remote =
            line.trim().strip_prefix("listening on ").ok_or("the server does not start")?;
        Ok(Server { remote: remote.replace("127.0.0.1", "localhost"), process })
    }

    fn measure(&self, kind: &str, argument: &str) -> Result<Report, Failure> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("spark/connect.py");
        python(&[&script.to_string_lossy(), kind, &self.remote, argument])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Measures one thing, and prints it.
type Part = fn(&Server) -> Result<(), Failure>;

const PARTS: &[(&str, Part)] =
    &[("start", start), ("progress", progress), ("collect", collect), ("foreach-batch", batches)];

/// Measures and prints the parts named, or all.
pub fn run(names: &[&str]) -> Result<(), Failure> {
    let known: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("there is no part {name}; there are {}", known.join(", ")).into());
    }
    let server = Server::start()?;
    for (_, part) in PARTS.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        part(&server)?;
    }
    Ok(())
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn start(server: &Server) -> Result<(), Failure> {
    let times = server.measure("start", "")?.batch_ms;
    println!(
        "a new session to the rows of spark.range(10).collect(): {:.1} ms, at most {:.1} (under \
         150 ms is wanted)",
        median(&times),
        largest(&times)
    );
    Ok(())
}

fn progress(server: &Server) -> Result<(), Failure> {
    let times = server.measure("progress", "")?.batch_ms;
    println!(
        "lastProgress of a running query: {:.2} ms, at most {:.2} (under 5 ms is wanted)",
        median(&times),
        largest(&times)
    );
    Ok(())
}

fn collect(server: &Server) -> Result<(), Failure> {
    let disk = tempfile::tempdir()?;
    let folder = disk.path().join("rows").to_string_lossy().into_owned();
    child(&["child-make-rows", &folder])?;
    let mut plain = Vec::new();
    for _ in 0..3 {
        plain.push(child(&["child-plain-ipc", &folder])?.seconds * 1e3);
    }
    let plain = median(&plain);
    let bare = child(&["child-connect-client", &server.remote, &folder])?;
    let own = server.measure("collect", &folder)?;
    let (bare_ms, own_ms) = (bare.seconds * 1e3, median(&own.batch_ms));
    println!(
        "{} rows as Arrow: DataFusion reads and writes them as IPC in {plain:.0} ms; the server sends \
         them to a client that throws them away in {bare_ms:.0} ms, {:.2} times (at most 1.3 is \
         wanted), and to PySpark's toArrow in {own_ms:.0} ms, {:.2} times",
        own.rows,
        bare_ms / plain,
        own_ms / plain
    );
    Ok(())
}

fn batches(server: &Server) -> Result<(), Failure> {
    let plain = median(&server.measure("batches", "nothing")?.batch_ms);
    let function = median(&server.measure("batches", "function")?.batch_ms);
    println!(
        "a batch of 10 rows into foreachBatch: {function:.1} ms, into nothing {plain:.1} ms: {:.1} \
         ms more (under 30 ms is wanted)",
        function - plain
    );
    Ok(())
}

/// Writes the rows of the collect: numbers, fractions, and a text of few values.
pub fn make_rows(folder: &str) -> Result<(), Failure> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let context = SessionContext::new();
        let query = format!(
            "SELECT value AS id, value * 0.5 AS half, 'customer-' || CAST(value % 1000 AS VARCHAR) AS customer \
             FROM generate_series(1, {ROWS})"
        );
        let frame = context.sql(&query).await?;
        frame.write_parquet(folder, DataFrameWriteOptions::new(), None).await?;
        report(&Report { rows: ROWS, ..Report::with_peak() })
    })
}

/// DataFusion alone: reads the rows and writes each batch as a stream of IPC, as a server sends it.
pub fn plain_ipc(folder: &str) -> Result<(), Failure> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let started = Instant::now();
        let context = SessionContext::new();
        let frame = context.read_parquet(folder, ParquetReadOptions::default()).await?;
        let mut stream = frame.execute_stream().await?;
        let (mut rows, mut bytes) = (0, 0);
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            let mut out = Vec::new();
            let mut writer = StreamWriter::try_new(&mut out, &batch.schema())?;
            writer.write(&batch)?;
            writer.finish()?;
            drop(writer);
            bytes += out.len();
        }
        let seconds = started.elapsed().as_secs_f64();
        if bytes == 0 {
            return Err("nothing was written".into());
        }
        report(&Report { seconds, rows, ..Report::with_peak() })
    })
}
