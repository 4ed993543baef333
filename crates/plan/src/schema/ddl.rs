//! The parser of Spark's DDL form.

use super::{
    CHAR_VARCHAR, COMMENT, INTERVAL_UNITS, SCHEMA_DEPTH_MAX, SCHEMA_FIELDS_MAX, decimal_type,
    duplicate, interval_type, list_of, map_of, simple_type,
};
use arrow::datatypes::{DataType, Field, Fields};
use onefold_types::{Error, Result};
use std::iter::Peekable;
use std::str::Chars;

/// The fields of a table schema; a single `STRUCT<…>` counts as its fields, as in Spark.
pub(super) fn fields(text: &str) -> Result<Vec<Field>> {
    let mut parser = Parser::new(text)?;
    if parser.tokens.is_empty() {
        return Ok(Vec::new());
    }
    let whole_struct = parser.word_is(0, "struct") && parser.symbol_at(1) == Some('<');
    let fields = if whole_struct {
        parser.advance();
        parser.struct_fields(1)?
    } else {
        parser.field_list(None, 0)?
    };
    parser.finish()?;
    Ok(fields)
}

pub(super) fn data_type(text: &str) -> Result<DataType> {
    let mut parser = Parser::new(text)?;
    let (data_type, _) = parser.data_type(0)?;
    parser.finish()?;
    Ok(data_type)
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// A bare name or keyword.
    Word(String),
    /// A name in backquotes.
    Quoted(String),
    /// A text in quotes.
    Text(String),
    Number(String),
    Symbol(char),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Word(text) | Token::Number(text) => write!(f, "`{text}`"),
            Token::Quoted(text) => write!(f, "the name `{text}`"),
            Token::Text(text) => write!(f, "the text '{text}'"),
            Token::Symbol(symbol) => write!(f, "`{symbol}`"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Place {
    line: usize,
    column: usize,
}

fn error_at(place: Place, what: impl std::fmt::Display) -> Error {
    Error::invalid(format!("schema, line {}, column {}: {what}", place.line, place.column))
}

struct Lexer<'a> {
    chars: Peekable<Chars<'a>>,
    place: Place,
}

impl Lexer<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.chars.next()?;
        if next == '\n' {
            self.place = Place { line: self.place.line + 1, column: 1 };
        } else {
            self.place.column += 1;
        }
        Some(next)
    }

    fn while_matching(&mut self, matches: impl Fn(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(next) = self.chars.next_if(|next| matches(*next)) {
            self.place.column += 1;
            text.push(next);
        }
        text
    }

    /// The rest of a quoted token; a doubled quote stands for one, and in texts a backslash takes
    /// the next character as it is.
    fn quoted(&mut self, quote: char, start: Place) -> Result<String> {
        let mut text = String::new();
        while let Some(next) = self.next() {
            if next == quote {
                if self.chars.peek() != Some(&quote) {
                    return Ok(text);
                }
                self.next();
                text.push(quote);
            } else if next == '\\' && quote != '`' {
                text.extend(self.next());
            } else {
                text.push(next);
            }
        }
        Err(error_at(start, format_args!("the {quote} that begins here is never closed")))
    }

    fn tokens(mut self) -> Result<Vec<(Token, Place)>> {
        let mut tokens = Vec::new();
        while let Some(first) = self.chars.peek().copied() {
            let start = self.place;
            let token = match first {
                _ if first.is_whitespace() => {
                    self.next();
                    continue;
                }
                '`' => {
                    self.next();
                    Token::Quoted(self.quoted('`', start)?)
                }
                '\'' | '"' => {
                    self.next();
                    Token::Text(self.quoted(first, start)?)
                }
                '<' | '>' | '(' | ')' | ',' | ':' => {
                    self.next();
                    Token::Symbol(first)
                }
                _ if first.is_ascii_digit() => {
                    let text = self.while_matching(|c| c.is_alphanumeric() || c == '_');
                    if text.bytes().all(|byte| byte.is_ascii_digit()) {
                        Token::Number(text)
                    } else {
                        Token::Word(text)
                    }
                }
                _ if first.is_alphabetic() || first == '_' => {
                    Token::Word(self.while_matching(|c| c.is_alphanumeric() || c == '_'))
                }
                _ => {
                    return Err(error_at(
                        start,
                        format_args!(
                            "unexpected character `{}`; put a name with such characters in \
                             backquotes",
                            first.escape_debug()
                        ),
                    ));
                }
            };
            tokens.push((token, start));
        }
        Ok(tokens)
    }
}

struct Parser {
    tokens: Vec<(Token, Place)>,
    at: usize,
    fields: usize,
    end: Place,
}

impl Parser {
    fn new(text: &str) -> Result<Self> {
        let lexer = Lexer { chars: text.chars().peekable(), place: Place { line: 1, column: 1 } };
        let tokens = lexer.tokens()?;
        let line = text.split('\n').count().max(1);
        let column = text.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        Ok(Parser { tokens, at: 0, fields: 0, end: Place { line, column } })
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn word_is(&self, ahead: usize, word: &str) -> bool {
        matches!(self.tokens.get(self.at + ahead),
            Some((Token::Word(text), _)) if text.eq_ignore_ascii_case(word))
    }

    fn symbol_at(&self, ahead: usize) -> Option<char> {
        match self.tokens.get(self.at + ahead) {
            Some((Token::Symbol(symbol), _)) => Some(*symbol),
            _ => None,
        }
    }

    fn advance(&mut self) {
        self.at += 1;
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.word_is(0, word);
        self.at += usize::from(found);
        found
    }

    fn take_symbol(&mut self, symbol: char) -> bool {
        let found = self.symbol_at(0) == Some(symbol);
        self.at += usize::from(found);
        found
    }

    fn place(&self) -> Place {
        self.tokens.get(self.at).map_or(self.end, |(_, place)| *place)
    }

    fn wanted(&self, what: &str) -> Error {
        match self.peek() {
            Some(token) => error_at(self.place(), format_args!("expected {what}, found {token}")),
            None => error_at(self.place(), format_args!("expected {what}, found the end")),
        }
    }

    fn expect_symbol(&mut self, symbol: char) -> Result<()> {
        if self.take_symbol(symbol) {
            return Ok(());
        }
        Err(self.wanted(&format!("`{symbol}`")))
    }

    fn finish(&self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.wanted("`,` or the end")),
        }
    }

    /// `field, field …` up to `close` (which is taken), or up to the end.
    fn field_list(&mut self, close: Option<char>, depth: usize) -> Result<Vec<Field>> {
        let mut fields = Vec::new();
        let mut places = Vec::new();
        loop {
            places.push(self.place());
            fields.push(self.field(depth)?);
            if self.take_symbol(',') {
                continue;
            }
            if let Some(close) = close
                && !self.take_symbol(close)
            {
                return Err(self.wanted(&format!("`,` or `{close}`")));
            }
            break;
        }
        if let Some(name) = duplicate(fields.iter().map(|field| field.name().as_str())) {
            let place = fields.iter().zip(&places).rfind(|(field, _)| field.name() == name);
            let place = place.map_or(self.end, |(_, place)| *place);
            return Err(error_at(place, format_args!("the column `{name}` stands twice")));
        }
        Ok(fields)
    }

    fn field(&mut self, depth: usize) -> Result<Field> {
        self.fields += 1;
        if self.fields > SCHEMA_FIELDS_MAX {
            return Err(error_at(
                self.place(),
                format_args!("more than {SCHEMA_FIELDS_MAX} fields"),
            ));
        }
        let name = match self.peek() {
            Some(Token::Word(name) | Token::Quoted(name) | Token::Number(name)) => name.clone(),
            _ => return Err(self.wanted("a column name")),
        };
        self.advance();
        self.take_symbol(':');
        let (data_type, declared) = self.data_type(depth)?;
        let nullable = if self.take_word("not") {
            if !self.take_word("null") {
                return Err(self.wanted("NULL"));
            }
            false
        } else {
            true
        };
        let mut field = Field::new(name, data_type, nullable);
        let mut metadata = std::collections::HashMap::new();
        if let Some(declared) = declared {
            metadata.insert(CHAR_VARCHAR.to_owned(), declared);
        }
        if self.take_word("comment") {
            let Some(Token::Text(comment)) = self.peek() else {
                return Err(self.wanted("the comment in quotes"));
            };
            metadata.insert(COMMENT.to_owned(), comment.clone());
            self.advance();
        }
        field.set_metadata(metadata);
        Ok(field)
    }

    /// A type and, for `CHAR(n)` and `VARCHAR(n)`, how it was declared.
    fn data_type(&mut self, depth: usize) -> Result<(DataType, Option<String>)> {
        let start = self.place();
        if depth > SCHEMA_DEPTH_MAX {
            return Err(error_at(
                start,
                format_args!("types are nested deeper than {SCHEMA_DEPTH_MAX}"),
            ));
        }
        let Some(Token::Word(name)) = self.peek() else { return Err(self.wanted("a type")) };
        let name = name.to_ascii_lowercase();
        self.advance();
        let data_type = match name.as_str() {
            "array" => {
                self.expect_symbol('<')?;
                let (element, _) = self.data_type(depth + 1)?;
                self.expect_symbol('>')?;
                list_of(element, true)
            }
            "map" => {
                self.expect_symbol('<')?;
                let (key, _) = self.data_type(depth + 1)?;
                self.expect_symbol(',')?;
                let (value, _) = self.data_type(depth + 1)?;
                self.expect_symbol('>')?;
                map_of(key, value, true)
            }
            "struct" => DataType::Struct(Fields::from(self.struct_fields(depth + 1)?)),
            "decimal" | "dec" | "numeric" => {
                let (precision, scale) = self.decimal_parameters()?;
                decimal_type(precision, scale).map_err(|what| error_at(start, what))?
            }
            "char" | "character" | "varchar" => {
                let length = self.length()?;
                let declared = if name == "varchar" { "varchar" } else { "char" };
                return Ok((DataType::Utf8, Some(format!("{declared}({length})"))));
            }
            "interval" => self.interval(start)?,
            "variant" | "geometry" | "geography" | "time" => {
                return Err(error_at(
                    start,
                    format_args!("the type {} is not supported", name.to_uppercase()),
                ));
            }
            _ => simple_type(&name).ok_or_else(|| unknown_type(start, &name))?,
        };
        if name == "string" && self.take_word("collate") {
            let collation = match self.peek() {
                Some(Token::Word(name)) => name.clone(),
                _ => return Err(self.wanted("a collation")),
            };
            if !collation.eq_ignore_ascii_case("utf8_binary") {
                return Err(error_at(
                    self.place(),
                    format_args!(
                        "the collation {collation} is not supported; strings compare as \
                         UTF8_BINARY"
                    ),
                ));
            }
            self.advance();
        }
        Ok((data_type, None))
    }

    /// `<field, …>`, also empty.
    fn struct_fields(&mut self, depth: usize) -> Result<Vec<Field>> {
        self.expect_symbol('<')?;
        if self.take_symbol('>') {
            return Ok(Vec::new());
        }
        self.field_list(Some('>'), depth)
    }

    fn number(&mut self) -> Result<u64> {
        let number = match self.peek() {
            Some(Token::Number(text)) => text.parse().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| self.wanted("a number"))?;
        self.advance();
        Ok(number)
    }

    fn decimal_parameters(&mut self) -> Result<(u64, u64)> {
        if !self.take_symbol('(') {
            return Ok((10, 0));
        }
        let precision = self.number()?;
        let scale = if self.take_symbol(',') { self.number()? } else { 0 };
        self.expect_symbol(')')?;
        Ok((precision, scale))
    }

    fn length(&mut self) -> Result<u64> {
        self.expect_symbol('(')?;
        let length = self.number()?;
        self.expect_symbol(')')?;
        Ok(length)
    }

    fn interval(&mut self, start: Place) -> Result<DataType> {
        let unit = |parser: &mut Self| {
            let unit = INTERVAL_UNITS.into_iter().find(|unit| parser.word_is(0, unit));
            parser.at += usize::from(unit.is_some());
            unit
        };
        let first = unit(self);
        let mut last = None;
        if first.is_some() && self.take_word("to") {
            last = unit(self);
            if last.is_none() {
                return Err(self.wanted("a unit of time"));
            }
        }
        interval_type(first, last).map_err(|what| error_at(start, what))
    }
}

fn unknown_type(place: Place, name: &str) -> Error {
    error_at(
        place,
        format_args!(
            "there is no type `{name}`; types are BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, \
             DECIMAL(p,s), STRING, CHAR(n), VARCHAR(n), BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, \
             INTERVAL, VOID, ARRAY<>, MAP<,> and STRUCT<>"
        ),
    )
}
