//! Joins give way to others.
//!
//! *Why:* a task of tokio can be ended, and lets others run, only where it yields. DataFusion's plans
//! yield as they read their tables; a join makes any number of rows of one that was read, and an
//! aggregation above it takes them all in one go. So a cross join whose client was gone ran on for
//! hours.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use std::sync::Arc;

/// Puts a node that yields now and then above each join.
#[derive(Debug)]
pub(super) struct YieldingJoins;

impl PhysicalOptimizerRule for YieldingJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let joins = node.is::<CrossJoinExec>()
                || node.is::<HashJoinExec>()
                || node.is::<NestedLoopJoinExec>()
                || node.is::<SortMergeJoinExec>();
            Ok(match joins {
                true => Transformed::yes(Arc::new(CooperativeExec::new(node)) as _),
                false => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "yielding_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    /// On one thread nobody can end it before it yields.
    #[tokio::test]
    async fn a_join_of_many_rows_can_be_ended() {
        let context = SessionContext::new();
        crate::functions::register(&context).unwrap();
        for condition in ["true", "a.v + b.v > 7", "a.v % 2 = b.v % 2"] {
            let text = format!(
                "SELECT count(*) FROM (SELECT explode(sequence(1, 12000)) AS v) a JOIN (SELECT \
                 explode(sequence(1, 12000)) AS v) b ON {condition}"
            );
            let plan = crate::sql::query(&context, &text).await.unwrap();
            let frame = context.execute_logical_plan(plan).await.unwrap();
            let running = tokio::spawn(frame.collect());
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            running.abort();
            assert!(running.await.unwrap_err().is_cancelled(), "{condition}");
        }
    }
}
