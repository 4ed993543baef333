//! Whatever the batches, the order within the watermark's delay, the partitions and the restarts:
//! what a query with state gives is what plain loops over all rows give, and what it keeps is what
//! the last watermark lets it keep.
//!
//! `ONEFOLD_SEEDS=FROM..TO` tries others; a seed that fails goes into [`KEPT`].

mod queries;
mod rows;

use crate::world::{Host, Numbers, World};
use onefold_engine::{OutputMode, Trigger};
use queries::Case;
use rows::{Input, Random};
use std::sync::Arc;

/// Seeds that once failed.
const KEPT: &[u64] = &[];
/// Seeds of each query in each run.
const SEEDS: std::ops::Range<u64> = 0..8;

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

fn show(source: &Arc<Numbers>, rows: Vec<i64>, splits: &[usize]) {
    *source.rows.lock().unwrap() = rows;
    *source.splits.lock().unwrap() = splits.to_vec();
}

fn check(case: &Case) {
    let host = Host::new(true);
    let local = tempfile::tempdir().unwrap();
    let conf = |name: &str, value: &str| host.session().conf().set(name, value).unwrap();
    conf("spark.sql.streaming.stateStore.minDeltasForSnapshot", "3");
    let seeds = seeds();
    let mut rows = 0;
    for (number, seed) in seeds.iter().enumerate() {
        let mut random = Random::new(*seed, case.name);
        let input = Input::random(&mut random, case.wish);
        let world = host.world(0, 1_000);
        let other = World::another_source(0..0, 1_000);
        let rocks = cfg!(feature = "rocksdb") && number % 3 == 1;
        let provider = if rocks { "rocksdb" } else { "memory" };
        conf("spark.sql.streaming.stateStore.providerClass", provider);
        conf("onefold.state.localDir", local.path().join(&world.place).to_str().unwrap());
        let frame = (case.query)(&world, &other);
        let mut partitions = Vec::new();
        let mut kept = 0;
        for term in 0..input.terms.len() {
            let [left, right] = input.encoded(term);
            show(&world.source, left, &input.splits[0]);
            show(&other, right, &input.splits[1]);
            partitions.push(1 + random.below(6));
            let last = partitions.last().unwrap().to_string();
            conf("spark.sql.shuffle.partitions", &last);
            let writer = world.writer_of(&frame, Trigger::AvailableNow).output_mode(case.mode);
            let query = writer.start_default().unwrap();
            assert!(query.await_termination(None).unwrap());
            if let Some(progress) = query.last_progress() {
                kept = progress.state_operators.iter().map(|it| it.num_rows_total).sum();
            }
        }
        let batches = world.seen();
        let mut found = match case.mode {
            OutputMode::Complete => batches.last().cloned().unwrap_or_default(),
            _ => batches.concat(),
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
        if let Some(wanted) = case.kept {
            assert_eq!(kept, u64::try_from(wanted(&input)).unwrap(), "rows kept: {about}");
        }
        rows += wanted.len();
    }
    assert!(rows >= case.least * seeds.len(), "too little comes out to tell: {rows} rows");
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
    a_global_aggregate_in_complete_mode_is_that_of_one_batch: GLOBAL,
    all_aggregates_are_those_of_one_batch: AGGREGATES_APPEND,
    all_aggregates_in_complete_mode_are_those_of_one_batch: AGGREGATES_COMPLETE,
    filtered_aggregates_and_groups_are_those_of_one_batch: FILTERED,
    the_first_of_a_sorted_result_are_those_of_one_batch: SORTED,
    sessions_are_those_of_one_batch: SESSIONS,
    sessions_in_complete_mode_are_those_of_one_batch: SESSIONS_COMPLETE,
    sessions_of_rows_gaps_are_those_of_one_batch: GAPS,
    duplicates_for_ever_are_those_of_one_batch: DEDUP,
    duplicates_with_event_time_are_those_of_one_batch: DEDUP_TIMED,
    duplicates_within_the_watermark_are_those_of_one_batch: DEDUP_WITHIN,
    a_limit_is_of_all_batches_together: LIMIT,
    a_limit_below_an_aggregate_is_of_all_batches_together: LIMITED_COUNT,
    windows_of_a_union_are_those_of_one_batch: UNION,
    a_join_with_a_table_is_that_of_one_batch: TABLE,
    windows_of_a_left_join_with_a_table_are_those_of_one_batch: TABLE_WINDOWS,
    an_inner_join_is_that_of_one_batch: INNER,
    a_left_join_is_that_of_one_batch: LEFT,
    a_right_join_is_that_of_one_batch: RIGHT,
    a_full_join_is_that_of_one_batch: FULL,
    a_semi_join_is_that_of_one_batch: SEMI,
    a_join_within_an_open_range_is_that_of_one_batch: OPEN,
    an_inner_join_of_windows_is_that_of_one_batch: WINDOW_INNER,
    a_full_join_of_windows_is_that_of_one_batch: WINDOW_FULL,
    windows_of_windows_are_those_of_one_batch: WINDOWS_OF_WINDOWS,
    windows_of_distinct_rows_are_those_of_one_batch: DISTINCT_WINDOWS,
    windows_of_a_left_join_are_those_of_one_batch: JOINED_WINDOWS,
    windows_of_a_union_with_a_join_are_those_of_one_batch: UNITED_WINDOWS,
    a_join_of_aggregates_is_that_of_one_batch: JOINED_AGGREGATES,
    a_function_with_state_gives_what_it_gives_in_one_batch: OWN_FUNCTION,
    a_processor_with_timers_gives_what_it_gives_in_one_batch: OWN_PROCESSOR,
}
