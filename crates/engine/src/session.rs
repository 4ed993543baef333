//! A session: settings, tables, connectors and the queries that run in it.

use crate::batch_read::DataFrameReader;
use crate::conf::RuntimeConf;
use crate::fault::from_datafusion;
use crate::format_table::{FORMATS, FormatTables};
use crate::frame::DataFrame;
use crate::reader::DataStreamReader;
use crate::state_table::{StateFormat, StateTables};
use crate::stores::StoreOpener;
use crate::streams::{Process, StreamingQueryManager, Streams};
use crate::tasks::Tasks;
use crate::timer::{SystemTimer, Timer};
use crate::warehouse::Warehouse;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, SchemaProvider};
use datafusion::common::TableReference;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionConfig;
use onefold_connector::{OutsideCalls, SchemaRegistry, Settings, SinkSpec, SourceSpec, TableSpec};
use onefold_state::{MEMORY_LIMIT_OPTION, MemoryBudget};
use onefold_types::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What settings of the registry of schemas begin with, in lower case.
const REGISTRY_SETTINGS: &str = "onefold.schemaregistry.";

/// The sources and sinks that a session knows by name.
#[derive(Clone, Copy)]
pub struct Connectors {
    /// Sources, by name in `format("…")`.
    pub sources: &'static [&'static SourceSpec],
    /// Sinks, by name in `format("…")`.
    pub sinks: &'static [&'static SinkSpec],
    /// Formats of tables that keep a log.
    pub tables: &'static [&'static TableSpec],
    /// Makes what asks registries of schemas, for functions that take theirs from one.
    pub registry: Option<fn(Settings) -> Arc<dyn SchemaRegistry>>,
    /// Makes what calls others over HTTP, for `http_call`.
    pub calls: Option<fn(Settings) -> Arc<dyn OutsideCalls>>,
}

/// Settings, tables and queries, as Spark's `SparkSession`. Cheap to clone; all clones are one
/// session. All calls block; they may be made from any thread, also from threads of an async
/// runtime (which they block).
#[derive(Clone)]
pub struct Session {
    pub(crate) inner: Arc<SessionInner>,
}

pub(crate) struct SessionInner {
    pub(crate) connectors: Connectors,
    pub(crate) conf: RuntimeConf,
    pub(crate) context: SessionContext,
    pub(crate) stores: StoreOpener,
    pub(crate) streams: Arc<Streams>,
    /// The memory that the state of all queries may take.
    pub(crate) state_budget: MemoryBudget,
    pub(crate) tasks: Tasks,
    pub(crate) timer: Arc<dyn Timer>,
}

/// Makes a [`Session`].
pub struct SessionBuilder {
    connectors: Connectors,
    conf: Vec<(String, String)>,
    stores: StoreOpener,
    threads: Option<usize>,
    timer: Arc<dyn Timer>,
    process: Process,
}

impl SessionBuilder {
    /// Sets a runtime setting (`spark.sql.…`, `onefold.…`).
    #[must_use]
    pub fn conf(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.conf.push((name.into(), value.into()));
        self
    }

    /// How many threads run queries; by default as many as the machine has processors.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Another clock (tests).
    #[must_use]
    pub fn timer(mut self, timer: Arc<dyn Timer>) -> Self {
        self.timer = timer;
        self
    }

    /// Another way to open checkpoints (tests).
    #[must_use]
    pub fn stores(mut self, stores: StoreOpener) -> Self {
        self.stores = stores;
        self
    }

    /// Another process than this one (tests): what runs in this one is not seen.
    #[must_use]
    pub fn process(mut self, process: Process) -> Self {
        self.process = process;
        self
    }

    /// The session.
    ///
    /// # Errors
    /// Invalid, for a setting whose value is not of its kind; Unavailable, when no thread starts.
    pub fn build(self) -> Result<Session> {
        let conf = RuntimeConf::default();
        for (name, value) in self.conf {
            conf.set(name, value)?;
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let context = context(self.threads.unwrap_or(processors))?;
        conf.attach(&context);
        if let Some(make) = self.connectors.registry {
            let conf = conf.clone();
            let registry = make(Arc::new(move |name| conf.get(name)));
            onefold_plan::functions::use_registry(&context, registry)?;
        }
        if let Some(make) = self.connectors.calls {
            let conf = conf.clone();
            let calls = make(Arc::new(move |name| conf.get(name)));
            onefold_plan::functions::use_calls(&context, calls)?;
        }
        conf.seal();
        let state_budget = state_budget(&conf)?;
        let tasks = Tasks::new(self.threads.unwrap_or(processors))?;
        let inner = Arc::new(SessionInner {
            connectors: self.connectors,
            conf,
            context,
            stores: self.stores,
            streams: Arc::new(Streams::new(self.process)),
            state_budget,
            tasks,
            timer: self.timer,
        });
        register_warehouse(&inner)?;
        Ok(Session { inner })
    }
}

/// The views and tables of the session, under each name that Spark has for their database.
fn register_warehouse(inner: &Arc<SessionInner>) -> Result<()> {
    let tables: Arc<dyn SchemaProvider> = Arc::new(Warehouse::new(Arc::downgrade(inner)));
    let own = inner
        .context
        .catalog("datafusion")
        .ok_or_else(|| Error::internal("the planner has no catalog"))?;
    for schema in ["public", "default"] {
        own.register_schema(schema, Arc::clone(&tables)).map_err(from_datafusion)?;
    }
    for (name, format) in
        [("statestore", StateFormat::Rows), ("state-metadata", StateFormat::Metadata)]
    {
        let states = StateTables::new(format, Arc::downgrade(inner));
        own.register_schema(name, Arc::new(states)).map_err(from_datafusion)?;
    }
    for format in FORMATS {
        let files = FormatTables::new(format, Arc::downgrade(inner));
        own.register_schema(format, Arc::new(files)).map_err(from_datafusion)?;
    }
    let spark = MemoryCatalogProvider::new();
    spark.register_schema("default", tables).map_err(from_datafusion)?;
    inner.context.register_catalog("spark_catalog", Arc::new(spark));
    Ok(())
}

/// What the setting says, else half of the machine's memory.
fn state_budget(conf: &RuntimeConf) -> Result<MemoryBudget> {
    if let Some(limit) = conf.snapshot().bytes(MEMORY_LIMIT_OPTION) {
        return Ok(MemoryBudget::new(limit));
    }
    Ok(MemoryBudget::new(crate::memory::available() / 2))
}

/// The planner's context: names keep their case.
fn context(partitions: usize) -> Result<SessionContext> {
    let mut config = SessionConfig::new()
        .with_target_partitions(partitions.max(1))
        .with_information_schema(true);
    let options = config.options_mut();
    options.sql_parser.enable_ident_normalization = false;
    // It takes structs apart below where they are made, and so computes twice what is not the same
    // twice: random values, and calls to the outside world.
    options.optimizer.enable_leaf_expression_pushdown = false;
    // Rows of a partition stay together, in their order, as in Spark: what a program collects or
    // writes is in the order of its input. Files are still read by several at once, each its part.
    options.optimizer.enable_round_robin_repartition = false;
    let context = SessionContext::new_with_config(config);
    onefold_plan::functions::register(&context)?;
    Ok(context)
}

impl Session {
    /// Starts to make a session with these connectors. Programs call `onefold::session()`, which
    /// knows the bundled ones.
    #[must_use]
    pub fn builder(connectors: Connectors) -> SessionBuilder {
        SessionBuilder {
            connectors,
            conf: Vec::new(),
            stores: crate::stores::default_opener(),
            threads: None,
            timer: Arc::new(SystemTimer),
            process: Process::this(),
        }
    }

    /// The runtime settings.
    #[must_use]
    pub fn conf(&self) -> &RuntimeConf {
        &self.inner.conf
    }

    /// Begins to describe a stream.
    #[must_use]
    pub fn read_stream(&self) -> DataStreamReader {
        DataStreamReader::new(self.clone())
    }

    /// Begins to describe a table of what is there now.
    #[must_use]
    pub fn read(&self) -> DataFrameReader {
        DataFrameReader::new(self.clone())
    }

    /// A frame of a plan over this session's tables.
    #[must_use]
    pub fn frame(&self, plan: LogicalPlan) -> DataFrame {
        DataFrame::new(self.clone(), plan)
    }

    /// A frame from SQL over the session's tables and views. A view made of a stream may be read.
    ///
    /// # Errors
    /// Invalid, with the parser's or the planner's reason.
    pub fn sql(&self, text: &str) -> Result<DataFrame> {
        let context = self.inner.context.clone();
        let text = text.to_owned();
        let plan = self
            .inner
            .tasks
            .wait(async move { onefold_plan::sql::query(&context, &text).await })?;
        Ok(DataFrame::new(self.clone(), plan))
    }

    /// A table or view of the session, for example what a memory sink holds under its query's name.
    ///
    /// # Errors
    /// Invalid, when there is none of this name.
    pub fn table(&self, name: &str) -> Result<DataFrame> {
        self.table_by(TableReference::bare(name))
    }

    /// As [`Session::table`], by a name with its schema and catalog.
    ///
    /// # Errors
    /// Invalid, when there is none of this name.
    pub fn table_by(&self, reference: impl Into<TableReference>) -> Result<DataFrame> {
        let context = self.inner.context.clone();
        let reference: TableReference = reference.into();
        let frame = self
            .inner
            .tasks
            .wait(async move { context.table(reference).await.map_err(from_datafusion) })?;
        Ok(DataFrame::new(self.clone(), frame.logical_plan().clone()))
    }

    /// Drops a view; false when there is none of this name.
    ///
    /// # Errors
    /// Invalid, when the session refuses.
    pub fn drop_view(&self, name: &str) -> Result<bool> {
        let dropped = self.inner.context.deregister_table(TableReference::bare(name));
        dropped.map(|table| table.is_some()).map_err(from_datafusion)
    }

    /// The queries of this session.
    #[must_use]
    pub fn streams(&self) -> StreamingQueryManager {
        StreamingQueryManager::new(self.clone())
    }

    /// The planner's context, for functions and tables of one's own.
    #[must_use]
    pub fn context(&self) -> &SessionContext {
        &self.inner.context
    }

    /// The planner's context for what is planned under settings of its own: its functions ask the
    /// registry of schemas that these name.
    pub(crate) fn context_with(&self, own: &BTreeMap<String, String>) -> Result<SessionContext> {
        let context = self.inner.context.clone();
        let named = own.keys().any(|name| name.to_lowercase().starts_with(REGISTRY_SETTINGS));
        let Some(make) = self.inner.connectors.registry.filter(|_| named) else {
            return Ok(context);
        };
        let context = SessionContext::new_with_state(context.state());
        let (own, conf) = (own.clone(), self.inner.conf.clone());
        let setting = move |name: &str| {
            let given = own.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            given.map(|(_, value)| value.clone()).or_else(|| conf.get(name))
        };
        onefold_plan::functions::use_registry(&context, make(Arc::new(setting)))?;
        Ok(context)
    }

    /// Stops all queries, each cleanly.
    ///
    /// # Errors
    /// The first that a query met while stopping.
    pub fn stop(&self) -> Result<()> {
        let mut first = Ok(());
        for query in self.streams().active() {
            let stopped = query.stop();
            if first.is_ok() {
                first = stopped;
            }
        }
        first
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("conf", &self.inner.conf).finish_non_exhaustive()
    }
}
