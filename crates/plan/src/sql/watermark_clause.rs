//! `WATERMARK column DELAY OF INTERVAL …` after a table or a query in brackets, as in Spark 4.2.
//!
//! sqlparser does not know it. So before it reads the tokens, each clause is taken out with the
//! relation before it, and a table stands in their place; that table is made when the query is
//! planned.

use super::catalog::{Tables, object_name};
use super::text::{error_at, query_of, token_at};
use crate::failure;
use crate::stream::with_watermark;
use datafusion::catalog::view::ViewTable;
use datafusion::common::Column;
use datafusion::datasource::provider_as_source;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};
use onefold_types::{Error, Result};
use std::sync::Arc;

/// A relation with a watermark, and the table that stands for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Watermarked {
    /// The name of the table that stands for it.
    name: String,
    over: Over,
    /// The event time: a column, or an expression with a name.
    event_time: String,
    alias: Option<String>,
    delay: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Over {
    Name(String),
    Query(Box<ast::Query>),
}

/// Takes the clauses out of the tokens of a query. A table whose name begins with `keep` is unique
/// in the query and keeps its name.
pub(crate) fn take_out(
    sql: &str,
    tokens: Vec<TokenWithSpan>,
    keep: &str,
) -> Result<(Vec<TokenWithSpan>, Vec<Watermarked>)> {
    let mut rest: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut found: Vec<Watermarked> = Vec::new();
    let mut cursor = Cursor { sql, tokens, at: 0 };
    while let Some(token) = cursor.tokens.get(cursor.at).cloned() {
        if !(cursor.word_is("watermark") && cursor.delay_follows()) {
            rest.push(token);
            cursor.at += 1;
            continue;
        }
        let place = token.span.start;
        let over = match relation(sql, &mut rest)? {
            Some(over) => over,
            None => {
                return Err(error_at(
                    sql,
                    place,
                    "WATERMARK stands after a table, or after a query in brackets",
                ));
            }
        };
        cursor.at += 1;
        let (event_time, alias) = cursor.event_time()?;
        let delay = cursor.delay()?;
        let name = match &over {
            Over::Name(name) if name.starts_with(keep) => name.clone(),
            _ => format!("__onefold_watermark_{}", found.len()),
        };
        rest.push(token_at(Token::make_word(&name, Some('`')), token.span));
        found.push(Watermarked { name, over, event_time, alias, delay });
    }
    Ok((rest, found))
}

/// Takes the relation at the end of the tokens.
fn relation(sql: &str, rest: &mut Vec<TokenWithSpan>) -> Result<Option<Over>> {
    match rest.last().map(|last| &last.token) {
        Some(Token::RParen) => {
            let mut depth = 0_usize;
            let open = rest.iter().rposition(|token| {
                match token.token {
                    Token::RParen => depth += 1,
                    Token::LParen => depth -= 1,
                    _ => {}
                }
                depth == 0
            });
            let Some(open) = open else { return Ok(None) };
            let mut inside = rest.split_off(open);
            inside.pop();
            inside.remove(0);
            Ok(Some(Over::Query(query_of(sql, inside)?)))
        }
        Some(Token::Word(_)) => {
            let mut parts: Vec<String> = Vec::new();
            while let Some(Token::Word(word)) = rest.last().map(|last| last.token.clone()) {
                parts.push(word.value);
                rest.pop();
                if rest.last().is_none_or(|last| last.token != Token::Period) {
                    break;
                }
                rest.pop();
            }
            parts.reverse();
            Ok(Some(Over::Name(parts.join("."))))
        }
        _ => Ok(None),
    }
}

struct Cursor<'a> {
    sql: &'a str,
    tokens: Vec<TokenWithSpan>,
    at: usize,
}

impl Cursor<'_> {
    fn word_at(&self, at: usize, wanted: &str) -> bool {
        match self.tokens.get(at).map(|token| &token.token) {
            Some(Token::Word(word)) => {
                word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted)
            }
            _ => false,
        }
    }

    fn word_is(&self, wanted: &str) -> bool {
        self.word_at(self.at, wanted)
    }

    /// Whether `DELAY OF` follows before the relation can be over: else `watermark` is a name.
    fn delay_follows(&self) -> bool {
        self.delay_place().is_some()
    }

    fn delay_place(&self) -> Option<usize> {
        let mut depth = 0_usize;
        for at in self.at + 1..self.tokens.len() {
            match self.tokens.get(at).map(|token| &token.token) {
                Some(Token::LParen | Token::LBracket) => depth += 1,
                Some(Token::RParen | Token::RBracket) => depth = depth.checked_sub(1)?,
                Some(Token::SemiColon) | None => return None,
                Some(Token::Word(_)) if depth == 0 => {
                    if self.word_at(at, "delay") && self.word_at(at + 1, "of") {
                        return Some(at);
                    }
                    let ends = ["select", "from", "where", "group", "join", "on", "union"];
                    if ends.iter().any(|word| self.word_at(at, word)) {
                        return None;
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn location(&self) -> Location {
        match self.tokens.get(self.at) {
            Some(token) => token.span.start,
            None => {
                self.tokens.last().map_or(Location { line: 1, column: 1 }, |last| last.span.end)
            }
        }
    }

    fn wanted(&self, what: &str) -> Error {
        let found = match self.tokens.get(self.at) {
            Some(token) => format!("`{}`", token.token),
            None => "the end".to_owned(),
        };
        error_at(self.sql, self.location(), &format!("expected {what}, found {found}"))
    }

    /// The expression up to DELAY, with the name after AS.
    fn event_time(&mut self) -> Result<(String, Option<String>)> {
        let delay = |at: &usize| self.word_at(*at, "delay") && self.word_at(at + 1, "of");
        let Some(end) = (self.at..self.tokens.len()).find(delay) else {
            return Err(self.wanted("a column and DELAY OF"));
        };
        let mut own = self.tokens.get(self.at..end).unwrap_or_default().to_vec();
        if own.is_empty() {
            return Err(self.wanted("a column"));
        }
        let alias = match own.as_slice() {
            [.., TokenWithSpan { token: Token::Word(word), .. }, last]
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("as") =>
            {
                match &last.token {
                    Token::Word(name) => Some(name.value.clone()),
                    _ => None,
                }
            }
            _ => None,
        };
        if alias.is_some() {
            own.truncate(own.len() - 2);
        }
        self.at = end;
        let text: Vec<String> = own.iter().map(|token| token.token.to_string()).collect();
        Ok((text.join(" "), alias))
    }

    /// `DELAY OF INTERVAL 10 SECONDS`, as the text of the interval.
    fn delay(&mut self) -> Result<String> {
        self.at += 2;
        if !self.word_is("interval") {
            return Err(self.wanted("INTERVAL"));
        }
        self.at += 1;
        let mut parts: Vec<String> = Vec::new();
        loop {
            let part = match self.tokens.get(self.at).map(|token| &token.token) {
                Some(Token::Number(number, _)) => number.clone(),
                Some(Token::SingleQuotedString(text) | Token::DoubleQuotedString(text)) => {
                    text.clone()
                }
                Some(Token::Minus) => "-".to_owned(),
                Some(Token::Plus) => "+".to_owned(),
                Some(Token::Word(word)) if word.quote_style.is_none() && is_unit(&word.value) => {
                    word.value.clone()
                }
                _ => break,
            };
            parts.push(part);
            self.at += 1;
        }
        if parts.is_empty() {
            return Err(self.wanted("a length of time, such as 10 SECONDS"));
        }
        Ok(parts.join(" "))
    }
}

fn is_unit(word: &str) -> bool {
    let lower = word.to_lowercase();
    let singular = lower.strip_suffix('s').unwrap_or(&lower);
    ["year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"]
        .contains(&singular)
}

/// Gives stand-ins without an alias the names of their tables.
pub(crate) fn name_tables(query: &mut ast::Query, watermarked: &[Watermarked]) {
    super::aliases::name_tables(query, |own| {
        match &watermarked.iter().find(|it| it.name == own)?.over {
            Over::Name(name) => (name != own).then_some(name.as_str()),
            Over::Query(_) => None,
        }
    });
}

/// The names of tables and views that watermarks stand over.
pub(crate) fn names(watermarked: &[Watermarked]) -> Vec<String> {
    let mut names = Vec::new();
    for it in watermarked {
        match &it.over {
            Over::Name(name) => names.push(name.clone()),
            Over::Query(query) => {
                names.extend(super::catalog::relations(query).iter().map(object_name));
            }
        }
    }
    names
}

/// Makes the tables that stand for relations with watermarks.
pub(crate) async fn plan_all(
    state: &SessionState,
    tables: &mut Tables,
    watermarked: &[Watermarked],
) -> Result<()> {
    for it in watermarked {
        let input = match &it.over {
            Over::Name(name) => {
                tables.find_name(state, name).await?;
                let Some(source) = tables.get(name) else {
                    return Err(Error::invalid(format!("there is no table or view `{name}`")));
                };
                let last = name.rsplit('.').next().unwrap_or(name);
                LogicalPlanBuilder::scan(bare(last), Arc::clone(source), None)
                    .and_then(LogicalPlanBuilder::build)
                    .map_err(failure::planning)?
            }
            Over::Query(query) => {
                tables.find_all(state, query).await?;
                super::plan(state, tables, query.clone())?
            }
        };
        let plan = it.plan(state, input)?;
        let view = provider_as_source(Arc::new(ViewTable::new(plan, None)));
        tables.insert(&it.name, view);
    }
    Ok(())
}

fn bare(name: &str) -> datafusion::common::TableReference {
    datafusion::common::TableReference::bare(name)
}

impl Watermarked {
    fn plan(&self, state: &SessionState, input: LogicalPlan) -> Result<LogicalPlan> {
        let text = match &self.alias {
            Some(alias) => format!("{} AS `{alias}`", self.event_time),
            None => self.event_time.clone(),
        };
        let mut items =
            super::items(state, input.schema(), super::text::parse_select_item(&text)?)?;
        let (Some(item), true) = (items.pop(), items.is_empty()) else {
            return Err(Error::invalid("WATERMARK takes one column"));
        };
        if let Expr::Column(column) = &item {
            return with_watermark(input, &column.name, &self.delay);
        }
        if self.alias.is_none() {
            return Err(Error::invalid(format!(
                "the event time `{}` of WATERMARK is an expression: give it a name with AS",
                self.event_time
            )));
        }
        let columns = input.schema().iter();
        let mut exprs: Vec<Expr> = columns
            .map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field))))
            .collect();
        let name = item.schema_name().to_string();
        exprs.push(item);
        let projected = LogicalPlanBuilder::from(input).project(exprs);
        let projected = projected.and_then(LogicalPlanBuilder::build).map_err(failure::planning)?;
        with_watermark(projected, &name, &self.delay)
    }
}
