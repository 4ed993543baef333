//! The parser of pipeline files: statements by hand, queries by sqlparser.

use super::ast::{Pipeline, Place, Query, Statement, StreamingTable, View};
use super::clauses::Of;
use super::{flows, streams};
use crate::schema::parse_schema;
use crate::sql::text::{error_at, tokens, watermarked_query};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};
use onefold_types::{Error, Result};

/// Reads a file of statements.
///
/// # Errors
/// Invalid: the text does not parse, or has a statement that a pipeline cannot have; with line,
/// column and the line itself.
pub fn parse(sql: &str) -> Result<Pipeline> {
    let mut parser = Parser::over(sql, tokens(sql)?);
    let mut pipeline = Pipeline { statements: Vec::new() };
    loop {
        while parser.take_symbol(&Token::SemiColon) {}
        if parser.peek().is_none() {
            flows::into_sinks(&mut pipeline, &parser.flows_into, sql)?;
            return Ok(pipeline);
        }
        let statement = parser.statement()?;
        check_name(&pipeline, &statement, sql)?;
        pipeline.statements.push(statement);
        if parser.peek().is_some() && !parser.take_symbol(&Token::SemiColon) {
            return Err(parser.wanted("`;` or the end"));
        }
    }
}

/// Names of tables, views, sinks and flows are unique, without case.
fn check_name(pipeline: &Pipeline, statement: &Statement, sql: &str) -> Result<()> {
    let (Some(name), place) = (statement.name(), statement.place()) else { return Ok(()) };
    let taken = pipeline.statements.iter().find(|known| {
        known.name().is_some_and(|known| known.to_lowercase() == name.to_lowercase())
    });
    let Some(taken) = taken else { return Ok(()) };
    let at = Location { line: place.line, column: place.column };
    let what =
        format!("the name `{name}` is taken by the statement in line {}", taken.place().line);
    Err(error_at(sql, at, &what))
}

pub(super) struct Parser<'a> {
    pub(super) sql: &'a str,
    pub(super) tokens: Vec<TokenWithSpan>,
    pub(super) at: usize,
    /// The names of the sinks of each flow so far.
    pub(super) flows_into: Vec<Vec<String>>,
}

/// Where a table without `USING` is kept, as in Spark.
const DEFAULT_FORMAT: &str = "parquet";

const STATEMENTS: &str =
    "CREATE STREAMING TABLE, CREATE TEMPORARY VIEW, CREATE SINK, CREATE FLOW and SET";

impl<'a> Parser<'a> {
    /// A parser at the first of the text's tokens.
    pub(super) fn over(sql: &'a str, tokens: Vec<TokenWithSpan>) -> Parser<'a> {
        Parser { sql, tokens, at: 0, flows_into: Vec::new() }
    }
}

impl Parser<'_> {
    pub(super) fn peek(&self) -> Option<&Token> {
        self.peek_nth(0)
    }

    pub(super) fn peek_nth(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead).map(|token| &token.token)
    }

    /// Where the next token begins; behind the last one at the end.
    pub(super) fn location(&self) -> Location {
        match self.tokens.get(self.at) {
            Some(token) => token.span.start,
            None => {
                self.tokens.last().map_or(Location { line: 1, column: 1 }, |last| last.span.end)
            }
        }
    }

    pub(super) fn place(&self) -> Place {
        let location = self.location();
        Place { line: location.line, column: location.column }
    }

    pub(super) fn error(&self, what: &str) -> Error {
        error_at(self.sql, self.location(), what)
    }

    pub(super) fn wanted(&self, what: &str) -> Error {
        let found = match self.peek() {
            Some(token) => format!("`{token}`"),
            None => "the end".to_owned(),
        };
        self.error(&format!("expected {what}, found {found}"))
    }

    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    pub(super) fn word_is(&self, ahead: usize, wanted: &str) -> bool {
        match self.peek_nth(ahead) {
            Some(Token::Word(word)) => {
                word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted)
            }
            _ => false,
        }
    }

    pub(super) fn take_word(&mut self, wanted: &str) -> bool {
        let found = self.word_is(0, wanted);
        self.at += usize::from(found);
        found
    }

    /// All of these words one after the other, or none.
    pub(super) fn take_words(&mut self, wanted: &[&str]) -> bool {
        let found = wanted.iter().enumerate().all(|(place, word)| self.word_is(place, word));
        if found {
            self.at += wanted.len();
        }
        found
    }

    pub(super) fn expect_word(&mut self, wanted: &str) -> Result<()> {
        if self.take_word(wanted) {
            return Ok(());
        }
        Err(self.wanted(wanted))
    }

    pub(super) fn take_symbol(&mut self, wanted: &Token) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect_symbol(&mut self, wanted: &Token) -> Result<()> {
        if self.take_symbol(wanted) {
            return Ok(());
        }
        Err(self.wanted(&format!("`{wanted}`")))
    }

    pub(super) fn word(&mut self, what: &str) -> Result<String> {
        let Some(Token::Word(word)) = self.peek() else { return Err(self.wanted(what)) };
        let word = word.value.clone();
        self.advance();
        Ok(word)
    }

    pub(super) fn string(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Some(
                Token::SingleQuotedString(text)
                | Token::DoubleQuotedString(text)
                | Token::SingleQuotedRawStringLiteral(text)
                | Token::DoubleQuotedRawStringLiteral(text),
            ) => {
                let text = text.clone();
                self.advance();
                Ok(text)
            }
            _ => Err(self.wanted(what)),
        }
    }

    /// `name` or `catalog.schema.name`.
    pub(super) fn dotted(&mut self, what: &str) -> Result<String> {
        let mut name = self.word(what)?;
        while self.take_symbol(&Token::Period) {
            name.push('.');
            name.push_str(&self.word(what)?);
        }
        Ok(name)
    }

    fn statement(&mut self) -> Result<Statement> {
        let place = self.place();
        if self.take_word("set") {
            return self.set(place);
        }
        if self.word_is(0, "create") {
            return self.create(place);
        }
        Err(self.unsupported())
    }

    fn unsupported(&self) -> Error {
        let found = match self.peek() {
            Some(Token::Word(word)) => word.value.to_uppercase(),
            Some(token) => token.to_string(),
            None => "the end".to_owned(),
        };
        self.error(&format!("{found} is not a statement of pipelines; these are: {STATEMENTS}"))
    }

    fn set(&mut self, place: Place) -> Result<Statement> {
        let key = match self.string("a key") {
            Ok(key) => key,
            Err(_) => self.dotted("a key")?,
        };
        self.expect_symbol(&Token::Eq)?;
        let start = self.at;
        while self.peek().is_some_and(|token| token != &Token::SemiColon) {
            self.advance();
        }
        let value = match self.tokens.get(start..self.at) {
            None | Some([]) => return Err(self.wanted("a value")),
            Some([TokenWithSpan { token: Token::SingleQuotedString(text), .. }])
            | Some([TokenWithSpan { token: Token::DoubleQuotedString(text), .. }]) => text.clone(),
            Some([first, ..]) => {
                let end = self.tokens.get(self.at - 1).map_or(first.span.end, |last| last.span.end);
                slice(self.sql, first.span.start, end).trim().to_owned()
            }
        };
        Ok(Statement::Set { key, value, place })
    }

    fn create(&mut self, place: Place) -> Result<Statement> {
        self.expect_word("create")?;
        let or_refresh = self.take_words(&["or", "refresh"]);
        if !or_refresh {
            self.take_words(&["or", "replace"]);
        }
        if self.take_words(&["streaming", "table"]) {
            return self.streaming_table(or_refresh, place).map(Statement::Table);
        }
        if self.take_word("sink") {
            return self.sink(place).map(Statement::Sink);
        }
        if self.take_word("flow") {
            return self.flow(place).map(Statement::Flow);
        }
        let temporary = self.take_word("temporary") || self.take_word("temp");
        if temporary && self.take_word("view") {
            return self.view(place).map(Statement::View);
        }
        if self.word_is(0, "materialized") {
            return Err(self.error(
                "materialized views, which are computed anew as a whole, are not supported; write \
                 CREATE STREAMING TABLE for a table that grows with its input",
            ));
        }
        let why = if self.word_is(0, "view") {
            "views of a pipeline are TEMPORARY; "
        } else if self.word_is(0, "table") {
            "tables of a pipeline are STREAMING; "
        } else {
            ""
        };
        Err(self.wanted(&format!("{why}one of {STATEMENTS}")))
    }

    fn view(&mut self, place: Place) -> Result<View> {
        self.take_words(&["if", "not", "exists"]);
        let name = self.dotted("the view's name")?;
        let comment = match self.take_word("comment") {
            true => Some(self.string("the comment in quotes")?),
            false => None,
        };
        self.expect_word("as")?;
        Ok(View { name, comment, query: self.query()?, place })
    }

    fn streaming_table(&mut self, or_refresh: bool, place: Place) -> Result<StreamingTable> {
        let if_not_exists = self.take_words(&["if", "not", "exists"]);
        let name = self.dotted("the table's name")?;
        let columns = match self.peek() {
            Some(Token::LParen) => {
                let text = self.bracketed()?;
                Some(parse_schema(&text).map_err(|error| self.schema_error(&error))?)
            }
            _ => None,
        };
        let said = self.clauses(Of::Table)?;
        Ok(StreamingTable {
            name,
            sinks: Vec::new(),
            or_refresh,
            if_not_exists,
            columns,
            format: said.format.unwrap_or_else(|| DEFAULT_FORMAT.to_owned()),
            partition_by: said.partition_by,
            location: said.location,
            options: said.options,
            properties: said.properties,
            output_mode: said.output_mode,
            comment: said.comment,
            query: self.query()?,
            place,
        })
    }

    /// The text between a bracket and its partner, moved to its own place in the file so that
    /// errors in it tell the right line and column.
    fn bracketed(&mut self) -> Result<String> {
        self.expect_symbol(&Token::LParen)?;
        let start = self.location();
        let mut depth = 1_usize;
        while let Some(token) = self.peek() {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let end = self.location();
                let inside = slice(self.sql, start, end);
                self.advance();
                let lines = usize::try_from(start.line - 1).unwrap_or(0);
                let columns = usize::try_from(start.column - 1).unwrap_or(0);
                return Ok(format!("{}{}{inside}", "\n".repeat(lines), " ".repeat(columns)));
            }
            self.advance();
        }
        Err(self.wanted("`)`"))
    }

    /// The error of a schema that stands at its own place of the file, with the line.
    fn schema_error(&self, error: &Error) -> Error {
        let text = error.to_string();
        let parts = text.strip_prefix("schema, line ").and_then(|rest| {
            let (line, rest) = rest.split_once(", column ")?;
            let (column, what) = rest.split_once(": ")?;
            Some((Location { line: line.parse().ok()?, column: column.parse().ok()? }, what))
        });
        match parts {
            Some((at, what)) => error_at(self.sql, at, what),
            None => self.error(&text),
        }
    }

    /// The query up to `;` or the end.
    pub(super) fn query(&mut self) -> Result<Query> {
        let start = self.at;
        while self.peek().is_some_and(|token| token != &Token::SemiColon) {
            self.advance();
        }
        let own = self.tokens.get(start..self.at).unwrap_or_default().to_vec();
        if own.is_empty() {
            return Err(self.wanted("a query"));
        }
        let (own, streams, wholes) = streams::take_out(self.sql, own)?;
        let (mut ast, watermarked) = watermarked_query(self.sql, own, streams::TABLE)?;
        streams::name_tables(&mut ast, &streams);
        Ok(Query { ast, streams, wholes, watermarked })
    }
}

/// The text between two places.
pub(super) fn slice(sql: &str, start: Location, end: Location) -> String {
    let mut place = Location { line: 1, column: 1 };
    let mut text = String::new();
    for c in sql.chars() {
        if place >= end {
            break;
        }
        if place >= start {
            text.push(c);
        }
        if c == '\n' {
            place = Location { line: place.line + 1, column: 1 };
        } else {
            place.column += 1;
        }
    }
    text
}
