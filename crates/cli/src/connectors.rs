//! `onefold connectors`: every source and sink with its options, from the tables in code.

use crate::args::ConnectorsArgs;
use crate::exit::Failure;
use crate::option_table::{self, OptionRow, rows};
use crate::terminal;
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
        let rows = option_table::text("option", &connector.options);
        lines.extend(rows.into_iter().map(|row| format!("  {row}")));
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
            text.push('\n');
            text.push_str(&option_table::markdown("option", &connector.options));
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_connector::{OptionKind, OptionSpec};

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
