//! Numbers and lasting names of operators and watermarks.

use crate::stream::names::lasting;
use crate::stream::nodes::{
    Deduplicate, EventTimeWatermark, GlobalLimit, Identity, StatefulAggregate, StreamJoin,
    UserState, as_node, extension,
};
use crate::stream::table;
use crate::stream::{StreamSource, WatermarkNode};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::collections::HashMap;

/// Numbers the operators, parent first, and names them. The name says what the operator does, so
/// that it stays when something else in the query changes; of equal names those nearer to the
/// sources count first.
pub(super) fn number(plan: LogicalPlan, whole_rows: bool) -> Result<(LogicalPlan, usize)> {
    let mut taken: HashMap<String, usize> = HashMap::new();
    let named = plan.transform_up(|node| {
        let Some(meaning) = meaning(&node) else { return Ok(Transformed::no(node)) };
        let count = taken.entry(meaning.clone()).or_insert(0);
        *count += 1;
        let label = if *count == 1 { meaning } else { format!("{meaning} #{count}") };
        Ok(Transformed::yes(with_identity(node, |it| it.label = label)))
    })?;
    let mut next = 0_u32;
    let numbered = named.data.transform_down(|node| {
        if meaning(&node).is_none() {
            return Ok(Transformed::no(node));
        }
        let id = next;
        next += 1;
        Ok(Transformed::yes(with_identity(node, |it| (it.id, it.whole_rows) = (id, whole_rows))))
    })?;
    Ok((numbered.data, usize::try_from(next).unwrap_or(usize::MAX)))
}

fn short(exprs: &[Expr]) -> String {
    exprs.iter().map(lasting).collect::<Vec<_>>().join(", ")
}

/// What an operator does, in a few words.
fn meaning(plan: &LogicalPlan) -> Option<String> {
    if let Some(node) = as_node::<StatefulAggregate>(plan) {
        if node.group.is_empty() {
            return Some("aggregate".to_owned());
        }
        let kind = if node.session.is_some() { "sessions" } else { "aggregate" };
        let groups: Vec<String> = node.group.iter().map(lasting).collect();
        let groups: Vec<&str> = groups.iter().map(|name| group_name(name)).collect();
        return Some(format!("{kind} by {}", groups.join(", ")));
    }
    if let Some(node) = as_node::<Deduplicate>(plan) {
        let kind = if node.within_ms.is_some() {
            "deduplicate within watermark by"
        } else {
            "deduplicate by"
        };
        return Some(format!("{kind} {}", short(&node.keys)));
    }
    if let Some(node) = as_node::<StreamJoin>(plan) {
        let keys = node.on.iter().map(|(left, right)| {
            let (left, right) =
                (short(std::slice::from_ref(left)), short(std::slice::from_ref(right)));
            if left == right { left } else { format!("{left} = {right}") }
        });
        return Some(format!("join on {}", keys.collect::<Vec<_>>().join(", ")));
    }
    if let Some(node) = as_node::<UserState>(plan) {
        let given = node.function.name().map(str::to_owned);
        return Some(given.unwrap_or_else(|| format!("own state by {}", short(&node.keys))));
    }
    as_node::<GlobalLimit>(plan).map(|_| "limit".to_owned())
}

/// The name of a group; a window by itself rather than by its call.
fn group_name(name: &str) -> &str {
    ["session_window", "window"]
        .into_iter()
        .find(|known| name.strip_prefix(known).is_some_and(|rest| rest.starts_with('(')))
        .unwrap_or(name)
}

fn with_identity(plan: LogicalPlan, change: impl FnOnce(&mut Identity)) -> LogicalPlan {
    if let Some(node) = as_node::<StatefulAggregate>(&plan) {
        let mut node = node.clone();
        change(&mut node.identity);
        return extension(node);
    }
    if let Some(node) = as_node::<Deduplicate>(&plan) {
        let mut node = node.clone();
        change(&mut node.identity);
        return extension(node);
    }
    if let Some(node) = as_node::<StreamJoin>(&plan) {
        let mut node = node.clone();
        change(&mut node.identity);
        return extension(node);
    }
    if let Some(node) = as_node::<GlobalLimit>(&plan) {
        let mut node = node.clone();
        change(&mut node.identity);
        return extension(node);
    }
    if let Some(node) = as_node::<UserState>(&plan) {
        let mut node = node.clone();
        change(&mut node.identity);
        return extension(node);
    }
    plan
}

/// Lists the watermarks in plan order and gives each node its place.
pub(super) fn watermarks(
    plan: LogicalPlan,
    sources: &[StreamSource],
) -> Result<(LogicalPlan, Vec<WatermarkNode>)> {
    let mut found: Vec<WatermarkNode> = Vec::new();
    let plan = plan
        .transform_up(|plan| {
            let Some(node) = as_node::<EventTimeWatermark>(&plan) else {
                return Ok(Transformed::no(plan));
            };
            let below = table::sources(&node.input)
                .map_err(crate::failure::external)?
                .into_iter()
                .filter_map(|source| table::place(sources, &source.definition))
                .collect::<Vec<_>>();
            let column = short(std::slice::from_ref(&node.column));
            let names = below.iter().filter_map(|place| sources.get(*place));
            let names: Vec<&str> = names.map(|source| source.id.as_str()).collect();
            let meaning = format!("{column}@{}", names.join("+"));
            let same = |known: &WatermarkNode| {
                known.id == meaning || known.id.starts_with(&format!("{meaning} #"))
            };
            let count = found.iter().filter(|known| same(known)).count();
            let id = if count == 0 { meaning } else { format!("{meaning} #{}", count + 1) };
            let mut node = node.clone();
            node.place = found.len();
            found.push(WatermarkNode { id, column, delay_ms: node.delay_ms, sources: below });
            Ok(Transformed::yes(extension(node)))
        })
        .data()?;
    Ok((plan, found))
}
