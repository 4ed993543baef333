//! `SHOW …`: what there is, by its names.

use super::statement::{after, name};
use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::relation::table_reference;
use crate::{catalog, tables};

/// What is listed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Catalogs,
    Databases,
    /// Those whose names fit a pattern.
    Functions(Option<String>),
    /// Those of a table.
    Columns(String),
    /// The folders of a table.
    Partitions(String),
}

impl Shown {
    /// What a text asks for, if it is such a statement.
    pub(super) fn of(text: &str) -> Outcome<Option<Shown>> {
        for (word, shown) in [
            ("catalogs", Shown::Catalogs),
            ("databases", Shown::Databases),
            ("schemas", Shown::Databases),
        ] {
            if after(text, &["show", word]).is_some() {
                return Ok(Some(shown));
            }
        }
        if let Some(rest) = after(text, &["show", "functions"]) {
            let pattern = after(rest, &["like"]).unwrap_or(rest).trim().trim_matches('\'');
            return Ok(Some(Shown::Functions((!pattern.is_empty()).then(|| pattern.to_owned()))));
        }
        if let Some(rest) = after(text, &["show", "partitions"]) {
            let incomplete = || Failure::syntax(format!("the statement is not complete: {text}"));
            let (table, rest) = name(rest).ok_or_else(incomplete)?;
            if !rest.is_empty() {
                return Err(Failure::unsupported("SHOW PARTITIONS of some partitions"));
            }
            return Ok(Some(Shown::Partitions(table)));
        }
        for words in [["show", "columns", "in"], ["show", "columns", "from"]] {
            if let Some(rest) = after(text, &words) {
                let incomplete =
                    || Failure::analysis(format!("the statement is not complete: {text}"));
                let (table, _) = name(rest).ok_or_else(incomplete)?;
                return Ok(Some(Shown::Columns(table)));
            }
        }
        Ok(None)
    }

    /// The name of the column, and the names in it.
    pub(super) fn list(&self, session: &ClientSession) -> Outcome<(&'static str, Vec<String>)> {
        Ok(match self {
            Shown::Catalogs => ("catalog", vec!["spark_catalog".to_owned()]),
            Shown::Databases => ("namespace", vec!["default".to_owned()]),
            Shown::Functions(pattern) => {
                let mut names = catalog::function_names(session);
                if let Some(pattern) = pattern {
                    names.retain(|name| fits(name, pattern));
                }
                ("function", names)
            }
            Shown::Partitions(table) => ("partition", tables::partitions(session, table)?),
            Shown::Columns(table) => {
                let frame = session.engine.table_by(table_reference(table)?)?;
                let schema = frame.schema();
                let names = schema.fields().iter().map(|field| field.name().clone());
                ("col_name", names.collect())
            }
        })
    }
}

/// Whether a name fits one of the patterns between `|`: `*` stands for any letters, case for nothing.
pub(crate) fn fits(name: &str, patterns: &str) -> bool {
    patterns.split('|').any(|pattern| {
        let parts: Vec<String> = pattern.trim().split('*').map(regex::escape).collect();
        regex::RegexBuilder::new(&format!("^(?:{})$", parts.join(".*")))
            .case_insensitive(true)
            .build()
            .is_ok_and(|regex| regex.is_match(name))
    })
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_pattern_has_stars_and_alternatives() {
        for (pattern, fitting) in [
            ("from_*", true),
            ("*json", true),
            ("from_json", true),
            ("FROM_J*", true),
            ("abs|from_json", true),
            ("*", true),
            ("from", false),
            ("json*", false),
            ("*_j", false),
            ("*o*o*n", true),
            ("f.om_json", false),
        ] {
            assert_eq!(fits("from_json", pattern), fitting, "{pattern}");
        }
    }
}
