//! Spark's names for functions over windows of rows, with the frame that it takes where none is
//! written.

use super::inner_name;
use datafusion::sql::sqlparser::ast::{
    OrderByExpr, WindowFrameBound, WindowFrameUnits, WindowSpec,
};

/// ` OVER (PARTITION BY … ORDER BY … ROWS BETWEEN … AND …)` behind a function of this name.
pub(super) fn over(function: &str, spec: &WindowSpec) -> String {
    let mut parts = Vec::new();
    if !spec.partition_by.is_empty() {
        let keys: Vec<String> = spec.partition_by.iter().map(inner_name).collect();
        parts.push(format!("PARTITION BY {}", keys.join(", ")));
    }
    if !spec.order_by.is_empty() {
        let keys: Vec<String> = spec.order_by.iter().map(order).collect();
        parts.push(format!("ORDER BY {}", keys.join(", ")));
    }
    parts.push(frame(function, spec));
    format!(" OVER ({})", parts.join(" "))
}

fn order(key: &OrderByExpr) -> String {
    let ascending = key.options.asc.unwrap_or(true);
    let first = key.options.nulls_first.unwrap_or(ascending);
    let direction = if ascending { "ASC" } else { "DESC" };
    let nulls = if first { "FIRST" } else { "LAST" };
    format!("{} {direction} NULLS {nulls}", inner_name(&key.expr))
}

fn frame(function: &str, spec: &WindowSpec) -> String {
    if let Some(frame) = &spec.window_frame {
        let units = match frame.units {
            WindowFrameUnits::Range => "RANGE",
            _ => "ROWS",
        };
        let end = frame.end_bound.as_ref().unwrap_or(&WindowFrameBound::CurrentRow);
        return format!("{units} BETWEEN {} AND {}", bound(&frame.start_bound), bound(end));
    }
    let ranks = ["row_number", "rank", "dense_rank", "percent_rank", "ntile"];
    let whole = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING";
    let so_far = "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW";
    match function.to_ascii_lowercase().as_str() {
        rank if ranks.contains(&rank) => format!("ROWS {so_far}"),
        _ if spec.order_by.is_empty() => whole.to_owned(),
        _ => format!("RANGE {so_far}"),
    }
}

/// The frame of `lag` and `lead`, which is the one row that they look at.
pub(super) fn shifted(function: &str, arguments: &mut Vec<String>) -> Option<String> {
    if !matches!(function, "lag" | "lead") {
        return None;
    }
    if arguments.len() == 1 {
        arguments.push("1".to_owned());
    }
    if arguments.len() == 2 {
        arguments.push("NULL".to_owned());
    }
    let by: i64 = arguments.get(1)?.parse().ok()?;
    let by = if function == "lag" { -by } else { by };
    Some(format!("ROWS BETWEEN {by} FOLLOWING AND {by} FOLLOWING"))
}

/// The same name with another frame in place of the last.
pub(super) fn with_frame(over: &str, frame: &str) -> String {
    let start = ["ROWS BETWEEN", "RANGE BETWEEN"].iter().filter_map(|it| over.rfind(it)).max();
    match start.and_then(|start| over.get(..start)) {
        Some(before) => format!("{before}{frame})"),
        None => over.to_owned(),
    }
}

fn bound(bound: &WindowFrameBound) -> String {
    match bound {
        WindowFrameBound::CurrentRow => "CURRENT ROW".to_owned(),
        WindowFrameBound::Preceding(None) => "UNBOUNDED PRECEDING".to_owned(),
        WindowFrameBound::Following(None) => "UNBOUNDED FOLLOWING".to_owned(),
        WindowFrameBound::Preceding(Some(rows)) => format!("{} PRECEDING", inner_name(rows)),
        WindowFrameBound::Following(Some(rows)) => format!("{} FOLLOWING", inner_name(rows)),
    }
}
