//! `onefold verify` on what Spark wrote.

use crate::support::{Case, onefold};
use std::fs;

fn verify(case: &Case) -> crate::support::Said {
    let (checkpoint, sink) = (case.checkpoint(), case.sink());
    let sink = ["--sink", sink.to_str().unwrap(), "--json"];
    onefold(&[&["verify", checkpoint.to_str().unwrap()][..], &sink].concat())
}

#[test]
fn batches_that_spark_committed_are_listed_as_not_comparable() {
    let case = Case::copy("a_file_to_parquet");
    let json = verify(&case).code(0).json();
    assert_eq!(json["ok"], true);
    assert_eq!(json["notComparable"].as_array().unwrap().len(), 13);
    assert_eq!(json["equal"], 0);
    assert_eq!(json["mark"]["mark"]["batch"], 12);
}

#[test]
fn a_sink_that_lags_behind_or_runs_ahead_differs() {
    let behind = Case::copy("a_file_to_parquet");
    fs::remove_file(behind.sink().join("_spark_metadata/12")).unwrap();
    let json = verify(&behind).code(1).json();
    assert_eq!(json["firstDifference"]["batch"], 12);

    let ahead = Case::copy("a_file_to_parquet");
    for folder in ["offsets", "commits"] {
        fs::remove_file(ahead.checkpoint().join(folder).join("12")).unwrap();
    }
    let json = verify(&ahead).code(1).json();
    assert_eq!(json["firstDifference"]["batch"], 12);
}

#[test]
fn a_checkpoint_that_does_not_name_its_sink_asks_for_it() {
    let case = Case::copy("a_file_to_parquet");
    let said = onefold(&["verify", case.checkpoint().to_str().unwrap()]).code(2);
    assert!(said.err.contains("--sink"), "{said:?}");
}
