//! Spark's names for columns without an alias.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value,
};

/// The name as Spark makes it: `(a + 1)`, `upper(name)`, `CAST(a AS STRING)`; close to Spark's for
/// what is not listed here.
pub(super) fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(names) => {
            names.last().map(|name| name.value.clone()).unwrap_or_default()
        }
        Expr::Nested(inner) => name_of(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            Value::Null => "NULL".to_owned(),
            Value::Boolean(value) => value.to_string(),
            other => other.to_string(),
        },
        Expr::BinaryOp { left, op, right } => {
            let op = op.to_string();
            let op = if op == "==" { "=" } else { op.as_str() };
            format!("({} {op} {})", inner_name(left), inner_name(right))
        }
        Expr::UnaryOp { op: UnaryOperator::Not | UnaryOperator::BangNot, expr } => {
            format!("(NOT {})", inner_name(expr))
        }
        Expr::UnaryOp { op, expr } => match expr.as_ref() {
            Expr::Value(_) => format!("{op}{}", inner_name(expr)),
            _ => format!("({op} {})", inner_name(expr)),
        },
        Expr::Cast { expr, data_type, .. } => {
            format!("CAST({} AS {data_type})", inner_name(expr))
        }
        Expr::IsNull(inner) => format!("({} IS NULL)", inner_name(inner)),
        Expr::IsNotNull(inner) => format!("({} IS NOT NULL)", inner_name(inner)),
        Expr::Function(function) => {
            let mut name = function.name.to_string().to_lowercase();
            // A function that came with an expression has a number behind its own name.
            let own = function.name.0.last().and_then(|part| part.as_ident());
            if let Some((shown, _)) = own.and_then(|ident| ident.value.rsplit_once('#')) {
                shown.clone_into(&mut name);
            }
            match name.as_str() {
                "explode" | "explode_outer" => return "col".to_owned(),
                // Spark calls windows so however they are made.
                "window" | "session_window" => return name,
                _ => {}
            }
            match &function.args {
                FunctionArguments::List(list) => {
                    let arguments: Vec<String> = list.args.iter().map(argument_name).collect();
                    match arguments.as_slice() {
                        // What Spark makes of it.
                        [all] if all == "*" && name == "count" => "count(1)".to_owned(),
                        _ => format!("{name}({})", arguments.join(", ")),
                    }
                }
                _ => format!("{name}()"),
            }
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            let chain: String = access_chain.iter().map(ToString::to_string).collect();
            format!("{}{chain}", inner_name(root))
        }
        other => other.to_string(),
    }
}

/// Inside an expression a path keeps its parts.
fn inner_name(expr: &Expr) -> String {
    match expr {
        Expr::CompoundIdentifier(names) => {
            names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join(".")
        }
        Expr::Nested(inner) => inner_name(inner),
        other => name_of(other),
    }
}

fn argument_name(argument: &FunctionArg) -> String {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => inner_name(expr),
        other => other.to_string(),
    }
}
