//! Whatever arrives when, under whatever limit, with restarts anywhere: each file is read once.

use super::rig::{Rig, ids, propose, rows};
use onefold_connectors::file_source;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Debug, Clone)]
enum Step {
    /// Files arrive, each with the second of its time and a part of its name.
    Arrive(Vec<(u64, u8)>),
    /// A whole batch.
    Batch,
    /// The process dies after the source made its proposal and before the intent.
    DieBeforeIntent,
    /// The process dies after the intent; the batch is run again.
    DieAfterIntent,
    /// The power fails.
    Cut,
    /// An available-now run.
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    let file = (0_u64..40, any::<u8>());
    prop_oneof![
        4 => prop::collection::vec(file, 1..6).prop_map(Step::Arrive),
        4 => Just(Step::Batch),
        1 => Just(Step::DieBeforeIntent),
        1 => Just(Step::DieAfterIntent),
        1 => Just(Step::Cut),
        1 => Just(Step::Drain),
    ]
}

fn limit() -> impl Strategy<Value = Option<(&'static str, u64)>> {
    prop_oneof![
        Just(None),
        (1_u64..5).prop_map(|files| Some(("maxFilesPerTrigger", files))),
        (1_u64..60).prop_map(|bytes| Some(("maxBytesPerTrigger", bytes))),
    ]
}

/// What a query saw: the order in which it read, and the files in the order of time and name.
#[derive(Default)]
struct Seen {
    read: Vec<i64>,
    files: BTreeSet<(u64, String, i64)>,
}

impl Seen {
    fn arrive(&mut self, rig: &Rig, files: &[(u64, u8)]) {
        for (second, letter) in files {
            let id = self.files.len() as i64;
            let name = format!("{letter:02x} {id}.json");
            rig.row(&name, id, 1_000 + second);
            self.files.insert((*second, name, id));
        }
    }

    /// A batch holds its files in the order of time and name.
    fn take(&mut self, batch: Vec<i64>) {
        let place = |id: &i64| self.files.iter().position(|(_, _, known)| known == id).unwrap();
        let places: Vec<usize> = batch.iter().map(place).collect();
        assert!(places.is_sorted(), "{batch:?} of {:?}", self.files);
        self.read.extend(batch);
    }
}

async fn run(limit: Option<(&str, u64)>, cached: &str, steps: Vec<Step>) -> Seen {
    let mut rig = Rig::new(&file_source::JSON)
        .with("maxCachedFiles", cached)
        .conf("spark.sql.streaming.fileSource.log.compactInterval", "3")
        .conf("spark.sql.streaming.minBatchesToRetain", "4");
    if let Some((name, value)) = limit {
        rig = rig.with(name, &value.to_string());
    }
    let mut seen = Seen::default();
    let mut source = rig.open().await.unwrap();
    for step in steps {
        match step {
            Step::Arrive(files) => seen.arrive(&rig, &files),
            Step::Batch => {
                seen.take(rig.batch(source.as_ref()).await.unwrap().unwrap_or_default());
                rig.purge(source.as_ref(), 4).await.unwrap();
            }
            Step::DieBeforeIntent => {
                let start = rig.intents.last().and_then(|(_, range)| range.end.clone());
                propose(source.as_ref(), start).await.unwrap();
                source = rig.open().await.unwrap();
            }
            Step::DieAfterIntent => {
                let planned = rig.plan(source.as_ref()).await.unwrap();
                source = rig.open().await.unwrap();
                if let Some(range) = planned {
                    let batch = ids(&rows(source.as_ref(), &range, &[0]).await.unwrap());
                    // Once more gives the same rows in the same order.
                    let again = ids(&rows(source.as_ref(), &range, &[0]).await.unwrap());
                    assert_eq!(batch, again);
                    source.release(&range).await.unwrap();
                    seen.take(batch);
                }
            }
            Step::Cut => {
                drop(source);
                rig.memory.cut_power();
                source = rig.open().await.unwrap();
            }
            Step::Drain => {
                source.pin_available().await.unwrap();
                while let Some(batch) = rig.batch(source.as_ref()).await.unwrap() {
                    seen.take(batch);
                }
                source = rig.open().await.unwrap();
            }
        }
    }
    while let Some(batch) = rig.batch(source.as_ref()).await.unwrap() {
        seen.take(batch);
    }
    seen
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn each_file_is_read_exactly_once(
        limit in limit(),
        cached in prop_oneof![Just("0"), Just("2"), Just("10000")],
        steps in prop::collection::vec(step(), 1..14),
    ) {
        let seen = block_on(run(limit, cached, steps));
        let mut read = seen.read.clone();
        read.sort_unstable();
        prop_assert_eq!(read, (0..seen.files.len() as i64).collect::<Vec<_>>());
    }

    #[test]
    fn limits_and_restarts_do_not_change_the_order(
        files in prop::collection::vec((0_u64..10, any::<u8>()), 1..12),
        limit in limit(),
        steps in prop::collection::vec(step(), 0..8),
    ) {
        let later = steps.into_iter().filter(|step| !matches!(step, Step::Arrive(_)));
        let steps = std::iter::once(Step::Arrive(files)).chain(later).collect();
        let seen = block_on(run(limit, "2", steps));
        let order: Vec<i64> = seen.files.iter().map(|(_, _, id)| *id).collect();
        prop_assert_eq!(seen.read, order);
    }
}
