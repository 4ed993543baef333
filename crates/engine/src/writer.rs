//! Describing where a stream goes, and starting it.

mod further;

use crate::conf::{Conf, SETTINGS, WAREHOUSE};
use crate::distinct_columns;
use crate::explain::Explanation;
use crate::foreach_batch::ForeachBatch;
use crate::frame::DataFrame;
use crate::observer::BatchObserver;
use crate::query::StreamingQuery;
use crate::reader::names;
use crate::run::definition::{
    CheckpointPlace, FurtherSink, QueryDefinition, SinkRecord, explanation, guarantee,
};
use crate::run::{folders, launch};
use crate::session::Session;
use crate::table_location;
use crate::trigger::Trigger;
use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use onefold_connector::{
    OptionKind, OptionSpec, Options, OutputMode, SinkDefinition, SinkRequest, SinkSpec,
};
use onefold_plan::stream::{StreamingPlan, TtlOptions, visible_schema};
use onefold_state::OperatorSpec;
use onefold_types::{BatchId, Error, OptionMap, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// Options of the writer itself, whatever the sink.
pub static WRITER_OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "checkpointLocation",
        OptionKind::Text,
        "folder that keeps the query's progress; the same at every start",
    ),
    OptionSpec::new("path", OptionKind::Text, "folder of the output"),
    OptionSpec::new("queryName", OptionKind::Text, "name of the query, as `query_name`"),
    OptionSpec::new(
        "requireExactlyOnce",
        OptionKind::Bool,
        "refuses to start a query that is not exactly-once",
    )
    .default("false"),
    OptionSpec::new(
        "onefold.lateRows.path",
        OptionKind::Text,
        "folder of a second sink, which gets the rows that are dropped as late; its other options \
         have the same prefix",
    ),
    OptionSpec::new(
        "onefold.lateRows.format",
        OptionKind::Text,
        "the second sink, by name; parquet if only its path is given",
    ),
    OptionSpec::new(
        "onefold.deadLetters.path",
        OptionKind::Text,
        "folder of a sink of its own for records that cannot be processed: the query goes on without \
         them; its other options have the same prefix",
    ),
    OptionSpec::new(
        "onefold.deadLetters.format",
        OptionKind::Text,
        "that sink, by name; parquet if only its path is given",
    ),
];

/// What options of the time to live of one operator's state begin with; its name follows.
const TTL_PREFIX: &str = "onefold.state.ttl.";

static WRITER_TABLE: &[&[OptionSpec]] = &[WRITER_OPTIONS];
static SETTING_TABLE: &[&[OptionSpec]] = &[SETTINGS];

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

    fn define(self) -> Result<QueryDefinition> {
        let session = self.session.clone();
        let (output_mode, trigger) = (self.output_mode, self.trigger);
        let observers = self.observers.clone();
        let mut described = self.described()?;
        let location = described.checkpoint_location(&session)?;
        let checkpoint = open_checkpoint(&session, location, &described.conf)?;
        Ok(QueryDefinition {
            name: described.name.take(),
            plan: described.plan,
            observers,
            sink: described.sink,
            sink_record: described.record,
            further_sinks: described.further,
            letters_in_main: described.letters_in_main,
            output_mode,
            trigger,
            conf: described.conf,
            checkpoint,
        })
    }

    /// Checks everything that needs no checkpoint.
    fn described(mut self) -> Result<Described> {
        let wanted = self.wanted_beside();
        let ttl = self.options_below(TTL_PREFIX);
        let mut own = OptionMap::new();
        for name in WRITER_OPTIONS.iter().map(|row| row.name) {
            if let Some(value) = self.options.remove(name) {
                own.set(name, value);
            }
        }
        let own = Options::check("writeStream", WRITER_TABLE, own)?;
        let name = self.query_name.take().or_else(|| own.text("queryName").map(str::to_owned));
        let conf = self.conf(&own)?;
        let path = own.text("path").map(str::to_owned);
        let plan =
            StreamingPlan::with_side_rows(self.plan.clone(), self.output_mode, wanted.rows())?;
        let shown = ["console", "memory"].iter().any(|it| self.format.as_deref() == Some(*it));
        if self.sink.is_none() && !shown {
            distinct_columns::check(&visible_schema(self.plan.schema().as_arrow()))?;
        }
        let plan = Arc::new(plan.with_ttl(&ttl_options(&conf, &ttl)?)?);
        let further = self.further_sinks(wanted, &plan, name.as_deref())?;
        let (sink, record) = self.define_sink(path, name.clone())?;
        let letters_in_main = further::letters_in_main(sink.as_ref(), &further, &plan)?;
        let checkpoint = own.text("checkpointLocation").map(str::to_owned);
        Ok(Described { name, plan, sink, record, further, letters_in_main, conf, checkpoint })
    }

    /// The session's settings with those that the query sets for itself.
    fn conf(&mut self, own: &Options) -> Result<Conf> {
        let mut settings: Vec<(String, String)> = self
            .options
            .iter()
            .filter_map(|(name, value)| {
                let row = SETTINGS.iter().find(|row| row.name.eq_ignore_ascii_case(name))?;
                Some((row.name.to_owned(), value.to_owned()))
            })
            .collect();
        for (name, _) in &settings {
            self.options.remove(name);
        }
        let own_of_sink = |name: &str| self.sink_spec().is_ok_and(|spec| has_option(spec, name));
        let unknown = self.options.iter().map(|(name, _)| name.to_owned());
        let mut unknown = unknown.filter(|name| name.to_lowercase().starts_with("onefold."));
        if let Some(name) = unknown.find(|name| !own_of_sink(name)) {
            Options::check("writeStream", SETTING_TABLE, OptionMap::new().with(name, ""))?;
        }
        if own.flag("requireExactlyOnce") {
            settings.push(("onefold.requireExactlyOnce".to_owned(), "true".to_owned()));
        }
        let of_query = std::mem::take(&mut self.settings);
        let of_query = of_query.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.session.inner.conf.snapshot().with(of_query.chain(settings))
    }

    fn define_sink(
        &mut self,
        path: Option<String>,
        query_name: Option<String>,
    ) -> Result<(Arc<dyn SinkDefinition>, SinkRecord)> {
        let options = std::mem::take(&mut self.options);
        let partition_by = std::mem::take(&mut self.partition_by);
        if let Some(sink) = self.sink.take() {
            if !options.is_empty() {
                return Err(Error::invalid(
                    "a sink of one's own takes its options where it is made, not here",
                ));
            }
            let format = self.sink_name.map(str::to_owned);
            return Ok((sink, SinkRecord { path, partition_by, format, ..SinkRecord::default() }));
        }
        let spec = self.sink_spec()?;
        let options = check_sink_options(spec, options)?;
        let record = SinkRecord {
            format: Some(spec.name.to_owned()),
            path: path.clone(),
            partition_by: partition_by.clone(),
            options: shown_options(spec, &options),
        };
        let output_mode = self.output_mode;
        let request = SinkRequest { options, path, partition_by, query_name, output_mode };
        Ok(((spec.define)(request)?, record))
    }

    fn sink_spec(&self) -> Result<&'static SinkSpec> {
        // As in Spark, a query that names no format writes Parquet.
        self.known_sink(self.format.as_deref().unwrap_or("parquet"))
    }

    fn known_sink(&self, format: &str) -> Result<&'static SinkSpec> {
        let known = self.session.inner.connectors.sinks;
        known.iter().find(|spec| spec.name.eq_ignore_ascii_case(format)).copied().ok_or_else(|| {
            Error::invalid(format!(
                "there is no sink `{format}`; there are {}",
                names(known.iter().map(|spec| spec.name))
            ))
        })
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

/// What needs no checkpoint of a query's definition.
struct Described {
    name: Option<String>,
    plan: Arc<StreamingPlan>,
    sink: Arc<dyn SinkDefinition>,
    record: SinkRecord,
    further: Vec<FurtherSink>,
    /// The columns of dead letters, where the main sink takes them.
    letters_in_main: Option<SchemaRef>,
    conf: Conf,
    checkpoint: Option<String>,
}

/// Where a checkpoint goes.
enum Location {
    Given(String),
    Temporary,
}

impl Described {
    /// The option, else a folder below the session's setting, else a temporary folder for sinks
    /// whose output goes with the process.
    fn checkpoint_location(&self, session: &Session) -> Result<Location> {
        if let Some(location) = &self.checkpoint {
            return Ok(Location::Given(location.clone()));
        }
        if let Some(root) = session.inner.conf.get("spark.sql.streaming.checkpointLocation") {
            let folder = self.name.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
            return Ok(Location::Given(format!("{}/{folder}", root.trim_end_matches('/'))));
        }
        let format = self.record.format.as_deref().unwrap_or_default();
        if OUTPUT_OF_PROCESS.contains(&format) || FUNCTIONS.contains(&format) {
            return Ok(Location::Temporary);
        }
        Err(Error::invalid(
            "the query has no checkpoint, without which a restart would deliver everything again;              set option checkpointLocation, or setting spark.sql.streaming.checkpointLocation",
        ))
    }
}

/// How long operators without a bound keep what is not written.
fn ttl_options(conf: &Conf, by_label: &OptionMap) -> Result<TtlOptions> {
    let ms = |text: &str| {
        let ms = onefold_connector::options::parse_duration_ms(text);
        ms.and_then(|ms| i64::try_from(ms).ok()).ok_or_else(|| {
            Error::invalid(format!("onefold.state.ttl is `{text}`; it is a span of time, as 12h"))
        })
    };
    let by_label = by_label.iter().map(|(label, text)| Ok((label.to_owned(), ms(text)?)));
    Ok(TtlOptions {
        all_ms: conf.text("onefold.state.ttl").map(ms).transpose()?,
        by_label: by_label.collect::<Result<_>>()?,
    })
}

fn open_checkpoint(session: &Session, location: Location, conf: &Conf) -> Result<CheckpointPlace> {
    let (location, temporary) = match location {
        Location::Given(location) => (location, None),
        Location::Temporary => {
            let folder = format!("onefold-temporary-{}", Uuid::new_v4());
            let folder = std::env::temp_dir().join(folder);
            (folder.to_string_lossy().into_owned(), Some(folder))
        }
    };
    let opening = (session.inner.stores)(location, conf.values().clone());
    let store = session.inner.tasks.wait(opening)?;
    Ok(CheckpointPlace { store, temporary })
}

fn has_option(spec: &SinkSpec, name: &str) -> bool {
    let mut rows = spec.options.iter().flat_map(|rows| rows.iter());
    rows.any(|row| row.means(name))
}

/// As [`Options::check`]; but a name that is nearer to one of the writer's own than to any of the
/// sink's is said to be that.
fn check_sink_options(spec: &'static SinkSpec, given: OptionMap) -> Result<Options> {
    let rows = || spec.options.iter().flat_map(|rows| rows.iter());
    let distance = |row: &OptionSpec, name: &str| {
        strsim::damerau_levenshtein(&row.name.to_lowercase(), &name.to_lowercase())
    };
    for (name, _) in given.iter() {
        if has_option(spec, name) {
            continue;
        }
        let own = WRITER_OPTIONS.iter().map(|row| distance(row, name)).min();
        let sinks = rows().map(|row| distance(row, name)).min();
        if own < sinks || sinks.is_none() {
            let wrong = OptionMap::new().with(name, "");
            return Options::check("writeStream", WRITER_TABLE, wrong);
        }
    }
    Options::check(&format!("sink `{}`", spec.name), spec.options, given)
}

/// The options given, without secrets.
fn shown_options(spec: &SinkSpec, options: &Options) -> Vec<(String, String)> {
    spec.options
        .iter()
        .flat_map(|rows| rows.iter())
        .filter(|row| options.given(row.name))
        .filter_map(|row| Some((row, options.text(row.name)?)))
        .filter(|(row, value)| row.may_be_kept(value))
        .map(|(row, value)| (row.name.to_owned(), value.to_owned()))
        .collect()
}
