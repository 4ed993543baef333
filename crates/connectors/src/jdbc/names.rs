//! Names of tables and columns: the one place where they are quoted.

use super::dialect::Dialect;
use onefold_types::{Error, Result};
use std::fmt;

/// A table's name, with its schema if it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    parts: Vec<String>,
}

impl TableName {
    /// Reads `table`, `schema.table` or `"quoted . name".table`; quotes are `"` or `` ` ``.
    ///
    /// # Errors
    /// Invalid: it is no name.
    pub fn parse(text: &str) -> Result<TableName> {
        let bad = || {
            Error::invalid(format!(
                "`{text}` is no table's name; give `table` or `schema.table` in option dbtable, a \
                 name with other characters in double quotes, and a query in option `query`"
            ))
        };
        let mut parts = Vec::new();
        let mut rest = text.trim();
        loop {
            let (part, after) = next_part(rest).ok_or_else(bad)?;
            parts.push(part);
            match after.strip_prefix('.') {
                Some(more) => rest = more,
                None if after.is_empty() => break,
                None => return Err(bad()),
            }
        }
        if parts.len() > 3 {
            return Err(bad());
        }
        Ok(TableName { parts })
    }

    /// The name alone.
    #[must_use]
    pub fn last(&self) -> &str {
        self.parts.last().map_or("", String::as_str)
    }

    /// The schema, if it was given.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        let at = self.parts.len().checked_sub(2)?;
        self.parts.get(at).map(String::as_str)
    }

    /// Whether both may be one table: names are compared without case, and where one has no schema it
    /// may be the other's.
    #[must_use]
    pub fn may_be(&self, other: &TableName) -> bool {
        let pairs = self.parts.iter().rev().zip(other.parts.iter().rev());
        pairs.into_iter().all(|(one, two)| one.eq_ignore_ascii_case(two))
    }

    /// Another table in the same schema.
    #[must_use]
    pub fn beside(&self, name: &str) -> TableName {
        let mut parts = self.parts.clone();
        parts.pop();
        parts.push(name.to_owned());
        TableName { parts }
    }

    /// As SQL.
    #[must_use]
    pub fn quoted(&self, dialect: &dyn Dialect) -> String {
        let parts: Vec<String> = self.parts.iter().map(|part| quoted(dialect, part)).collect();
        parts.join(".")
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.join("."))
    }
}

/// One part of a name, and what follows it.
fn next_part(text: &str) -> Option<(String, &str)> {
    let first = text.chars().next()?;
    if !matches!(first, '"' | '`') {
        let end = text
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '#')))
            .unwrap_or(text.len());
        let (part, rest) = text.split_at(end);
        return (!part.is_empty()).then(|| (part.to_owned(), rest));
    }
    let mut part = String::new();
    let mut rest = text.get(1..)?;
    loop {
        let end = rest.find(first)?;
        part.push_str(rest.get(..end)?);
        rest = rest.get(end + 1..)?;
        match rest.strip_prefix(first) {
            Some(more) => {
                part.push(first);
                rest = more;
            }
            None => return (!part.is_empty() && !part.contains('\0')).then_some((part, rest)),
        }
    }
}

/// A name as SQL: the only way that one gets into a statement.
#[must_use]
pub fn quoted(dialect: &dyn Dialect, name: &str) -> String {
    let quote = dialect.quote();
    // No database has a name with a NUL; it would cut the statement.
    let name = name.replace('\0', "").replace(quote, &format!("{quote}{quote}"));
    format!("{quote}{name}{quote}")
}

/// Names as SQL, with commas.
#[must_use]
pub fn quoted_list<'a>(dialect: &dyn Dialect, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| quoted(dialect, name)).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::dialect::{MYSQL, POSTGRESQL};
    use super::*;

    #[test]
    fn names_are_read_and_written_with_their_quotes() {
        let name = TableName::parse("s.\"a \"\"b\".t").unwrap();
        assert_eq!(name.quoted(POSTGRESQL), "\"s\".\"a \"\"b\".\"t\"");
        assert_eq!(name.schema(), Some("a \"b"));
        assert_eq!(TableName::parse("`x``y`").unwrap().quoted(MYSQL), "`x``y`");
        assert_eq!(TableName::parse("t").unwrap().beside("u").to_string(), "u");
    }

    #[test]
    fn what_is_no_name_never_gets_into_a_statement() {
        for text in ["", "t; drop table u", "a.", "(select 1) x", "\"a", "a b", "a.b.c.d", "\"\""] {
            assert!(TableName::parse(text).is_err(), "{text}");
        }
        assert_eq!(quoted(POSTGRESQL, "a\"; drop\0 table b"), "\"a\"\"; drop table b\"");
    }
}
