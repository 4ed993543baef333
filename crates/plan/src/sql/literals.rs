//! Spark's number literals: `10L`, `2S`, `1Y`, `1.5D`, `1.5F`, `1.50BD`.

use super::text::token_at;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Turns a number and a type suffix directly behind it into a cast: `1.5D` into `1.5::DOUBLE`.
pub(super) fn join_suffixes(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let follows_number = joined.last().is_some_and(|last| {
            matches!(last.token, Token::Number(..)) && last.span.end == token.span.start
        });
        let target = match &token.token {
            Token::Word(word) if follows_number && word.quote_style.is_none() => {
                match word.value.to_ascii_lowercase().as_str() {
                    "d" => Some("DOUBLE"),
                    "f" => Some("FLOAT"),
                    "s" => Some("SMALLINT"),
                    "y" => Some("TINYINT"),
                    // A decimal literal is a decimal already.
                    "bd" => continue,
                    _ => None,
                }
            }
            _ => None,
        };
        match target {
            Some(target) => {
                joined.push(token_at(Token::DoubleColon, token.span));
                joined.push(token_at(Token::make_keyword(target), token.span));
            }
            None => joined.push(token),
        }
    }
    joined
}
