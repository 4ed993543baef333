//! The clauses between a statement's name and its query or end.

use super::parse::Parser;
use datafusion::sql::sqlparser::tokenizer::{Location, Token};
use onefold_connector::OutputMode;
use onefold_types::{OptionMap, Result};

/// What the clauses of a statement said.
#[derive(Debug, Default)]
pub(super) struct Clauses {
    /// `USING`, in lower case.
    pub(super) format: Option<String>,
    /// `PARTITIONED BY`.
    pub(super) partition_by: Vec<String>,
    /// `LOCATION`.
    pub(super) location: Option<String>,
    /// `OPTIONS`, without `outputMode`.
    pub(super) options: OptionMap,
    /// `TBLPROPERTIES`, without `outputMode`.
    pub(super) properties: OptionMap,
    /// `outputMode` of either.
    pub(super) output_mode: Option<OutputMode>,
    /// `COMMENT`.
    pub(super) comment: Option<String>,
}

/// Which clauses a statement may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// `CREATE STREAMING TABLE`; the clauses end with the word `AS`.
    Table,
    /// `CREATE SINK`; they end with the statement.
    Sink,
    /// `CREATE FLOW`; they end with the word `AS`.
    Flow,
}

impl Of {
    /// The clauses, in the order in which a person is told of them.
    fn clauses(self) -> &'static [&'static str] {
        match self {
            Of::Table => {
                &["USING", "PARTITIONED BY", "LOCATION", "OPTIONS", "TBLPROPERTIES", "COMMENT"]
            }
            Of::Sink => &["USING", "PARTITIONED BY", "LOCATION", "OPTIONS", "COMMENT"],
            Of::Flow => &["OPTIONS", "COMMENT"],
        }
    }

    fn end(self) -> &'static str {
        match self {
            Of::Table | Of::Flow => "AS",
            Of::Sink => "`;`",
        }
    }
}

impl Parser<'_> {
    /// All clauses, in any order, and the word `AS` where a query follows.
    pub(super) fn clauses(&mut self, of: Of) -> Result<Clauses> {
        let mut said = Clauses::default();
        let mut seen: Vec<&str> = Vec::new();
        while !self.clauses_end(of) {
            let place = self.location();
            let found = of
                .clauses()
                .iter()
                .find(|clause| self.take_words(&clause.split(' ').collect::<Vec<_>>()));
            let Some(clause) = found else {
                let all = of.clauses().join(", ");
                return Err(self.wanted(&format!("{all} or {}", of.end())));
            };
            self.clause(clause, place, &mut said)?;
            if seen.contains(clause) {
                let what = format!("{clause} stands twice");
                return Err(crate::sql::text::error_at(self.sql, place, &what));
            }
            seen.push(clause);
        }
        Ok(said)
    }

    fn clauses_end(&mut self, of: Of) -> bool {
        match of {
            Of::Table | Of::Flow => self.take_word("as"),
            Of::Sink => matches!(self.peek(), None | Some(Token::SemiColon)),
        }
    }

    /// What follows the words of one clause.
    fn clause(&mut self, clause: &str, place: Location, said: &mut Clauses) -> Result<()> {
        match clause {
            "USING" => said.format = Some(self.dotted("a format")?.to_lowercase()),
            "PARTITIONED BY" => said.partition_by = self.names()?,
            "LOCATION" => said.location = Some(self.string("a path in quotes")?),
            "OPTIONS" => {
                said.options = self.options()?;
                let mode = said.options.remove("outputMode");
                said.output_mode = self.output_mode(place, mode)?.or(said.output_mode);
            }
            "TBLPROPERTIES" => {
                said.properties = self.options()?;
                let mode = said.properties.remove("outputMode");
                said.output_mode = self.output_mode(place, mode)?.or(said.output_mode);
            }
            _ => said.comment = Some(self.string("the comment in quotes")?),
        }
        Ok(())
    }

    fn output_mode(&self, place: Location, text: Option<String>) -> Result<Option<OutputMode>> {
        let Some(text) = text else { return Ok(None) };
        match text.to_lowercase().as_str() {
            "append" => Ok(Some(OutputMode::Append)),
            "update" => Ok(Some(OutputMode::Update)),
            "complete" => Ok(Some(OutputMode::Complete)),
            _ => {
                let what = format!(
                    "the outputMode `{}` is none of append, update and complete",
                    text.escape_debug()
                );
                Err(crate::sql::text::error_at(self.sql, place, &what))
            }
        }
    }

    fn names(&mut self) -> Result<Vec<String>> {
        self.expect_symbol(&Token::LParen)?;
        let mut names = vec![self.word("a column")?];
        while self.take_symbol(&Token::Comma) {
            names.push(self.word("a column")?);
        }
        self.expect_symbol(&Token::RParen)?;
        Ok(names)
    }

    /// `('k' = 'v', k 'v', a.b = 1)`.
    fn options(&mut self) -> Result<OptionMap> {
        self.expect_symbol(&Token::LParen)?;
        let mut options = OptionMap::new();
        if self.take_symbol(&Token::RParen) {
            return Ok(options);
        }
        loop {
            let place = self.location();
            let key = match self.peek() {
                Some(Token::Word(_)) => self.dotted("an option")?,
                _ => self.string("an option")?,
            };
            let _ = self.take_symbol(&Token::Eq) || self.take_symbol(&Token::RArrow);
            let value = self.option_value()?;
            if options.get(&key).is_some() {
                let what = format!("the option `{key}` stands twice");
                return Err(crate::sql::text::error_at(self.sql, place, &what));
            }
            options.set(key, value);
            if !self.take_symbol(&Token::Comma) {
                break;
            }
        }
        self.expect_symbol(&Token::RParen)?;
        Ok(options)
    }

    /// A text, number, TRUE, FALSE or word, as text.
    pub(super) fn option_value(&mut self) -> Result<String> {
        let minus = self.take_symbol(&Token::Minus);
        let value = match self.peek() {
            Some(Token::Number(number, _)) => number.clone(),
            Some(Token::Word(word)) if !minus => word.value.clone(),
            _ if !minus => return self.string("a value"),
            _ => return Err(self.wanted("a number")),
        };
        self.advance();
        Ok(if minus { format!("-{value}") } else { value })
    }
}
