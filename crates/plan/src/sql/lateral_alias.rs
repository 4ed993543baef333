//! Aliases that later items of the same `SELECT` use: `SELECT a + 1 AS b, b * 2`.
//!
//! As in Spark a column of the tables goes before such an alias, and the alias before a column of a
//! query around.

use super::naming::name_of;
use super::scope::{Scope, ident, same};
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, SelectItem, VisitMut, VisitorMut};
use onefold_types::{Error, Result};
use std::ops::ControlFlow;

/// Most parts that an item may have when its aliases are written out: each use doubles what stands
/// behind them.
const PARTS_MAX: usize = 20_000;

/// The aliases of the items so far, each with what it stands for and how many parts that has.
#[derive(Default)]
pub(super) struct LateralAliases {
    known: Vec<(String, Expr, usize)>,
}

impl LateralAliases {
    /// Writes out the aliases that an item uses, and takes note of its own.
    ///
    /// # Errors
    /// Invalid, when it becomes too large.
    pub(super) fn put_in(&mut self, item: &mut SelectItem, scope: &Scope<'_>) -> Result<()> {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            return Ok(());
        };
        let name = name_of(expr);
        let mut uses =
            Uses { aliases: self, scope, queries: 0, hidden: Vec::new(), parts: 0, put: false };
        if let ControlFlow::Break(error) = expr.visit(&mut uses) {
            return Err(error);
        }
        let (parts, put) = (uses.parts, uses.put);
        let expr = expr.clone();
        match item {
            SelectItem::UnnamedExpr(_) if put => {
                *item = SelectItem::ExprWithAlias { expr, alias: ident(&name) };
            }
            SelectItem::ExprWithAlias { alias, .. } => {
                self.known.push((alias.value.clone(), expr, parts));
            }
            _ => {}
        }
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&(String, Expr, usize)> {
        self.known.iter().rev().find(|(known, ..)| same(known, name))
    }
}

struct Uses<'a> {
    aliases: &'a LateralAliases,
    scope: &'a Scope<'a>,
    /// How many queries inside the item are around: their names are their own.
    queries: usize,
    /// The parameters of the lambdas around.
    hidden: Vec<Vec<String>>,
    parts: usize,
    put: bool,
}

impl Uses<'_> {
    fn stands_for(&mut self, name: &Ident) -> Option<Expr> {
        let parameter = self.hidden.iter().flatten().any(|known| same(known, &name.value));
        if self.queries > 0 || parameter || self.scope.has_own(&name.value) {
            return None;
        }
        let (_, expr, parts) = self.aliases.get(&name.value)?;
        self.parts = self.parts.saturating_add(*parts);
        self.put = true;
        Some(Expr::Nested(Box::new(expr.clone())))
    }
}

impl VisitorMut for Uses<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.queries = self.queries.saturating_sub(1);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::Lambda(lambda) = expr {
            let names = lambda.params.iter().map(|parameter| parameter.name.value.clone());
            self.hidden.push(names.collect());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.parts = self.parts.saturating_add(1);
        match expr {
            Expr::Lambda(_) => {
                self.hidden.pop();
            }
            Expr::Identifier(name) => {
                if let Some(meant) = self.stands_for(name) {
                    *expr = meant;
                }
            }
            Expr::CompoundIdentifier(path) if !self.names_table(path) => {
                let first = path.first().cloned();
                if let Some(root) = first.and_then(|first| self.stands_for(&first)) {
                    *expr = super::rewrite::fields_of(root, path.get(1..).unwrap_or(&[]));
                }
            }
            _ => {}
        }
        if self.parts > PARTS_MAX {
            return ControlFlow::Break(Error::invalid(format!(
                "an item of SELECT has more than {PARTS_MAX} parts when the aliases before it are \
                 written out; compute them in a query below"
            )));
        }
        ControlFlow::Continue(())
    }
}

impl Uses<'_> {
    fn names_table(&self, path: &[Ident]) -> bool {
        path.first().is_some_and(|first| self.scope.relation(&first.value).is_some())
    }
}
