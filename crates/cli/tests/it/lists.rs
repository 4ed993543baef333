//! The commands that need no folder.

use crate::support::onefold;

#[test]
fn the_version_and_the_help_are_printed() {
    assert!(onefold(&["--version"]).code(0).out.starts_with("onefold "));
    let help = onefold(&["--help"]).code(0).out;
    for word in ["run", "explain", "checkpoint", "verify", "demo", "exit codes:"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn a_wrong_command_line_is_code_2() {
    assert!(onefold(&["rum"]).code(2).err.contains("run"));
    onefold(&["run"]).code(2);
    onefold(&["run", "x.sql", "--once", "--trigger", "once"]).code(2);
}

#[test]
fn crash_points_are_listed_one_a_line() {
    let out = onefold(&["crash-points"]).code(0).out;
    let names: Vec<&str> = out.lines().collect();
    assert!(names.contains(&"publish.before-mark"), "{names:?}");
    assert_eq!(names.len(), onefold_storage::crash::CrashPoint::ALL.len());
}

#[test]
fn connectors_are_listed_as_text_as_json_and_as_markdown() {
    let text = onefold(&["connectors", "parquet"]).code(0).out;
    assert!(text.contains("sink parquet"), "{text}");
    assert!(text.contains("compression"), "{text}");
    let json = onefold(&["connectors", "--json"]).code(0).json();
    let mut all = json.as_array().unwrap().iter();
    let parquet = all.find(|it| it["name"] == "parquet" && it["kind"] == "sink").unwrap();
    assert!(parquet["options"].as_array().unwrap().iter().any(|it| it["name"] == "retention"));
    assert!(onefold(&["connectors", "--markdown"]).code(0).out.contains("### `parquet`"));
    let none = onefold(&["connectors", "parket"]).code(2);
    assert!(none.err.contains("parquet"), "{none:?}");
}

#[test]
fn the_page_of_connectors_is_what_the_tables_in_code_say() {
    let page = crate::support::tests_folder().join("../docs/connectors.md");
    let written = std::fs::read_to_string(page).unwrap();
    let said = onefold(&["connectors", "--markdown"]).code(0).out;
    assert!(written == said, "run: onefold connectors --markdown > docs/connectors.md");
}

#[test]
fn settings_are_listed_as_text_as_json_and_as_markdown() {
    assert!(onefold(&["settings"]).code(0).out.contains("spark.sql.shuffle.partitions"));
    let json = onefold(&["settings", "--json"]).code(0).json();
    assert!(json.as_array().unwrap().iter().any(|it| it["name"] == "onefold.requireExactlyOnce"));
    let page = crate::support::tests_folder().join("../docs/settings.md");
    let written = std::fs::read_to_string(page).unwrap();
    let said = onefold(&["settings", "--markdown"]).code(0).out;
    assert!(written == said, "run: onefold settings --markdown > docs/settings.md");
}
