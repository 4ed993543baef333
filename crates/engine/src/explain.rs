//! What a query will do and what it promises, as values that a user can read.

use onefold_state::OperatorSpec;
use onefold_types::{Delivery, Replay};
use serde::Serialize;
use std::fmt;

/// What a query will do and what it promises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The query's name.
    pub name: Option<String>,
    /// The logical plan, indented.
    pub logical_plan: String,
    /// The physical plan of the newest batch, indented; absent before the first.
    pub physical_plan: Option<String>,
    /// What its operators keep from batch to batch, by number; empty for a query without state.
    pub state: Vec<StateExplanation>,
    /// What a user should know before the start, such as state that nothing bounds.
    pub warnings: Vec<String>,
    /// Who promises what.
    pub guarantee: GuaranteeReport,
}

/// What one operator keeps from batch to batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateExplanation {
    /// Its number.
    pub id: u32,
    /// Spark's name of its kind.
    pub kind: String,
    /// Its lasting name, to which its state belongs.
    pub name: String,
    /// The columns by which it keeps rows.
    pub key: Vec<String>,
}

impl StateExplanation {
    pub(crate) fn of(spec: &OperatorSpec) -> Self {
        let keys = spec.families.first().map(|family| family.key.fields().iter());
        StateExplanation {
            id: spec.id,
            kind: spec.kind.clone(),
            name: spec.label.clone(),
            key: keys.into_iter().flatten().map(|field| field.name().clone()).collect(),
        }
    }
}

/// The three parties to exactly-once, and the whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GuaranteeReport {
    /// The sources, in plan order.
    pub sources: Vec<SourceGuarantee>,
    /// The checkpoint.
    pub logs: LogsGuarantee,
    /// The sink.
    pub sink: SinkGuarantee,
    /// Sinks beside it, such as that of late rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further_sinks: Vec<SinkGuarantee>,
    /// The weakest of all, with the reason.
    pub whole: Delivery,
}

/// Whether a source can be read again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceGuarantee {
    /// Its id in the checkpoint.
    pub id: String,
    /// The source, as it describes itself.
    pub description: String,
    /// What it promises.
    #[serde(flatten)]
    pub replay: Replay,
}

/// Whether the checkpoint outlives the query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogsGuarantee {
    /// The checkpoint's URL.
    pub checkpoint: String,
    /// Whether it is still there after the query stops.
    pub kept: bool,
}

/// How often a row reaches the sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkGuarantee {
    /// Its name; the query's main sink has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The sink, as it describes itself.
    pub description: String,
    /// What it promises.
    #[serde(flatten)]
    pub delivery: Delivery,
}

impl GuaranteeReport {
    /// Joins the promises of the parties: the whole is as weak as its weakest party, which is
    /// named.
    #[must_use]
    pub fn new(
        sources: Vec<SourceGuarantee>,
        logs: LogsGuarantee,
        sink: SinkGuarantee,
        further_sinks: Vec<SinkGuarantee>,
    ) -> Self {
        let weak = further_sinks.iter().find(|further| !further.delivery.exactly_once());
        let weakest = weak.filter(|_| sink.delivery.exactly_once()).unwrap_or(&sink);
        let whole = whole(&sources, &logs, weakest);
        GuaranteeReport { sources, logs, sink, further_sinks, whole }
    }
}

fn whole(sources: &[SourceGuarantee], logs: &LogsGuarantee, sink: &SinkGuarantee) -> Delivery {
    for source in sources {
        if let Replay::None { why } = &source.replay {
            let why = format!("source {} cannot be read again: {why}", source.description);
            return Delivery::AtLeastOnce { why };
        }
    }
    if !logs.kept {
        let why = "the checkpoint is temporary: a restart begins anew; set checkpointLocation";
        return Delivery::AtLeastOnce { why: why.to_owned() };
    }
    match &sink.delivery {
        Delivery::AtLeastOnce { why } => {
            Delivery::AtLeastOnce { why: format!("sink {}: {why}", sink.description) }
        }
        Delivery::ExactlyOnce { how } => Delivery::ExactlyOnce {
            how: format!("sources can be read again, the logs are kept, and {how}"),
        },
    }
}

impl fmt::Display for GuaranteeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for source in &self.sources {
            let promise = match &source.replay {
                Replay::Exact { how } => format!("replayable: {how}"),
                Replay::None { why } => format!("not replayable: {why}"),
            };
            writeln!(f, "source {}  {}  {promise}", source.id, source.description)?;
        }
        let kept = if self.logs.kept { "kept" } else { "temporary" };
        writeln!(f, "logs      {}  {kept}", self.logs.checkpoint)?;
        writeln!(f, "sink      {}  {}", self.sink.description, promise(&self.sink.delivery))?;
        for further in &self.further_sinks {
            let name = further.name.as_deref().unwrap_or("sink");
            let promise = promise(&further.delivery);
            writeln!(f, "{name:<9} {}  {promise}", further.description)?;
        }
        write!(f, "whole     {}", promise(&self.whole))
    }
}

fn promise(delivery: &Delivery) -> String {
    match delivery {
        Delivery::ExactlyOnce { how } => format!("exactly once: {how}"),
        Delivery::AtLeastOnce { why } => format!("at least once: {why}"),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "== Logical plan ==\n{}", self.logical_plan)?;
        if let Some(plan) = &self.physical_plan {
            writeln!(f, "== Physical plan ==\n{plan}")?;
        }
        if !self.state.is_empty() {
            writeln!(f, "== State ==")?;
        }
        for operator in &self.state {
            let StateExplanation { id, kind, name, key } = operator;
            writeln!(f, "operator {id}  {kind}  {name}  by {}", key.join(", "))?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        write!(f, "== Guarantee ==\n{}", self.guarantee)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(replay: Replay, kept: bool, delivery: Delivery) -> GuaranteeReport {
        GuaranteeReport::new(
            vec![SourceGuarantee { id: "0".into(), description: "In[x]".into(), replay }],
            LogsGuarantee { checkpoint: "file:///c".into(), kept },
            SinkGuarantee { name: None, description: "Out[y]".into(), delivery },
            Vec::new(),
        )
    }

    fn once() -> Delivery {
        Delivery::ExactlyOnce { how: "the mark is in the manifest".into() }
    }

    #[test]
    fn the_whole_is_exactly_once_only_if_all_three_are() {
        let exact = Replay::Exact { how: "files stay".into() };
        assert!(report(exact.clone(), true, once()).whole.exactly_once());
        assert!(!report(exact.clone(), false, once()).whole.exactly_once());
        let sink = Delivery::AtLeastOnce { why: "no mark".into() };
        assert!(!report(exact, true, sink).whole.exactly_once());
    }

    #[test]
    fn the_weakest_party_is_named_with_its_reason() {
        let replay = Replay::None { why: "a socket forgets".into() };
        let text = report(replay, true, once()).to_string();
        assert!(text.contains("source In[x] cannot be read again: a socket forgets"), "{text}");
    }
}
