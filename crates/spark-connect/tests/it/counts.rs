//! Numbers that no program means.

use crate::arbitrary::ipc;
use crate::server::{Server, of, range};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{
    CachedRemoteRelation, HtmlString, Limit, LocalRelation, Offset, Range, Relation, Repartition,
    Sample, ShowString, Tail,
};

fn ranged(start: i64, end: i64, step: i64) -> Relation {
    of(RelType::Range(Range { start: Some(start), end, step, num_partitions: Some(i32::MAX) }))
}

fn input() -> Option<Box<Relation>> {
    Some(Box::new(range(4)))
}

#[test]
fn ranges_end_where_numbers_end() {
    let server = Server::new();
    assert_eq!(server.rows(ranged(i64::MAX - 2, i64::MAX, 1)).unwrap(), 2);
    assert_eq!(server.rows(ranged(i64::MIN, i64::MAX, i64::MAX)).unwrap(), 3);
    assert_eq!(server.rows(ranged(5, 1, i64::MIN)).unwrap(), 1);
    assert_eq!(server.rows(ranged(5, 1, 1)).unwrap(), 0);
    assert!(server.rows(ranged(0, 1, 0)).is_err());
    server.assert_alive();
}

#[test]
fn a_range_of_all_numbers_is_limited_before_it_is_made() {
    let server = Server::new();
    let all = Box::new(ranged(i64::MIN, i64::MAX, 1));
    let first = of(RelType::Limit(Box::new(Limit { input: Some(all), limit: 3 })));
    // Rows, or an error that names the limit: not the memory of the machine.
    if let Err(error) = server.rows(first) {
        assert!(error.message().contains("a range of more than"), "{error}");
    }
    server.assert_alive();
}

#[test]
fn limits_and_samples_take_any_number() {
    let server = Server::new();
    for number in [0, 1, 3, i32::MAX] {
        let wanted = i64::from(number.min(4));
        let limit = of(RelType::Limit(Box::new(Limit { input: input(), limit: number })));
        assert_eq!(server.rows(limit).unwrap(), wanted);
        let tail = of(RelType::Tail(Box::new(Tail { input: input(), limit: number })));
        assert_eq!(server.rows(tail).unwrap(), wanted);
        let offset = of(RelType::Offset(Box::new(Offset { input: input(), offset: number })));
        assert_eq!(server.rows(offset).unwrap(), 4 - wanted);
    }
    for number in [-1, i32::MIN] {
        let limit = of(RelType::Limit(Box::new(Limit { input: input(), limit: number })));
        assert!(server.rows(limit).is_err());
        let repartition = Repartition { input: input(), num_partitions: number, shuffle: None };
        let _ = server.rows(of(RelType::Repartition(Box::new(repartition))));
    }
    for (lower_bound, upper_bound) in
        [(f64::NAN, f64::NAN), (f64::NEG_INFINITY, f64::INFINITY), (1.0, 0.0), (0.0, f64::MAX)]
    {
        for seed in [None, Some(i64::MIN), Some(i64::MAX)] {
            let sample =
                Sample { input: input(), lower_bound, upper_bound, seed, ..Sample::default() };
            let _ = server.rows(of(RelType::Sample(Box::new(sample))));
        }
    }
    server.assert_alive();
}

#[test]
fn show_takes_any_number() {
    let server = Server::new();
    for num_rows in [0, -1, i32::MIN, i32::MAX] {
        for truncate in [0, -1, 1, i32::MAX] {
            for vertical in [false, true] {
                let shown = ShowString { input: input(), num_rows, truncate, vertical };
                let _ = server.rows(of(RelType::ShowString(Box::new(shown))));
            }
            let shown = HtmlString { input: input(), num_rows, truncate };
            let _ = server.rows(of(RelType::HtmlString(Box::new(shown))));
        }
    }
    server.assert_alive();
}

#[test]
fn rows_of_arrow_that_claim_to_be_huge_are_an_error() {
    let server = Server::new();
    let whole = ipc();
    let local = |data: Vec<u8>| {
        of(RelType::LocalRelation(LocalRelation { data: Some(data.into()), schema: None }))
    };
    assert_eq!(server.rows(local(whole.clone())).unwrap(), 3);
    for length in [i32::MAX, i32::MIN, -2, 1 << 30] {
        // The length of the first message stands behind the four bytes that mark one.
        let mut bytes = whole.clone();
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        assert!(server.rows(local(bytes)).is_err(), "{length}");
    }
    // Each number of eight bytes in the whole is made huge in turn: lengths of buffers are among
    // them.
    for place in (0..whole.len().saturating_sub(8)).step_by(8) {
        for huge in [i64::MAX, i64::MIN, 1 << 40] {
            let mut bytes = whole.clone();
            bytes[place..place + 8].copy_from_slice(&huge.to_le_bytes());
            let _ = server.rows(local(bytes));
        }
    }
    server.assert_alive();
}

#[test]
fn a_relation_that_nobody_knows_is_an_error() {
    let server = Server::new();
    let unknown = CachedRemoteRelation { relation_id: "no such".to_owned() };
    let error = server.rows(of(RelType::CachedRemoteRelation(unknown))).unwrap_err();
    assert!(error.message().contains("No DataFrame with id no such"), "{error}");
}
