use super::*;
use crate::record::{IntentVersion, SinkOutput};
use crate::watermark::NodeWatermark;
use onefold_types::{ContentHash, Generation, Mark, Totals};
use std::collections::BTreeMap;
use uuid::Uuid;

const QUERY: QueryId = QueryId(Uuid::from_u128(1));

fn intent() -> Intent {
    Intent {
        version: IntentVersion::V1,
        batch_watermark_ms: 7,
        batch_timestamp_ms: 0,
        conf: BTreeMap::new(),
        sources: Vec::new(),
        notes: BTreeMap::new(),
        query: Some(QUERY),
        generation: Some(Generation(1)),
        nonce: None,
        source_metadata_info: None,
        control_batch_info: None,
    }
}

fn facts(intents: std::ops::Range<u64>, commits: std::ops::Range<u64>) -> Facts {
    let committed = !commits.is_empty();
    Facts {
        query: Some(QUERY),
        metadata_found: true,
        last_intent: (!intents.is_empty()).then(intent),
        intent_before: (intents.end > intents.start + 1).then(intent),
        intent_ids: intents.map(BatchId).collect(),
        commit_ids: commits.map(BatchId).collect(),
        last_commit: committed.then_some(Commit {
            version: 1,
            next_batch_watermark_ms: 9,
            state_unique_ids: None,
            generation: None,
            totals: None,
            watermarks: BTreeMap::new(),
            sinks: BTreeMap::new(),
        }),
        sink_keeps_marks: true,
        ..Facts::default()
    }
}

fn marked(mut facts: Facts, batch: u64) -> Facts {
    let mark = Mark { query: Some(QUERY), batch: BatchId(batch), generation: Some(Generation(3)) };
    let totals = Some(Totals { rows: 4, hash: ContentHash(5) });
    facts.mark = Some(Published { mark, totals });
    facts
}

#[test]
fn an_empty_checkpoint_plans_batch_zero_and_a_finished_one_the_next() {
    let empty = Facts { sink_keeps_marks: true, ..Facts::default() };
    assert_eq!(decide(&empty), Next::Plan { batch: BatchId(0) });
    let done = marked(facts(0..3, 0..3), 2);
    assert_eq!(decide(&done), Next::Plan { batch: BatchId(3) });
}

#[test]
fn an_intent_that_is_not_published_runs_again() {
    assert_eq!(decide(&facts(0..1, 0..0)), Next::RunAgain { batch: BatchId(0) });
    let second = marked(facts(0..3, 0..2), 1);
    assert_eq!(decide(&second), Next::RunAgain { batch: BatchId(2) });
}

#[test]
fn a_published_batch_is_committed_from_its_mark() {
    let Next::AdoptCommit { batch, commit, .. } = decide(&marked(facts(0..3, 0..2), 2)) else {
        panic!("should adopt")
    };
    assert_eq!(batch, BatchId(2));
    assert_eq!(commit.generation, Some(Generation(3)));
    assert_eq!(commit.totals.map(|totals| totals.rows), Some(4));
    assert_eq!(commit.next_batch_watermark_ms, 9);
}

#[test]
fn a_mark_that_spark_left_is_adopted_without_totals() {
    let mut found = marked(facts(0..4, 0..3), 3);
    let mark = Mark { query: None, batch: BatchId(3), generation: None };
    found.mark = Some(Published { mark, totals: None });
    assert!(matches!(decide(&found), Next::AdoptCommit { commit, .. } if commit.totals.is_none()));
}

#[test]
fn adopting_a_batch_with_state_needs_the_record_that_its_mark_names() {
    let mut found = marked(facts(0..3, 0..2), 2);
    found.needs_prepared = true;
    assert!(matches!(decide(&found), Next::Stop(StopReason::PreparedMissing { .. })));
    let mut prepared = Prepared {
        batch: BatchId(2),
        generation: Generation(2),
        next_batch_watermark_ms: 77,
        watermarks: [("0".to_owned(), NodeWatermark { ms: 78, since: 1 })].into(),
        totals: Totals::default(),
        sinks: BTreeMap::new(),
        state: serde_json::Value::Null,
    };
    found.prepared = Some(prepared.clone());
    assert!(matches!(decide(&found), Next::Stop(StopReason::PreparedMissing { .. })));
    prepared.generation = Generation(3);
    found.prepared = Some(prepared);
    assert!(matches!(
        decide(&found),
        Next::AdoptCommit { commit, .. }
            if commit.next_batch_watermark_ms == 77 && commit.watermarks["0"].ms == 78
    ));
}

fn prepared(batch: u64, state: u64) -> Prepared {
    Prepared {
        batch: BatchId(batch),
        generation: Generation(3),
        next_batch_watermark_ms: 0,
        watermarks: BTreeMap::new(),
        totals: Totals::default(),
        sinks: BTreeMap::new(),
        state: state.into(),
    }
}

#[test]
fn a_batch_starts_from_the_state_of_the_batch_before_and_an_adopted_one_has_its_own() {
    let mut found = marked(facts(0..3, 0..2), 1);
    found.state = StateFacts::Ours(Some(prepared(1, 11)));
    assert_eq!(decide(&found), Next::RunAgain { batch: BatchId(2) });
    assert_eq!(found.state_for(&decide(&found)), Some(&serde_json::json!(11)));

    let mut found = marked(facts(0..3, 0..2), 2);
    found.needs_prepared = true;
    found.prepared = Some(prepared(2, 22));
    found.state = StateFacts::Ours(Some(prepared(1, 11)));
    assert_eq!(found.state_for(&decide(&found)), Some(&serde_json::json!(22)));

    let mut found = marked(facts(0..3, 0..3), 2);
    found.state = StateFacts::Ours(Some(prepared(2, 22)));
    assert_eq!(decide(&found), Next::Plan { batch: BatchId(3) });
    assert_eq!(found.state_for(&decide(&found)), Some(&serde_json::json!(22)));

    let first = Facts { state: StateFacts::Ours(None), ..facts(0..1, 0..0) };
    assert_eq!(decide(&first), Next::RunAgain { batch: BatchId(0) });
    assert_eq!(first.state_for(&decide(&first)), None);
}

#[test]
fn a_query_whose_state_is_gone_or_sparks_does_not_start_with_an_empty_one() {
    let mut found = marked(facts(0..3, 0..3), 2);
    found.state = StateFacts::Ours(None);
    let missing = StopReason::StateMissing { batch: BatchId(2) };
    assert_eq!(decide(&found), Next::Stop(missing.clone()));
    found.state = StateFacts::Ours(Some(prepared(2, 0)));
    found.state_dropped = true;
    assert_eq!(decide(&found), Next::Plan { batch: BatchId(3) });
    found.state = StateFacts::Sparks;
    found.state_dropped = false;
    assert_eq!(decide(&found), Next::Stop(StopReason::SparksState { batch: BatchId(2) }));
    for reason in [missing, StopReason::SparksState { batch: BatchId(2) }] {
        assert!(reason.to_string().contains("checkpoint"), "{reason}");
    }
}

#[test]
fn a_sink_without_marks_gets_the_newest_intent_again() {
    let mut found = facts(0..3, 0..2);
    found.sink_keeps_marks = false;
    assert_eq!(decide(&found), Next::RunAgain { batch: BatchId(2) });
    let mut done = facts(0..3, 0..3);
    done.sink_keeps_marks = false;
    assert_eq!(decide(&done), Next::Plan { batch: BatchId(3) });
}

#[test]
fn what_does_not_fit_stops_with_its_reason() {
    let mut lost = facts(0..2, 0..2);
    lost.metadata_found = false;
    assert_eq!(decide(&lost), Next::Stop(StopReason::MetadataMissing));

    let mut holed = marked(facts(0..4, 0..4), 3);
    holed.intent_ids.remove(1);
    let hole = StopReason::Hole { folder: "offsets", batch: BatchId(1) };
    assert_eq!(decide(&holed), Next::Stop(hole));

    let behind = marked(facts(0..5, 0..2), 1);
    let hole = StopReason::Hole { folder: "commits", batch: BatchId(2) };
    assert_eq!(decide(&behind), Next::Stop(hole));

    let alone = marked(facts(4..5, 2..4), 3);
    let hole = StopReason::Hole { folder: "offsets", batch: BatchId(3) };
    assert_eq!(decide(&alone), Next::Stop(hole));

    assert!(matches!(
        decide(&marked(facts(0..2, 0..3), 1)),
        Next::Stop(StopReason::CommitWithoutIntent { .. })
    ));
    assert!(matches!(
        decide(&marked(facts(0..2, 0..2), 2)),
        Next::Stop(StopReason::SinkAhead { .. })
    ));
    assert!(matches!(decide(&facts(0..2, 0..2)), Next::Stop(StopReason::SinkBehind { .. })));
    let mut foreign = marked(facts(0..2, 0..2), 1);
    foreign.query = Some(QueryId(Uuid::from_u128(2)));
    assert!(matches!(decide(&foreign), Next::Stop(StopReason::ForeignMark { .. })));

    let mut control = marked(facts(0..2, 0..1), 0);
    if let Some(intent) = control.last_intent.as_mut() {
        intent.control_batch_info = Some("{}".into());
    }
    assert!(matches!(decide(&control), Next::Stop(StopReason::ControlBatch { .. })));
}

#[test]
fn ids_older_than_what_the_logs_keep_are_no_holes() {
    let mut found = marked(facts(3..9, 4..9), 8);
    found.intent_ids.insert(0, BatchId(0));
    found.commit_ids.insert(0, BatchId(0));
    let hole = StopReason::Hole { folder: "offsets", batch: BatchId(1) };
    assert_eq!(decide(&found), Next::Stop(hole));
    found.batches_retained = Some(4);
    assert_eq!(decide(&found), Next::Plan { batch: BatchId(9) });
    found.intent_ids.retain(|id| *id != BatchId(6));
    let hole = StopReason::Hole { folder: "offsets", batch: BatchId(6) };
    assert_eq!(decide(&found), Next::Stop(hole));
}

#[test]
fn every_reason_tells_what_to_do() {
    let mark = Mark { query: None, batch: BatchId(1), generation: None };
    for reason in [
        StopReason::MetadataMissing,
        StopReason::Hole { folder: "offsets", batch: BatchId(1) },
        StopReason::SinkAhead { mark, last_intent: None },
        StopReason::SinkBehind { mark: None, last_commit: BatchId(1) },
    ] {
        let text = reason.to_string();
        assert!(text.contains("onefold checkpoint") || text.contains("use the"), "{text}");
    }
}

fn mark_of(batch: u64, generation: u64) -> Published {
    let generation = Some(Generation(generation));
    let mark = Mark { query: Some(QUERY), batch: BatchId(batch), generation };
    Published { mark, totals: None }
}

/// Batch 2 is decided by generation 3, which staged `rows` for the follower.
fn decided_for_two(rows: u64, follower: Option<Published>) -> Facts {
    let mut found = marked(facts(0..3, 0..2), 2);
    found.needs_prepared = true;
    let output = SinkOutput {
        sink: "Out[late]".to_owned(),
        totals: Totals { rows, hash: ContentHash(1) },
        outputs: serde_json::json!(["staged"]),
    };
    let sinks = [("late rows".to_owned(), output)].into();
    found.prepared = Some(Prepared { sinks, ..prepared(2, 0) });
    let description = "Out[late]".to_owned();
    found.followers = vec![Follower { name: "late rows".to_owned(), description, mark: follower }];
    found
}

#[test]
fn what_a_decided_batch_lacks_in_another_sink_is_published_before_its_commit() {
    for (mark, lacks) in [(None, true), (Some(mark_of(2, 3)), false)] {
        let Next::AdoptCommit { unpublished, commit, .. } = decide(&decided_for_two(5, mark))
        else {
            panic!("the batch is decided");
        };
        let names: Vec<&str> = unpublished.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, if lacks { vec!["late rows"] } else { vec![] });
        assert_eq!(commit.sinks["late rows"].rows, 5);
    }
}

#[test]
fn staged_rows_of_a_sink_that_is_gone_or_moved_are_not_forgotten() {
    let mut gone = decided_for_two(5, None);
    gone.followers.clear();
    assert!(matches!(decide(&gone), Next::Stop(StopReason::SinkGone { batch: BatchId(2), .. })));
    let mut none_staged = decided_for_two(0, None);
    none_staged.followers.clear();
    assert!(matches!(
        decide(&none_staged),
        Next::AdoptCommit { unpublished, commit, .. }
            if unpublished.is_empty() && commit.sinks.is_empty()
    ));
    let mut moved = decided_for_two(5, None);
    moved.followers[0].description = "Out[elsewhere]".to_owned();
    assert!(matches!(decide(&moved), Next::Stop(StopReason::SinkMoved { .. })));
}

fn inner(next: &Next) -> &StopReason {
    match next {
        Next::Stop(StopReason::InSink { name, reason }) if name == "late rows" => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_follower_is_never_ahead_of_the_sink_that_decides() {
    let mut found = decided_for_two(5, Some(mark_of(2, 4)));
    assert!(matches!(inner(&decide(&found)), StopReason::FollowerAhead { .. }));
    found.mark = Some(mark_of(1, 3));
    assert!(matches!(inner(&decide(&found)), StopReason::FollowerAhead { .. }));
    found.followers[0].mark = Some(mark_of(3, 4));
    assert!(matches!(inner(&decide(&found)), StopReason::SinkAhead { .. }));
    found.followers[0].mark = None;
    assert_eq!(decide(&found), Next::RunAgain { batch: BatchId(2) });
}

#[test]
fn a_follower_holds_what_it_took_part_in_and_joins_once() {
    let mut found = marked(facts(0..3, 0..3), 2);
    let follower =
        |mark| Follower { name: "late rows".to_owned(), description: "Out[late]".to_owned(), mark };
    found.followers = vec![follower(None)];
    assert_eq!(decide(&found), Next::Plan { batch: BatchId(3) }, "it joins with batch 3");
    found.followers = vec![follower(Some(mark_of(1, 1)))];
    assert!(matches!(inner(&decide(&found)), StopReason::SinkRejoins { .. }));
    let sinks = [("late rows".to_owned(), Totals::default())].into();
    found.last_commit.as_mut().unwrap().sinks = sinks;
    assert!(matches!(inner(&decide(&found)), StopReason::SinkBehind { .. }));
    found.followers = vec![follower(Some(mark_of(2, 1)))];
    assert_eq!(decide(&found), Next::Plan { batch: BatchId(3) });
}

#[test]
fn a_further_sink_decides_where_the_main_one_forgets() {
    let mut found = decided_for_two(5, None);
    found.followers.clear();
    found.decider = Some("late rows".to_owned());
    found.prepared.as_mut().unwrap().totals = Totals { rows: 9, hash: ContentHash(9) };
    let Next::AdoptCommit { unpublished, commit, .. } = decide(&found) else {
        panic!("the batch is decided");
    };
    assert!(unpublished.is_empty());
    assert_eq!((commit.totals.unwrap().rows, commit.sinks["late rows"].rows), (9, 5));
    found.mark = None;
    assert_eq!(decide(&found), Next::RunAgain { batch: BatchId(2) }, "it has just joined");
}
