//! Spark's dialect for sqlparser, where its own falls short.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, ObjectName, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, SparkSqlDialect};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use std::any::TypeId;

/// sqlparser's Spark dialect with backslash escapes in strings, names in any script, and `DIV` that
/// binds as tightly as `*`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spark;

impl Dialect for Spark {
    fn dialect(&self) -> TypeId {
        TypeId::of::<SparkSqlDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_'
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        true
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_group_by_with_modifier(&self) -> bool {
        true
    }

    fn supports_order_by_all(&self) -> bool {
        true
    }

    fn supports_lambda_functions(&self) -> bool {
        true
    }

    fn supports_select_item_multi_column_alias(&self) -> bool {
        true
    }

    fn supports_select_wildcard_except(&self) -> bool {
        true
    }

    fn supports_struct_literal(&self) -> bool {
        true
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }

    fn supports_long_type_as_bigint(&self) -> bool {
        true
    }

    fn supports_values_as_table_factor(&self) -> bool {
        true
    }

    fn supports_bang_not_operator(&self) -> bool {
        true
    }

    fn supports_cte_without_as(&self) -> bool {
        true
    }

    fn supports_map_literal_with_angle_brackets(&self) -> bool {
        true
    }

    /// `exists` of a list and a function, which is no subquery, and `struct(*)`, which is no literal.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if begins_struct_of_star(parser) {
            parser.next_token();
            return Some(parser.parse_function(ObjectName::from(vec![Ident::new("struct")])));
        }
        let negated = parser.peek_keyword(Keyword::NOT);
        let at = usize::from(negated);
        let word = |place: usize| match &parser.peek_nth_token_ref(at + place).token {
            Token::Word(word) => Some(word.keyword),
            _ => None,
        };
        let query =
            [Keyword::SELECT, Keyword::WITH, Keyword::VALUES, Keyword::FROM, Keyword::TABLE];
        let call = word(0) == Some(Keyword::EXISTS)
            && parser.peek_nth_token_ref(at + 1).token == Token::LParen
            && parser.peek_nth_token_ref(at + 2).token != Token::LParen
            && !word(2).is_some_and(|word| query.contains(&word));
        if !call {
            return None;
        }
        for _ in 0..=at {
            parser.next_token();
        }
        let call = parser.parse_function(ObjectName::from(vec![Ident::new("exists")]));
        Some(call.map(|call| match negated {
            true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(call) },
            false => call,
        }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if !parser.parse_keyword(Keyword::DIV) {
            return None;
        }
        Some(parser.parse_subexpr(precedence).map(|right| Expr::BinaryOp {
            left: Box::new(left.clone()),
            op: BinaryOperator::MyIntegerDivide,
            right: Box::new(right),
        }))
    }
}

/// Whether `struct(*` or `struct(t.*` is next.
fn begins_struct_of_star(parser: &Parser) -> bool {
    let token = |place: usize| &parser.peek_nth_token_ref(place).token;
    let named = matches!(token(0), Token::Word(word) if word.keyword == Keyword::STRUCT);
    let of_table = matches!(token(2), Token::Word(_)) && *token(3) == Token::Period;
    let star = if of_table { 4 } else { 2 };
    named && *token(1) == Token::LParen && *token(star) == Token::Mul
}
