//! `http`: how many calls a second a query makes, to a receiver on this machine that answers at once.

use crate::Failure;
use crate::measure::{Report, child, median, report};
use onefold::Trigger;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Instant;

/// Rows, each of which is a call.
const ROWS: usize = 40_000;
/// Batches that they come in.
const FILES: usize = 4;
const RUNS: usize = 3;
/// Calls a second that are wanted.
const TARGET: f64 = 2_000.0;

const PARTS: [&str; 2] = ["sink", "call"];

/// Measures and prints the parts named, or all.
pub fn run(names: &[&str]) -> Result<(), Failure> {
    if let Some(name) = names.iter().find(|name| !PARTS.contains(name)) {
        return Err(format!("there is no part {name}; there are {}", PARTS.join(", ")).into());
    }
    let disk = tempfile::tempdir()?;
    let input = disk.path().join("in");
    make_rows(&input)?;
    let url = receiver()?;
    for part in PARTS.iter().filter(|part| names.is_empty() || names.contains(part)) {
        let mut rates = Vec::new();
        for nth in 0..RUNS {
            let folder = disk.path().join(format!("{part}-{nth}"));
            let (input, folder) = (input.to_string_lossy(), folder.to_string_lossy());
            let report = child(&["child-http", part, &url, &input, &folder])?;
            rates.push(report.rows as f64 / report.seconds);
        }
        let rate = median(&rates);
        let met = if rate >= TARGET { "met" } else { "missed" };
        println!("{part}: {rate:.0} calls a second (median of {RUNS}); {TARGET:.0} wanted: {met}");
    }
    Ok(())
}

/// One query over all rows.
pub fn drain(part: &str, url: &str, input: &str, folder: &str) -> Result<(), Failure> {
    let session = onefold::session().build()?;
    let reader = session.read_stream().format("json").schema("id BIGINT, name STRING");
    let rows = reader.option("maxFilesPerTrigger", "1").load(input)?;
    let started = Instant::now();
    let checkpoint = format!("{folder}/checkpoint");
    let query = match part {
        "sink" => rows
            .write_stream()
            .format("http")
            .option("url", url)
            .option("idempotentReceiver", "true")
            .option("checkpointLocation", &checkpoint)
            .trigger(Trigger::AvailableNow)
            .start_default()?,
        _ => rows
            .select_expr(&["id", &format!("http_call('{url}', name) AS r")])?
            .select_expr(&["id", "r.status AS status"])?
            .write_stream()
            .format("parquet")
            .option("checkpointLocation", &checkpoint)
            .trigger(Trigger::AvailableNow)
            .start(format!("{folder}/out"))?,
    };
    query.await_termination(None)?;
    let seconds = started.elapsed().as_secs_f64();
    let rows = query.recent_progress().iter().filter_map(|it| it.rows_published()).sum();
    report(&Report { seconds, rows, ..Report::with_peak() })
}

fn make_rows(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    for file in 0..FILES {
        let each = ROWS / FILES;
        let ids = file * each..(file + 1) * each;
        let lines: String =
            ids.map(|id| format!("{{\"id\":{id},\"name\":\"name of {id}\"}}\n")).collect();
        let mut out = std::fs::OpenOptions::new()
            .create_new(true)
            .write(true)
            .open(folder.join(format!("{file}.json")))?;
        out.write_all(lines.as_bytes())?;
    }
    Ok(())
}

/// Starts a receiver that says yes; it ends with the process.
fn receiver() -> Result<String, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // An end of the connection is the end of its thread.
            std::thread::spawn(move || answer_all(stream).is_ok());
        }
    });
    Ok(url)
}

fn answer_all(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut body) = (String::new(), Vec::new());
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
    }
}
