//! What `count` and its kin count, in the planner's form.

use super::rewrite::call;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, Value, helpers::attached_token::AttachedToken,
};

/// `CASE WHEN condition THEN value END`.
fn where_true(condition: Expr, value: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: value }],
        else_result: None,
    }
}

fn one() -> Expr {
    Expr::Value(Value::Number("1".to_owned(), false).into())
}

/// `count_if(c)` counts the rows for which a condition holds.
pub(super) fn rows_where(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    if let [FunctionArg::Unnamed(FunctionArgExpr::Expr(condition))] = list.args.as_mut_slice() {
        *condition = where_true(condition.clone(), one());
        function.name = ObjectName::from(vec![Ident::new("count")]);
    }
}

/// `count(a, b)` counts the rows in which neither is NULL, `count(DISTINCT a, b)` the pairs.
pub(super) fn rows_of_several(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let plain = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let Some(values) = list.args.iter().map(plain).collect::<Option<Vec<Expr>>>() else { return };
    let there = values.iter().map(|value| Expr::IsNotNull(Box::new(value.clone())));
    let all = there.reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: datafusion::sql::sqlparser::ast::BinaryOperator::And,
        right: Box::new(right),
    });
    let (Some(all), true) = (all, values.len() > 1) else { return };
    let counted = match list.duplicate_treatment {
        Some(DuplicateTreatment::Distinct) => {
            let fields = values.into_iter().enumerate().flat_map(|(place, value)| {
                let name = Value::SingleQuotedString(format!("col{place}"));
                [Expr::Value(name.into()), value]
            });
            call("named_struct", fields.collect())
        }
        _ => one(),
    };
    list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(where_true(all, counted)))];
}
