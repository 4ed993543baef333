//! `CREATE TABLE` and `INSERT`, as far as tables of files need them.

use super::statement::{after, name};
use super::words::parts;
use crate::failure::{Failure, Outcome};
use onefold_engine::TableDefinition;

/// A statement about a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TableStatement {
    Create { name: String, definition: TableDefinition, query: Option<String>, if_not_exists: bool },
    Insert(Insert),
}

/// `INSERT INTO|OVERWRITE name [PARTITION (p = 1, q)] [(columns)] query`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Insert {
    pub(crate) name: String,
    /// Columns that folders stand for, with the expression of the value that all rows have.
    pub(crate) partition: Vec<(String, Option<String>)>,
    pub(crate) columns: Vec<String>,
    pub(crate) query: String,
    pub(crate) overwrite: bool,
}

/// What is in brackets at the beginning of a text, and what is behind them.
pub(super) fn bracketed(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('(')?;
    let mut depth = 1_usize;
    let mut quote: Option<char> = None;
    for (place, c) in inner.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => {
                depth -= 1;
                if depth == 0 {
                    return Some((inner.get(..place)?, inner.get(place + 1..)?.trim_start()));
                }
            }
            _ => {}
        }
    }
    None
}

/// A text in quotes at the beginning, and what is behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (value, rest) = text.get(1..)?.split_once(quote)?;
    Some((value.to_owned(), rest.trim_start()))
}

/// Names between commas.
pub(super) fn list(text: &str) -> Vec<String> {
    text.split(',').map(|name| name.trim().replace('`', "")).filter(|it| !it.is_empty()).collect()
}

/// `key value` or `key = value` between commas, each in quotes or not.
pub(super) fn pairs(text: &str) -> Vec<(String, String)> {
    let bare = |text: &str| match quoted(text.trim()) {
        Some((text, _)) => text,
        None => text.trim().trim_matches('`').to_owned(),
    };
    let pair = |pair: &str| {
        if let Some((key, rest)) = quoted(pair) {
            return Some((key, bare(rest.strip_prefix('=').unwrap_or(rest))));
        }
        // A value in quotes may hold both.
        let end = pair.find(|c: char| c == '=' || c.is_whitespace())?;
        let (key, rest) = pair.split_at(end);
        let rest = rest.trim_start();
        Some((bare(key), bare(rest.strip_prefix('=').unwrap_or(rest))))
    };
    parts(text).into_iter().filter_map(pair).collect()
}

impl TableStatement {
    /// The statement, if the text is one of these.
    ///
    /// # Errors
    /// It begins as one and is not complete, or has a clause that is not known.
    pub(crate) fn of(text: &str) -> Outcome<Option<TableStatement>> {
        if let Some(rest) = after(text, &["create", "table"]) {
            return create(text, rest).map(Some);
        }
        for (words, overwrite) in
            [(&["insert", "into"][..], false), (&["insert", "overwrite"][..], true)]
        {
            if let Some(rest) = after(text, words) {
                return insert(text, rest, overwrite).map(Some);
            }
        }
        Ok(None)
    }
}

pub(super) fn incomplete(text: &str) -> Failure {
    Failure::syntax(format!("the statement is not complete: {text}"))
}

fn create(text: &str, rest: &str) -> Outcome<TableStatement> {
    let exists = after(rest, &["if", "not", "exists"]);
    let (table, mut rest) = name(exists.unwrap_or(rest)).ok_or_else(|| incomplete(text))?;
    let mut definition = TableDefinition { format: "parquet".to_owned(), ..Default::default() };
    let mut query = None;
    if let Some((columns, behind)) = bracketed(rest) {
        definition.schema = columns.to_owned();
        rest = behind;
    }
    while !rest.is_empty() {
        let (behind, source) = clause(text, rest, &mut definition)?;
        rest = behind;
        query = query.or(source);
    }
    Ok(TableStatement::Create { name: table, definition, query, if_not_exists: exists.is_some() })
}

/// Takes one clause: what is behind it, and the query if it is that.
fn clause<'t>(
    text: &str,
    rest: &'t str,
    definition: &mut TableDefinition,
) -> Outcome<(&'t str, Option<String>)> {
    let wrong = || incomplete(text);
    if let Some(behind) = after(rest, &["using"]) {
        let (format, behind) = name(behind).ok_or_else(wrong)?;
        definition.format = format.to_lowercase();
        return Ok((behind, None));
    }
    if let Some(behind) = after(rest, &["partitioned", "by"]) {
        let (names, behind) = bracketed(behind).ok_or_else(wrong)?;
        definition.partition_by = list(names);
        return Ok((behind, None));
    }
    if let Some(behind) = after(rest, &["cluster", "by"]) {
        let (names, behind) = bracketed(behind).ok_or_else(wrong)?;
        definition.cluster_by = list(names);
        return Ok((behind, None));
    }
    if let Some(behind) = after(rest, &["options"]) {
        let (options, behind) = bracketed(behind).ok_or_else(wrong)?;
        definition.options.extend(pairs(options));
        return Ok((behind, None));
    }
    if let Some(behind) = after(rest, &["location"]) {
        let (location, behind) = quoted(behind).ok_or_else(wrong)?;
        definition.location = Some(location);
        return Ok((behind, None));
    }
    if let Some(behind) = after(rest, &["comment"]) {
        // Nothing shows it.
        return Ok((quoted(behind).ok_or_else(wrong)?.1, None));
    }
    if let Some(behind) = after(rest, &["tblproperties"]) {
        return Ok((bracketed(behind).ok_or_else(wrong)?.1, None));
    }
    let select = after(rest, &["as"]).unwrap_or(rest);
    if begins_query(select) {
        return Ok(("", Some(select.to_owned())));
    }
    Err(Failure::syntax(format!("unknown clause of CREATE TABLE: {rest}")))
}

pub(super) fn begins_query(text: &str) -> bool {
    let inner = text.trim_start_matches('(').trim_start();
    ["select", "with", "values", "from"].iter().any(|word| after(inner, &[word]).is_some())
}

fn insert(text: &str, rest: &str, overwrite: bool) -> Outcome<TableStatement> {
    let rest = after(rest, &["table"]).unwrap_or(rest);
    let (table, mut rest) = name(rest).ok_or_else(|| incomplete(text))?;
    let mut partition = Vec::new();
    if let Some(behind) = after(rest, &["partition"]) {
        let (inside, behind) = bracketed(behind).ok_or_else(|| incomplete(text))?;
        partition = parts(inside).into_iter().map(partition_value).collect();
        rest = behind;
    }
    let mut columns = Vec::new();
    if rest.starts_with('(') && !begins_query(rest) {
        let (names, behind) = bracketed(rest).ok_or_else(|| incomplete(text))?;
        columns = list(names);
        rest = behind;
    }
    let query = match after(rest, &["table"]) {
        Some(source) => format!("SELECT * FROM {source}"),
        None if begins_query(rest) => rest.to_owned(),
        None => return Err(incomplete(text)),
    };
    Ok(TableStatement::Insert(Insert { name: table, partition, columns, query, overwrite }))
}

/// `p = 1`, or `p` where the rows have the value.
fn partition_value(text: &str) -> (String, Option<String>) {
    let bare = |name: &str| name.trim().trim_matches('`').to_owned();
    match text.split_once('=') {
        Some((name, value)) => (bare(name), Some(value.trim().to_owned())),
        None => (bare(text), None),
    }
}

#[cfg(test)]
mod tests {
    use super::{Insert, TableStatement};
    use onefold_engine::TableDefinition;

    #[test]
    fn a_table_is_described_by_its_clauses_in_any_order() {
        let text = "CREATE TABLE IF NOT EXISTS db.t (a INT, b DECIMAL(5,2)) USING CSV PARTITIONED \
                    BY (`a`) OPTIONS (header 'true') LOCATION '/x'";
        let definition = TableDefinition {
            format: "csv".to_owned(),
            schema: "a INT, b DECIMAL(5,2)".to_owned(),
            options: [("header".to_owned(), "true".to_owned())].into(),
            partition_by: vec!["a".to_owned()],
            cluster_by: Vec::new(),
            location: Some("/x".to_owned()),
        };
        let wanted = TableStatement::Create {
            name: "db.t".to_owned(),
            definition,
            query: None,
            if_not_exists: true,
        };
        assert_eq!(TableStatement::of(text).unwrap(), Some(wanted));
        assert!(TableStatement::of("CREATE TABLE t (a INT) STORED AS x").is_err());
        assert!(TableStatement::of("CREATE TABLE t (a INT").is_err());
        assert_eq!(TableStatement::of("SELECT 1").unwrap(), None);
    }

    #[test]
    fn an_option_may_hold_what_stands_between_options() {
        let text = "url 'jdbc:postgresql://h/d?a=1,2&user=x', 'dbtable' = \"s.t\", n=1, `k` v";
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let wanted = [
            pair("url", "jdbc:postgresql://h/d?a=1,2&user=x"),
            pair("dbtable", "s.t"),
            pair("n", "1"),
            pair("k", "v"),
        ];
        assert_eq!(super::pairs(text), wanted);
    }

    #[test]
    fn an_insert_has_a_table_columns_and_a_query() {
        let wanted = TableStatement::Insert(Insert {
            name: "t".to_owned(),
            columns: vec!["a".to_owned(), "b".to_owned()],
            query: "VALUES (1, 2)".to_owned(),
            ..Insert::default()
        });
        assert_eq!(TableStatement::of("INSERT INTO t (a, b) VALUES (1, 2)").unwrap(), Some(wanted));
        let wanted = TableStatement::Insert(Insert {
            name: "t".to_owned(),
            query: "(select 1)".to_owned(),
            overwrite: true,
            ..Insert::default()
        });
        let text = "insert overwrite table t (select 1)";
        assert_eq!(TableStatement::of(text).unwrap(), Some(wanted));
        let wanted = TableStatement::Insert(Insert {
            name: "t".to_owned(),
            partition: vec![("p".to_owned(), Some("'x,y'".to_owned())), ("q".to_owned(), None)],
            query: "SELECT 1".to_owned(),
            ..Insert::default()
        });
        let text = "INSERT INTO t PARTITION (p = 'x,y', `q`) SELECT 1";
        assert_eq!(TableStatement::of(text).unwrap(), Some(wanted));
        assert!(TableStatement::of("INSERT INTO t").is_err());
    }
}
