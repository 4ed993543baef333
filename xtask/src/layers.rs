//! Who may depend on whom.
//!
//! The table is the design's. Two rules hold it up: an arrow between our crates must be in
//! [`LAYERS`], and a foreign crate in [`KEPT_IN`] may be named only by the crates listed there. On
//! top of that, a crate of [`PURE`] must not even reach the foreign crates of [`IMPURE`] by way of
//! others: it decides and does no I/O.

use crate::run;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Our crates, each with those of ours that it may use. Beyond these, tests of any crate may use
/// [`TEST_ONLY`].
const LAYERS: &[(&str, &[&str])] = &[
    ("onefold-types", &[]),
    ("onefold-protocol", &["onefold-types"]),
    ("onefold-storage", &["onefold-types"]),
    ("onefold-connector", &["onefold-types", "onefold-storage"]),
    ("onefold-connectors", &["onefold-connector", "onefold-types", "onefold-storage"]),
    ("onefold-state", &["onefold-types", "onefold-storage"]),
    ("onefold-operators", &["onefold-types", "onefold-state"]),
    ("onefold-plan", &["onefold-types", "onefold-connector", "onefold-state", "onefold-operators"]),
    (
        "onefold-engine",
        &[
            "onefold-types",
            "onefold-protocol",
            "onefold-storage",
            "onefold-state",
            "onefold-operators",
            "onefold-connector",
            "onefold-plan",
        ],
    ),
    // The contracts of sources and sinks, for data sources that a client wrote in Python.
    (
        "onefold-spark-connect",
        &["onefold-types", "onefold-connector", "onefold-plan", "onefold-engine"],
    ),
    // The public API: it joins the engine and the bundled connectors, for the command and for
    // programs that embed Onefold.
    (
        "onefold",
        &[
            "onefold-types",
            "onefold-protocol",
            "onefold-storage",
            "onefold-state",
            "onefold-operators",
            "onefold-connector",
            "onefold-plan",
            "onefold-engine",
            "onefold-connectors",
        ],
    ),
    (
        "onefold-cli",
        &[
            "onefold",
            "onefold-types",
            "onefold-protocol",
            "onefold-storage",
            "onefold-state",
            "onefold-operators",
            "onefold-connector",
            "onefold-plan",
            "onefold-engine",
            "onefold-connectors",
            "onefold-spark-connect",
        ],
    ),
    ("onefold-testkit", &["onefold-types", "onefold-storage", "onefold-connector"]),
    // Measures the public API beside plain DataFusion; nothing depends on it.
    ("onefold-bench", &["onefold"]),
    ("xtask", &[]),
];

/// Never a normal dependency.
const TEST_ONLY: &str = "onefold-testkit";

/// Foreign crates that only some of ours may name, for normal use.
const KEPT_IN: &[(&str, &[&str])] = &[
    // The bench has a client of its own, to measure what the server and the way to it take.
    ("tonic", &["onefold-bench", "onefold-spark-connect"]),
    ("prost", &["onefold-spark-connect"]),
    ("axum", &["onefold-ui"]),
    ("rdkafka", &["onefold-connectors", "onefold-bench"]),
    ("mysql_async", &["onefold-connectors"]),
    ("rusqlite", &["onefold-connectors"]),
    ("deltalake-core", &["onefold-connectors"]),
    ("iceberg", &["onefold-connectors"]),
    ("tokio-postgres", &["onefold-connectors"]),
    ("sqlx", &["onefold-connectors"]),
    ("rocksdb", &["onefold-state"]),
    ("object_store", &["onefold-storage", "onefold-connectors"]),
    ("clap", &["onefold-cli", "xtask"]),
    ("anyhow", &["onefold-cli", "xtask"]),
];

/// Crates that decide and do no I/O.
const PURE: &[&str] = &["onefold-types", "onefold-protocol"];

/// What a pure crate must not reach.
const IMPURE: &[&str] = &["tokio", "arrow", "arrow-array", "datafusion", "object_store", "reqwest"];

/// The part of `cargo metadata` that is read here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `None` is a normal dependency.
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

/// Reads `cargo metadata` and refuses every arrow that the table does not have.
///
/// # Errors
/// Lists all wrong arrows.
pub fn check() -> Result<(), String> {
    let text = run::output(run::cargo().args([
        "metadata",
        "--locked",
        "--all-features",
        "--format-version",
        "1",
    ]))?;
    let metadata: Metadata =
        serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let wrong = violations(&metadata);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn violations(metadata: &Metadata) -> Vec<String> {
    let ours: Vec<&Package> = metadata
        .packages
        .iter()
        .filter(|package| metadata.workspace_members.contains(&package.id))
        .collect();
    let names: BTreeSet<&str> = ours.iter().map(|package| package.name.as_str()).collect();
    let mut wrong = Vec::new();
    for package in &ours {
        wrong.extend(wrong_arrows(package, &names));
        wrong.extend(wrong_foreigners(package));
        if PURE.contains(&package.name.as_str()) {
            wrong.extend(impure_reach(package, metadata));
        }
    }
    wrong
}

fn wrong_arrows(package: &Package, ours: &BTreeSet<&str>) -> Vec<String> {
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == package.name) else {
        return vec![format!(
            "{} is in no layer: give it a line in xtask/src/layers.rs",
            package.name
        )];
    };
    let arrows = package.dependencies.iter().filter(|dependency| {
        let name = dependency.name.as_str();
        // A crate may name itself for its tests, to switch on its own features.
        ours.contains(name) && name != package.name && !allowed.contains(&name)
    });
    arrows
        .filter(|dependency| {
            !(dependency.kind.as_deref() == Some("dev") && dependency.name == TEST_ONLY)
        })
        .map(|dependency| {
            let kind = dependency.kind.as_deref().unwrap_or("normal");
            format!("{} may not use {} ({kind} dependency)", package.name, dependency.name)
        })
        .collect()
}

fn wrong_foreigners(package: &Package) -> Vec<String> {
    let named = package.dependencies.iter().filter(|it| it.kind.as_deref() != Some("dev"));
    named
        .filter_map(|dependency| {
            let (name, allowed) = KEPT_IN.iter().find(|(name, _)| *name == dependency.name)?;
            if allowed.contains(&package.name.as_str()) {
                return None;
            }
            Some(format!("{} may not use {name}: only {} may", package.name, allowed.join(", ")))
        })
        .collect()
}

/// Follows normal dependencies only: what a test or a build script uses does no harm.
fn impure_reach(package: &Package, metadata: &Metadata) -> Vec<String> {
    let names: BTreeMap<&str, &str> =
        metadata.packages.iter().map(|it| (it.id.as_str(), it.name.as_str())).collect();
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let mut seen = BTreeSet::from([package.id.as_str()]);
    let mut open = vec![package.id.as_str()];
    while let Some(id) = open.pop() {
        let edges = nodes.get(id).map(|node| node.deps.as_slice()).unwrap_or_default();
        for edge in edges.iter().filter(|edge| edge.dep_kinds.iter().any(|it| it.kind.is_none())) {
            if seen.insert(edge.pkg.as_str()) {
                open.push(edge.pkg.as_str());
            }
        }
    }
    let reached = seen.iter().filter_map(|id| names.get(id)).filter(|name| IMPURE.contains(name));
    reached.map(|name| format!("{} reaches {name}, but it does no I/O", package.name)).collect()
}

#[cfg(test)]
mod tests;
