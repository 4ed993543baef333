//! Calls of functions. What Spark's clients write as an operator arrives as a call, too.

use super::Translator;
use crate::failure::{Failure, Outcome};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, UnaryOperator, Value,
};
use spark_connect_proto::Expression;
use spark_connect_proto::expression::ExprType;

/// `name(arguments)`.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Function(function(name, arguments, false))
}

/// A call of a function under an exact name.
pub(super) fn named_call(name: Ident, arguments: Vec<Expr>) -> Expr {
    let mut function = function("", arguments, false);
    function.name = ObjectName::from(vec![name]);
    Expr::Function(function)
}

pub(super) fn function(name: &str, arguments: Vec<Expr>, distinct: bool) -> Function {
    let args = arguments
        .into_iter()
        .map(|argument| {
            FunctionArg::Unnamed(match argument {
                Expr::Wildcard(_) => FunctionArgExpr::Wildcard,
                Expr::QualifiedWildcard(name, _) => FunctionArgExpr::QualifiedWildcard(name),
                other => FunctionArgExpr::Expr(other),
            })
        })
        .collect();
    Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: distinct.then_some(DuplicateTreatment::Distinct),
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }
}

/// Operators of two sides, as the clients name them.
fn binary(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "%" => BinaryOperator::Modulo,
        "div" => BinaryOperator::MyIntegerDivide,
        "=" | "==" => BinaryOperator::Eq,
        "!=" | "<>" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "<=>" => BinaryOperator::Spaceship,
        "and" => BinaryOperator::And,
        "or" => BinaryOperator::Or,
        "&" => BinaryOperator::BitwiseAnd,
        "|" => BinaryOperator::BitwiseOr,
        "^" => BinaryOperator::BitwiseXor,
        _ => return None,
    })
}

impl Translator<'_> {
    pub(super) fn function(
        &mut self,
        name: &str,
        arguments: &[Expression],
        distinct: bool,
    ) -> Outcome<Expr> {
        let lower = name.to_lowercase();
        let mut translated = Vec::with_capacity(arguments.len());
        for argument in arguments {
            translated.push(self.expression(argument)?);
        }
        if let Some(op) = binary(&lower)
            && let Ok([left, right]) = <[Expr; 2]>::try_from(translated.clone())
        {
            return Ok(two_sided(left, op, right));
        }
        let star = |it: &Expr| matches!(it, Expr::Wildcard(_) | Expr::QualifiedWildcard(..));
        if lower == "struct" && !translated.iter().any(star) {
            let values =
                arguments.iter().zip(translated).map(|(message, value)| match alias_of(message) {
                    Some(name) => Expr::Named { expr: Box::new(value), name: Ident::new(name) },
                    None => value,
                });
            return Ok(Expr::Struct { values: values.collect(), fields: Vec::new() });
        }
        if let Some(special) = special(&lower, &translated, arguments)? {
            return Ok(special);
        }
        if !lower.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.') {
            return Err(Failure::unsupported(format!("the operator `{name}`")));
        }
        Ok(Expr::Function(function(&lower, translated, distinct)))
    }
}

/// The name that a field of `struct(…)` is given.
fn alias_of(message: &Expression) -> Option<&str> {
    match &message.expr_type {
        Some(ExprType::Alias(alias)) => alias.name.first().map(String::as_str),
        _ => None,
    }
}

/// An operation whose sides keep together.
fn two_sided(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    match op {
        BinaryOperator::Spaceship => {
            Expr::IsNotDistinctFrom(Box::new(nested(left)), Box::new(nested(right)))
        }
        op => Expr::BinaryOp { left: Box::new(nested(left)), op, right: Box::new(nested(right)) },
    }
}

/// In brackets where the tree alone would not show it.
fn nested(expr: Expr) -> Expr {
    match expr {
        Expr::BinaryOp { .. } => Expr::Nested(Box::new(expr)),
        other => other,
    }
}

fn unary(op: UnaryOperator, expr: Expr) -> Expr {
    Expr::UnaryOp { op, expr: Box::new(nested(expr)) }
}

/// Names that are syntax and no functions.
fn special(name: &str, arguments: &[Expr], messages: &[Expression]) -> Outcome<Option<Expr>> {
    let one = || arguments.first().cloned().ok_or_else(|| Failure::missing(name));
    let two = || match arguments {
        [left, right] => Ok((Box::new(left.clone()), Box::new(right.clone()))),
        _ => Err(Failure::missing(name)),
    };
    Ok(Some(match name {
        "not" | "!" => unary(UnaryOperator::Not, one()?),
        "positive" => one()?,
        "~" => call("bitwise_not", vec![one()?]),
        "isnull" => Expr::IsNull(Box::new(nested(one()?))),
        "isnotnull" => Expr::IsNotNull(Box::new(nested(one()?))),
        "in" => {
            let (value, list) = arguments.split_first().ok_or_else(|| Failure::missing(name))?;
            Expr::InList {
                expr: Box::new(nested(value.clone())),
                list: list.to_vec(),
                negated: false,
            }
        }
        "like" | "ilike" if arguments.len() == 2 => {
            let (expr, pattern) = two()?;
            let (negated, any, escape_char) = (false, false, None);
            if name == "like" {
                Expr::Like { negated, any, expr, pattern, escape_char }
            } else {
                Expr::ILike { negated, any, expr, pattern, escape_char }
            }
        }
        "rlike" | "regexp" | "regexp_like" => {
            let (expr, pattern) = two()?;
            Expr::RLike { negated: false, expr, pattern, regexp: false }
        }
        "when" => case(arguments),
        "count" if counts_rows(messages) => {
            call("count", vec![Expr::Wildcard(AttachedToken::empty())])
        }
        "between" => match arguments {
            [value, low, high] => Expr::Between {
                expr: Box::new(nested(value.clone())),
                negated: false,
                low: Box::new(low.clone()),
                high: Box::new(high.clone()),
            },
            _ => return Err(Failure::missing(name)),
        },
        "contains" | "startswith" | "endswith" if arguments.len() == 2 => {
            call(name, arguments.to_vec())
        }
        _ => return Ok(None),
    }))
}

/// `count(1)` and `count(*)`: named `count(1)` by Spark, but counting rows.
fn counts_rows(messages: &[Expression]) -> bool {
    matches!(messages, [Expression { expr_type: Some(ExprType::UnresolvedStar(_)), .. }])
}

/// `when(c1, v1, c2, v2, …[, otherwise])`.
fn case(arguments: &[Expr]) -> Expr {
    let mut conditions = Vec::new();
    let mut rest = arguments;
    while let [condition, result, more @ ..] = rest {
        conditions.push(CaseWhen { condition: condition.clone(), result: result.clone() });
        rest = more;
    }
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions,
        else_result: rest.first().map(|otherwise| Box::new(otherwise.clone())),
    }
}

/// A number that stands for itself, for frames of windows.
pub(super) fn plain_number(text: &str) -> Expr {
    Expr::Value(Value::Number(text.to_owned(), false).into())
}
