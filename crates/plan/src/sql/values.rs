//! `VALUES (…), (…)`: the names and types of its columns.

use super::rewrite;
use super::text::parse_query;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, SetExpr, TableFactor, UnaryOperator, Value, Values,
};
use onefold_types::Result;

/// Whole numbers are `INT`; beside a float the numbers of a column are `DOUBLE`, and not decimals.
pub(super) fn typed(values: &mut Values, width: usize) {
    for row in &mut values.rows {
        for value in row.iter_mut() {
            rewrite::top_level(value);
        }
    }
    for place in 0..width {
        if !values.rows.iter().any(|row| row.get(place).is_some_and(is_float)) {
            continue;
        }
        for row in &mut values.rows {
            if let Some(value) = row.get_mut(place).filter(|value| is_number(value)) {
                let number = std::mem::replace(value, Expr::Value(Value::Null.into()));
                *value = rewrite::cast("cast", number, "DOUBLE");
            }
        }
    }
}

fn is_number(value: &Expr) -> bool {
    match value {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_number(expr),
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        _ => false,
    }
}

/// A cast to a float.
fn is_float(value: &Expr) -> bool {
    let Expr::Function(call) = value else { return false };
    let FunctionArguments::List(list) = &call.args else { return false };
    let to = list.args.get(1).map(ToString::to_string).unwrap_or_default();
    call.name.to_string() == "cast"
        && ["'FLOAT'", "'DOUBLE'"].iter().any(|float| to.eq_ignore_ascii_case(float))
}

/// Rows of values with Spark's names of columns, `col1` and so on.
pub(super) fn named(values: &mut SetExpr, width: usize) -> Result<SetExpr> {
    let items: Vec<String> =
        (1..=width).map(|place| format!("`column{place}` AS `col{place}`")).collect();
    let text = format!("SELECT {} FROM (VALUES (1)) AS `values`", items.join(", "));
    let (mut query, _) = parse_query(&text)?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        std::mem::swap(subquery.body.as_mut(), values);
    }
    Ok(*query.body)
}
