//! `SHOW …`: what there is, by its names.

use super::{after, name};
use crate::catalog;
use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::relation::table_reference;

/// What is listed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Catalogs,
    Databases,
    Functions,
    /// Those of a table.
    Columns(String),
}

impl Shown {
    /// What a text asks for, if it is such a statement.
    pub(super) fn of(text: &str) -> Outcome<Option<Shown>> {
        for (word, shown) in [
            ("catalogs", Shown::Catalogs),
            ("databases", Shown::Databases),
            ("schemas", Shown::Databases),
            ("functions", Shown::Functions),
        ] {
            if after(text, &["show", word]).is_some() {
                return Ok(Some(shown));
            }
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
            Shown::Functions => ("function", catalog::function_names(session)),
            Shown::Columns(table) => {
                let frame = session.engine.table_by(table_reference(table)?)?;
                let schema = frame.schema();
                let names = schema.fields().iter().map(|field| field.name().clone());
                ("col_name", names.collect())
            }
        })
    }
}
