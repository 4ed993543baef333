//! Sources that make their rows: `rate`, `rate-micro-batch`, `socket`.

use super::rig::{ids, propose, rows, texts};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use onefold_connector::{
    Options, Source, SourceContext, SourceDefinition, SourceRequest, SourceSpec,
};
use onefold_connectors::{rate, socket};
use onefold_storage::Store;
use onefold_testkit::{ManualClock, MemoryStore};
use onefold_types::{BatchId, ErrorKind, Offset, OffsetRange, OptionMap, Replay, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Made {
    spec: &'static SourceSpec,
    options: OptionMap,
    disk: MemoryStore,
    clock: Arc<ManualClock>,
    history: Vec<(BatchId, OffsetRange)>,
}

impl Made {
    fn new(spec: &'static SourceSpec, options: &[(&str, &str)]) -> Made {
        let given = options.iter().fold(OptionMap::new(), |map, (name, value)| {
            map.with(name.to_owned(), value.to_owned())
        });
        let clock = Arc::new(ManualClock::new(50_000));
        Made { spec, options: given, disk: MemoryStore::default(), clock, history: Vec::new() }
    }

    async fn define(&self) -> Result<Arc<dyn SourceDefinition>> {
        let options = Options::check(self.spec.name, self.spec.options, self.options.clone())?;
        (self.spec.define)(SourceRequest {
            options,
            schema: None,
            paths: Vec::new(),
            conf: BTreeMap::new(),
            whole: false,
        })
        .await
    }

    async fn open(&self) -> Result<Arc<dyn Source>> {
        let context = SourceContext {
            query: "6fa0ab59-0d2c-4b1e-9d5c-1f2d3c4b5a69".parse().unwrap(),
            checkpoint: Arc::new(self.disk.clone()),
            log_folder: "sources/0".to_owned(),
            history: self.history.clone(),
            clock: Arc::<ManualClock>::clone(&self.clock),
            conf: BTreeMap::new(),
        };
        self.define().await?.open(context).await
    }

    /// Plans a batch, reads it, and reads it again: the same rows.
    async fn batch(&mut self, source: &dyn Source, columns: &[usize]) -> Result<Vec<RecordBatch>> {
        let start = self.history.last().and_then(|(_, range)| range.end.clone());
        let range = propose(source, start).await?;
        let read = rows(source, &range, columns).await?;
        let again = rows(source, &range, columns).await?;
        assert_eq!(read, again);
        self.history.push((BatchId(self.history.len() as u64), range));
        Ok(read)
    }
}

fn micros(batches: &[RecordBatch], column: usize) -> Vec<i64> {
    let of = |batch: &RecordBatch| {
        batch.column(column).as_primitive::<TimestampMicrosecondType>().values().to_vec()
    };
    batches.iter().flat_map(of).collect()
}

#[tokio::test]
async fn rate_gives_each_value_once_through_restarts() {
    let mut made = Made::new(&rate::RATE, &[("rowsPerSecond", "3"), ("numPartitions", "2")]);
    let mut values = Vec::new();
    let mut times = Vec::new();
    for step in [0, 1_500, 0, 2_700, -2_000, 9_000] {
        made.clock.advance(step);
        let source = made.open().await.unwrap();
        let batches = made.batch(source.as_ref(), &[1, 0]).await.unwrap();
        values.extend(ids(&batches));
        times.extend(micros(&batches, 1));
    }
    let mut sorted = values.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..33).collect::<Vec<_>>());
    times.sort_unstable();
    assert_eq!((times[0], times[1], times[3]), (50_000_000, 50_333_000, 51_000_000));
    assert_eq!(made.disk.read("sources/0/0").await.unwrap().unwrap(), "v1\n50000");
    made.disk.delete("sources/0/0").await.unwrap();
    made.disk
        .create("sources/0/0", "v1\nx".into(), onefold_storage::Durability::Now)
        .await
        .unwrap();
    assert_eq!(made.open().await.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn an_available_now_run_of_rate_ends() {
    let mut made = Made::new(&rate::RATE, &[("rowsPerSecond", "2")]);
    made.open().await.unwrap();
    made.clock.advance(3_000);
    let source = made.open().await.unwrap();
    source.pin_available().await.unwrap();
    assert_eq!(ids(&made.batch(source.as_ref(), &[1]).await.unwrap()).len(), 6);
    made.clock.advance(5_000);
    let start = made.history.last().unwrap().1.end.clone();
    assert!(propose(source.as_ref(), start).await.unwrap().empty());

    let mut made = Made::new(&rate::RATE_MICRO_BATCH, &[("rowsPerBatch", "4")]);
    let source = made.open().await.unwrap();
    source.pin_available().await.unwrap();
    assert_eq!(ids(&made.batch(source.as_ref(), &[1]).await.unwrap()), [0, 1, 2, 3]);
    let start = made.history.last().unwrap().1.end.clone();
    assert!(propose(source.as_ref(), start).await.unwrap().empty());
}

#[tokio::test]
async fn rate_micro_batch_gives_as_many_rows_each_time() {
    let options = [
        ("rowsPerBatch", "5"),
        ("numPartitions", "2"),
        ("startTimestamp", "1000"),
        ("advanceMillisPerBatch", "50"),
    ];
    let mut made = Made::new(&rate::RATE_MICRO_BATCH, &options);
    let mut values = Vec::new();
    for batch in 0..3 {
        let source = made.open().await.unwrap();
        let batches = made.batch(source.as_ref(), &[1, 0]).await.unwrap();
        assert_eq!(micros(&batches, 1), [1_000_000 + batch * 50_000; 5]);
        values.extend(ids(&batches));
    }
    values.sort_unstable();
    assert_eq!(values, (0..15).collect::<Vec<_>>());
    let last = made.history.last().unwrap().1.end.clone().unwrap();
    assert_eq!(last.json(), "{\"offset\":15,\"timestamp\":1150}");
    let error = Made::new(&rate::RATE_MICRO_BATCH, &[]).define().await.unwrap_err();
    assert!(error.to_string().contains("rowsPerBatch"), "{error}");
}

#[tokio::test]
async fn an_offset_of_another_source_is_refused() {
    for (spec, options) in
        [(&rate::RATE, &[][..]), (&rate::RATE_MICRO_BATCH, &[("rowsPerBatch", "1")][..])]
    {
        let source = Made::new(spec, options).open().await.unwrap();
        let foreign = Some(Offset::new("{\"logOffset\":3}"));
        let error = propose(source.as_ref(), foreign).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{}", spec.name);
    }
}

/// Waits until the source has seen this many lines.
async fn lines(source: &dyn Source, count: i64) -> OffsetRange {
    loop {
        let range = propose(source, None).await.unwrap();
        if range.end.as_ref().is_some_and(|end| end.json() == (count - 1).to_string()) {
            return range;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn socket_gives_lines_once_and_says_that_it_is_for_tests() {
    use tokio::io::AsyncWriteExt as _;
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let options = [("host", "127.0.0.1"), ("port", &port), ("includeTimestamp", "true")];
    let mut made = Made::new(&socket::SPEC, &options);
    assert!(matches!(made.define().await.unwrap().replay(), Replay::None { .. }));
    let source = made.open().await.unwrap();
    let (mut peer, _) = server.accept().await.unwrap();
    assert!(propose(source.as_ref(), Some(Offset::new("-1"))).await.unwrap().empty());
    peer.write_all("a\nb é\r\n".as_bytes()).await.unwrap();
    let range = lines(source.as_ref(), 2).await;
    let batches = rows(source.as_ref(), &range, &[0, 1]).await.unwrap();
    assert_eq!(texts(&batches, 0), [Some("a".to_owned()), Some("b é".to_owned())]);
    assert_eq!(micros(&batches, 1), [50_000_000; 2]);
    source.release(&range).await.unwrap();
    let error = rows(source.as_ref(), &range, &[0]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    // A restart goes on after the last line; the batch that was cut off cannot be read again.
    made.history.push((BatchId(0), range.clone()));
    let source = made.open().await.unwrap();
    assert_eq!(rows(source.as_ref(), &range, &[0]).await.unwrap_err().kind(), ErrorKind::Corrupt);
    let (mut peer, _) = server.accept().await.unwrap();
    peer.write_all(b"c\n").await.unwrap();
    let end = lines(source.as_ref(), 3).await.end;
    let range = OffsetRange { start: range.end, end, note: None };
    assert_eq!(
        texts(&rows(source.as_ref(), &range, &[0]).await.unwrap(), 0),
        [Some("c".to_owned())]
    );
}

#[tokio::test]
async fn a_socket_that_nobody_serves_is_named() {
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    drop(server);
    let made = Made::new(&socket::SPEC, &[("host", "127.0.0.1"), ("port", &port)]);
    let error = made.open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains(&port), "{error}");
    let error = Made::new(&socket::SPEC, &[("host", "x")]).define().await.unwrap_err();
    assert!(error.to_string().contains("port"), "{error}");
}
