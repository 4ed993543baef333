//! Options and settings as rows of a table: for a terminal, as JSON, as Markdown.

use crate::table::aligned;
use onefold_connector::{OptionKind, OptionSpec};
use serde::Serialize;

/// One option.
#[derive(Debug, Serialize)]
pub struct OptionRow {
    name: &'static str,
    takes: String,
    default: Option<&'static str>,
    secret: bool,
    doc: &'static str,
}

/// The rows of some tables of the code.
pub fn rows(tables: &[&[OptionSpec]]) -> Vec<OptionRow> {
    let all = tables.iter().flat_map(|table| table.iter());
    all.map(|spec| OptionRow {
        name: spec.name,
        takes: takes(spec.kind),
        default: spec.default,
        secret: spec.kind == OptionKind::Secret,
        doc: spec.doc,
    })
    .collect()
}

fn takes(kind: OptionKind) -> String {
    match kind {
        OptionKind::Text => "text".to_owned(),
        OptionKind::Bool => "true or false".to_owned(),
        OptionKind::Count { min, max: u64::MAX } => format!("a number from {min}"),
        OptionKind::Count { min, max } => format!("a number from {min} to {max}"),
        OptionKind::Bytes => "a size, such as 64m".to_owned(),
        OptionKind::Duration => "a span of time, such as 10s".to_owned(),
        OptionKind::Choice(words) => words.join(" | "),
        OptionKind::Secret => "text, never shown".to_owned(),
        OptionKind::Refused => "refused".to_owned(),
    }
}

/// Lines in columns, with a heading; `what` is the heading of the names.
pub fn text(what: &str, rows: &[OptionRow]) -> Vec<String> {
    let heading = [what, "takes", "default", "what it does"].map(str::to_owned).to_vec();
    let cells = rows.iter().map(|option| {
        vec![
            option.name.to_owned(),
            option.takes.clone(),
            option.default.unwrap_or("-").to_owned(),
            option.doc.to_owned(),
        ]
    });
    aligned(&std::iter::once(heading).chain(cells).collect::<Vec<_>>())
}

/// A Markdown table; each line ends with a line feed.
pub fn markdown(what: &str, rows: &[OptionRow]) -> String {
    let mut text = format!("| {what} | takes | default | what it does |\n|---|---|---|---|\n");
    for option in rows {
        let default = option.default.map_or("–".to_owned(), |value| format!("`{value}`"));
        text.push_str(&format!(
            "| `{}` | {} | {default} | {} |\n",
            option.name,
            option.takes.replace('|', "\\|"),
            option.doc.replace('|', "\\|")
        ));
    }
    text
}
