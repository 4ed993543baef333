//! Describing where a stream goes, and starting it.

mod described;
mod further;
mod options;

use crate::conf::WAREHOUSE;
use crate::explain::Explanation;
use crate::foreach_batch::ForeachBatch;
use crate::frame::DataFrame;
use crate::observer::BatchObserver;
use crate::query::StreamingQuery;
use crate::run::definition::{explanation, guarantee};
use crate::run::{folders, launch};
use crate::session::Session;
use crate::table_location;
use crate::trigger::Trigger;
use datafusion::logical_expr::LogicalPlan;
use described::Location;
use onefold_connector::{OutputMode, SinkDefinition};
use onefold_plan::stream::StreamingPlan;
use onefold_state::OperatorSpec;
use onefold_types::{BatchId, Error, OptionMap, Result};
pub use options::WRITER_OPTIONS;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sinks whose output does not outlive the process, so that their checkpoint need not either.
pub(crate) const OUTPUT_OF_PROCESS: [&str; 3] = ["console", "memory", "noop"];

/// Sinks that keep no files.
pub(crate) const NO_FILES: [&str; 6] = ["console", "http", "jdbc", "kafka", "memory", "noop"];

/// Sinks that are functions of the user, which Spark too runs without a checkpoint if none is given.
const FUNCTIONS: [&str; 2] = ["foreach", "foreachBatch"];

/// Describes where a stream goes, as Spark's `DataStreamWriter`.
#[derive(Debug, Clone)]
pub struct DataStreamWriter {
    session: Session,
    plan: LogicalPlan,
    format: Option<String>,
    sink: Option<Arc<dyn SinkDefinition>>,
    /// What Spark calls the sink of one's own, if it does.
    sink_name: Option<&'static str>,
    /// A sink of one's own for late rows.
    late_rows: Option<Arc<dyn SinkDefinition>>,
    /// The same for records that cannot be processed.
    dead_letters: Option<Arc<dyn SinkDefinition>>,
    /// Further sinks of the result of one's own, by name.
    also_into: Vec<(String, Arc<dyn SinkDefinition>)>,
    observers: Vec<Arc<dyn BatchObserver>>,
    output_mode: OutputMode,
    options: OptionMap,
    partition_by: Vec<String>,
    query_name: Option<String>,
    trigger: Trigger,
    settings: OptionMap,
}

impl DataStreamWriter {
    pub(crate) fn new(session: Session, plan: LogicalPlan) -> Self {
        DataStreamWriter {
            session,
            plan,
            format: None,
            sink: None,
            sink_name: None,
            late_rows: None,
            dead_letters: None,
            also_into: Vec::new(),
            observers: Vec::new(),
            output_mode: OutputMode::Append,
            options: OptionMap::new(),
            partition_by: Vec::new(),
            query_name: None,
            trigger: Trigger::default(),
            settings: OptionMap::new(),
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

    /// A function that is called with the rows and the number of each batch, in place of a format.
    /// After a crash it may be called again with the same number.
    #[must_use]
    pub fn foreach_batch(
        self,
        function: impl Fn(DataFrame, BatchId) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        let session = self.session.clone();
        self.sink(Arc::new(ForeachBatch { session, function: Arc::new(function) }))
            .sink_called("foreachBatch")
    }

    /// A sink for the rows that operators drop as late, in place of the options `onefold.lateRows.…`:
    /// it gets them in the same batch, exactly once.
    #[must_use]
    pub fn late_rows(mut self, definition: Arc<dyn SinkDefinition>) -> Self {
        self.late_rows = Some(definition);
        self
    }

    /// A sink for records that cannot be processed, in place of the options
    /// `onefold.deadLetters.…`: it gets them, with the error, in the same batch, exactly once, and
    /// the query goes on without them.
    #[must_use]
    pub fn dead_letters(mut self, definition: Arc<dyn SinkDefinition>) -> Self {
        self.dead_letters = Some(definition);
        self
    }

    /// One more sink for the rows of the result, in place of the options `onefold.sinks.NAME.…`: it gets
    /// the same rows in the same batches, exactly once. The name is for the checkpoint, and lasts.
    #[must_use]
    pub fn also_into(mut self, name: &str, definition: Arc<dyn SinkDefinition>) -> Self {
        self.also_into.push((name.to_owned(), definition));
        self
    }

    /// Says what Spark calls the sink of one's own: `foreachBatch` and `foreach` may run without a
    /// checkpoint, as they may in Spark.
    #[must_use]
    pub fn sink_called(mut self, name: &'static str) -> Self {
        self.sink_name = Some(name);
        self
    }

    /// Lets these look at the rows of each batch; where in the plan is theirs to say.
    #[must_use]
    pub fn observers(mut self, observers: Vec<Arc<dyn BatchObserver>>) -> Self {
        self.observers = observers;
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

    /// Settings that hold for this query in place of the session's.
    #[must_use]
    pub(crate) fn settings(mut self, settings: BTreeMap<String, String>) -> Self {
        self.settings = settings.into_iter().collect();
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
        // Before Spark 3 the argument won, and there is a setting to have that back.
        let legacy = "spark.sql.legacy.pathOptionBehavior.enabled";
        let wins = self.session.inner.conf.snapshot().flag(legacy);
        if !wins && self.options.get("path").is_some_and(|other| other != path) {
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
        let session = self.session.clone();
        let definition = self.define()?;
        launch(&session, definition)
    }

    /// Starts the query with its output in a table of files. Its folder is that of option `path`;
    /// else it is `TABLE`, or `DATABASE.db/TABLE`, below setting `spark.sql.warehouse.dir`, where
    /// Spark's own catalog has the files of such a table.
    ///
    /// # Errors
    /// As [`DataStreamWriter::start`]; Invalid, when the name is none of a table, or the format keeps
    /// no files.
    pub fn to_table(self, name: &str) -> Result<StreamingQuery> {
        let format = self.format.as_deref().unwrap_or("parquet").to_lowercase();
        if self.sink.is_some() || NO_FILES.contains(&format.as_str()) {
            return Err(Error::invalid(format!(
                "table `{name}` needs a format of files, such as parquet; start other sinks by \
                 `start`"
            )));
        }
        let warehouse = self.session.inner.conf.get(WAREHOUSE).unwrap_or_default();
        let location = table_location::location(name, &warehouse)?;
        match self.options.get("path") {
            Some(_) => self.start_default(),
            None => self.start(location),
        }
    }

    /// What the query would do and what it would promise, without starting it.
    ///
    /// # Errors
    /// Those of [`DataStreamWriter::start`] that do not need the checkpoint.
    pub fn explain(&self) -> Result<Explanation> {
        let mut described = self.clone().described()?;
        let place = described.checkpoint_location(&self.session)?;
        let (url, kept) = match &place {
            Location::Given(location) => (location.clone(), true),
            Location::Temporary => ("a temporary folder".to_owned(), false),
        };
        let sinks = (described.sink.as_ref(), described.further.as_slice());
        folders::check(&described.plan, sinks, kept.then_some(url.as_str()))?;
        let report = guarantee(&described.plan, sinks, &url, kept);
        let operators = described.plan.operators(&self.session.inner.context.state())?;
        Ok(explanation(described.name.take(), &described.plan, &operators, report))
    }

    /// Where the checkpoint is, and what the query's operators keep in it.
    pub(crate) fn state(&self) -> Result<(Option<String>, Vec<OperatorSpec>)> {
        let described = self.clone().described()?;
        let operators = described.plan.operators(&self.session.inner.context.state())?;
        let checkpoint = match described.checkpoint_location(&self.session)? {
            Location::Given(location) => Some(location),
            Location::Temporary => None,
        };
        Ok((checkpoint, operators))
    }

    /// What the query reads, where it writes, and its checkpoint if that outlives it.
    pub(crate) fn folders(&self) -> Result<Folders> {
        let described = self.clone().described()?;
        let checkpoint = match described.checkpoint_location(&self.session)? {
            Location::Given(location) => Some(location),
            Location::Temporary => None,
        };
        let folders = described.further.iter().map(|further| further.sink.folder());
        let folders = std::iter::once(described.sink.folder()).chain(folders).flatten().collect();
        Ok(Folders { plan: described.plan, outputs: folders, checkpoint })
    }
}

/// What a query reads, and the folders that it writes.
pub(crate) struct Folders {
    pub(crate) plan: Arc<StreamingPlan>,
    /// Those of its sinks.
    pub(crate) outputs: Vec<String>,
    /// That of its checkpoint, if it outlives the query.
    pub(crate) checkpoint: Option<String>,
}
