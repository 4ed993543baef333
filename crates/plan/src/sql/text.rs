//! SQL text to tokens and syntax trees, with limits and with errors that point into the text.

use super::dialect::Spark;
use super::literals;
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

fn check_depth(sql: &str, tokens: &[TokenWithSpan]) -> Result<()> {
    let mut operators = vec![0_usize];
    let mut total = 0_usize;
    for token in tokens {
        let innermost = operators.last_mut();
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                operators.push(0);
                if operators.len() > DEPTH_MAX {
                    let what = format!("brackets are nested deeper than {DEPTH_MAX}");
                    return Err(error_at(sql, token.span.start, &what));
                }
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                if operators.len() > 1 {
                    total -= operators.pop().unwrap_or(0);
                    // A call or an index behind the bracket makes the tree deeper.
                    total += 1;
                    if let Some(outer) = operators.last_mut() {
                        *outer += 1;
                    }
                }
            }
            Token::Comma | Token::SemiColon => {
                if let Some(count) = innermost {
                    total -= std::mem::take(count);
                }
            }
            other => {
                if let Some(count) = innermost {
                    if separates(other) {
                        total -= std::mem::take(count);
                    } else if deepens(other) {
                        *count += 1;
                        total += 1;
                    }
                }
            }
        }
        if total > OPERATORS_MAX {
            let what = format!(
                "more than {OPERATORS_MAX} operators in one expression; split it, or use IN (…)"
            );
            return Err(error_at(sql, token.span.start, &what));
        }
    }
    Ok(())
}

fn word_is(token: &Token, words: &[&str]) -> bool {
    match token {
        Token::Word(word) if word.quote_style.is_none() => {
            words.iter().any(|known| word.value.eq_ignore_ascii_case(known))
        }
        _ => false,
    }
}

/// Words after which a new expression begins beside the one before.
fn separates(token: &Token) -> bool {
    word_is(token, &["select", "from", "where", "when", "then", "else", "on", "by", "having"])
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

pub(crate) fn parse_query(sql: &str) -> Result<Box<ast::Query>> {
    let mut tokens = tokens(sql)?;
    while tokens.last().is_some_and(|token| token.token == Token::SemiColon) {
        tokens.pop();
    }
    query_of(sql, tokens)
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
