//! Keeps lambdas where the planner put them.
//!
//! The parameters of a lambda are columns behind those of the node that evaluates it, by number. Rules
//! that move an expression to another node give its columns new numbers, and forget those of the
//! parameters; so plans with lambdas go without these rules.

use super::Rule;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::HigherOrderFunctionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// The rules that move expressions to other nodes.
const MOVERS: [&str; 2] = ["ProjectionPushdown", "FilterPushdown"];

/// A rule for plans without lambdas.
#[derive(Debug)]
struct WithoutLambdas(Rule);

/// The rule, kept from plans with lambdas if it moves expressions.
pub(super) fn guarded(rule: &Rule) -> Rule {
    match MOVERS.iter().any(|mover| rule.name().starts_with(mover)) {
        true => Arc::new(WithoutLambdas(Arc::clone(rule))),
        false => Arc::clone(rule),
    }
}

fn has_lambda(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        node.apply_expressions(&mut |expr| {
            expr.apply(|part| {
                found |= part.downcast_ref::<HigherOrderFunctionExpr>().is_some();
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

impl PhysicalOptimizerRule for WithoutLambdas {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if has_lambda(&plan)? {
            return Ok(plan);
        }
        self.0.optimize(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
