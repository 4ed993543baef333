//! Writing a table once: Spark's `DataFrame.write`. The sinks of streams write it, so that options,
//! names and formats mean the same; what is there already is the business of this module.

use crate::batch_sink::{self, Replaced};
use crate::batch_writes::BatchWrites;
use crate::distinct_columns;
use crate::frame::DataFrame;
use crate::warehouse::TABLE_DEFINITION;
use onefold_connector::{OutputMode, SinkSpec};
use onefold_storage::Store;
use onefold_types::{Error, OptionMap, QueryId, Result};
use std::sync::Arc;

/// Formats of files.
const FILE_FORMATS: [&str; 6] = ["avro", "csv", "json", "orc", "parquet", "text"];

/// Formats of tables that keep a log of their own in a folder of this name: what is there, and what
/// is replaced, the log tells.
const LOGGED_TABLES: [(&str, &str); 1] = [("delta", "_delta_log")];

/// Formats of tables in databases: the sink looks itself what is there.
pub(crate) const DATABASES: [&str; 1] = ["jdbc"];

/// Who writes, and the number of the write among his: a table does none twice.
const APPLICATION: &str = "txnAppId";
const NUMBER: &str = "txnVersion";

/// Whether an overwrite replaces the whole, or the folders that get rows.
const OVERWRITE_OPTION: &str = "partitionOverwriteMode";
/// The same for all writes of a session.
const OVERWRITE_SETTING: &str = "spark.sql.sources.partitionOverwriteMode";

/// What to do when there is something at the path already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SaveMode {
    /// Refuse.
    #[default]
    ErrorIfExists,
    /// Add the rows.
    Append,
    /// Put the rows in place of what is there.
    Overwrite,
    /// Write nothing.
    Ignore,
}

impl SaveMode {
    /// Its name in settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SaveMode::ErrorIfExists => "errorifexists",
            SaveMode::Append => "append",
            SaveMode::Overwrite => "overwrite",
            SaveMode::Ignore => "ignore",
        }
    }

    /// What it makes of a sink that knows itself what rows take the place of.
    fn output(self) -> OutputMode {
        match self {
            SaveMode::Overwrite => OutputMode::Complete,
            _ => OutputMode::Append,
        }
    }
}

/// Describes where a table goes, as Spark's `DataFrameWriter`.
#[derive(Debug, Clone)]
pub struct DataFrameWriter {
    frame: DataFrame,
    format: String,
    mode: SaveMode,
    options: OptionMap,
    partition_by: Vec<String>,
}

impl DataFrameWriter {
    pub(crate) fn new(frame: DataFrame) -> Self {
        DataFrameWriter {
            frame,
            format: "parquet".to_owned(),
            mode: SaveMode::default(),
            options: OptionMap::new(),
            partition_by: Vec::new(),
        }
    }

    /// The format: a sink of files (`parquet`, `json`, `csv`, `text`, `avro`, `orc`) or another one,
    /// such as `kafka`; `noop` only computes.
    #[must_use]
    pub fn format(mut self, name: &str) -> Self {
        self.format = name.to_lowercase();
        self
    }

    /// What to do when there is something at the path already.
    #[must_use]
    pub fn mode(mut self, mode: SaveMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets options of the sink: `compression`, `header` …
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

    /// Columns whose values become folders.
    #[must_use]
    pub fn partition_by(mut self, columns: &[&str]) -> Self {
        self.partition_by = columns.iter().map(|&name| name.to_owned()).collect();
        self
    }

    /// Computes the rows and writes them, files under a path.
    ///
    /// # Errors
    /// Invalid: an unknown format or option, or something is there already. Unavailable: the storage
    /// does not take the files.
    pub fn save(self, path: &str) -> Result<()> {
        if self.format == "noop" {
            return self.frame.collect().map(|_| ());
        }
        let spec = self.sink()?;
        distinct_columns::check(&self.frame.schema())?;
        let session = self.frame.session().clone();
        if let Some((_, log)) = LOGGED_TABLES.into_iter().find(|(name, _)| *name == spec.name) {
            return self.into_table(spec, path, log);
        }
        if DATABASES.contains(&spec.name) {
            return self.into_database(spec);
        }
        if !FILE_FORMATS.contains(&spec.name) {
            let (options, by) = (self.options.clone(), self.partition_by);
            let sink = batch_sink::define(spec, None, options, by, OutputMode::Append)?;
            return session.inner.tasks.wait(async move {
                batch_sink::append(&self.frame, sink.as_ref(), self.mode).await
            });
        }
        check_path(path)?;
        let opening = (session.inner.stores)(path.to_owned(), session.inner.conf.all());
        let store = session.inner.tasks.wait(opening)?;
        let options = self.options_to_write(spec);
        let partition_by = self.partition_by.clone();
        let path = Some(path.to_owned());
        let sink = batch_sink::define(spec, path, options, partition_by, OutputMode::Append)?;
        let own = BatchWrites::current().map(|writes| writes.next(store.url()).files);
        session.inner.tasks.wait(async move {
            match self.replaced(store, own).await? {
                Some(replaced) => batch_sink::write(&self.frame, sink.as_ref(), replaced).await,
                None => Ok(()),
            }
        })
    }

    /// Writes into a table that has a log of its own.
    fn into_table(self, spec: &SinkSpec, path: &str, log: &str) -> Result<()> {
        check_path(path)?;
        let session = self.frame.session().clone();
        let opening = (session.inner.stores)(path.to_owned(), session.inner.conf.all());
        let store = session.inner.tasks.wait(opening)?;
        let output_mode = self.mode.output();
        let mut options = self.options_to_write(spec);
        if let Some(mode) = self.options.get(OVERWRITE_OPTION) {
            options.set(OVERWRITE_OPTION, mode);
        }
        number(&mut options, store.url());
        let (path, by) = (Some(path.to_owned()), self.partition_by.clone());
        let sink = batch_sink::define(spec, path, options, by, output_mode)?;
        let log = log.to_owned();
        session.inner.tasks.wait(async move {
            let there = !store.list(&log).await?.is_empty();
            match self.mode {
                SaveMode::Ignore if there => Ok(()),
                SaveMode::ErrorIfExists if there => Err(Error::invalid(format!(
                    "the table {} already exists; use the mode append or overwrite",
                    store.url()
                ))),
                _ => batch_sink::into_table(&self.frame, sink.as_ref()).await,
            }
        })
    }

    /// Writes into a table of a database.
    fn into_database(self, spec: &SinkSpec) -> Result<()> {
        let session = self.frame.session().clone();
        let mut options = self.options_to_write(spec);
        let define = |options: OptionMap| {
            let by = self.partition_by.clone();
            batch_sink::define(spec, None, options, by, self.mode.output())
        };
        let table = define(options.clone())?.description();
        number(&mut options, &table);
        let sink = define(options)?;
        session.inner.tasks.wait(async move {
            batch_sink::into_database(&self.frame, sink.as_ref(), self.mode).await
        })
    }

    fn sink(&self) -> Result<&'static SinkSpec> {
        let sinks = self.frame.session().inner.connectors.sinks;
        let known = sinks.iter().find(|spec| spec.name.eq_ignore_ascii_case(&self.format));
        known.copied().ok_or_else(|| {
            let names: Vec<&str> = sinks.iter().map(|spec| spec.name).collect();
            Error::invalid(format!(
                "a batch cannot be written as `{}`; there are {}",
                self.format,
                names.join(", ")
            ))
        })
    }

    /// The options without those that only the reader of the format knows: a table has both.
    fn options_to_write(&self, spec: &SinkSpec) -> OptionMap {
        let names = |tables: &[&[onefold_connector::OptionSpec]], name: &str| {
            tables
                .iter()
                .flat_map(|table| table.iter())
                .any(|it| it.name.eq_ignore_ascii_case(name))
        };
        let sources = self.frame.session().inner.connectors.sources;
        let source = sources.iter().find(|source| source.name == spec.name);
        let read = |name: &str| source.is_some_and(|source| names(source.options, name));
        let mut kept = OptionMap::new();
        for (name, value) in self.options.iter() {
            let own = name.eq_ignore_ascii_case(OVERWRITE_OPTION);
            if !own && (names(spec.options, name) || !read(name)) {
                kept.set(name, value);
            }
        }
        kept
    }

    /// Whether only the folders that get new rows are replaced, as the option or the setting says.
    fn replaces_folders(&self) -> Result<bool> {
        let conf = &self.frame.session().inner.conf;
        let given = self.options.get(OVERWRITE_OPTION).map(str::to_owned);
        let Some(mode) = given.or_else(|| conf.get(OVERWRITE_SETTING)) else { return Ok(false) };
        match mode.to_ascii_lowercase().as_str() {
            "static" => Ok(false),
            "dynamic" => Ok(!self.partition_by.is_empty()),
            other => Err(Error::invalid(format!(
                "{OVERWRITE_OPTION} is static or dynamic, and not `{other}`"
            ))),
        }
    }

    /// What the files take the place of; `None` if nothing is to be written. Files that an earlier
    /// call of a `foreachBatch` function left of the same write (`own`) always go.
    async fn replaced(
        &self,
        store: Arc<dyn Store>,
        own: Option<QueryId>,
    ) -> Result<Option<Replaced>> {
        let mut there = store.names_deep("", false).await?;
        there.retain(|name| name != TABLE_DEFINITION);
        let own_id = own.map(|own| own.to_string());
        let is_own = |name: &String| own_id.as_ref().is_some_and(|id| name.contains(id.as_str()));
        let left: Vec<String> = there.iter().filter(|name| is_own(name)).cloned().collect();
        if !left.is_empty() && matches!(self.mode, SaveMode::ErrorIfExists | SaveMode::Ignore) {
            // It was there, or not, when the write was made first.
            there.clear();
        }
        Ok(match self.mode {
            SaveMode::ErrorIfExists if !there.is_empty() => {
                return Err(Error::invalid(format!(
                    "path {} already exists; use the mode append or overwrite",
                    store.url()
                )));
            }
            SaveMode::Ignore if !there.is_empty() => None,
            SaveMode::Overwrite => {
                let by_folder = self.replaces_folders()?;
                Some(Replaced { store, names: there, by_folder, files_of: own })
            }
            _ => Some(Replaced { store, names: left, by_folder: false, files_of: own }),
        })
    }
}

/// Within a `foreachBatch` function: says who writes, and which of his writes it is.
fn number(options: &mut OptionMap, table: &str) {
    if let Some(writes) = BatchWrites::current()
        && options.get(APPLICATION).is_none()
        && options.get(NUMBER).is_none()
    {
        let name = writes.next(table);
        options.set(APPLICATION, name.application);
        options.set(NUMBER, name.number.to_string());
    }
}

fn check_path(path: &str) -> Result<()> {
    if path.is_empty() {
        return Err(Error::invalid("'path' is not specified: give one to save()"));
    }
    Ok(())
}
