//! `checkpoint rewind`.

use crate::support::{Case, names, onefold, snapshot};
use serde_json::json;

fn rewind(case: &Case, more: &[&str]) -> crate::support::Said {
    let (checkpoint, sink) = (case.checkpoint(), case.sink());
    let mut args = vec!["checkpoint", "rewind", checkpoint.to_str().unwrap(), "--json"];
    args.extend(["--sink", sink.to_str().unwrap()]);
    args.extend(more);
    onefold(&args)
}

#[test]
fn without_apply_nothing_changes() {
    let case = Case::copy("a_file_to_parquet");
    let before = snapshot(case.dir.path());
    let report = rewind(&case, &["--to-batch", "10", "--later-marks", "rewind"]).code(0).json();
    assert_eq!(report["applied"], false);
    assert_eq!(report["plan"]["batches"], json!([11, 12]));
    assert_eq!(
        report["plan"]["files"],
        json!([
            "commits/12",
            "offsets/12",
            "commits/11",
            "offsets/11",
            "sources/0/12",
            "sources/0/11"
        ])
    );
    assert!(before == snapshot(case.dir.path()));
}

#[test]
fn a_sink_that_holds_later_batches_must_be_decided_on() {
    let case = Case::copy("a_file_to_parquet");
    let before = snapshot(case.dir.path());
    let refused = rewind(&case, &["--to-batch", "10", "--apply"]).code(2);
    assert!(refused.err.contains("--later-marks"), "{refused:?}");
    assert!(before == snapshot(case.dir.path()));
}

#[test]
fn a_rewind_takes_checkpoint_and_sink_back_together_and_keeps_what_it_removes() {
    let case = Case::copy("a_file_to_parquet");
    let files = names(&case.sink()).len();
    let args = ["--to-batch", "10", "--later-marks", "rewind", "--apply"];
    let report = rewind(&case, &args).code(0).json();
    assert_eq!(report["sink"]["data"].as_array().unwrap().len(), 2);

    let kept = case.checkpoint().join(report["keptIn"].as_str().unwrap());
    assert_eq!(names(&kept.join("offsets")), ["11", "12"]);
    assert_eq!(names(&kept.join("commits")), ["11", "12"]);
    assert_eq!(names(&kept.join("sources/0")), ["11", "12"]);
    assert!(!case.checkpoint().join("offsets/.12.crc").exists());
    assert!(!names(&case.sink().join("_spark_metadata")).contains(&"12".to_owned()));
    // The two data files and the folder of what was kept.
    assert_eq!(names(&case.sink()).len(), files - 2 + 1);

    let (checkpoint, sink) = (case.checkpoint(), case.sink());
    let show = ["checkpoint", "show", "--json", checkpoint.to_str().unwrap()];
    let shown = onefold(&[&show[..], &["--sink", sink.to_str().unwrap()]].concat()).code(0).json();
    assert_eq!(
        (&shown["restart"]["act"], &shown["restart"]["batch"]),
        (&json!("plan"), &json!(11))
    );
    onefold(&["checkpoint", "verify", checkpoint.to_str().unwrap()]).code(0);

    let again = rewind(&case, &args).code(0).json();
    assert_eq!(again["keptIn"], json!(null), "nothing is left to do");
}

#[test]
fn what_stands_only_in_a_later_compacted_entry_cannot_be_taken_back() {
    let case = Case::copy("a_file_to_parquet");
    for batch in 0..9 {
        std::fs::remove_file(case.sink().join(format!("_spark_metadata/{batch}"))).unwrap();
    }
    let refused = rewind(&case, &["--to-batch", "5", "--later-marks", "rewind"]).code(2);
    assert!(refused.err.contains("compacted"), "{refused:?}");
}

#[test]
fn a_batch_that_is_not_there_is_refused_with_those_that_are() {
    let case = Case::copy("a_file_to_parquet");
    let refused = rewind(&case, &["--to-batch", "40", "--later-marks", "leave"]).code(2);
    assert!(refused.err.contains("batches 0 to 12"), "{refused:?}");
}
