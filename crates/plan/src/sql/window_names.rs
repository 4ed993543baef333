//! `window` and `session_window` as names: after `GROUP BY window(ts, '10 minutes')`, the window
//! is the column `window` of the groups, as in Spark.

use super::naming::name_of;
use super::scope::{Scope, ident, same};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, GroupByExpr, Ident, Select, SelectItem, Subscript, Value, VisitMut,
    VisitorMut,
};
use std::convert::Infallible;
use std::ops::ControlFlow;

const WINDOWS: [&str; 2] = ["window", "session_window"];

/// Puts the calls from GROUP BY in the place of their names in the projection and HAVING, where
/// no column of a table has such a name.
pub(super) fn put_in(select: &mut Select, scope: &Scope<'_>) {
    let GroupByExpr::Expressions(groups, _) = &select.group_by else { return };
    let calls: Vec<(&'static str, Expr)> = WINDOWS
        .into_iter()
        .filter(|name| scope.column(name).is_none())
        .filter_map(|name| {
            let calls = |expr: &&Expr| match expr {
                Expr::Function(call) => same(&call.name.to_string(), name),
                _ => false,
            };
            groups.iter().find(calls).map(|call| (name, call.clone()))
        })
        .collect();
    if calls.is_empty() {
        return;
    }
    let mut names = Names { calls: &calls, changed: false };
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
}

impl Names<'_> {
    fn walk(&mut self, expr: &mut Expr) {
        let _: ControlFlow<Infallible> = expr.visit(self);
    }

    fn call(&self, name: &Ident) -> Option<Expr> {
        let found = self.calls.iter().find(|(known, _)| same(known, &name.value));
        found.map(|(_, call)| call.clone())
    }
}

impl VisitorMut for Names<'_> {
    type Break = Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
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
