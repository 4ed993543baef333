//! Plans, expressions, literals and types that are nested without end.

use crate::server::{Server, field, nested, of, range, raw_request};
use prost::Message;
use spark_connect_proto::Limit;
use spark_connect_proto::relation::RelType;

/// A projection of an expression with these bytes.
fn project(expression: &[u8]) -> Vec<u8> {
    let mut project = field(1, &range(1).encode_to_vec());
    project.extend(field(3, expression));
    field(3, &project)
}

/// `CAST(NULL AS type)` with the bytes of a type.
fn cast(data_type: &[u8]) -> Vec<u8> {
    let null = field(1, &field(1, &field(1, &[])));
    let mut cast = field(1, &null);
    cast.extend(field(2, data_type));
    project(&field(7, &cast))
}

/// A way to nest something, as a relation.
type Nest = fn(usize) -> Vec<u8>;

const KINDS: [(&str, Nest); 4] = [
    // SubqueryAlias.
    ("relations", |count| nested(&[1, 16], count, &range(1).encode_to_vec())),
    // Cast, without a type.
    ("expressions", |count| project(&nested(&[1, 7], count, &field(1, &[0x38, 1])))),
    // An array of an array.
    ("literals", |count| project(&field(1, &nested(&[2, 22], count, &[0x38, 1])))),
    ("types", |count| cast(&nested(&[1, 20], count, &field(6, &[])))),
];

#[test]
fn what_is_nested_too_deeply_is_an_error_and_no_more() {
    let server = Server::new();
    let channel = server.channel();
    for (name, nest) in KINDS {
        for count in [50, 150, 300, 450, 1_000, 100_000] {
            let answer = server.call(&channel, "ExecutePlan", raw_request(&nest(count)));
            if count >= 450 {
                let error = answer.expect_err(name);
                assert!(error.message().contains("nested deeper"), "{name}: {error}");
            }
        }
        server.assert_alive();
    }
}

#[test]
fn depth_of_100_000_is_an_error() {
    let server = Server::new();
    let channel = server.channel();
    let limits = nested(&[1, 8], 100_000, &range(3).encode_to_vec());
    let error = server.call(&channel, "ExecutePlan", raw_request(&limits)).unwrap_err();
    assert!(error.message().contains("nested deeper than 1024 levels"), "{error}");
    server.assert_alive();
}

#[test]
fn plans_of_ordinary_depth_run() {
    let server = Server::new();
    let mut plan = range(3);
    for _ in 0..200 {
        plan = of(RelType::Limit(Box::new(Limit { input: Some(Box::new(plan)), limit: 2 })));
    }
    assert_eq!(server.rows(plan).unwrap(), 2);
}
