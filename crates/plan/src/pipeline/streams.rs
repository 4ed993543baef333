//! Takes `STREAM …`, `read_files(…)`, `read_kafka(…)` and `read_delta(…)` out of the tokens of a query,
//! so that sqlparser can read the rest.

use super::ast::{Place, StreamRead, StreamReference};
use super::parse::Parser;
use crate::schema::parse_schema;
use crate::sql;
use crate::sql::text::{error_at, token_at};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use onefold_types::{OptionMap, Result};

/// What the names of streams in the query begin with.
pub(super) const TABLE: &str = "__onefold_stream_";

/// The name under which stream number `place` stands in the query.
pub(super) fn table_name(place: usize) -> String {
    format!("{TABLE}{place}")
}

/// A column's name without the made-up name of its stream: how often a query reads streams before
/// this one is not to be told from its state.
pub(crate) fn without_table_names(name: &str) -> String {
    let mut parts = name.split(TABLE);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|digit: char| digit.is_ascii_digit());
        match rest.strip_prefix('.').filter(|_| rest.len() < part.len()) {
            Some(column) => plain.push_str(column),
            None => plain.extend([TABLE, part]),
        }
    }
    plain
}

/// The name under which the files number `place` that are read as a whole stand in the query.
pub(super) fn whole_name(place: usize) -> String {
    format!("__onefold_whole_{place}")
}

/// What is left of a query, its streams, and the files that it reads as a whole.
type TakenOut = (Vec<TokenWithSpan>, Vec<StreamReference>, Vec<StreamRead>);

/// Replaces each stream, and each `read_files(…)`, `read_kafka(…)` or `read_delta(…)` without STREAM,
/// by a table name.
pub(super) fn take_out(sql: &str, tokens: Vec<TokenWithSpan>) -> Result<TakenOut> {
    let mut parser = Parser::over(sql, tokens);
    let mut rest = Vec::with_capacity(parser.tokens.len());
    let mut streams = Vec::new();
    let mut wholes = Vec::new();
    // Whether we stand among the tables of a FROM, for each open bracket.
    let mut among_tables = vec![false];
    let mut expects_table = false;
    while let Some(token) = parser.tokens.get(parser.at).cloned() {
        if expects_table && parser.word_is(0, "stream") && stream_follows(&parser) {
            let place = parser.place();
            parser.advance();
            streams.push(reference(&mut parser, place)?);
            let name = Token::make_word(&table_name(streams.len() - 1), Some('`'));
            rest.push(token_at(name, token.span));
            expects_table = false;
            continue;
        }
        if expects_table && reads_once(&parser) {
            let place = parser.place();
            let name = parser.dotted("read_files, read_kafka or read_delta")?;
            wholes.push(read(&mut parser, &name, place)?);
            let name = Token::make_word(&whole_name(wholes.len() - 1), Some('`'));
            rest.push(token_at(name, token.span));
            expects_table = false;
            continue;
        }
        expects_table = track(&token.token, &mut among_tables, expects_table);
        rest.push(token);
        parser.advance();
    }
    Ok((rest, streams, wholes))
}

/// Whether a table may follow this token.
fn track(token: &Token, among_tables: &mut Vec<bool>, expected: bool) -> bool {
    match token {
        Token::LParen => {
            among_tables.push(expected);
            expected
        }
        Token::RParen => {
            if among_tables.len() > 1 {
                among_tables.pop();
            }
            false
        }
        Token::Comma => among_tables.last().copied().unwrap_or(false),
        Token::Word(word) if word.quote_style.is_none() => {
            let word = word.value.to_ascii_lowercase();
            let now = match word.as_str() {
                "from" | "join" => Some(true),
                "select" | "where" | "group" | "having" | "order" | "limit" | "union" | "on"
                | "using" | "lateral" => Some(false),
                _ => None,
            };
            if let (Some(now), Some(last)) = (now, among_tables.last_mut()) {
                *last = now || (*last && matches!(word.as_str(), "on" | "using"));
            }
            now == Some(true)
        }
        _ => false,
    }
}

/// After the word STREAM: a bracket or a name, and not a clause (a table may be named `stream`).
fn stream_follows(parser: &Parser<'_>) -> bool {
    match parser.peek_nth(1) {
        Some(Token::LParen) => true,
        Some(Token::Word(word)) => {
            let clause = [
                "as", "where", "join", "inner", "left", "right", "full", "cross", "on", "group",
                "order", "limit", "union", "having", "lateral", "natural",
            ];
            word.quote_style.is_some()
                || !clause.contains(&word.value.to_ascii_lowercase().as_str())
        }
        _ => false,
    }
}

fn reads_once(parser: &Parser<'_>) -> bool {
    ["read_files", "read_kafka", "read_delta"].iter().any(|function| parser.word_is(0, function))
        && parser.peek_nth(1) == Some(&Token::LParen)
}

/// What stands after STREAM: `(name)`, `name`, `(function(…))` or `function(…)`.
fn reference(parser: &mut Parser<'_>, place: Place) -> Result<StreamReference> {
    let bracket = parser.take_symbol(&Token::LParen);
    let name = parser.dotted("a table, read_files(…) or another source")?;
    let found = if parser.peek() == Some(&Token::LParen) {
        StreamReference::Read(read(parser, &name, place)?)
    } else {
        StreamReference::Table { name, place }
    };
    if bracket {
        parser.expect_symbol(&Token::RParen)?;
    }
    Ok(found)
}

fn read(parser: &mut Parser<'_>, function: &str, place: Place) -> Result<StreamRead> {
    let function = function.to_lowercase();
    let format = match function.as_str() {
        "read_files" | "read_stream" => None,
        other => Some(other.strip_prefix("read_").unwrap_or(other).to_owned()),
    };
    let named = format.is_some();
    let mut read = StreamRead {
        format,
        paths: Vec::new(),
        schema: None,
        name: None,
        options: OptionMap::new(),
        place,
    };
    parser.expect_symbol(&Token::LParen)?;
    if !parser.take_symbol(&Token::RParen) {
        loop {
            argument(parser, &mut read, named)?;
            if !parser.take_symbol(&Token::Comma) {
                break;
            }
        }
        parser.expect_symbol(&Token::RParen)?;
    }
    if read.format.is_none() && function == "read_stream" {
        return Err(parser.error("read_stream(…) needs format => '…'"));
    }
    Ok(read)
}

/// `'path'` or `name => value`.
fn argument(parser: &mut Parser<'_>, read: &mut StreamRead, format_given: bool) -> Result<()> {
    let place = parser.location();
    let sql = parser.sql;
    let value_follows = |parser: &Parser<'_>| {
        matches!(parser.peek_nth(1), Some(Token::RArrow | Token::Eq | Token::Period))
    };
    if !value_follows(parser) {
        read.paths.push(parser.string("a path in quotes or option => value")?);
        return Ok(());
    }
    let key = match parser.peek() {
        Some(Token::Word(_)) => parser.dotted("an option")?,
        _ => parser.string("an option")?,
    };
    if !(parser.take_symbol(&Token::RArrow) || parser.take_symbol(&Token::Eq)) {
        return Err(parser.wanted("`=>`"));
    }
    let value_place = parser.location();
    let value = parser.option_value()?;
    let twice = || error_at(sql, place, &format!("`{key}` is given twice"));
    match key.to_lowercase().as_str() {
        "format" => {
            if format_given || read.format.is_some() {
                return Err(twice());
            }
            read.format = Some(value.to_lowercase());
        }
        "path" => read.paths.push(value),
        "name" => {
            if read.name.replace(value).is_some() {
                return Err(twice());
            }
        }
        "schema" => {
            let schema = parse_schema(&value)
                .map_err(|error| error_at(sql, value_place, &error.to_string()))?;
            if read.schema.replace(schema).is_some() {
                return Err(twice());
            }
        }
        _ => {
            if read.options.get(&key).is_some() {
                return Err(twice());
            }
            read.options.set(key, value);
        }
    }
    Ok(())
}

/// Gives `STREAM(orders)` without an alias the alias `orders`.
pub(super) fn name_tables(query: &mut ast::Query, streams: &[StreamReference]) {
    sql::aliases::name_tables(query, |own| {
        let found = streams.iter().enumerate().find(|(place, _)| table_name(*place) == own);
        match found {
            Some((_, StreamReference::Table { name, .. })) => Some(name.as_str()),
            _ => None,
        }
    });
}

#[cfg(test)]
mod tests {
    use super::without_table_names;

    #[test]
    fn columns_lose_the_made_up_names_of_their_streams() {
        for (name, plain) in [
            ("__onefold_stream_0.k", "k"),
            ("sum(__onefold_stream_12.v)[count]", "sum(v)[count]"),
            ("__onefold_stream_0.a = __onefold_stream_1.b", "a = b"),
            ("__onefold_stream_0", "__onefold_stream_0"),
            ("__onefold_stream_.k", "__onefold_stream_.k"),
            ("window.end", "window.end"),
        ] {
            assert_eq!(without_table_names(name), plain);
        }
    }
}
