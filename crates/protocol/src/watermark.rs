//! The watermark of a query: how it moves from batch to batch.
//!
//! Every `withWatermark` is a *node*. A node's value is the newest event time it saw less its
//! delay; the query's watermark is chosen among the nodes' values and never goes back. All of it
//! follows from event times and batch times, so that a batch that runs again computes the same.

use onefold_types::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How the watermark is chosen among several nodes (`spark.sql.streaming.multipleWatermarkPolicy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatermarkPolicy {
    /// The slowest node decides: no row of any input is dropped early.
    Min,
    /// The fastest node decides.
    Max,
}

impl WatermarkPolicy {
    /// Reads the setting's value.
    ///
    /// # Errors
    /// Invalid, when it is neither `min` nor `max`.
    pub fn parse(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "min" => Ok(WatermarkPolicy::Min),
            "max" => Ok(WatermarkPolicy::Max),
            _ => Err(Error::invalid(format!(
                "spark.sql.streaming.multipleWatermarkPolicy is `{text}`; it can be min or max"
            ))),
        }
    }
}

/// Where one node stands. In `commits/N` and `_onefold/prepared/N-G`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeWatermark {
    /// Newest event time less the delay, milliseconds since 1970; 0 before the first row.
    pub ms: i64,
    /// Time of the last batch that had rows for it (before its first row: of the query's first
    /// batch), milliseconds since 1970.
    pub since: i64,
}

/// What a batch saw at one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The node.
    pub node: String,
    /// Newest event time less the delay, milliseconds since 1970; `None` without rows.
    pub ms: Option<i64>,
}

/// A node in a report for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// The node.
    pub node: String,
    /// Its value and the time of its last rows.
    pub at: NodeWatermark,
    /// Whether it is left out for having been without rows for too long.
    pub idle: bool,
    /// Whether the query's watermark would be later without it.
    pub holds_back: bool,
}

/// The watermark of a query and of each of its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermarks {
    policy: WatermarkPolicy,
    idle_after_ms: Option<i64>,
    global_ms: i64,
    nodes: BTreeMap<String, NodeWatermark>,
}

impl Watermarks {
    /// As the log left them: the query's watermark and, of the nodes that the query has now, what
    /// the last commit says (nothing where Spark committed). A node that has had no rows for
    /// `idle_after_ms` is left out; without it, never.
    #[must_use]
    pub fn restore(
        policy: WatermarkPolicy,
        idle_after_ms: Option<i64>,
        global_ms: i64,
        nodes: BTreeMap<String, NodeWatermark>,
    ) -> Self {
        Watermarks { policy, idle_after_ms, global_ms, nodes }
    }

    /// The watermark after the last batch, milliseconds since 1970.
    #[must_use]
    pub fn global_ms(&self) -> i64 {
        self.global_ms
    }

    /// What each node has, for the commit.
    #[must_use]
    pub fn nodes(&self) -> &BTreeMap<String, NodeWatermark> {
        &self.nodes
    }

    /// The watermark of a batch that is planned at `now_ms`: later than after the last batch only
    /// where a node became idle since.
    #[must_use]
    pub fn in_force_ms(&self, now_ms: i64) -> i64 {
        let awake = self.nodes.values().filter(|node| !self.idle(node, now_ms)).map(|it| it.ms);
        let chosen = match self.policy {
            WatermarkPolicy::Min => awake.min(),
            WatermarkPolicy::Max => awake.max(),
        };
        // When all nodes are idle there is nothing to go by: it stays.
        chosen.map_or(self.global_ms, |ms| ms.max(self.global_ms))
    }

    /// The watermarks after a batch with the given time that saw this. A node without rows counts
    /// as 1970 until its first ones, so that with `min` nothing moves before all nodes had rows.
    #[must_use]
    pub fn after(&self, batch_time_ms: i64, sightings: &[Sighting]) -> Self {
        let mut nodes = BTreeMap::new();
        for seen in sightings {
            let before = self.nodes.get(&seen.node);
            let now = match (before, seen.ms) {
                (None, ms) => NodeWatermark { ms: ms.unwrap_or(0), since: batch_time_ms },
                (Some(before), None) => *before,
                (Some(before), Some(ms)) => {
                    NodeWatermark { ms: ms.max(before.ms), since: batch_time_ms }
                }
            };
            nodes.insert(seen.node.clone(), now);
        }
        let mut after = Watermarks { nodes, ..self.clone() };
        after.global_ms = after.in_force_ms(batch_time_ms);
        after
    }

    /// Each node, and which of them hold the query's watermark back.
    #[must_use]
    pub fn report(&self, now_ms: i64) -> Vec<NodeReport> {
        let in_force = self.in_force_ms(now_ms);
        let without = |left_out: &str| {
            let mut others = self.clone();
            others.nodes.remove(left_out);
            others.in_force_ms(now_ms)
        };
        let report = |(node, at): (&String, &NodeWatermark)| NodeReport {
            node: node.clone(),
            at: *at,
            idle: self.idle(at, now_ms),
            holds_back: without(node) > in_force,
        };
        self.nodes.iter().map(report).collect()
    }

    fn idle(&self, node: &NodeWatermark, now_ms: i64) -> bool {
        self.idle_after_ms.is_some_and(|limit| now_ms.saturating_sub(node.since) >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(policy: WatermarkPolicy, idle_after_ms: Option<i64>) -> Watermarks {
        Watermarks::restore(policy, idle_after_ms, 0, BTreeMap::new())
    }

    fn seen(left: Option<i64>, right: Option<i64>) -> [Sighting; 2] {
        [("left", left), ("right", right)].map(|(node, ms)| Sighting { node: node.to_owned(), ms })
    }

    #[test]
    fn the_slowest_node_decides_and_one_without_rows_stands_at_1970() {
        let none = fresh(WatermarkPolicy::Min, None);
        let one = none.after(1, &seen(Some(50), None));
        assert_eq!(one.global_ms(), 0);
        let both = one.after(2, &seen(None, Some(30)));
        assert_eq!(both.global_ms(), 30);
        let later = both.after(3, &seen(Some(10), Some(90)));
        assert_eq!(later.global_ms(), 50, "a node never goes back");
        assert_eq!(later.in_force_ms(i64::MAX), 50, "without a limit no node is ever idle");
    }

    #[test]
    fn the_fastest_node_decides_where_the_policy_says_so() {
        let none = fresh(WatermarkPolicy::parse("MAX").unwrap(), None);
        assert_eq!(none.after(1, &seen(Some(50), None)).global_ms(), 50);
        assert!(WatermarkPolicy::parse("mean").unwrap_err().to_string().contains("min or max"));
    }

    #[test]
    fn event_times_before_1970_do_not_move_the_watermark_back() {
        let early = fresh(WatermarkPolicy::Min, None).after(1, &seen(Some(-5), Some(-9)));
        assert_eq!(early.global_ms(), 0);
        assert_eq!(early.nodes()["left"].ms, -5);
    }

    #[test]
    fn an_idle_node_is_left_out_and_comes_back_with_its_rows() {
        let both = fresh(WatermarkPolicy::Min, Some(100)).after(1_000, &seen(Some(50), Some(10)));
        let left = both.after(1_050, &seen(Some(60), None));
        assert_eq!((left.global_ms(), left.in_force_ms(1_099)), (10, 10));
        assert_eq!(left.in_force_ms(1_100), 60, "right had its last rows at 1000");
        let next = left.after(1_100, &seen(Some(70), None));
        assert_eq!(next.global_ms(), 70);
        let back = next.after(1_101, &seen(Some(80), Some(20)));
        assert_eq!(back.global_ms(), 70, "it never goes back, but waits for right again");
        assert_eq!(back.after(1_102, &seen(None, Some(75))).global_ms(), 75);
        assert_eq!(back.in_force_ms(9_999), 70, "all idle: it stays");
    }

    #[test]
    fn a_report_names_the_node_that_holds_the_watermark_back_and_since_when() {
        let both = fresh(WatermarkPolicy::Min, Some(100)).after(1_000, &seen(Some(50), Some(10)));
        let now = both.after(1_050, &seen(Some(60), None));
        let report = now.report(1_060);
        let told: Vec<(&str, bool, i64)> =
            report.iter().map(|it| (it.node.as_str(), it.holds_back, it.at.since)).collect();
        assert_eq!(told, [("left", false, 1_050), ("right", true, 1_000)]);
        assert!(now.report(1_100).iter().any(|it| it.node == "right" && it.idle));
    }

    #[test]
    fn a_restart_goes_on_where_the_commit_stood() {
        let both = fresh(WatermarkPolicy::Min, None).after(1, &seen(Some(50), Some(10)));
        let again =
            Watermarks::restore(WatermarkPolicy::Min, None, both.global_ms(), both.nodes().clone());
        assert_eq!(again, both);
        assert_eq!(again.after(2, &seen(None, Some(70))).global_ms(), 50);
    }
}
