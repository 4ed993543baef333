//! How a session plans: with DataFusion's rules and ours among them, and with our own nodes.

mod in_order;
mod lambdas_stay;
mod spread;
mod yielding;

use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use std::sync::Arc;

pub use in_order::in_order;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Replaces the rules of a session.
pub(crate) fn replace(state: &mut SessionState) {
    let mut rules: Vec<Rule> = vec![Arc::new(spread::KeepSpread)];
    rules.extend(state.physical_optimizers().iter().map(lambdas_stay::guarded));
    rules.push(Arc::new(in_order::KeepOrder));
    rules.push(Arc::new(yielding::YieldingJoins));
    let config = state.config().clone();
    // The session has its catalogs already.
    let kept = config.clone().with_create_default_catalog_and_schema(false);
    let mut replaced = SessionStateBuilder::new_from_existing(state.clone())
        .with_config(kept)
        .with_physical_optimizer_rules(rules)
        .with_query_planner(Arc::new(crate::observe::Planner))
        .build();
    *replaced.config_mut() = config;
    *state = replaced;
}
