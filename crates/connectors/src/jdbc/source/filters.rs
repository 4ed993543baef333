//! Conditions that the database checks: only those that mean the same there. All are checked again.

use super::split::Condition;
use crate::jdbc::cell::{Cell, cell_at};
use crate::jdbc::database::Column;
use crate::jdbc::dialect::Dialect;
use crate::jdbc::names::quoted;
use arrow::datatypes::DataType;
use datafusion::logical_expr::{BinaryExpr, Operator};
use datafusion::prelude::Expr;

/// The conditions of some filters, as far as there are any.
pub(super) fn conditions(
    dialect: &dyn Dialect,
    columns: &[Column],
    filters: &[Expr],
) -> Vec<Condition> {
    filters.iter().filter_map(|filter| condition(dialect, columns, filter)).collect()
}

fn condition(dialect: &dyn Dialect, columns: &[Column], filter: &Expr) -> Option<Condition> {
    let own = |expr: &Expr| {
        let Expr::Column(column) = expr else { return None };
        columns.iter().find(|it| it.name == column.name && !it.by_text)
    };
    match filter {
        Expr::IsNull(inner) => {
            let text = format!("{} IS NULL", quoted(dialect, &own(inner)?.name));
            Some(Condition { text, values: Vec::new() })
        }
        Expr::IsNotNull(inner) => {
            let text = format!("{} IS NOT NULL", quoted(dialect, &own(inner)?.name));
            Some(Condition { text, values: Vec::new() })
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            let sides = [left, right].map(|side| condition(dialect, columns, side));
            let sides: Vec<Condition> = sides.into_iter().flatten().collect();
            let texts: Vec<&str> = sides.iter().map(|side| side.text.as_str()).collect();
            let text = format!("({})", texts.join(" AND "));
            let values = sides.iter().flat_map(|side| side.values.clone()).collect();
            (!sides.is_empty()).then_some(Condition { text, values })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, op, value) = match (own(left), own(right)) {
                (Some(column), None) => (column, *op, right),
                (None, Some(column)) => (column, op.swap()?, left),
                _ => return None,
            };
            let Expr::Literal(value, _) = value.as_ref() else { return None };
            let cell = cell_at(value.to_array().ok()?.as_ref(), 0).ok()?;
            let sign = sign(op, &column.data_type, &cell)?;
            let text = format!("{} {sign} ?", quoted(dialect, &column.name));
            Some(Condition { text, values: vec![cell] })
        }
        _ => None,
    }
}

/// A comparison that means the same in the database. Text is ordered by the rules of a language
/// there, and may be equal to more than here: then there are too many rows, which harms nothing.
fn sign(op: Operator, data_type: &DataType, cell: &Cell) -> Option<&'static str> {
    let numbers = matches!(
        (data_type, cell),
        (DataType::Int16 | DataType::Int32 | DataType::Int64, Cell::Int(_))
            | (DataType::Date32, Cell::Date(_))
            | (DataType::Timestamp(..), Cell::Timestamp(_))
    );
    let texts =
        matches!((data_type, cell), (DataType::Utf8, Cell::Text(text)) if !text.contains('\0'));
    match op {
        Operator::Eq if numbers || texts => Some("="),
        Operator::Lt if numbers => Some("<"),
        Operator::LtEq if numbers => Some("<="),
        Operator::Gt if numbers => Some(">"),
        Operator::GtEq if numbers => Some(">="),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jdbc::dialect::POSTGRESQL;
    use datafusion::prelude::{col, lit};

    fn text(filter: Expr) -> Option<(String, Vec<Cell>)> {
        let column = |name: &str, data_type| Column {
            name: name.to_owned(),
            data_type,
            declared: String::new(),
            by_text: false,
        };
        let columns = [
            column("n", DataType::Int64),
            column("s", DataType::Utf8),
            column("f", DataType::Float64),
        ];
        let found = conditions(POSTGRESQL, &columns, &[filter]);
        found.into_iter().next().map(|it| (it.text, it.values))
    }

    #[test]
    fn only_conditions_that_mean_the_same_there_are_checked_there() {
        let some = |sql: &str, values: Vec<Cell>| Some((sql.to_owned(), values));
        assert_eq!(text(col("n").gt(lit(5_i64))), some("\"n\" > ?", vec![Cell::Int(5)]));
        assert_eq!(text(lit(5_i64).gt(col("n"))), some("\"n\" < ?", vec![Cell::Int(5)]));
        assert_eq!(text(col("s").eq(lit("a'b"))), some("\"s\" = ?", vec![Cell::text("a'b")]));
        assert_eq!(text(col("s").gt(lit("a"))), None);
        assert_eq!(text(col("s").not_eq(lit("a"))), None);
        assert_eq!(text(col("f").lt(lit(1.0))), None);
        let both = col("n").is_not_null().and(col("f").lt(lit(1.0)));
        assert_eq!(text(both), some("(\"n\" IS NOT NULL)", vec![]));
    }
}
