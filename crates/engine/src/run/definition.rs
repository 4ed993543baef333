//! Everything that is fixed about a query before it runs.

use super::folders;
use crate::conf::Conf;
use crate::explain::{
    Explanation, GuaranteeReport, LogsGuarantee, SinkGuarantee, SourceGuarantee, StateExplanation,
};
use crate::observer::BatchObserver;
use crate::trigger::Trigger;
use arrow::datatypes::SchemaRef;
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
    /// Sinks beside the main one.
    pub(crate) further_sinks: Vec<FurtherSink>,
    /// The columns of dead letters, where the main sink takes them.
    pub(crate) letters_in_main: Option<SchemaRef>,
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

/// What a sink beside the main one gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The result, as the main one.
    Result,
    /// Those that operators drop as late.
    LateRows,
    /// Records that cannot be processed.
    DeadLetters,
}

impl Beside {
    /// What they are called, and the sink that they go to, unless it has a name of its own.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Beside::Result => "rows",
            Beside::LateRows => "late rows",
            Beside::DeadLetters => "dead letters",
        }
    }
}

/// A sink beside the main one, which gets other rows of the same batches.
#[derive(Debug, Clone)]
pub(crate) struct FurtherSink {
    pub(crate) rows: Beside,
    /// Its name, which lasts: records of the checkpoint know it by that.
    pub(crate) name: String,
    /// Their columns.
    pub(crate) schema: SchemaRef,
    pub(crate) sink: Arc<dyn SinkDefinition>,
    pub(crate) record: SinkRecord,
}

impl FurtherSink {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What the name of a table of it ends with, behind the query's name.
    pub(crate) fn table_suffix(&self) -> String {
        self.name.replace(' ', "_")
    }
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
            "furtherSinks": self.further_sinks.iter().map(further_record).collect::<Vec<_>>(),
            "trigger": self.trigger.to_string(),
        })
    }

    /// The sinks of the result by their places, the main one first.
    pub(crate) fn of_result(&self) -> Vec<usize> {
        let further = (1..).zip(&self.further_sinks).filter(|(_, it)| it.rows == Beside::Result);
        std::iter::once(0).chain(further.map(|(place, _)| place)).collect()
    }

    /// Who promises what.
    pub(crate) fn guarantee(&self) -> GuaranteeReport {
        let kept = self.checkpoint.temporary.is_none();
        let sinks = (self.sink.as_ref(), self.further_sinks.as_slice());
        guarantee(&self.plan, sinks, self.checkpoint.store.url(), kept)
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
            onefold_types::Delivery::AtLeastOnce { why } => {
                let name = self.name.as_ref();
                let query = name.map_or("the query".to_owned(), |name| format!("query `{name}`"));
                Err(Error::invalid(format!(
                    "{query} is not exactly-once, which requireExactlyOnce demands: {why}"
                )))
            }
        }
    }

    /// # Errors
    /// Invalid, when the query would read what it writes.
    pub(crate) fn check_folders(&self) -> Result<()> {
        let kept = self.checkpoint.temporary.is_none();
        let checkpoint = kept.then(|| self.checkpoint.store.url());
        folders::check(&self.plan, (self.sink.as_ref(), &self.further_sinks), checkpoint)
    }
}

/// A further sink as tools find it.
fn further_record(further: &FurtherSink) -> Value {
    let record = &further.record;
    let options: serde_json::Map<String, Value> =
        record.options.iter().map(|(name, it)| (name.clone(), it.as_str().into())).collect();
    json!({
        "name": further.name(),
        "description": further.sink.description(),
        "format": record.format,
        "path": record.path,
        "partitionBy": record.partition_by,
        "options": options,
        "schema": onefold_plan::schema::schema_ddl(&further.schema),
    })
}

pub(crate) fn guarantee(
    plan: &StreamingPlan,
    (sink, further): (&dyn SinkDefinition, &[FurtherSink]),
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
    let of = |name: Option<&str>, sink: &dyn SinkDefinition| SinkGuarantee {
        name: name.map(str::to_owned),
        description: sink.description(),
        delivery: sink.delivery(),
    };
    let further = further.iter().map(|it| of(Some(it.name()), it.sink.as_ref()));
    // Those that go with the rows are promised what the rows are.
    let in_main = sink.dead_letters().map(|description| SinkGuarantee {
        name: Some(Beside::DeadLetters.name().to_owned()),
        description,
        delivery: sink.delivery(),
    });
    let further = further.chain(in_main).collect();
    GuaranteeReport::new(sources, logs, of(None, sink), further)
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
