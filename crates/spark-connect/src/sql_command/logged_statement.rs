//! Statements on tables that keep a log: `MERGE INTO`, `UPDATE`, `DELETE`, `OPTIMIZE`, `VACUUM` and
//! `DESCRIBE HISTORY`, as texts whose expressions are not looked at yet.

use super::statement::{after, name};
use super::table_statement::{bracketed, incomplete, list};
use super::words::{find, parts};
use crate::failure::{Failure, Outcome, quoted};
use onefold_engine::MergeWhen;

/// A statement on a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LoggedStatement {
    /// The table's name, or `delta.PATH`.
    pub(crate) table: String,
    /// What qualifies its columns.
    pub(crate) alias: Option<String>,
    pub(crate) act: Act,
}

/// What is done to it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Act {
    History { limit: Option<usize> },
    Optimize,
    Vacuum { retain_hours: Option<u64>, dry_run: bool },
    Delete { condition: Option<String> },
    Update { set: Vec<(String, String)>, condition: Option<String> },
    Merge(Merge),
}

/// A merge.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Merge {
    /// What stands behind USING, without its alias.
    pub(crate) source: String,
    pub(crate) source_alias: String,
    pub(crate) on: String,
    pub(crate) clauses: Vec<Clause>,
    pub(crate) adds_columns: bool,
}

/// `WHEN …` of a merge.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) when: MergeWhen,
    pub(crate) condition: Option<String>,
    pub(crate) act: ClauseAct,
}

/// What a clause does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClauseAct {
    UpdateAll,
    Update(Vec<(String, String)>),
    InsertAll,
    Insert(Vec<(String, String)>),
    Delete,
}

impl LoggedStatement {
    /// The statement, if the text is one of these.
    ///
    /// # Errors
    /// It begins as one and is not complete, or has a clause that is not known.
    pub(crate) fn of(text: &str) -> Outcome<Option<LoggedStatement>> {
        for words in [&["describe", "history"][..], &["desc", "history"][..]] {
            if let Some(rest) = after(text, words) {
                return history(text, rest).map(Some);
            }
        }
        if let Some(rest) = after(text, &["optimize"]) {
            let (table, rest) = name(rest).ok_or_else(|| incomplete(text))?;
            nothing_left("OPTIMIZE", rest)?;
            return Ok(Some(LoggedStatement { table, alias: None, act: Act::Optimize }));
        }
        if let Some(rest) = after(text, &["vacuum"]) {
            return vacuum(text, rest).map(Some);
        }
        if let Some(rest) = after(text, &["delete", "from"]) {
            let (head, condition) = with_condition(rest);
            let (table, alias) = named(text, head)?;
            return Ok(Some(LoggedStatement { table, alias, act: Act::Delete { condition } }));
        }
        if let Some(rest) = after(text, &["update"]) {
            let (head, rest) = find(rest, &["set"]).ok_or_else(|| incomplete(text))?;
            let (sets, condition) = with_condition(rest);
            let (table, alias) = named(text, head)?;
            let act = Act::Update { set: assignments(text, sets)?, condition };
            return Ok(Some(LoggedStatement { table, alias, act }));
        }
        if let Some(rest) = after(text, &["merge"]) {
            return merge(text, rest).map(Some);
        }
        Ok(None)
    }
}

fn nothing_left(what: &str, rest: &str) -> Outcome<()> {
    if rest.is_empty() { Ok(()) } else { Err(Failure::unsupported(format!("{what} … {rest}"))) }
}

fn history(text: &str, rest: &str) -> Outcome<LoggedStatement> {
    let (table, rest) = name(rest).ok_or_else(|| incomplete(text))?;
    let limit = match after(rest, &["limit"]) {
        Some(count) => Some(count.parse().map_err(|_| incomplete(text))?),
        None => {
            nothing_left("DESCRIBE HISTORY", rest)?;
            None
        }
    };
    Ok(LoggedStatement { table, alias: None, act: Act::History { limit } })
}

fn vacuum(text: &str, rest: &str) -> Outcome<LoggedStatement> {
    let (table, mut rest) = name(rest).ok_or_else(|| incomplete(text))?;
    let (mut retain_hours, mut dry_run) = (None, false);
    while !rest.is_empty() {
        if let Some(behind) = after(rest, &["retain"]) {
            let (hours, behind) = name(behind).ok_or_else(|| incomplete(text))?;
            retain_hours = Some(hours.parse().map_err(|_| incomplete(text))?);
            rest = after(behind, &["hours"]).ok_or_else(|| incomplete(text))?;
        } else if let Some(behind) = after(rest, &["dry", "run"]) {
            dry_run = true;
            rest = behind;
        } else {
            nothing_left("VACUUM", rest)?;
        }
    }
    Ok(LoggedStatement { table, alias: None, act: Act::Vacuum { retain_hours, dry_run } })
}

/// What is before WHERE, and the condition behind it.
fn with_condition(text: &str) -> (&str, Option<String>) {
    match find(text, &["where"]) {
        Some((before, condition)) => (before, Some(condition.to_owned())),
        None => (text, None),
    }
}

/// A name and its alias.
fn named(text: &str, part: &str) -> Outcome<(String, Option<String>)> {
    let (table, rest) = name(part).ok_or_else(|| incomplete(text))?;
    let rest = after(rest, &["as"]).unwrap_or(rest);
    let alias = name(rest).map(|(alias, _)| alias);
    Ok((table, alias))
}

/// `a = 1, t.b = 2`.
fn assignments(text: &str, sets: &str) -> Outcome<Vec<(String, String)>> {
    let one = |part: &&str| {
        let (column, value) = part.split_once('=').ok_or_else(|| incomplete(text))?;
        Ok((column_of(column), value.trim().to_owned()))
    };
    parts(sets).iter().map(one).collect()
}

/// A column's name without what qualifies it.
fn column_of(text: &str) -> String {
    let text = text.trim();
    let last = match text.strip_suffix('`') {
        Some(quoted) => quoted.rsplit('`').next().unwrap_or(quoted),
        None => text.rsplit('.').next().unwrap_or(text),
    };
    last.to_owned()
}

fn merge(text: &str, rest: &str) -> Outcome<LoggedStatement> {
    let wrong = || incomplete(text);
    let evolving = after(rest, &["with", "schema", "evolution"]);
    let rest = after(evolving.unwrap_or(rest), &["into"]).ok_or_else(wrong)?;
    let (head, rest) = find(rest, &["using"]).ok_or_else(wrong)?;
    let (table, alias) = named(text, head)?;
    let (source, rest) = find(rest, &["on"]).ok_or_else(wrong)?;
    let (source, source_alias) = match bracketed(source) {
        Some((query, behind)) => {
            let alias = after(behind, &["as"]).unwrap_or(behind);
            let (alias, _) = name(alias).ok_or_else(wrong)?;
            (format!("({query})"), alias)
        }
        None => {
            let (table, alias) = named(text, source)?;
            let own = alias.unwrap_or_else(|| last_part(&table));
            (spelled(&table), own)
        }
    };
    let (on, mut rest) = find(rest, &["when"]).ok_or_else(wrong)?;
    let mut clauses = Vec::new();
    loop {
        let (one, behind) = match find(rest, &["when"]) {
            Some((one, behind)) => (one, Some(behind)),
            None => (rest, None),
        };
        clauses.push(clause(text, one)?);
        match behind {
            Some(behind) => rest = behind,
            None => break,
        }
    }
    let merge = Merge {
        source,
        source_alias,
        on: on.to_owned(),
        clauses,
        adds_columns: evolving.is_some(),
    };
    Ok(LoggedStatement { table, alias, act: Act::Merge(merge) })
}

/// What qualifies the columns of a table without an alias.
pub(crate) fn last_part(table: &str) -> String {
    table.rsplit('.').next().unwrap_or(table).to_owned()
}

/// A table's name in SQL.
pub(crate) fn spelled(table: &str) -> String {
    match table.strip_prefix("delta.") {
        Some(path) => format!("delta.`{path}`"),
        None => quoted(table),
    }
}

fn clause(text: &str, one: &str) -> Outcome<Clause> {
    let wrong = || incomplete(text);
    let kinds = [
        (&["not", "matched", "by", "source"][..], MergeWhen::NotMatchedBySource),
        (&["not", "matched", "by", "target"][..], MergeWhen::NotMatched),
        (&["not", "matched"][..], MergeWhen::NotMatched),
        (&["matched"][..], MergeWhen::Matched),
    ];
    let (when, rest) = kinds
        .into_iter()
        .find_map(|(words, when)| Some((when, after(one, words)?)))
        .ok_or_else(wrong)?;
    let (condition, act) = find(rest, &["then"]).ok_or_else(wrong)?;
    let condition = after(condition, &["and"]).map(str::to_owned);
    let act = if after(act, &["delete"]).is_some() {
        ClauseAct::Delete
    } else if let Some(sets) = after(act, &["update", "set"]) {
        if sets == "*" { ClauseAct::UpdateAll } else { ClauseAct::Update(assignments(text, sets)?) }
    } else if let Some(values) = after(act, &["insert"]) {
        if values == "*" { ClauseAct::InsertAll } else { inserted(text, values)? }
    } else {
        return Err(wrong());
    };
    let fits = match when {
        MergeWhen::Matched => !matches!(act, ClauseAct::InsertAll | ClauseAct::Insert(_)),
        MergeWhen::NotMatched => matches!(act, ClauseAct::InsertAll | ClauseAct::Insert(_)),
        MergeWhen::NotMatchedBySource => {
            matches!(act, ClauseAct::Update(_) | ClauseAct::Delete)
        }
    };
    if fits { Ok(Clause { when, condition, act }) } else { Err(wrong()) }
}

/// `(a, b) VALUES (1, 2)`.
fn inserted(text: &str, rest: &str) -> Outcome<ClauseAct> {
    let wrong = || incomplete(text);
    let (columns, rest) = bracketed(rest).ok_or_else(wrong)?;
    let values = after(rest, &["values"]).ok_or_else(wrong)?;
    let (values, _) = bracketed(values).ok_or_else(wrong)?;
    let columns: Vec<String> = list(columns).iter().map(|it| column_of(it)).collect();
    let values = parts(values);
    if columns.len() != values.len() {
        return Err(wrong());
    }
    let pairs = columns.into_iter().zip(values).map(|(name, value)| (name, value.to_owned()));
    Ok(ClauseAct::Insert(pairs.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> LoggedStatement {
        LoggedStatement::of(text).unwrap().unwrap()
    }

    #[test]
    fn statements_are_taken_apart() {
        assert_eq!(of("DESCRIBE HISTORY t LIMIT 2").act, Act::History { limit: Some(2) });
        let path = of("DESC HISTORY delta.`/a/b c`");
        assert_eq!(path.table, "delta./a/b c");
        let vacuum = Act::Vacuum { retain_hours: Some(0), dry_run: true };
        assert_eq!(of("VACUUM t RETAIN 0 HOURS DRY RUN").act, vacuum);
        let delete = of("DELETE FROM t AS x WHERE x.id = 'where'");
        assert_eq!(delete.alias.as_deref(), Some("x"));
        assert_eq!(delete.act, Act::Delete { condition: Some("x.id = 'where'".to_owned()) });
        let set = vec![("a".to_owned(), "f(1, 2)".to_owned()), ("b c".to_owned(), "2".to_owned())];
        let update = of("update t set t.a = f(1, 2), `b c` = 2 where id > 1");
        assert_eq!(update.act, Act::Update { set, condition: Some("id > 1".to_owned()) });
        assert_eq!(LoggedStatement::of("SELECT 1").unwrap(), None);
        for broken in ["UPDATE t", "MERGE INTO t USING s ON a", "DESCRIBE HISTORY", "VACUUM t x"] {
            assert!(LoggedStatement::of(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_merge_is_taken_apart() {
        let merge = of("MERGE INTO t USING (SELECT 1 AS id) AS s ON t.id = s.id \
             WHEN MATCHED AND s.v > CASE WHEN true THEN 1 ELSE 2 END THEN UPDATE SET * \
             WHEN MATCHED THEN DELETE \
             WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, coalesce(s.v, 0)) \
             WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t.v = 0");
        let Act::Merge(merge) = merge.act else { panic!() };
        assert_eq!((merge.source.as_str(), merge.source_alias.as_str()), ("(SELECT 1 AS id)", "s"));
        assert_eq!(merge.on, "t.id = s.id");
        assert_eq!(merge.clauses.len(), 4);
        let inserts = ClauseAct::Insert(vec![
            ("id".to_owned(), "s.id".to_owned()),
            ("v".to_owned(), "coalesce(s.v, 0)".to_owned()),
        ]);
        assert_eq!(merge.clauses[2].act, inserts);
        assert!(merge.clauses[0].condition.as_deref().unwrap().ends_with("END"));
        let wrong = "MERGE INTO t USING s ON a WHEN NOT MATCHED THEN DELETE";
        assert!(LoggedStatement::of(wrong).is_err());
    }
}
