//! `onefold connectors`: every source and sink with its options, from the tables in code.

use crate::args::ConnectorsArgs;
use crate::exit::Failure;
use crate::table::aligned;
use crate::terminal;
use onefold_connector::{OptionKind, OptionSpec};
use onefold_connectors::{SINKS, SOURCES};
use serde::Serialize;

/// A source or a sink.
#[derive(Debug, Serialize)]
struct Connector {
    name: &'static str,
    kind: &'static str,
    summary: &'static str,
    options: Vec<OptionRow>,
}

/// One option.
#[derive(Debug, Serialize)]
struct OptionRow {
    name: &'static str,
    takes: String,
    default: Option<&'static str>,
    secret: bool,
    doc: &'static str,
}

/// Lists the sources and sinks.
///
/// # Errors
/// Usage, when there is none of the name asked for.
pub fn list(args: &ConnectorsArgs) -> Result<(), Failure> {
    let mut connectors = all();
    if let Some(name) = &args.name {
        connectors.retain(|connector| connector.name.eq_ignore_ascii_case(name));
        if connectors.is_empty() {
            let names: Vec<_> = all().iter().map(|connector| connector.name).collect();
            return Err(Failure::usage(format!(
                "there is no source or sink `{name}`: there are {}",
                names.join(", ")
            )));
        }
    }
    if args.json {
        terminal::json(&connectors);
    } else if args.markdown {
        terminal::line(&markdown(&connectors));
    } else {
        text(&connectors).iter().for_each(|row| terminal::line(row));
    }
    Ok(())
}

fn all() -> Vec<Connector> {
    let sources = SOURCES.iter().map(|spec| Connector {
        name: spec.name,
        kind: "source",
        summary: spec.summary,
        options: rows(spec.options),
    });
    let sinks = SINKS.iter().map(|spec| Connector {
        name: spec.name,
        kind: "sink",
        summary: spec.summary,
        options: rows(spec.options),
    });
    sources.chain(sinks).collect()
}

fn rows(tables: &[&[OptionSpec]]) -> Vec<OptionRow> {
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
    }
}

fn text(connectors: &[Connector]) -> Vec<String> {
    let mut lines = Vec::new();
    for connector in connectors {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(format!("{} {}: {}", connector.kind, connector.name, connector.summary));
        if connector.options.is_empty() {
            continue;
        }
        let heading = ["option", "takes", "default", "what it does"].map(str::to_owned).to_vec();
        let options = connector.options.iter().map(|option| {
            vec![
                option.name.to_owned(),
                option.takes.clone(),
                option.default.unwrap_or("-").to_owned(),
                option.doc.to_owned(),
            ]
        });
        let rows: Vec<_> = std::iter::once(heading).chain(options).collect();
        lines.extend(aligned(&rows).into_iter().map(|row| format!("  {row}")));
    }
    lines
}

fn markdown(connectors: &[Connector]) -> String {
    let mut text = String::from(
        "# Sources and sinks\n\n\
         Generated from the option tables in code: `onefold connectors --markdown`.\n\
         Option names are compared without case.\n",
    );
    for kind in ["source", "sink"] {
        text.push_str(&format!("\n## {}s\n", if kind == "source" { "Source" } else { "Sink" }));
        for connector in connectors.iter().filter(|connector| connector.kind == kind) {
            text.push_str(&format!(
                "\n### `{}`\n\n{}.\n",
                connector.name,
                connector.summary.trim_end_matches('.')
            ));
            if connector.options.is_empty() {
                continue;
            }
            text.push_str("\n| option | takes | default | what it does |\n|---|---|---|---|\n");
            for option in &connector.options {
                let default = option.default.map_or("–".to_owned(), |value| format!("`{value}`"));
                text.push_str(&format!(
                    "| `{}` | {} | {default} | {} |\n",
                    option.name,
                    option.takes.replace('|', "\\|"),
                    option.doc.replace('|', "\\|")
                ));
            }
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    static OPTIONS: &[OptionSpec] = &[
        OptionSpec::new("mode", OptionKind::Choice(&["A", "B"]), "what bad rows do").default("A"),
        OptionSpec::new("token", OptionKind::Secret, "who asks"),
    ];

    fn connector() -> Connector {
        Connector { name: "x", kind: "source", summary: "reads x", options: rows(&[OPTIONS]) }
    }

    #[test]
    fn options_stand_in_columns() {
        assert_eq!(
            text(&[connector()]),
            [
                "source x: reads x",
                "  option  takes              default  what it does",
                "  mode    A | B              A        what bad rows do",
                "  token   text, never shown  -        who asks",
            ]
        );
    }

    #[test]
    fn markdown_escapes_what_would_end_a_cell() {
        let page = markdown(&[connector()]);
        assert!(page.contains("| `mode` | A \\| B | `A` | what bad rows do |"), "{page}");
    }
}
