//! Which expressions may fail for some rows, and which may be computed again.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, Operator};

/// Functions that take values apart or put them together.
const PLAIN: [&str; 3] = ["get_field", "named_struct", "struct"];

/// Whether an expression may fail for some rows. What only picks and tests columns cannot.
pub(super) fn may_fail(expr: &Expr) -> bool {
    has(expr, |part| match part {
        Expr::Column(_)
        | Expr::Alias(_)
        | Expr::Literal(..)
        | Expr::Placeholder(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::Not(_) => false,
        Expr::BinaryExpr(both) => !matches!(both.op, Operator::And | Operator::Or),
        Expr::ScalarFunction(call) => !PLAIN.contains(&call.func.name()),
        _ => true,
    })
}

/// Whether an expression gives the same for a row whenever and beside whichever rows it is
/// computed, in a step of its own.
pub(super) fn computed_alike(expr: &Expr) -> bool {
    !expr.is_volatile()
        && !has(expr, |part| {
            matches!(
                part,
                Expr::ScalarSubquery(_)
                    | Expr::InSubquery(_)
                    | Expr::Exists(_)
                    | Expr::SetComparison(_)
                    | Expr::WindowFunction(_)
                    | Expr::AggregateFunction(_)
                    | Expr::Unnest(_)
            )
        })
}

fn has(expr: &Expr, wanted: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    let walked = expr.apply(|part| {
        found |= wanted(part);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    // The closure never fails; an error could only come from the walk itself.
    found || walked.is_err()
}
