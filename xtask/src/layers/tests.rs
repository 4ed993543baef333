use super::{Metadata, check, violations};
use serde_json::{Value, json};

/// Metadata of packages given as (name, dependencies), all ours but those named in `foreign`. A
/// dependency is `name` or `kind:name`.
fn metadata(packages: &[(&str, &[&str])], foreign: &[&str]) -> Metadata {
    let dependencies = |list: &[&str]| -> Vec<(Value, String)> {
        let split = |it: &&str| match it.split_once(':') {
            Some((kind, name)) => (json!(kind), name.to_owned()),
            None => (Value::Null, (*it).to_owned()),
        };
        list.iter().map(split).collect()
    };
    let package = |(name, list): &(&str, &[&str])| {
        let named: Vec<Value> = dependencies(list)
            .into_iter()
            .map(|(kind, name)| json!({"name": name, "kind": kind}))
            .collect();
        json!({"id": name, "name": name, "dependencies": named})
    };
    let node = |(name, list): &(&str, &[&str])| {
        let edges: Vec<Value> = dependencies(list)
            .into_iter()
            .map(|(kind, name)| json!({"pkg": name, "dep_kinds": [{"kind": kind}]}))
            .collect();
        json!({"id": name, "deps": edges})
    };
    let members: Vec<&str> =
        packages.iter().map(|(name, _)| *name).filter(|name| !foreign.contains(name)).collect();
    serde_json::from_value(json!({
        "packages": packages.iter().map(package).collect::<Vec<_>>(),
        "workspace_members": members,
        "resolve": {"nodes": packages.iter().map(node).collect::<Vec<_>>()},
    }))
    .unwrap()
}

#[test]
fn the_workspace_as_it_is_keeps_to_the_table() {
    assert_eq!(check(), Ok(()));
}

#[test]
fn arrows_of_the_table_are_accepted() {
    let fine = metadata(
        &[
            ("onefold-types", &["serde"]),
            ("onefold-protocol", &["onefold-types", "dev:onefold-testkit"]),
            ("onefold-testkit", &["onefold-types"]),
            ("serde", &[]),
        ],
        &["serde"],
    );
    assert_eq!(violations(&fine), Vec::<String>::new());
}

#[test]
fn an_arrow_that_is_not_in_the_table_is_refused() {
    let bad =
        metadata(&[("onefold-engine", &["onefold-connectors"]), ("onefold-connectors", &[])], &[]);
    assert_eq!(
        violations(&bad),
        ["onefold-engine may not use onefold-connectors (normal dependency)"]
    );
}

#[test]
fn an_arrow_of_a_test_is_refused_as_well() {
    let bad =
        metadata(&[("onefold-storage", &["dev:onefold-engine"]), ("onefold-engine", &[])], &[]);
    assert_eq!(violations(&bad), ["onefold-storage may not use onefold-engine (dev dependency)"]);
}

#[test]
fn the_testkit_is_refused_outside_tests() {
    let bad = metadata(&[("onefold-engine", &["onefold-testkit"]), ("onefold-testkit", &[])], &[]);
    assert_eq!(
        violations(&bad),
        ["onefold-engine may not use onefold-testkit (normal dependency)"]
    );
}

#[test]
fn a_crate_without_a_layer_is_refused() {
    let bad = metadata(&[("onefold-extra", &[])], &[]);
    assert_eq!(
        violations(&bad),
        ["onefold-extra is in no layer: give it a line in xtask/src/layers.rs"]
    );
}

#[test]
fn a_foreign_crate_is_kept_where_it_belongs() {
    let bad = metadata(
        &[("onefold-engine", &["rdkafka", "dev:clap"]), ("rdkafka", &[]), ("clap", &[])],
        &["rdkafka", "clap"],
    );
    assert_eq!(
        violations(&bad),
        ["onefold-engine may not use rdkafka: only onefold-connectors, onefold-bench may"]
    );
}

#[test]
fn a_pure_crate_may_not_reach_io_by_way_of_others() {
    let bad = metadata(
        &[
            ("onefold-types", &["handy"]),
            ("handy", &["tokio", "build:object_store"]),
            ("tokio", &[]),
            ("object_store", &[]),
        ],
        &["handy", "tokio", "object_store"],
    );
    assert_eq!(violations(&bad), ["onefold-types reaches tokio, but it does no I/O"]);
}
