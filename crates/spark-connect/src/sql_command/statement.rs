//! What a text of SQL is, beside a query.

use super::shown::Shown;
use super::table_statement::{begins_query, bracketed, incomplete, list, pairs};
use crate::failure::{Failure, Outcome};
use std::collections::BTreeMap;

/// A statement that is no query and about no table of files.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Statement {
    Query,
    Set(Option<String>, Option<String>),
    CreateView(View),
    DropView {
        name: String,
        if_exists: bool,
    },
    ShowTables,
    ShowViews,
    Show(Shown),
    ShowCreate(String),
    Describe {
        name: String,
        extended: bool,
    },
    DescribeQuery(String),
    Explain {
        extended: bool,
        query: String,
    },
    Use(String),
    Truncate(String),
    /// Nothing is kept in memory between queries, but a cached query has a name.
    Cache(Option<View>),
}

/// A view that is to be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) name: String,
    /// All sessions of the server see it.
    pub(super) global: bool,
    pub(super) replace: bool,
    /// Other names for the columns.
    pub(super) columns: Vec<String>,
    pub(super) of: ViewOf,
}

/// What a view stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ViewOf {
    Query(String),
    /// Files in a format, with the columns in DDL, or none to have them found.
    Files {
        format: String,
        schema: String,
        options: BTreeMap<String, String>,
    },
}

/// The rest of a text behind words, compared without case.
pub(super) fn after<'t>(text: &'t str, words: &[&str]) -> Option<&'t str> {
    let mut rest = text.trim_start();
    for word in words {
        let head = rest.get(..word.len())?;
        let tail = rest.get(word.len()..)?;
        let ends = tail.chars().next().is_none_or(|c| !c.is_alphanumeric() && c != '_');
        if !head.eq_ignore_ascii_case(word) || !ends {
            return None;
        }
        rest = tail.trim_start();
    }
    Some(rest)
}

/// The first name of a text, and what is behind it.
pub(super) fn name(text: &str) -> Option<(String, &str)> {
    let mut quoted = false;
    let end = text.char_indices().find(|&(_, c)| {
        quoted ^= c == '`';
        !quoted && (c.is_whitespace() || c == '(' || c == ';')
    });
    let end = end.map_or(text.len(), |(place, _)| place);
    let (name, rest) = text.split_at(end);
    (!name.is_empty()).then(|| (name.replace('`', ""), rest.trim_start()))
}

/// The text without comments before its first word, and without what ends it.
pub(super) fn bare(text: &str) -> &str {
    let mut rest = text.trim();
    loop {
        let behind = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map_or("", |(_, behind)| behind)
        } else if let Some(comment) = rest.strip_prefix("/*").filter(|it| !it.starts_with('+')) {
            comment.split_once("*/").map_or("", |(_, behind)| behind)
        } else {
            break;
        };
        rest = behind.trim_start();
    }
    rest.trim_end_matches(';').trim_end()
}

/// The zone of `SET TIME ZONE`: a text, `LOCAL`, or an interval of hours and minutes.
fn time_zone(text: &str) -> Outcome<String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("local") {
        return Ok("UTC".to_owned());
    }
    let wrong = || Failure::analysis(format!("SET TIME ZONE does not take {text}"));
    let Some(interval) = after(text, &["interval"]) else {
        return Ok(text.trim_matches(['\'', '"']).to_owned());
    };
    let value = interval.trim_start().trim_start_matches(['\'', '"']);
    let value = value.split(['\'', '"', ' ']).next().unwrap_or_default();
    let (sign, value) = match value.strip_prefix('-') {
        Some(value) => ('-', value),
        None => ('+', value.trim_start_matches('+')),
    };
    let (hours, minutes) = value.split_once(':').unwrap_or((value, "0"));
    let (Ok(hours), Ok(minutes)) = (hours.parse::<u8>(), minutes.parse::<u8>()) else {
        return Err(wrong());
    };
    Ok(format!("{sign}{hours:02}:{minutes:02}"))
}

fn set(text: &str) -> Outcome<Option<Statement>> {
    if let Some(rest) = after(text, &["set", "time", "zone"]) {
        let key = Some("spark.sql.session.timeZone".to_owned());
        return time_zone(rest).map(|zone| Some(Statement::Set(key, Some(zone))));
    }
    let Some(rest) = after(text, &["set"]) else { return Ok(None) };
    let rest = rest.strip_prefix("-v").unwrap_or(rest).trim();
    Ok(Some(match rest.split_once('=') {
        Some((key, value)) => {
            let value = value.trim().trim_matches(['\'', '"']);
            Statement::Set(Some(key.trim().replace('`', "")), Some(value.to_owned()))
        }
        None if rest.is_empty() => Statement::Set(None, None),
        None => Statement::Set(Some(rest.replace('`', "")), None),
    }))
}

/// `CREATE [OR REPLACE] [GLOBAL] TEMP VIEW name [(columns)] AS query`, or with `USING format`.
fn create_view(text: &str) -> Outcome<Option<View>> {
    let Some(rest) = after(text, &["create"]) else { return Ok(None) };
    let replaced = after(rest, &["or", "replace"]);
    let rest = replaced.unwrap_or(rest);
    let global = after(rest, &["global"]);
    let rest = global.unwrap_or(rest);
    let rest = after(rest, &["temporary"]).or_else(|| after(rest, &["temp"]));
    let Some(rest) = rest.and_then(|rest| after(rest, &["view"])) else { return Ok(None) };
    let if_not_exists = after(rest, &["if", "not", "exists"]);
    if if_not_exists.is_some() {
        return Err(Failure::syntax(
            "a temporary view takes no IF NOT EXISTS; write CREATE OR REPLACE TEMP VIEW",
        ));
    }
    let (name, mut rest) = name(rest).ok_or_else(|| incomplete(text))?;
    let mut inside = "";
    if let Some((columns, behind)) = bracketed(rest) {
        (inside, rest) = (columns, behind);
    }
    let (global, replace) = (global.is_some(), replaced.is_some());
    if let Some(behind) = after(rest, &["using"]) {
        let of = files(behind, inside).ok_or_else(|| incomplete(text))?;
        return Ok(Some(View { name, global, replace, columns: Vec::new(), of }));
    }
    let query = after(rest, &["as"]).ok_or_else(|| incomplete(text))?;
    let of = ViewOf::Query(query.to_owned());
    Ok(Some(View { name, global, replace, columns: list(inside), of }))
}

/// `parquet OPTIONS (path '/x')`.
fn files(text: &str, schema: &str) -> Option<ViewOf> {
    let (format, rest) = name(text)?;
    let options = match after(rest, &["options"]) {
        Some(behind) => bracketed(behind)?.0,
        None => "",
    };
    let options = pairs(options).into_iter().collect();
    Some(ViewOf::Files { format: format.to_lowercase(), schema: schema.to_owned(), options })
}

fn describe(text: &str) -> Outcome<Option<Statement>> {
    let rest = after(text, &["describe"]).or_else(|| after(text, &["desc"]));
    let Some(rest) = rest else { return Ok(None) };
    let query = after(rest, &["query"]).unwrap_or(rest);
    if begins_query(query) {
        return Ok(Some(Statement::DescribeQuery(query.to_owned())));
    }
    for other in ["function", "database", "schema", "namespace", "catalog", "history", "detail"] {
        if after(rest, &[other]).is_some_and(|behind| !behind.is_empty()) {
            let what = other.to_uppercase();
            return Err(Failure::unsupported(format!("the statement DESCRIBE {what}")));
        }
    }
    let rest = after(rest, &["table"]).unwrap_or(rest);
    let more = after(rest, &["extended"]).or_else(|| after(rest, &["formatted"]));
    let extended = more.is_some_and(|behind| !behind.is_empty());
    let rest = more.filter(|_| extended).unwrap_or(rest);
    let (name, _) = name(rest).ok_or_else(|| incomplete(text))?;
    Ok(Some(Statement::Describe { name, extended }))
}

/// `CACHE [LAZY] TABLE name [OPTIONS (…)] [AS query]`.
fn cache(text: &str) -> Outcome<Option<Statement>> {
    let Some(rest) = after(text, &["cache"]) else {
        let other = ["uncache", "clear", "refresh"];
        let other = other.iter().any(|word| after(text, &[word]).is_some());
        return Ok(other.then_some(Statement::Cache(None)));
    };
    let rest = after(rest, &["lazy"]).unwrap_or(rest);
    let rest = after(rest, &["table"]).ok_or_else(|| incomplete(text))?;
    let (name, mut rest) = name(rest).ok_or_else(|| incomplete(text))?;
    if let Some(behind) = after(rest, &["options"]) {
        rest = bracketed(behind).ok_or_else(|| incomplete(text))?.1;
    }
    let query = after(rest, &["as"]).unwrap_or(rest);
    if query.is_empty() {
        return Ok(Some(Statement::Cache(None)));
    }
    let of = ViewOf::Query(query.to_owned());
    let view = View { name, global: false, replace: false, columns: Vec::new(), of };
    Ok(Some(Statement::Cache(Some(view))))
}

fn explain(text: &str) -> Option<Statement> {
    let mut rest = after(text, &["explain"])?;
    let mut extended = false;
    for word in ["extended", "formatted", "codegen", "cost"] {
        if let Some(behind) = after(rest, &[word]) {
            (rest, extended) = (behind, true);
        }
    }
    Some(Statement::Explain { extended, query: rest.to_owned() })
}

fn show(text: &str) -> Outcome<Option<Statement>> {
    if after(text, &["show", "tables"]).is_some() {
        return Ok(Some(Statement::ShowTables));
    }
    if after(text, &["show", "views"]).is_some() {
        return Ok(Some(Statement::ShowViews));
    }
    if let Some(rest) = after(text, &["show", "create", "table"]) {
        let (name, _) = name(rest).ok_or_else(|| incomplete(text))?;
        return Ok(Some(Statement::ShowCreate(name)));
    }
    Ok(Shown::of(text)?.map(Statement::Show))
}

fn of_one_name(text: &str) -> Outcome<Option<Statement>> {
    for words in [&["drop", "view"][..], &["drop", "table"][..]] {
        if let Some(rest) = after(text, words) {
            let exists = after(rest, &["if", "exists"]);
            let (name, _) = name(exists.unwrap_or(rest)).ok_or_else(|| incomplete(text))?;
            return Ok(Some(Statement::DropView { name, if_exists: exists.is_some() }));
        }
    }
    if let Some(rest) = after(text, &["truncate", "table"]) {
        let (name, rest) = name(rest).ok_or_else(|| incomplete(text))?;
        if !rest.is_empty() {
            return Err(Failure::unsupported("TRUNCATE TABLE of one partition"));
        }
        return Ok(Some(Statement::Truncate(name)));
    }
    if let Some(rest) = after(text, &["use"]) {
        let rest = ["database", "schema", "namespace"].iter().find_map(|it| after(rest, &[it]));
        let rest = rest.or_else(|| after(text, &["use"])).unwrap_or_default();
        let (name, _) = name(rest).ok_or_else(|| incomplete(text))?;
        return Ok(Some(Statement::Use(name)));
    }
    Ok(None)
}

impl Statement {
    /// What a text is.
    ///
    /// # Errors
    /// It begins as a statement and is not complete, or Onefold does not have it.
    pub(super) fn of(text: &str) -> Outcome<Statement> {
        let text = bare(text);
        if let Some(view) = create_view(text)? {
            return Ok(Statement::CreateView(view));
        }
        for of in [set, of_one_name, show, describe, cache] {
            if let Some(statement) = of(text)? {
                return Ok(statement);
            }
        }
        if let Some(statement) = explain(text) {
            return Ok(statement);
        }
        for word in ["create", "alter", "merge", "update", "delete", "analyze", "msck", "load"] {
            if after(text, &[word]).is_some() {
                return Err(Failure::unsupported(format!("the statement {}", word.to_uppercase())));
            }
        }
        Ok(Statement::Query)
    }
}

#[cfg(test)]
mod tests {
    use super::{Statement, View, ViewOf};

    fn view(text: &str) -> View {
        match Statement::of(text).unwrap() {
            Statement::CreateView(view) | Statement::Cache(Some(view)) => view,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn statements_are_told_from_queries() {
        assert_eq!(Statement::of("SELECT 1").unwrap(), Statement::Query);
        assert_eq!(
            Statement::of("set a.b = 'c' ;").unwrap(),
            Statement::Set(Some("a.b".into()), Some("c".into()))
        );
        assert_eq!(
            Statement::of("-- why\n/* and */ drop view if exists `v`").unwrap(),
            Statement::DropView { name: "v".into(), if_exists: true }
        );
        assert!(Statement::of("ALTER TABLE t ADD COLUMN a INT").is_err());
        let zone = |text: &str| match Statement::of(text).unwrap() {
            Statement::Set(Some(key), Some(zone)) if key == "spark.sql.session.timeZone" => zone,
            other => panic!("{other:?}"),
        };
        assert_eq!(zone("SET TIME ZONE 'Europe/Berlin'"), "Europe/Berlin");
        assert_eq!(zone("set time zone local"), "UTC");
        assert_eq!(zone("SET TIME ZONE INTERVAL '-08:30' HOUR TO MINUTE"), "-08:30");
        assert_eq!(Statement::of("settle").unwrap(), Statement::Query);
        assert_eq!(Statement::of("USE SCHEMA default").unwrap(), Statement::Use("default".into()));
        let extended = Statement::Explain { extended: true, query: "SELECT 1".into() };
        assert_eq!(Statement::of("explain extended SELECT 1").unwrap(), extended);
    }

    #[test]
    fn views_stand_for_queries_and_for_files() {
        let plain = view("CREATE OR REPLACE TEMP VIEW v AS SELECT 1");
        let of = ViewOf::Query("SELECT 1".into());
        let wanted =
            View { name: "v".into(), global: false, replace: true, columns: Vec::new(), of };
        assert_eq!(plain, wanted);
        let global = view("create global temporary view g (a, `b`) as select 1, 2");
        assert!(global.global && !global.replace);
        assert_eq!(global.columns, ["a", "b"]);
        let files = view("CREATE TEMP VIEW f (a INT) USING CSV OPTIONS (path '/x', header true)");
        let options = [("path", "/x"), ("header", "true")].map(|(k, v)| (k.into(), v.into()));
        let wanted = ViewOf::Files {
            format: "csv".into(),
            schema: "a INT".into(),
            options: options.into_iter().collect(),
        };
        assert_eq!(files.of, wanted);
        assert_eq!(view("CACHE LAZY TABLE c AS SELECT 2").of, ViewOf::Query("SELECT 2".into()));
        assert_eq!(Statement::of("CACHE TABLE c").unwrap(), Statement::Cache(None));
    }

    #[test]
    fn a_table_and_a_query_are_described() {
        let query = Statement::DescribeQuery("SELECT 1".into());
        assert_eq!(Statement::of("DESCRIBE QUERY SELECT 1").unwrap(), query);
        let table = |name: &str, extended| Statement::Describe { name: name.into(), extended };
        assert_eq!(Statement::of("desc table extended t").unwrap(), table("t", true));
        assert_eq!(Statement::of("DESCRIBE extended").unwrap(), table("extended", false));
        assert!(Statement::of("DESCRIBE HISTORY t").is_err());
    }
}
