//! `window` and `session_window` as names: after `GROUP BY window(ts, '10 minutes')`, the window
//! is the column `window` of the groups, as in Spark.

use super::naming::name_of;
use super::scope::{Scope, ident, same};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    Ident, Select, SelectItem, Subscript, Value, VisitMut, VisitorMut,
};
use std::convert::Infallible;
use std::ops::ControlFlow;

const WINDOWS: [&str; 2] = ["window", "session_window"];

/// Functions in which a name means a column of the rows, not one of the groups.
const AGGREGATES: [&str; 14] = [
    "any_value",
    "avg",
    "collect_list",
    "collect_set",
    "count",
    "first",
    "last",
    "max",
    "max_by",
    "mean",
    "min",
    "min_by",
    "sum",
    "approx_count_distinct",
];

/// Puts the calls from GROUP BY in the place of their names in the projection and HAVING, where
/// no column of a table has such a name. For `GROUP BY window(window, …)`, which takes a window
/// column of the table, the name means the new window outside of aggregates.
pub(super) fn put_in(select: &mut Select, scope: &Scope<'_>) {
    let GroupByExpr::Expressions(groups, _) = &select.group_by else { return };
    let calls: Vec<(&'static str, Expr)> = WINDOWS
        .into_iter()
        .filter_map(|name| {
            let calls = |expr: &&Expr| match expr {
                Expr::Function(call) => same(&call.name.to_string(), name),
                _ => false,
            };
            let call = groups.iter().find(calls)?;
            (scope.column(name).is_none() || takes(call, name)).then(|| (name, call.clone()))
        })
        .collect();
    if calls.is_empty() {
        return;
    }
    let over_windows = calls.iter().any(|(name, _)| scope.column(name).is_some());
    let mut names = Names { calls: &calls, changed: false, over_windows, inside: 0 };
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = name_of(expr);
                names.changed = false;
                names.walk(expr);
                if names.changed {
                    let alias = ident(&name);
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
            SelectItem::ExprWithAlias { expr, .. } => names.walk(expr),
            _ => {}
        }
    }
    if let Some(having) = &mut select.having {
        names.walk(having);
    }
}

struct Names<'a> {
    calls: &'a [(&'static str, Expr)],
    changed: bool,
    /// Whether the tables have such a column too.
    over_windows: bool,
    /// In how many calls we are whose names mean columns of the rows.
    inside: usize,
}

/// Whether the first argument of a call is the name.
fn takes(call: &Expr, name: &str) -> bool {
    let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = call else {
        return false;
    };
    match list.args.first() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(first)))) => {
            same(&first.value, name)
        }
        _ => false,
    }
}

impl Names<'_> {
    fn walk(&mut self, expr: &mut Expr) {
        let _: ControlFlow<Infallible> = expr.visit(self);
    }

    /// Whether names within an expression mean columns of the rows.
    fn of_rows(&self, expr: &Expr) -> bool {
        if !self.over_windows {
            return false;
        }
        let aggregate = match expr {
            Expr::Function(call) => {
                let name = call.name.to_string().to_lowercase();
                AGGREGATES.contains(&name.as_str())
            }
            _ => false,
        };
        aggregate || self.calls.iter().any(|(_, call)| call == expr)
    }

    fn call(&self, name: &Ident) -> Option<Expr> {
        let found = self.calls.iter().find(|(known, _)| same(known, &name.value));
        found.map(|(_, call)| call.clone())
    }
}

impl VisitorMut for Names<'_> {
    type Break = Infallible;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        self.inside += usize::from(self.of_rows(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if self.of_rows(expr) {
            self.inside -= 1;
        }
        if self.inside > 0 {
            return ControlFlow::Continue(());
        }
        let replacement = match expr {
            Expr::Identifier(name) => self.call(name),
            Expr::CompoundIdentifier(path) => path.split_first().and_then(|(first, fields)| {
                let root = Box::new(self.call(first)?);
                let access_chain = fields.iter().map(field).collect();
                Some(Expr::CompoundFieldAccess { root, access_chain })
            }),
            _ => None,
        };
        if let Some(replacement) = replacement {
            *expr = replacement;
            self.changed = true;
        }
        ControlFlow::Continue(())
    }
}

/// A field by its name: those of windows are `start` and `end`.
fn field(name: &Ident) -> AccessExpr {
    let name = if same(&name.value, "start") || same(&name.value, "end") {
        name.value.to_lowercase()
    } else {
        name.value.clone()
    };
    let index = Expr::Value(Value::SingleQuotedString(name).into());
    AccessExpr::Subscript(Subscript::Index { index })
}
