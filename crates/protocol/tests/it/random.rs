//! Records made at random, and random bytes.

use onefold_protocol::record::{
    Commit, GenerationRecord, Intent, IntentVersion, Metadata, Prepared,
};
use onefold_protocol::watermark::NodeWatermark;
use onefold_types::{BatchId, ContentHash, Generation, Nonce, Offset, QueryId, Totals};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use std::collections::BTreeMap;
use uuid::Uuid;

fn totals() -> impl Strategy<Value = Totals> {
    (any::<u64>(), any::<u128>()).prop_map(|(rows, hash)| Totals { rows, hash: ContentHash(hash) })
}

fn offset() -> impl Strategy<Value = Offset> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| format!("{{\"logOffset\":{number}}}")),
        "[a-z:]{1,9}".prop_map(|topic| format!("{{\"{topic}\": {{\"0\": 1}}}}")),
    ]
    .prop_map(Offset::new)
}

fn intent() -> impl Strategy<Value = Intent> {
    let text = || "\\PC{0,12}";
    let sources = btree_map("[a-zA-Z0-9_]{1,8}", option::of(offset()), 1..5);
    let ours = (
        option::of(any::<u128>()),
        option::of(any::<u64>()),
        option::of(any::<u128>()),
        btree_map("[a-zA-Z0-9_]{1,8}", text(), 0..3),
    );
    let times = (any::<i64>(), any::<i64>());
    let confs = btree_map("spark[.a-zA-Z]{0,12}", text(), 0..5);
    let info = (option::of(Just("{\"a\": [1]}".to_owned())), option::of(Just("{}".to_owned())));
    (any::<bool>(), times, confs, sources, ours, info).prop_map(
        |(second, times, conf, sources, ours, info)| Intent {
            version: if second { IntentVersion::V2 } else { IntentVersion::V1 },
            batch_watermark_ms: times.0,
            batch_timestamp_ms: times.1,
            conf,
            sources: sources
                .into_iter()
                .enumerate()
                .map(|(place, (id, it))| (if second { id } else { place.to_string() }, it))
                .collect(),
            query: ours.0.map(|id| QueryId(Uuid::from_u128(id))),
            generation: ours.1.map(Generation),
            nonce: ours.2.map(|id| Nonce(Uuid::from_u128(id))),
            notes: ours.3,
            source_metadata_info: second.then(|| info.0.unwrap_or_else(|| "{}".to_owned())),
            control_batch_info: info.1.filter(|_| second),
        },
    )
}

fn commit() -> impl Strategy<Value = Commit> {
    let ids = option::of(Just("{\"0\":[[\"a\"]]}".to_owned()));
    (1u32..3, any::<i64>(), ids, option::of(any::<u64>()), option::of(totals())).prop_map(
        |(version, next_batch_watermark_ms, state_unique_ids, generation, totals)| Commit {
            version,
            next_batch_watermark_ms,
            state_unique_ids,
            generation: generation.map(Generation),
            totals,
            watermarks: watermarks(next_batch_watermark_ms),
            sinks: totals.map(|totals| ("late rows".to_owned(), totals)).into_iter().collect(),
        },
    )
}

fn watermarks(ms: i64) -> BTreeMap<String, NodeWatermark> {
    if ms % 2 == 0 {
        BTreeMap::new()
    } else {
        [("0".into(), NodeWatermark { ms, since: 1 })].into()
    }
}

fn prepared() -> impl Strategy<Value = Prepared> {
    (any::<u64>(), any::<u64>(), any::<i64>(), totals(), "\\PC{0,20}").prop_map(
        |(batch, generation, next_batch_watermark_ms, totals, state)| Prepared {
            batch: BatchId(batch),
            generation: Generation(generation),
            next_batch_watermark_ms,
            watermarks: watermarks(next_batch_watermark_ms),
            totals,
            sinks: BTreeMap::new(),
            state: serde_json::json!({ "0": [state] }),
        },
    )
}

fn parse_all(text: &str) {
    let _ = Intent::parse(text);
    let _ = Commit::parse(text);
    let _ = Metadata::parse(text);
    let _ = Prepared::parse(text);
    let _ = GenerationRecord::parse(text);
}

/// The text with some of its bytes changed, as far as that is still text.
fn damaged(text: &str, places: &[(usize, u8)]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (place, mask) in places {
        let length = bytes.len();
        bytes[place % length] ^= mask;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

proptest! {
    #[test]
    fn an_intent_comes_back(intent in intent()) {
        prop_assert_eq!(Intent::parse(&intent.encode()).unwrap(), intent);
    }

    #[test]
    fn a_commit_comes_back(commit in commit()) {
        prop_assert_eq!(Commit::parse(&commit.encode()).unwrap(), commit);
    }

    #[test]
    fn a_prepared_record_comes_back_and_any_damage_to_it_is_seen(
        record in prepared(), place in any::<usize>(), bit in 0u8..8,
    ) {
        let text = record.encode();
        prop_assert_eq!(&Prepared::parse(&text).unwrap(), &record);
        let flipped = damaged(&text, &[(place, 1 << bit)]);
        prop_assert!(Prepared::parse(&flipped).is_err());
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "(v[0-9]{0,3}\n)?\\PC{0,40}(\n\\PC{0,20}){0,4}") {
        parse_all(&text);
    }

    #[test]
    fn no_damage_makes_a_parser_panic(
        intent in intent(), commit in commit(), places in vec(any::<(usize, u8)>(), 1..4),
    ) {
        parse_all(&damaged(&intent.encode(), &places));
        parse_all(&damaged(&commit.encode(), &places));
    }

    #[test]
    fn a_torn_record_is_refused(intent in intent(), commit in commit(), cut in any::<usize>()) {
        let text = intent.encode();
        let metadata_end = text.match_indices('\n').nth(1).unwrap().0;
        let torn = &text.as_bytes()[..cut % (metadata_end + 1)];
        prop_assert!(Intent::parse(&String::from_utf8_lossy(torn)).is_err());
        let text = commit.encode();
        // A file of only the version line is a commit of very old releases.
        let torn = &text[..4 + cut % (text.len() - 4)];
        prop_assert!(Commit::parse(torn).is_err());
    }
}
