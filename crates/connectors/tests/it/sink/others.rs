//! Console, memory and noop.

use super::rig::{Gate, Rig, query, rows, schema, stream};
use datafusion::prelude::SessionContext;
use onefold_connector::{
    Attempt, Options, OutputMode, Sink, SinkContext, SinkDefinition, SinkEffects, SinkRequest,
    SinkSpec,
};
use onefold_connectors::{console, memory, noop};
use onefold_types::{BatchId, Generation, OptionMap, RunId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

fn request(spec: &'static SinkSpec, given: OptionMap, mode: OutputMode) -> SinkRequest {
    SinkRequest {
        options: Options::check(spec.name, spec.options, given).unwrap(),
        path: None,
        partition_by: Vec::new(),
        query_name: Some("counts".to_owned()),
        output_mode: mode,
    }
}

fn context(last_commit: Option<u64>) -> SinkContext {
    SinkContext {
        query: query(),
        run: RunId(query().0),
        generation: Generation(1),
        last_commit: last_commit.map(BatchId),
        last_intent: last_commit.map(BatchId),
        follows: false,
        schema: schema(),
        clock: Rig::local(std::path::Path::new("/nowhere")).clock,
        effects: SinkEffects::forgotten(query()),
        conf: BTreeMap::new(),
    }
}

async fn run(sink: &dyn Sink, batch: u64, ids: &[i64]) {
    let attempt = Attempt { query: query(), batch: BatchId(batch), generation: Generation(1) };
    let output = sink.stage(&attempt, 0, stream(vec![rows(ids)])).await.unwrap();
    let published = sink.publish(&attempt, vec![output], &Gate::default()).await.unwrap();
    sink.settle(&published).await.unwrap();
}

#[tokio::test]
async fn the_console_prints_a_batch_as_spark_does() {
    let given = OptionMap::new().with("numRows", "2").with("truncate", "5");
    let out = Arc::new(Mutex::new(Vec::<u8>::new()));
    let request = request(&console::SPEC, given, OutputMode::Append);
    let definition = console::define_over(&request, out.clone()).unwrap();
    assert!(!definition.delivery().exactly_once());
    let sink = definition.open(context(None)).await.unwrap();
    run(&*sink, 0, &[1, 20, 3]).await;
    run(&*sink, 1, &[]).await;
    let text = String::from_utf8(out.lock().unwrap().clone()).unwrap();
    let line = "-".repeat(43);
    let first = format!(
        "{line}\nBatch: 0\n{line}\n+---+-----+\n| id|    k|\n+---+-----+\n|  1|k 1/x|\n| 20|k 2/x|\n\
         +---+-----+\nonly showing top 2 rows\n\n"
    );
    let second =
        format!("{line}\nBatch: 1\n{line}\n+---+---+\n| id|  k|\n+---+---+\n+---+---+\n\n");
    assert_eq!(text, format!("{first}{second}"));
}

#[tokio::test]
async fn the_memory_table_sees_each_new_batch() {
    for (mode, expected) in [(OutputMode::Append, [2, 3]), (OutputMode::Complete, [2, 1])] {
        let request = request(&memory::SPEC, OptionMap::new(), mode);
        let definition: Arc<dyn SinkDefinition> = (memory::SPEC.define)(request).unwrap();
        let sink = definition.open(context(None)).await.unwrap();
        let session = SessionContext::new();
        session.register_table("counts", definition.table().unwrap()).unwrap();
        for (batch, ids) in [(0, vec![1, 2]), (1, vec![3])] {
            run(&*sink, batch, &ids).await;
            let rows = session.sql("SELECT * FROM counts").await.unwrap().count().await.unwrap();
            assert_eq!(rows, expected[usize::try_from(batch).unwrap()], "{mode:?}");
        }
        let restarted = definition.open(context(Some(1))).await;
        assert!(restarted.is_ok(), "the process still holds the rows");
    }
}

#[tokio::test]
async fn only_a_complete_memory_table_restarts_from_a_checkpoint() {
    for (mode, allowed) in [(OutputMode::Append, false), (OutputMode::Complete, true)] {
        let request = request(&memory::SPEC, OptionMap::new(), mode);
        let definition = (memory::SPEC.define)(request).unwrap();
        assert_eq!(definition.open(context(Some(4))).await.is_ok(), allowed, "{mode:?}");
    }
}

#[tokio::test]
async fn noop_counts_and_drops() {
    let definition =
        (noop::SPEC.define)(request(&noop::SPEC, OptionMap::new(), OutputMode::Update)).unwrap();
    let sink = definition.open(context(None)).await.unwrap();
    run(&*sink, 0, &[1, 2]).await;
    assert_eq!(sink.last_mark().await.unwrap(), None);
}
