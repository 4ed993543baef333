//! Commands on tables that keep a log, and the expressions in them.

use crate::batch_writes::BatchWrites;
use crate::fault::from_datafusion;
use crate::reader::names;
use crate::session::Session;
use arrow::array::RecordBatch;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::Optimizer;
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use onefold_connector::{TableAct, TableRequest};
use onefold_types::{Error, Result};
use std::sync::Arc;

impl Session {
    /// Does something to a table that keeps a log (`delta`): the rows that a user sees of it.
    ///
    /// # Errors
    /// Invalid: no such format, or no table there. Others as the table's.
    pub fn table_act(&self, format: &str, path: &str, act: TableAct) -> Result<RecordBatch> {
        let known = self.inner.connectors.tables;
        let spec = known.iter().find(|spec| spec.name.eq_ignore_ascii_case(format));
        let Some(spec) = spec else {
            return Err(Error::invalid(format!(
                "tables of format `{format}` only take INSERT; this is for {}",
                names(known.iter().map(|spec| spec.name))
            )));
        };
        let writes = BatchWrites::current().filter(|_| act.changes_rows());
        let once = writes.map(|writes| writes.next(path));
        let once = once.map(|name| (name.application, name.number));
        let request =
            TableRequest { path: path.to_owned(), conf: self.inner.conf.all(), act, once };
        self.inner.tasks.wait((spec.run)(request))
    }

    /// The expressions of some texts in SQL over the rows of `from` (what stands behind FROM).
    ///
    /// # Errors
    /// Invalid, with the parser's or the planner's reason.
    pub fn expressions(&self, from: &str, texts: &[String]) -> Result<Vec<Expr>> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let columns: Vec<String> =
            (0..).zip(texts).map(|(at, text)| format!("({text}) AS __onefold_{at}")).collect();
        let plan = self.sql(&format!("SELECT {} FROM {from}", columns.join(", ")))?;
        let state = self.inner.context.state();
        // Who takes the expressions compares them with statistics as they are: both sides of a
        // comparison are of one type then, and what is constant is a literal.
        let config = state.config_options();
        let plan = plan.logical_plan().clone();
        let plan =
            state.analyzer().execute_and_check(plan, config, |_, _| {}).map_err(from_datafusion)?;
        let plan = Optimizer::with_rules(vec![Arc::new(SimplifyExpressions::new())])
            .optimize(plan, &state, |_, _| {})
            .map_err(from_datafusion)?;
        let LogicalPlan::Projection(projection) = plan else {
            return Err(Error::invalid(
                "the expressions of this statement are too much for it; use plain expressions, \
                 without subqueries and aggregates",
            ));
        };
        let query = |it: &Expr| {
            matches!(it, Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_))
        };
        let has_one = |expr: &Expr| expr.exists(|it| Ok(query(it))).unwrap_or(true);
        if projection.expr.iter().any(has_one) {
            return Err(Error::invalid(
                "a subquery cannot stand in this statement; bring its rows in by MERGE … USING",
            ));
        }
        let bare = |expr: &Expr| match expr {
            Expr::Alias(alias) => (*alias.expr).clone(),
            other => other.clone(),
        };
        Ok(projection.expr.iter().map(bare).collect())
    }
}

/// An expression over one table, whose columns need no qualifier.
///
/// # Errors
/// Internal: it cannot be rewritten.
pub fn unqualified(expr: Expr) -> Result<Expr> {
    expr.transform(|expr| {
        Ok(match expr {
            Expr::Column(column) => {
                Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))
            }
            other => Transformed::no(other),
        })
    })
    .map(|it| it.data)
    .map_err(from_datafusion)
}
