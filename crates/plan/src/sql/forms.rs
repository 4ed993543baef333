//! Functions of Spark that are another form of what the planner knows.

use super::rewrite::{call, cast};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, UnaryOperator, Value, helpers::attached_token::AttachedToken,
};

fn number(digits: &str) -> Expr {
    cast("cast", Expr::Value(Value::Number(digits.to_owned(), false).into()), "INT")
}

fn text(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}

fn case(conditions: Vec<(Expr, Expr)>, otherwise: Option<Expr>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: conditions
            .into_iter()
            .map(|(condition, result)| CaseWhen { condition, result })
            .collect(),
        else_result: otherwise.map(Box::new),
    }
}

/// The unit that a call names first: `MONTH` in `dateadd(MONTH, 1, d)`.
fn unit(expr: &Expr) -> Option<String> {
    let name = match expr {
        Expr::Identifier(name) => name.value.to_ascii_uppercase(),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(name) => name.to_ascii_uppercase(),
            _ => return None,
        },
        _ => return None,
    };
    let known = [
        "YEAR",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DAY",
        "DAYOFYEAR",
        "HOUR",
        "MINUTE",
        "SECOND",
        "MILLISECOND",
        "MICROSECOND",
    ];
    known.contains(&name.as_str()).then_some(name)
}

/// The other form of a call, where it has one.
pub(super) fn other(name: &str, arguments: Vec<Expr>) -> Option<Expr> {
    Some(match (name, arguments.as_slice()) {
        ("nullifzero", [value]) => call("nullif", vec![value.clone(), number("0")]),
        ("zeroifnull", [value]) => call("coalesce", vec![value.clone(), number("0")]),
        ("equal_null", [left, right]) => {
            Expr::IsNotDistinctFrom(Box::new(left.clone()), Box::new(right.clone()))
        }
        ("between", [value, low, high]) => Expr::Between {
            expr: Box::new(value.clone()),
            negated: false,
            low: Box::new(low.clone()),
            high: Box::new(high.clone()),
        },
        ("positive", [value]) => {
            Expr::UnaryOp { op: UnaryOperator::Plus, expr: Box::new(value.clone()) }
        }
        ("negative", [value]) => {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(value.clone()) }
        }
        ("div", [left, right]) => Expr::BinaryOp {
            left: Box::new(left.clone()),
            op: BinaryOperator::MyIntegerDivide,
            right: Box::new(right.clone()),
        },
        ("isnan", [value]) => {
            let found = call("isnan", vec![value.clone()]);
            call("coalesce", vec![found, Expr::Value(Value::Boolean(false).into())])
        }
        ("array_remove", [list, value]) => {
            call("array_remove_all", vec![list.clone(), value.clone()])
        }
        ("regexp_count" | "regexp_instr", _) => cast("cast", call(name, arguments), "INT"),
        ("date_from_unix_date", [days]) => {
            let first = cast("cast", text("1970-01-01"), "DATE");
            call("date_add", vec![first, days.clone()])
        }
        ("to_timestamp_ntz", [value]) => cast("cast", value.clone(), "TIMESTAMP_NTZ"),
        ("current_database" | "current_schema", []) => text("default"),
        ("current_catalog", []) => text("spark_catalog"),
        ("e", []) => cast("cast", text("2.718281828459045"), "DOUBLE"),
        ("replace", [value, part]) => call("replace", vec![value.clone(), part.clone(), text("")]),
        ("try_mod" | "try_remainder", [left, right]) => {
            let zero = Expr::BinaryOp {
                left: Box::new(right.clone()),
                op: BinaryOperator::Eq,
                right: Box::new(number("0")),
            };
            let rest = Expr::BinaryOp {
                left: Box::new(left.clone()),
                op: BinaryOperator::Modulo,
                right: Box::new(call("nullif", vec![right.clone(), number("0")])),
            };
            case(vec![(zero, Expr::Value(Value::Null.into()))], Some(rest))
        }
        ("decode", [value, pairs @ ..]) if pairs.len() > 1 => decoded(value, pairs),
        ("dateadd" | "date_add" | "timestampadd" | "timestamp_add", [first, count, time]) => {
            call("timestampadd", vec![text(&unit(first)?), count.clone(), time.clone()])
        }
        ("datediff" | "date_diff" | "timestampdiff" | "timestamp_diff", [first, from, to]) => {
            call("timestampdiff", vec![text(&unit(first)?), from.clone(), to.clone()])
        }
        _ => return None,
    })
}

/// `decode(value, search, result, …[, default])`; NULL is found, too.
fn decoded(value: &Expr, pairs: &[Expr]) -> Expr {
    let mut conditions = Vec::new();
    let mut rest = pairs;
    while let [search, result, more @ ..] = rest {
        let same = Expr::IsNotDistinctFrom(Box::new(value.clone()), Box::new(search.clone()));
        conditions.push((same, result.clone()));
        rest = more;
    }
    case(conditions, rest.first().cloned())
}
