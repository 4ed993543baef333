//! `socket`: lines of text from a TCP server, for tests only: what was read once is not there again.

use arrow::array::{
    ArrayRef, RecordBatch, RecordBatchOptions, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{
    Clock, LatestOffset, OptionKind, OptionSpec, ReadLimit, ScanRequest, Source, SourceContext,
    SourceDefinition, SourceRequest, SourceSpec,
};
use onefold_types::{Error, Offset, OffsetRange, Replay, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

static OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("host", OptionKind::Text, "the server's name; required"),
    OptionSpec::new("port", OptionKind::Count { min: 1, max: 65_535 }, "its port; required"),
    OptionSpec::new("includeTimestamp", OptionKind::Bool, "add when a line came").default("false"),
];

/// Lines from a TCP server.
pub static SPEC: SourceSpec = SourceSpec {
    name: "socket",
    summary: "Reads lines from a TCP server; for tests only, since lines cannot be read again.",
    options: &[OPTIONS],
    define: |request| Box::pin(async { define(request) }),
};

#[derive(Debug, Clone)]
struct Definition {
    host: String,
    port: u16,
    schema: SchemaRef,
}

fn define(request: SourceRequest) -> Result<Arc<dyn SourceDefinition>> {
    let options = &request.options;
    let host = options.text("host");
    let port = options.count("port").and_then(|port| u16::try_from(port).ok());
    let (Some(host), Some(port)) = (host, port) else {
        return Err(Error::invalid("the socket source needs the options host and port"));
    };
    let mut fields = vec![Field::new("value", DataType::Utf8, true)];
    if options.flag("includeTimestamp") {
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        fields.push(Field::new("timestamp", time, true));
    }
    Ok(Arc::new(Definition { host: host.to_owned(), port, schema: Arc::new(Schema::new(fields)) }))
}

#[async_trait]
impl SourceDefinition for Definition {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn replay(&self) -> Replay {
        Replay::None { why: "a socket gives a line once; use it for tests only".to_owned() }
    }

    fn description(&self) -> String {
        format!("TextSocketV2[host: {}, port: {}]", self.host, self.port)
    }

    async fn open(&self, context: SourceContext) -> Result<Arc<dyn Source>> {
        let refused = |error| {
            Error::unavailable(format!("{}:{} takes no connection", self.host, self.port))
                .because(error)
        };
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(refused)?;
        // Lines of an earlier run are gone; numbers go on after them.
        let last = context.history.last().and_then(|(_, range)| range.end.as_ref());
        let first = next_after(last)?;
        let lines = Arc::new(Mutex::new(Lines { first, held: VecDeque::new() }));
        let reader = tokio::spawn(receive(stream, Arc::clone(&lines), context.clock));
        Ok(Arc::new(Socket { schema: Arc::clone(&self.schema), lines, reader }))
    }
}

/// Lines that are not released yet: the first one's number, then text and time.
#[derive(Debug)]
struct Lines {
    first: i64,
    held: VecDeque<(String, i64)>,
}

#[derive(Debug)]
struct Socket {
    schema: SchemaRef,
    lines: Arc<Mutex<Lines>>,
    reader: JoinHandle<()>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn receive(stream: TcpStream, lines: Arc<Mutex<Lines>>, clock: Arc<dyn Clock>) {
    let mut input = BufReader::new(stream).lines();
    loop {
        match input.next_line().await {
            Ok(Some(line)) => {
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                lines.held.push_back((line, clock.now_ms()));
            }
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "the socket source's connection is lost");
                return;
            }
        }
    }
}

/// The number of the line after an offset (the number of the last line read, -1 at first).
fn next_after(offset: Option<&Offset>) -> Result<i64> {
    let Some(offset) = offset else { return Ok(0) };
    offset
        .json()
        .trim()
        .parse::<i64>()
        .map(|last| last + 1)
        .map_err(|_| Error::corrupt(format!("`{offset}` is not an offset of a socket source")))
}

#[async_trait]
impl Source for Socket {
    async fn pin_available(&self) -> Result<()> {
        Ok(())
    }

    async fn latest_offset(&self, _: Option<&Offset>, _: ReadLimit) -> Result<LatestOffset> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let count = i64::try_from(lines.held.len()).unwrap_or(i64::MAX);
        let end = Offset::new((lines.first.saturating_add(count) - 1).to_string());
        Ok(LatestOffset { end: Some(end.clone()), latest: Some(end), note: None })
    }

    async fn read(
        &self,
        range: &OffsetRange,
        scan: ScanRequest<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (start, end) = (next_after(range.start.as_ref())?, next_after(range.end.as_ref())?);
        let (texts, times): (Vec<String>, Vec<i64>) = {
            let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            if start < lines.first && start < end {
                return Err(Error::corrupt(
                    "lines of a socket cannot be read again; start anew with another checkpoint",
                ));
            }
            let skip = usize::try_from(start - lines.first).unwrap_or(0);
            let count = usize::try_from(end - start).unwrap_or(0);
            lines.held.iter().skip(skip).take(count).cloned().unzip()
        };
        let rows = texts.len();
        let micros: Vec<i64> = times.iter().map(|ms| ms.saturating_mul(1_000)).collect();
        let mut columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(texts))];
        if self.schema.fields().len() > 1 {
            columns.push(Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("UTC")));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)
            .map_err(|error| Error::internal("lines do not fit the schema").because(error))?;
        MemorySourceConfig::try_new_exec(&[vec![batch]], schema, scan.projection.cloned())
            .map(|plan| plan as Arc<dyn ExecutionPlan>)
            .map_err(|error| Error::internal("the socket plan could not be made").because(error))
    }

    async fn release(&self, range: &OffsetRange) -> Result<()> {
        let end = next_after(range.end.as_ref())?;
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        while lines.first < end && lines.held.pop_front().is_some() {
            lines.first += 1;
        }
        Ok(())
    }
}
