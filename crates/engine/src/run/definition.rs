//! Everything that is fixed about a query before it runs.

use super::folders;
use crate::conf::Conf;
use crate::explain::{
    Explanation, GuaranteeReport, LogsGuarantee, SinkGuarantee, SourceGuarantee, StateExplanation,
};
use crate::observer::BatchObserver;
use crate::trigger::Trigger;
use onefold_connector::{OutputMode, SinkDefinition};
use onefold_plan::speech::plan_in_sql;
use onefold_plan::stream::StreamingPlan;
use onefold_state::OperatorSpec;
use onefold_storage::Store;
use onefold_types::{Error, Result};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// A query as its writer described it, checked.
pub(crate) struct QueryDefinition {
    pub(crate) name: Option<String>,
    pub(crate) plan: Arc<StreamingPlan>,
    /// What looks at the rows of each batch.
    pub(crate) observers: Vec<Arc<dyn BatchObserver>>,
    pub(crate) sink: Arc<dyn SinkDefinition>,
    /// What of the sink is written into the checkpoint for tools.
    pub(crate) sink_record: SinkRecord,
    pub(crate) output_mode: OutputMode,
    pub(crate) trigger: Trigger,
    pub(crate) conf: Conf,
    pub(crate) checkpoint: CheckpointPlace,
}

/// Where the checkpoint is.
#[derive(Clone)]
pub(crate) struct CheckpointPlace {
    pub(crate) store: Arc<dyn Store>,
    /// A folder of ours that goes away when the query is stopped.
    pub(crate) temporary: Option<PathBuf>,
}

/// The sink as tools find it in the checkpoint. No secret is in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SinkRecord {
    pub(crate) format: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) partition_by: Vec<String>,
    pub(crate) options: Vec<(String, String)>,
}

impl QueryDefinition {
    /// The object `definition` of the generation record.
    pub(crate) fn record(&self) -> Value {
        let sources: Vec<Value> = self
            .plan
            .sources()
            .iter()
            .map(|source| json!({"id": source.id, "description": source.definition.description()}))
            .collect();
        let options: serde_json::Map<String, Value> = self
            .sink_record
            .options
            .iter()
            .map(|(name, value)| (name.clone(), Value::String(value.clone())))
            .collect();
        json!({
            "name": self.name,
            "sources": sources,
            "schema": onefold_plan::schema::schema_ddl(&self.plan.schema()),
            "sink": {
                "description": self.sink.description(),
                "format": self.sink_record.format,
                "path": self.sink_record.path,
                "partitionBy": self.sink_record.partition_by,
                "outputMode": self.output_mode,
                "options": options,
            },
            "trigger": self.trigger.to_string(),
        })
    }

    /// Who promises what.
    pub(crate) fn guarantee(&self) -> GuaranteeReport {
        let kept = self.checkpoint.temporary.is_none();
        guarantee(&self.plan, self.sink.as_ref(), self.checkpoint.store.url(), kept)
    }

    /// What the query does, before its first batch.
    pub(crate) fn explanation(&self, operators: &[OperatorSpec]) -> Explanation {
        explanation(self.name.clone(), &self.plan, operators, self.guarantee())
    }

    /// # Errors
    /// Invalid, when the query must be exactly-once and is not.
    pub(crate) fn check_required(&self) -> Result<()> {
        if !self.conf.flag("onefold.requireExactlyOnce") {
            return Ok(());
        }
        match self.guarantee().whole {
            onefold_types::Delivery::ExactlyOnce { .. } => Ok(()),
            onefold_types::Delivery::AtLeastOnce { why } => Err(Error::invalid(format!(
                "the query is not exactly-once, which requireExactlyOnce demands: {why}"
            ))),
        }
    }

    /// # Errors
    /// Invalid, when the query would read what it writes.
    pub(crate) fn check_folders(&self) -> Result<()> {
        let kept = self.checkpoint.temporary.is_none();
        let checkpoint = kept.then(|| self.checkpoint.store.url());
        folders::check(&self.plan, self.sink.as_ref(), checkpoint)
    }
}

pub(crate) fn guarantee(
    plan: &StreamingPlan,
    sink: &dyn SinkDefinition,
    checkpoint: &str,
    kept: bool,
) -> GuaranteeReport {
    let sources = plan
        .sources()
        .iter()
        .map(|source| SourceGuarantee {
            id: source.id.clone(),
            description: source.definition.description(),
            replay: source.definition.replay(),
        })
        .collect();
    let logs = LogsGuarantee { checkpoint: checkpoint.to_owned(), kept };
    let sink = SinkGuarantee { description: sink.description(), delivery: sink.delivery() };
    GuaranteeReport::new(sources, logs, sink)
}

pub(crate) fn explanation(
    name: Option<String>,
    plan: &StreamingPlan,
    operators: &[OperatorSpec],
    guarantee: GuaranteeReport,
) -> Explanation {
    Explanation {
        name,
        logical_plan: plan_in_sql(&plan.logical_plan().display_indent().to_string()),
        physical_plan: None,
        state: operators.iter().map(StateExplanation::of).collect(),
        warnings: plan.warnings().to_vec(),
        guarantee,
    }
}
