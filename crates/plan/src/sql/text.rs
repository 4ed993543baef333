//! SQL text to tokens and syntax trees, with limits and with errors that point into the text.

use super::dialect::Spark;
use super::literals;
use super::watermark_clause::{self, Watermarked};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};
use onefold_types::{Error, Result};

/// Longest SQL text, in bytes.
pub const SQL_BYTES_MAX: usize = 1 << 20;
/// Most operators in a row, with those of the brackets around them. sqlparser makes a tree as deep
/// as that, and walking or dropping a tree takes stack.
pub(crate) const OPERATORS_MAX: usize = 400;
/// Deepest nesting of brackets and subqueries.
const DEPTH_MAX: usize = 64;
/// Most joins and set operations in a statement, and most tables and `WITH` queries in a query.
pub(super) const TABLES_MAX: usize = 200;

/// The tokens of a text without whitespace and comments.
pub(crate) fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>> {
    if sql.len() > SQL_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the SQL text has {} bytes, more than the limit of {SQL_BYTES_MAX}",
            sql.len()
        )));
    }
    let mut tokenizer = Tokenizer::new(&Spark, sql);
    let tokens = tokenizer
        .tokenize_with_location()
        .map_err(|error| error_at(sql, error.location, &error.message))?;
    let tokens: Vec<_> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    check_depth(sql, &tokens)?;
    Ok(literals::join_suffixes(tokens))
}

/// The operators between two brackets.
#[derive(Default)]
struct Level {
    /// In the expression that is being read.
    operators: usize,
    /// In the one before with the most.
    deepest: usize,
}

fn check_depth(sql: &str, tokens: &[TokenWithSpan]) -> Result<()> {
    let mut levels = vec![Level::default()];
    let mut tables = 0_usize;
    for token in tokens {
        let opens = matches!(token.token, Token::LParen | Token::LBracket | Token::LBrace);
        let closes = matches!(token.token, Token::RParen | Token::RBracket | Token::RBrace);
        if opens {
            levels.push(Level::default());
        } else if closes && levels.len() > 1 {
            // What is in the brackets stands below the operators behind them.
            let inner = levels.pop().unwrap_or_default();
            if let Some(outer) = levels.last_mut() {
                outer.operators += inner.operators.max(inner.deepest) + 1;
            }
        } else if let Some(level) = levels.last_mut() {
            if separates(&token.token) {
                level.deepest = level.deepest.max(std::mem::take(&mut level.operators));
            } else {
                level.operators += usize::from(deepens(&token.token));
            }
        }
        if matches!(token.token, Token::SemiColon) {
            levels = vec![Level::default()];
            tables = 0;
        }
        tables += usize::from(word_is(&token.token, &RELATIONS));
        let operators = levels.last().map_or(0, |level| level.operators);
        let what = if levels.len() > DEPTH_MAX {
            format!("brackets are nested deeper than {DEPTH_MAX}")
        } else if operators > OPERATORS_MAX {
            format!(
                "more than {OPERATORS_MAX} operators in one expression; split it, or use IN (…)"
            )
        } else if tables > TABLES_MAX {
            format!("more than {TABLES_MAX} joins and set operations in one statement")
        } else {
            continue;
        };
        return Err(error_at(sql, token.span.start, &what));
    }
    Ok(())
}

/// Words that make the tree of tables deeper.
const RELATIONS: [&str; 5] = ["join", "union", "intersect", "except", "minus"];

fn word_is(token: &Token, words: &[&str]) -> bool {
    match token {
        Token::Word(word) if word.quote_style.is_none() => {
            words.iter().any(|known| word.value.eq_ignore_ascii_case(known))
        }
        _ => false,
    }
}

/// Tokens after which a new expression begins beside the one before.
fn separates(token: &Token) -> bool {
    matches!(token, Token::Comma | Token::SemiColon)
        || word_is(
            token,
            &["select", "from", "where", "when", "then", "else", "on", "by", "having"],
        )
}

fn deepens(token: &Token) -> bool {
    match token {
        Token::Word(_) => word_is(
            token,
            &[
                "and",
                "or",
                "not",
                "is",
                "like",
                "ilike",
                "rlike",
                "regexp",
                "between",
                "in",
                "div",
                "case",
                "union",
                "intersect",
                "except",
                "minus",
                "join",
                "collate",
                "at",
                "interval",
                "prior",
                "xor",
                "over",
            ],
        ),
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::Period
        | Token::EOF => false,
        _ => true,
    }
}

/// An error at a place of the text, with the line and a caret under the place.
pub(crate) fn error_at(sql: &str, at: Location, what: &str) -> Error {
    // A place past the end (or none) is the end.
    let (line_number, column) = if at.line == 0 { end(sql) } else { (at.line, at.column) };
    let index = usize::try_from(line_number.saturating_sub(1)).unwrap_or(usize::MAX);
    let line = sql.split('\n').nth(index).unwrap_or_default().trim_end_matches('\r');
    let place = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX);
    // A long line is cut around the place.
    let skip = place.saturating_sub(80);
    let shown: String = line.chars().skip(skip).take(120).map(plain).collect();
    let before = " ".repeat(place.saturating_sub(skip).min(120));
    let margin = line_number.to_string();
    let blank = " ".repeat(margin.len());
    Error::invalid(format!(
        "line {line_number}, column {column}: {what}\n{margin} | {shown}\n{blank} | {before}^"
    ))
}

/// A tab or control character as one blank, so that the caret stands right.
fn plain(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

fn end(sql: &str) -> (u64, u64) {
    let trimmed = sql.trim_end();
    let lines = trimmed.split('\n').count();
    let columns = trimmed.rsplit('\n').next().map_or(0, |line| line.chars().count());
    (u64::try_from(lines).unwrap_or(u64::MAX), u64::try_from(columns + 1).unwrap_or(u64::MAX))
}

/// sqlparser's error as ours: its text ends with ` at Line: 1, Column: 2`.
pub(crate) fn parser_error(sql: &str, error: &ParserError, otherwise: Location) -> Error {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text.as_str(),
        ParserError::RecursionLimitExceeded => "the text is nested too deeply",
    };
    let (what, at) = split_place(text);
    let what = what.replace("Expected: ", "expected ").replace("found: EOF", "found: the end");
    error_at(sql, at.unwrap_or(otherwise), what.trim_end_matches('.'))
}

fn split_place(text: &str) -> (&str, Option<Location>) {
    let Some((what, place)) = text.rsplit_once(" at Line: ") else { return (text, None) };
    let Some((line, column)) = place.split_once(", Column: ") else { return (text, None) };
    match (line.trim().parse(), column.trim().parse()) {
        (Ok(line), Ok(column)) => (what, Some(Location { line, column })),
        _ => (text, None),
    }
}

/// Runs a rule of sqlparser's over all tokens.
fn parse<T>(
    sql: &str,
    tokens: Vec<TokenWithSpan>,
    rule: impl FnOnce(&mut Parser) -> std::result::Result<T, ParserError>,
) -> Result<T> {
    let end = tokens.last().map_or(Location { line: 0, column: 0 }, |last| last.span.end);
    let mut parser =
        Parser::new(&Spark).with_recursion_limit(DEPTH_MAX * 2).with_tokens_with_locations(tokens);
    let parsed = rule(&mut parser).map_err(|error| parser_error(sql, &error, end))?;
    let rest = parser.peek_token();
    match rest.token {
        Token::EOF => Ok(parsed),
        found => Err(error_at(sql, rest.span.start, &format!("expected the end, found: {found}"))),
    }
}

pub(crate) fn query_of(sql: &str, tokens: Vec<TokenWithSpan>) -> Result<Box<ast::Query>> {
    parse(sql, tokens, |parser| parser.parse_query())
}

/// A query, and its relations with a watermark.
pub(crate) fn parse_query(sql: &str) -> Result<(Box<ast::Query>, Vec<Watermarked>)> {
    let mut tokens = tokens(sql)?;
    while tokens.last().is_some_and(|token| token.token == Token::SemiColon) {
        tokens.pop();
    }
    watermarked_query(sql, tokens, "\0")
}

/// The same from tokens. Tables whose names begin with `keep` are unique in the query.
pub(crate) fn watermarked_query(
    sql: &str,
    tokens: Vec<TokenWithSpan>,
    keep: &str,
) -> Result<(Box<ast::Query>, Vec<Watermarked>)> {
    let (tokens, watermarked) = watermark_clause::take_out(sql, tokens, keep)?;
    let mut query = query_of(sql, tokens)?;
    watermark_clause::name_tables(&mut query, &watermarked);
    Ok((query, watermarked))
}

pub(crate) fn parse_select_item(sql: &str) -> Result<ast::SelectItem> {
    parse(sql, tokens(sql)?, |parser| parser.parse_select_item())
}

pub(crate) fn parse_expression(sql: &str) -> Result<ast::Expr> {
    parse(sql, tokens(sql)?, |parser| parser.parse_expr())
}

/// A token that stands where another one stood.
pub(crate) fn token_at(token: Token, span: Span) -> TokenWithSpan {
    TokenWithSpan { token, span }
}
