use super::{DEPTH_MAX, decode, depth};
use prost::Message;
use prost::bytes::Bytes;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{ConfigRequest, Limit, Range, Relation};

/// A plan of so many limits: two levels of messages each.
fn limits(count: usize) -> Vec<u8> {
    let range = RelType::Range(Range { end: 1, step: 1, ..Range::default() });
    let inner = Relation { common: None, rel_type: Some(range) }.encode_to_vec();
    // Relation { limit: Limit { input } }: fields 8 and 1, from the inside out.
    let (mut heads, mut length) = (Vec::new(), inner.len());
    for number in [1_u8, 8].repeat(count) {
        let mut head = vec![(number << 3) | 2];
        prost::encoding::encode_varint(length as u64, &mut head);
        length += head.len();
        heads.push(head);
    }
    heads.reverse();
    [heads.concat(), inner].concat()
}

fn field(number: u8, inner: &[u8]) -> Vec<u8> {
    let mut bytes = vec![(number << 3) | 2];
    prost::encoding::encode_varint(inner.len() as u64, &mut bytes);
    bytes.extend_from_slice(inner);
    bytes
}

fn decoded(bytes: Vec<u8>) -> Result<Relation, String> {
    decode(Bytes::from(bytes)).map_err(|failure| failure.message().to_owned())
}

#[test]
fn a_plan_is_what_was_encoded() {
    let relation = decoded(limits(2)).unwrap();
    let Some(RelType::Limit(limit)) = relation.rel_type else { panic!("{relation:?}") };
    let Limit { input, .. } = *limit;
    assert!(matches!(input.unwrap().rel_type, Some(RelType::Limit(_))));
}

#[test]
fn plans_of_the_greatest_depth_are_taken_on_a_small_stack() {
    let deepest = limits(DEPTH_MAX / 2 - 1);
    let small = std::thread::Builder::new().stack_size(512 << 10);
    let taken = small.spawn(move || decoded(deepest).map(drop)).unwrap().join().unwrap();
    taken.unwrap();
}

#[test]
fn deeper_plans_are_refused() {
    for count in [DEPTH_MAX / 2 + 1, 100_000] {
        let error = decoded(limits(count)).unwrap_err();
        assert!(error.contains("nested deeper than 1024 levels"), "{error}");
    }
}

#[test]
fn groups_that_open_without_end_are_refused() {
    // Unknown fields are skipped, and so are the groups in them, one in the other.
    for tag in [0x0b_u8, 0x7b] {
        let error = decoded(vec![tag; 1_000_000]).unwrap_err();
        assert!(error.contains("nested deeper") || error.contains("damaged"), "{error}");
    }
}

#[test]
fn fields_that_reach_behind_their_parent_are_refused() {
    // Relation { limit: Limit { input: Relation { … } } } where each says that it has four bytes.
    let bytes = [0x42, 4, 0x0a, 4].repeat(500_000);
    assert!(!depth::is_deeper(&bytes, DEPTH_MAX), "only decoding can see this");
    let error = decoded(bytes).unwrap_err();
    assert!(error.contains("nested deeper"), "{error}");
}

#[test]
fn texts_and_bytes_do_not_count_as_depth() {
    let text = "\n".repeat(1 << 20);
    let request = ConfigRequest { session_id: text, ..ConfigRequest::default() };
    assert!(!depth::is_deeper(&request.encode_to_vec(), DEPTH_MAX));
    for byte in 0..=255_u8 {
        let bytes = field(1, &vec![byte; 100_000]);
        assert!(!depth::is_deeper(&bytes, DEPTH_MAX), "{byte}");
    }
}

#[test]
fn what_is_no_message_is_damaged() {
    let error = decoded(vec![0xff; 20]).unwrap_err();
    assert!(error.contains("the request is damaged"), "{error}");
    assert!(decoded(Vec::new()).unwrap().rel_type.is_none());
}
