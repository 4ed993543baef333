//! Gives the operators that keep state their nodes, numbers and names.
//!
//! Done before the plan is optimised: types are coerced and filters moved to where a join's
//! condition can be read, then each operator over a stream becomes a node of [`super::nodes`].

mod convert;
mod label;

use super::bounds::{JoinBounds, StateBound};
use super::nodes::{
    Deduplicate, EventTimeWatermark, GlobalLimit, Guarded, Identity, StatefulAggregate, StreamJoin,
    UserState, as_node,
};
use super::propagate::{Flow, Output};
use super::{WatermarkNode, table};
use crate::failure;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::filter_null_join_keys::FilterNullJoinKeys;
use datafusion::optimizer::optimizer::Optimizer;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{Analyzer, OptimizerContext};
use onefold_connector::OutputMode;
use onefold_types::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::StreamSource;

/// What is known of the operators of a query.
#[derive(Debug, Default)]
pub(super) struct Stateful {
    pub(super) watermarks: Vec<WatermarkNode>,
    /// How many operators keep state.
    pub(super) operators: usize,
    pub(super) flow: Option<Flow>,
    /// The operators for which a batch without input follows when their watermark moves, by number.
    pub(super) eager: Vec<u32>,
    /// Whether an operator waits for the clock.
    pub(super) by_clock: bool,
    pub(super) warnings: Vec<String>,
    /// Operators that nothing bounds.
    pub(super) unbounded: Vec<Unbounded>,
    /// Lasting names of all operators.
    pub(super) labels: Vec<String>,
    /// How long operators keep rows that are not written, in milliseconds, by number.
    pub(super) ttl_ms: BTreeMap<u32, i64>,
}

/// An operator that keeps some rows for ever, unless it has a time to live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unbounded {
    pub(super) id: u32,
    pub(super) label: String,
    /// The families of those rows.
    pub(super) families: Vec<usize>,
    /// What to tell the user, if that is for the engine to know.
    pub(super) warning: Option<String>,
}

impl Stateful {
    fn unbounded(&mut self, identity: &Identity, families: &[usize], warning: Option<String>) {
        self.warnings.extend(warning.clone());
        let (id, label) = (identity.id, identity.label.clone());
        self.unbounded.push(Unbounded { id, label, families: families.to_vec(), warning });
    }
}

/// Whether a plan has anything for this module.
pub(super) fn concerned(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        found |= match node {
            LogicalPlan::Extension(_) => as_node::<Guarded>(node).is_none(),
            LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Limit(_) => {
                table::streaming(node)
            }
            LogicalPlan::Join(join) => {
                table::streaming(&join.left) && table::streaming(&join.right)
            }
            _ => false,
        };
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })
    .map_err(failure::planning)?;
    Ok(found)
}

/// Converts a checked plan; with `whole_rows` operators that drop late rows get all columns.
pub(super) fn lower(
    plan: LogicalPlan,
    mode: OutputMode,
    sources: &[StreamSource],
    whole_rows: bool,
) -> Result<(LogicalPlan, Stateful)> {
    let plan = prepared(plan).map_err(failure::planning)?;
    let plan = convert::convert(plan, mode).map_err(failure::planning)?;
    let (plan, operators) = label::number(plan, whole_rows).map_err(failure::planning)?;
    let (plan, watermarks) = label::watermarks(plan, sources).map_err(failure::planning)?;
    let mut stateful = Stateful { watermarks, operators, ..Stateful::default() };
    let flow = describe(&plan, mode, &mut stateful)?;
    stateful.flow = Some(flow);
    Ok((plan, stateful))
}

/// Types coerced, filters in the conditions of joins, equal keys found. Rows that meet nothing for
/// want of a key go before they move a watermark, as in Spark.
fn prepared(plan: LogicalPlan) -> datafusion::error::Result<LogicalPlan> {
    let options = ConfigOptions::default();
    let plan = Analyzer::new().execute_and_check(plan, &options, |_, _| {})?;
    let rules = Optimizer::with_rules(vec![
        Arc::new(PushDownFilter::new()),
        Arc::new(ExtractEquijoinPredicate::new()),
        Arc::new(FilterNullJoinKeys::default()),
        Arc::new(PushDownFilter::new()),
    ]);
    let context = OptimizerContext::new().with_max_passes(1).with_skip_failing_rules(false);
    rules.optimize(plan, &context, |_, _| {})
}

/// How watermarks go through the plan, and what to warn of.
fn describe(plan: &LogicalPlan, mode: OutputMode, known: &mut Stateful) -> Result<Flow> {
    if !table::streaming(plan) {
        return Ok(Flow::Source);
    }
    let inputs = plan
        .inputs()
        .into_iter()
        .map(|input| describe(input, mode, known))
        .collect::<Result<Vec<_>>>()?;
    if as_node::<EventTimeWatermark>(plan).is_some() {
        return match inputs.into_iter().next() {
            Some(input) => Ok(Flow::Watermark(Box::new(input))),
            None => Err(Error::internal("a watermark without an input")),
        };
    }
    if let Some(identity) = identity_of(plan) {
        known.labels.push(identity.label.clone());
    }
    let operator =
        |id: u32, output: Output, inputs: Vec<Flow>| Flow::Operator { id, output, inputs };
    if let Some(node) = as_node::<StatefulAggregate>(plan) {
        let identity = &node.identity;
        // As in Spark also where the watermark lets nothing go.
        if mode != OutputMode::Complete && !node.group.is_empty() {
            known.eager.push(identity.id);
        }
        let bounded = node.event_time.is_some() && mode != OutputMode::Complete;
        if !bounded && !node.group.is_empty() {
            let families: &[usize] = if node.session.is_some() { &[0, 1] } else { &[0] };
            let warning = aggregate_warning(&identity.label, mode);
            known.unbounded(identity, families, Some(warning));
        }
        return Ok(operator(identity.id, Output::Same, inputs));
    }
    if let Some(node) = as_node::<Deduplicate>(plan) {
        let bounded = node.within_ms.is_some() || dedup_event_time(node).is_some();
        // As in Spark also where the watermark lets nothing go.
        known.eager.push(node.identity.id);
        if !bounded {
            let warning = format!(
                "the operator `{}` keeps every key for ever: its state has no bound; put the \
                 column with the watermark among its columns, or use \
                 dropDuplicatesWithinWatermark",
                node.identity.label
            );
            known.unbounded(&node.identity, &[0], Some(warning));
        }
        return Ok(operator(node.identity.id, Output::Same, inputs));
    }
    if let Some(node) = as_node::<StreamJoin>(plan) {
        if node.bounds.left.is_some() || node.bounds.right.is_some() {
            known.eager.push(node.identity.id);
        }
        if let Some(warning) = join_warning(node) {
            let sides = [(0, node.bounds.left), (1, node.bounds.right)];
            let sides = sides.into_iter().filter(|(_, bound)| bound.is_none());
            let families: Vec<usize> = sides.map(|(family, _)| family).collect();
            known.unbounded(&node.identity, &families, Some(warning));
        }
        let output = match node.bounds {
            JoinBounds { left: Some(_), right: Some(_) } => Output::Join(node.bounds),
            _ => Output::Nothing,
        };
        return Ok(operator(node.identity.id, output, inputs));
    }
    if let Some(node) = as_node::<GlobalLimit>(plan) {
        return Ok(operator(node.identity.id, Output::Same, inputs));
    }
    if let Some(node) = as_node::<UserState>(plan) {
        if node.function.by_event_time() {
            known.eager.push(node.identity.id);
        }
        known.by_clock |= node.function.by_processing_time();
        if node.function.without_timeout() {
            known.unbounded(&node.identity, &[0], None);
        }
        // An initial state is no stream.
        let stream = inputs.into_iter().take(1).collect();
        let keeps = node.function.keeps_watermark();
        let output = if keeps { Output::Same } else { Output::Nothing };
        return Ok(operator(node.identity.id, output, stream));
    }
    Ok(Flow::Through(inputs))
}

fn identity_of(plan: &LogicalPlan) -> Option<&Identity> {
    if let Some(node) = as_node::<StatefulAggregate>(plan) {
        return Some(&node.identity);
    }
    if let Some(node) = as_node::<Deduplicate>(plan) {
        return Some(&node.identity);
    }
    if let Some(node) = as_node::<StreamJoin>(plan) {
        return Some(&node.identity);
    }
    if let Some(node) = as_node::<GlobalLimit>(plan) {
        return Some(&node.identity);
    }
    as_node::<UserState>(plan).map(|node| &node.identity)
}

/// The place among the keys of one with a watermark.
pub(super) fn dedup_event_time(node: &Deduplicate) -> Option<usize> {
    node.keys.iter().position(|key| {
        super::nodes::place_of(node.schema(), key)
            .is_some_and(|place| super::event_time::delay_of(node.schema().field(place)).is_some())
    })
}

fn aggregate_warning(label: &str, mode: OutputMode) -> String {
    let advice = match mode {
        OutputMode::Complete => "complete output mode never forgets a group",
        _ => {
            "group by a window of, or the column with, a watermark (withWatermark, or WATERMARK … \
             DELAY OF … in SQL)"
        }
    };
    format!("the operator `{label}` keeps every group for ever: its state has no bound; {advice}")
}

fn join_warning(node: &StreamJoin) -> Option<String> {
    let sides = match (node.bounds.left, node.bounds.right) {
        (Some(_), Some(_)) => return None,
        (None, None) => "both sides",
        (None, Some(StateBound::Key { .. } | StateBound::Value { .. })) => "the left side",
        (Some(_), None) => "the right side",
    };
    Some(format!(
        "the operator `{}` keeps the rows of {sides} for ever: its state has no bound; give both \
         streams a watermark, and the join a range of their event times or an equal window",
        node.identity.label
    ))
}
