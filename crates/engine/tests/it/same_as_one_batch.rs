//! Whatever the batches, the order within the watermark's delay, the partitions and the restarts:
//! what a query with state gives is what plain loops over all rows give.
//!
//! `ONEFOLD_SEEDS=FROM..TO` tries others; a seed that fails goes into [`KEPT`].

mod queries;
mod rows;

use crate::world::{Host, Numbers, World};
use onefold_engine::Trigger;
use queries::{Case, Whole};
use rows::{Input, Random};
use std::sync::Arc;

/// Seeds that once failed.
const KEPT: &[u64] = &[];
/// Seeds of each query in each run.
const SEEDS: std::ops::Range<u64> = 0..9;

fn seeds() -> Vec<u64> {
    let range = match std::env::var("ONEFOLD_SEEDS") {
        Ok(text) => {
            let (from, to) = text.split_once("..").unwrap();
            from.parse().unwrap()..to.parse().unwrap()
        }
        Err(_) => SEEDS,
    };
    KEPT.iter().copied().chain(range).collect()
}

/// Rows that a source has in one term, and where its batches end.
struct Shown {
    rows: Vec<i64>,
    splits: Vec<usize>,
}

/// The terms in which a source shows its rows, the last one with the row that closes all.
fn shown(random: &mut Random, rows: &[i64], closing: i64, terms: usize) -> Vec<Shown> {
    let mut ends: Vec<usize> = (1..terms).map(|_| random.below(rows.len() + 1)).collect();
    ends.sort_unstable();
    ends.push(rows.len());
    let mut splits: Vec<usize> =
        (0..random.below(12)).map(|_| random.below(rows.len() + 1)).collect();
    splits.extend(&ends);
    splits.sort_unstable();
    let terms = ends.iter().enumerate();
    terms
        .map(|(term, end)| {
            let mut rows = rows[..*end].to_vec();
            if term + 1 == ends.len() {
                rows.push(closing);
            }
            Shown { rows, splits: splits.clone() }
        })
        .collect()
}

fn show(source: &Arc<Numbers>, shown: &Shown) {
    *source.rows.lock().unwrap() = shown.rows.clone();
    *source.splits.lock().unwrap() = shown.splits.clone();
}

fn check(case: &Case) {
    let host = Host::new(true);
    let local = tempfile::tempdir().unwrap();
    let conf = |name: &str, value: &str| host.session().conf().set(name, value).unwrap();
    conf("spark.sql.streaming.stateStore.minDeltasForSnapshot", "3");
    let seeds = seeds();
    let mut rows = 0;
    for seed in seeds.iter().copied() {
        let mut random = Random::new(seed, case.name);
        let input = Input::random(&mut random);
        let (left, right) = input.encoded();
        let [close_left, close_right] = input.closing();
        let terms = 1 + random.below(3);
        let left = shown(&mut random, &left, close_left, terms);
        let right = shown(&mut random, &right, close_right, terms);
        let world = host.world(0, 1_000);
        let other = World::another_source(0..0, 1_000);
        let rocks = cfg!(feature = "rocksdb") && random.below(3) == 0;
        let provider = if rocks { "rocksdb" } else { "memory" };
        conf("spark.sql.streaming.stateStore.providerClass", provider);
        conf("onefold.state.localDir", local.path().join(&world.place).to_str().unwrap());
        let frame = (case.query)(&world, &other);
        let mut partitions = Vec::new();
        for (left, right) in left.iter().zip(&right) {
            show(&world.source, left);
            show(&other, right);
            partitions.push(1 + random.below(6));
            let last = partitions.last().unwrap().to_string();
            conf("spark.sql.shuffle.partitions", &last);
            let writer = world.writer_of(&frame, Trigger::AvailableNow).output_mode(case.mode);
            let query = writer.start_default().unwrap();
            assert!(query.await_termination(None).unwrap());
        }
        let batches = world.seen();
        let mut found = match case.whole {
            Whole::AllBatches => batches.concat(),
            Whole::LastBatch => batches.last().cloned().unwrap_or_default(),
        };
        found.sort_unstable();
        let mut wanted = (case.wanted)(&input);
        wanted.sort_unstable();
        let about = format!(
            "{} with seed {seed}: {provider}, partitions {partitions:?}, {} batches, {input:?}",
            case.name,
            batches.len()
        );
        assert_eq!(found, wanted, "{about}");
        rows += wanted.len();
    }
    assert!(rows > 4 * seeds.len(), "too little comes out to tell: {rows} rows");
}

macro_rules! tests {
    ($($name:ident: $case:ident,)*) => {$(
        #[test]
        fn $name() {
            check(&queries::$case);
        }
    )*};
}

tests! {
    tumbling_windows_are_those_of_one_batch: TUMBLING,
    sliding_windows_are_those_of_one_batch: SLIDING,
    windows_in_complete_mode_are_those_of_one_batch: COMPLETE,
    groups_for_ever_in_complete_mode_are_those_of_one_batch: FOREVER,
    sessions_are_those_of_one_batch: SESSIONS,
    duplicates_for_ever_are_those_of_one_batch: DEDUP,
    duplicates_with_event_time_are_those_of_one_batch: DEDUP_TIMED,
    duplicates_within_the_watermark_are_those_of_one_batch: DEDUP_WITHIN,
    an_inner_join_is_that_of_one_batch: INNER,
    a_left_join_is_that_of_one_batch: LEFT,
    a_right_join_is_that_of_one_batch: RIGHT,
    a_full_join_is_that_of_one_batch: FULL,
    a_semi_join_is_that_of_one_batch: SEMI,
    windows_of_windows_are_those_of_one_batch: WINDOWS_OF_WINDOWS,
    windows_of_distinct_rows_are_those_of_one_batch: DISTINCT_WINDOWS,
    windows_of_a_left_join_are_those_of_one_batch: JOINED_WINDOWS,
}
