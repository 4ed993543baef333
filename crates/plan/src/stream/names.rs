//! Names that last: of operators and of what they keep. They tell what is computed, not where in the
//! query it stands nor how its tables are called there.

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;

/// What an expression is called in state.
pub(super) fn lasting(expr: &Expr) -> String {
    match expr {
        Expr::Column(column) => column.name.clone(),
        Expr::Alias(alias) => alias.name.clone(),
        other => {
            let name = match other.clone().transform_up(plain) {
                Ok(plain) => plain.data.schema_name().to_string(),
                Err(_) => other.schema_name().to_string(),
            };
            with_plain_literals(&name)
        }
    }
}

/// Columns without their table, literals without the cast that gives them their type.
fn plain(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::Column(Column { relation: Some(_), name, .. }) => {
            Transformed::yes(Expr::Column(Column::new_unqualified(name)))
        }
        Expr::ScalarFunction(call) if call.name() == "cast" => match call.args.as_slice() {
            [literal @ Expr::Literal(..), Expr::Literal(..)] => Transformed::yes(literal.clone()),
            _ => Transformed::no(Expr::ScalarFunction(call)),
        },
        other => Transformed::no(other),
    })
}

/// Literals in a column's name as they stand in SQL: `window(ts,Utf8("10 seconds")).end` becomes
/// `window(ts,'10 seconds').end`.
pub(super) fn with_plain_literals(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(place) = ["Utf8(\"", "Int64("].iter().filter_map(|it| rest.find(it)).min() {
        let (before, literal) = rest.split_at(place);
        let text = literal.strip_prefix("Utf8(\"").and_then(|text| text.split_once("\")"));
        let number = literal.strip_prefix("Int64(").and_then(|number| number.split_once(')'));
        let start = !before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        match (text, number) {
            (Some((text, after)), _) if start => {
                plain.extend([before, "'", text, "'"]);
                rest = after;
            }
            (None, Some((number, after))) if start => {
                plain.extend([before, number]);
                rest = after;
            }
            _ => break,
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::TableReference;
    use datafusion::logical_expr::{col, lit};

    #[test]
    fn where_a_column_comes_from_is_no_part_of_a_lasting_name() {
        let qualified =
            |name: &str| Expr::Column(Column::new(Some(TableReference::bare("t")), name));
        assert_eq!(lasting(&(qualified("value") % lit(3_i64))), "value % 3");
        assert_eq!(
            lasting(&(qualified("value") % lit(3_i64))),
            lasting(&(col("value") % lit(3_i64)))
        );
        assert_eq!(lasting(&qualified("k")), "k");
    }

    #[test]
    fn literals_in_names_of_columns_are_as_in_sql() {
        for (name, plain) in [
            ("window(ts,Utf8(\"10 seconds\")).end", "window(ts,'10 seconds').end"),
            ("count(Int64(1))[count]", "count(1)[count]"),
            ("x + Int64(2) || Utf8(\"a\")", "x + 2 || 'a'"),
            ("MyInt64(3)", "MyInt64(3)"),
            ("Utf8(\"open", "Utf8(\"open"),
            ("k", "k"),
        ] {
            assert_eq!(with_plain_literals(name), plain);
        }
    }
}
