//! The effects log over a store in memory, and over one that fails.

use super::*;
use onefold_connector::CallContent;
use onefold_testkit::{Fault, FaultPlan, MemoryStore};
use onefold_types::{ErrorKind, Totals};
use serde_json::json;

/// A fence that tests close.
#[derive(Debug, Default)]
struct Gate(AtomicBool);

#[async_trait]
impl Fence for Gate {
    async fn check(&self) -> Result<()> {
        match self.0.load(Ordering::SeqCst) {
            true => Err(Error::fenced("a newer driver runs this query")),
            false => Ok(()),
        }
    }
}

fn query() -> QueryId {
    "6fa0ab59-0d2c-4b1e-9d5c-1f2d3c4b5a69".parse().unwrap()
}

fn driver(store: &Arc<dyn Store>, generation: u64) -> Arc<Effects> {
    Effects::new(Arc::clone(store), Arc::<Gate>::default(), query(), Generation(generation))
}

fn memory() -> (MemoryStore, Arc<dyn Store>) {
    let memory = MemoryStore::default();
    (memory.clone(), Arc::new(memory))
}

fn reply(body: &str) -> Reply {
    Reply { status: 200, headers: BTreeMap::new(), body: body.to_owned(), at_ms: 1 }
}

fn content(nth: usize) -> CallContent {
    CallContent::of(&[b"call", &nth.to_be_bytes()])
}

/// Makes `calls` calls of a batch: those whose replies are not known are answered by who runs it.
async fn run(effects: &Effects, batch: u64, calls: usize, by: &str) -> Result<Vec<String>> {
    let log = effects.batch(BatchId(batch)).await?;
    let mut bodies = Vec::new();
    for nth in 0..calls {
        let key = log.next_key(content(nth));
        let known = log.recorded(key);
        if known.is_none() {
            log.record(key, reply(by)).await?;
        }
        bodies.push(known.map_or_else(|| by.to_owned(), |reply| reply.body));
    }
    log.flush().await?;
    Ok(bodies)
}

fn published(batch: u64, generation: u64) -> Published {
    let mark = Mark {
        query: Some(query()),
        batch: BatchId(batch),
        generation: Some(Generation(generation)),
    };
    Published { mark, totals: Some(Totals::default()) }
}

#[tokio::test]
async fn a_successor_hears_what_its_predecessors_heard_and_no_other_batch_does() {
    let (_, store) = memory();
    let first = driver(&store, 1);
    first.begin(BatchId(0), false);
    assert_eq!(run(&first, 0, 3, "first").await.unwrap(), ["first"; 3]);
    let second = driver(&store, 2);
    second.begin(BatchId(0), true);
    assert_eq!(run(&second, 0, 5, "second").await.unwrap()[2..], ["first", "second", "second"]);
    let third = driver(&store, 3);
    third.begin(BatchId(0), true);
    let all = run(&third, 0, 6, "third").await.unwrap();
    assert_eq!(all[2..], ["first", "second", "second", "third"]);
    third.begin(BatchId(1), false);
    assert_eq!(run(&third, 1, 1, "third").await.unwrap(), ["third"]);
}

#[tokio::test]
async fn replies_share_a_file_and_are_durable_after_a_flush() {
    let (memory, store) = memory();
    let effects = driver(&store, 1);
    effects.begin(BatchId(0), false);
    run(&effects, 0, 300, "ok").await.unwrap();
    assert_eq!(memory.paths(), ["_onefold/effects/0-1-0"]);
    memory.cut_power();
    let again = driver(&store, 2);
    again.begin(BatchId(0), true);
    assert_eq!(run(&again, 0, 300, "lost").await.unwrap(), vec!["ok"; 300]);
}

#[tokio::test]
async fn many_replies_go_in_several_files_without_waiting_for_a_flush() {
    let (memory, store) = memory();
    let effects = driver(&store, 1);
    effects.begin(BatchId(0), false);
    let log = effects.batch(BatchId(0)).await.unwrap();
    for nth in 0..5_000 {
        log.record(log.next_key(content(nth)), reply("ok")).await.unwrap();
        // On one thread, this is where others get to work.
        tokio::task::yield_now().await;
    }
    assert!(memory.paths().len() >= 8, "{:?}", memory.paths());
    log.flush().await.unwrap();
    let again = driver(&store, 2);
    again.begin(BatchId(0), true);
    assert_eq!(run(&again, 0, 5_000, "lost").await.unwrap(), vec!["ok"; 5_000]);
}

#[tokio::test]
async fn what_was_heard_is_written_though_nobody_waits_for_it() {
    let (memory, store) = memory();
    let effects = driver(&store, 1);
    effects.begin(BatchId(0), false);
    let log = effects.batch(BatchId(0)).await.unwrap();
    log.record(log.next_key(content(0)), reply("ok")).await.unwrap();
    drop(log);
    effects.flush().await.unwrap();
    assert_eq!(memory.paths(), ["_onefold/effects/0-1-0"]);
}

#[tokio::test]
async fn after_any_fault_a_reply_is_either_there_or_its_driver_was_told() {
    for fault in Fault::ALL {
        for act in 1..=3 {
            let (memory, store) = memory();
            let plan = FaultPlan::at(act, *fault);
            let failing = plan.wrap(Arc::clone(&store));
            let effects = driver(&failing, 1);
            let mut heard = 0;
            for batch in 0..3 {
                effects.begin(BatchId(batch), false);
                if run(&effects, batch, 2, "ok").await.is_err() {
                    break;
                }
                heard = batch + 1;
            }
            memory.cut_power();
            let again = driver(&store, 2);
            for batch in 0..heard {
                again.begin(BatchId(batch), true);
                let bodies = run(&again, batch, 2, "lost").await.unwrap();
                assert_eq!(bodies, ["ok", "ok"], "{fault:?} at {act}, batch {batch}");
            }
        }
    }
}

#[tokio::test]
async fn a_fenced_driver_writes_what_it_heard_and_may_not_go_on() {
    let (memory, store) = memory();
    let gate = Arc::<Gate>::default();
    let effects = Effects::new(Arc::clone(&store), Arc::clone(&gate) as _, query(), Generation(1));
    effects.begin(BatchId(0), false);
    let log = effects.batch(BatchId(0)).await.unwrap();
    gate.0.store(true, Ordering::SeqCst);
    log.record(log.next_key(content(0)), reply("ok")).await.unwrap();
    assert_eq!(log.flush().await.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(memory.paths(), ["_onefold/effects/0-1-0"]);
    let key = log.next_key(content(1));
    assert_eq!(log.record(key, reply("ok")).await.unwrap_err().kind(), ErrorKind::Fenced);
    effects.begin(BatchId(1), false);
    assert_eq!(effects.batch(BatchId(1)).await.unwrap_err().kind(), ErrorKind::Fenced);
}

#[tokio::test]
async fn a_damaged_record_stops_and_names_its_file() {
    let (_, store) = memory();
    let bytes = Bytes::from_static(b"v1 00000000\n{}");
    store.create("_onefold/effects/0-1-0", bytes, Durability::Now).await.unwrap();
    let effects = driver(&store, 2);
    effects.begin(BatchId(0), true);
    let error = effects.batch(BatchId(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.chain().contains("_onefold/effects/0-1-0"), "{error:?}");
}

#[tokio::test]
async fn the_first_mark_of_a_batch_stays_and_the_newest_of_this_query_is_found() {
    let (_, store) = memory();
    let (first, second) = (driver(&store, 1), driver(&store, 2));
    assert_eq!(second.newest_mark().await.unwrap(), None);
    assert_eq!(first.publish(published(9, 1), vec![]).await.unwrap(), published(9, 1));
    assert_eq!(second.publish(published(9, 2), vec![]).await.unwrap(), published(9, 1));
    second.publish(published(10, 2), vec![json!({"row": 3})]).await.unwrap();
    assert_eq!(first.newest_mark().await.unwrap(), Some(published(10, 2)));
    let refused = store.read("_onefold/refused/10-2").await.unwrap().unwrap();
    assert_eq!(&refused[..], b"{\"row\":3}\n");
    let copy = Effects::to_look_at(Arc::clone(&store), QueryId(Default::default()));
    assert_eq!(copy.newest_mark().await.unwrap(), None, "marks of another query");
}

#[tokio::test]
async fn old_records_go_and_new_ones_stay() {
    let (memory, store) = memory();
    let effects = driver(&store, 1);
    for batch in 0..4 {
        effects.begin(BatchId(batch), false);
        run(&effects, batch, 1, "ok").await.unwrap();
        effects.publish(published(batch, 1), vec![]).await.unwrap();
    }
    effects.retain(BatchId(2)).await.unwrap();
    let left = ["2-1-0", "2-mark", "3-1-0", "3-mark"];
    assert_eq!(memory.paths(), left.map(|name| format!("_onefold/effects/{name}")));
    // A driver that never called lists nothing, until it finds at its start that another one did.
    let next = driver(&store, 2);
    next.retain(BatchId(3)).await.unwrap();
    assert_eq!(memory.paths().len(), 4);
    next.sweep(BatchId(3)).await.unwrap();
    next.retain(BatchId(4)).await.unwrap();
    assert!(memory.paths().is_empty());
}
