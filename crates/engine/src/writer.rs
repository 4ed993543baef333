//! Describing where a stream goes, and starting it.

use crate::explain::Explanation;
use crate::query::StreamingQuery;
use crate::session::Session;
use crate::trigger::Trigger;
use datafusion::logical_expr::LogicalPlan;
use onefold_connector::{OutputMode, SinkDefinition};
use onefold_types::{Error, OptionMap, Result};
use std::sync::Arc;

/// Describes where a stream goes, as Spark's `DataStreamWriter`.
#[derive(Debug, Clone)]
pub struct DataStreamWriter {
    session: Session,
    plan: LogicalPlan,
    format: Option<String>,
    sink: Option<Arc<dyn SinkDefinition>>,
    output_mode: OutputMode,
    options: OptionMap,
    partition_by: Vec<String>,
    query_name: Option<String>,
    trigger: Trigger,
}

impl DataStreamWriter {
    pub(crate) fn new(session: Session, plan: LogicalPlan) -> Self {
        DataStreamWriter {
            session,
            plan,
            format: None,
            sink: None,
            output_mode: OutputMode::Append,
            options: OptionMap::new(),
            partition_by: Vec::new(),
            query_name: None,
            trigger: Trigger::default(),
        }
    }

    /// The sink, by name: `parquet`, `json`, `console`, `memory` …
    #[must_use]
    pub fn format(mut self, name: &str) -> Self {
        self.format = Some(name.to_owned());
        self
    }

    /// A sink of one's own, in place of a format.
    #[must_use]
    pub fn sink(mut self, definition: Arc<dyn SinkDefinition>) -> Self {
        self.sink = Some(definition);
        self
    }

    /// Which rows reach the sink.
    #[must_use]
    pub fn output_mode(mut self, mode: OutputMode) -> Self {
        self.output_mode = mode;
        self
    }

    /// Sets an option. Checked by `start`.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.set(name, value);
        self
    }

    /// Sets options.
    #[must_use]
    pub fn options<N: Into<String>, V: Into<String>>(
        mut self,
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        for (name, value) in pairs {
            self.options.set(name, value);
        }
        self
    }

    /// Columns whose values become folders of the output.
    #[must_use]
    pub fn partition_by(mut self, columns: &[&str]) -> Self {
        self.partition_by = columns.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// A name that no other running query of the session has.
    #[must_use]
    pub fn query_name(mut self, name: &str) -> Self {
        self.query_name = Some(name.to_owned());
        self
    }

    /// When to look for data; by default back to back.
    #[must_use]
    pub fn trigger(mut self, trigger: Trigger) -> Self {
        self.trigger = trigger;
        self
    }

    /// Starts the query with its output under a path.
    ///
    /// # Errors
    /// Invalid: the plan, an option, the schema or the checkpoint does not fit, or
    /// `requireExactlyOnce` is set and the query is not. Corrupt: the checkpoint is lost, damaged
    /// or foreign. Unavailable: the checkpoint cannot be reached.
    pub fn start(self, path: impl Into<String>) -> Result<StreamingQuery> {
        let path = path.into();
        if self.options.get("path").is_some_and(|other| other != path) {
            return Err(Error::invalid(
                "the path is given twice, by option `path` and by `start`; give it once",
            ));
        }
        self.option("path", path).start_default()
    }

    /// Starts the query with a sink that needs no path, or with the path of option `path`.
    ///
    /// # Errors
    /// As [`DataStreamWriter::start`].
    pub fn start_default(self) -> Result<StreamingQuery> {
        Err(Error::internal("queries do not run yet"))
    }

    /// What the query would do and what it would promise, without starting it.
    ///
    /// # Errors
    /// Those of [`DataStreamWriter::start`] that do not need the checkpoint.
    pub fn explain(&self) -> Result<Explanation> {
        Err(Error::internal("queries do not run yet"))
    }
}
