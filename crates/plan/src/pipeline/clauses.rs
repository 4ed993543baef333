//! The clauses between a table's name and its query.

use super::ast::StreamingTable;
use super::parse::Parser;
use datafusion::sql::sqlparser::tokenizer::{Location, Token};
use onefold_connector::OutputMode;
use onefold_types::{OptionMap, Result};

impl Parser<'_> {
    /// All clauses, in any order, and the word `AS`.
    pub(super) fn clauses(&mut self, table: &mut StreamingTable) -> Result<()> {
        let mut seen: Vec<&str> = Vec::new();
        loop {
            let place = self.location();
            let clause = if self.take_word("as") {
                return Ok(());
            } else if self.take_word("using") {
                table.format = self.dotted("a format")?.to_lowercase();
                "USING"
            } else if self.take_words(&["partitioned", "by"]) {
                table.partition_by = self.names()?;
                "PARTITIONED BY"
            } else if self.take_word("location") {
                table.location = Some(self.string("a path in quotes")?);
                "LOCATION"
            } else if self.take_word("options") {
                table.options = self.options()?;
                self.output_mode(place, table, |table| &mut table.options)?;
                "OPTIONS"
            } else if self.take_word("tblproperties") {
                table.properties = self.options()?;
                self.output_mode(place, table, |table| &mut table.properties)?;
                "TBLPROPERTIES"
            } else if self.take_word("comment") {
                table.comment = Some(self.string("the comment in quotes")?);
                "COMMENT"
            } else {
                return Err(self.wanted(
                    "USING, PARTITIONED BY, LOCATION, OPTIONS, TBLPROPERTIES, COMMENT or AS",
                ));
            };
            if seen.contains(&clause) {
                let what = format!("{clause} stands twice");
                return Err(crate::sql::text::error_at(self.sql, place, &what));
            }
            seen.push(clause);
        }
    }

    /// Takes `outputMode` out of the options or properties, where it may stand.
    fn output_mode(
        &self,
        place: Location,
        table: &mut StreamingTable,
        of: fn(&mut StreamingTable) -> &mut OptionMap,
    ) -> Result<()> {
        let Some(text) = of(table).remove("outputMode") else { return Ok(()) };
        table.output_mode = match text.to_lowercase().as_str() {
            "append" => OutputMode::Append,
            "update" => OutputMode::Update,
            "complete" => OutputMode::Complete,
            _ => {
                let what = format!(
                    "the outputMode `{}` is none of append, update and complete",
                    text.escape_debug()
                );
                return Err(crate::sql::text::error_at(self.sql, place, &what));
            }
        };
        Ok(())
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
