//! The clauses between a table's name and its query.

use super::ast::StreamingTable;
use super::parse::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
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
                "OPTIONS"
            } else if self.take_word("tblproperties") {
                table.properties = self.options()?;
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
