//! Writing a table once, as files: Spark's `DataFrame.write`.
//!
//! Rows go to hidden files first, which get their names when all are written, so that a write that
//! fails leaves nothing that readers see.

use crate::batch_read::ScratchFolder;
use crate::fault::from_datafusion;
use crate::frame::DataFrame;
use crate::warehouse::TABLE_DEFINITION;
use arrow::array::AsArray;
use arrow::datatypes::DataType;
use bytes::Bytes;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use futures::StreamExt;
use onefold_connector::{SinkDefinition, SinkSpec};
use onefold_storage::{CreateError, Durability, Staged, Store};
use onefold_types::{Error, OptionMap, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use uuid::Uuid;

/// Formats of files.
const FILE_FORMATS: [&str; 6] = ["avro", "csv", "json", "orc", "parquet", "text"];

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

    /// The format: `parquet`, `json`, `csv`, `text`, `noop`, which only computes, or a sink that
    /// writes no files, such as `kafka`.
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

    /// Sets options: `header` for CSV.
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

    /// Computes the rows and writes them under a path.
    ///
    /// # Errors
    /// Invalid: an unknown format, or something is there already. Unavailable: the storage does not
    /// take the files.
    pub fn save(self, path: &str) -> Result<()> {
        if self.format == "noop" {
            return self.frame.collect().map(|_| ());
        }
        if let Some(sink) = self.other_sink()? {
            let session = self.frame.session().clone();
            return session.inner.tasks.wait(async move {
                crate::batch_sink::write(&self.frame, sink.as_ref(), self.mode).await
            });
        }
        if path.is_empty() {
            return Err(Error::invalid("'path' is not specified: give one to save()"));
        }
        let session = self.frame.session().clone();
        let opening = (session.inner.stores)(path.to_owned(), session.inner.conf.all());
        let store = session.inner.tasks.wait(opening)?;
        session.inner.tasks.wait(async move { self.write(store.as_ref()).await })
    }

    /// The sink of the format, where it is one that writes no files.
    fn other_sink(&self) -> Result<Option<Arc<dyn SinkDefinition>>> {
        if FILE_FORMATS.contains(&self.format.as_str()) {
            return Ok(None);
        }
        let sinks = self.frame.session().inner.connectors.sinks;
        let spec = sinks.iter().find(|spec| spec.name.eq_ignore_ascii_case(&self.format));
        let define = |spec: &&SinkSpec| {
            crate::batch_sink::define(spec, self.options.clone(), self.partition_by.clone())
        };
        spec.map(define).transpose()
    }

    async fn write(&self, store: &dyn Store) -> Result<()> {
        let mut there = store.names_deep("", false).await?;
        there.retain(|name| name != TABLE_DEFINITION);
        match self.mode {
            SaveMode::ErrorIfExists if !there.is_empty() => {
                return Err(Error::invalid(format!(
                    "path {} already exists; use the mode append or overwrite",
                    store.url()
                )));
            }
            SaveMode::Ignore if !there.is_empty() => return Ok(()),
            _ => {}
        }
        let staged = match self.format.as_str() {
            "text" => self.texts(store).await?,
            _ => {
                let scratch = ScratchFolder::new();
                self.compute(&scratch).await?;
                adopted(store, &scratch).await?
            }
        };
        if self.mode == SaveMode::Overwrite {
            store.delete_all(&there).await?;
        }
        store.reveal(&staged).await?;
        match store.create("_SUCCESS", Bytes::new(), Durability::Later).await {
            // It says nothing but its name.
            Ok(_) | Err(CreateError::MaybeDone(_)) => Ok(()),
            Err(CreateError::NotDone(error)) => Err(error),
        }
    }

    /// The rows as files of a scratch folder.
    async fn compute(&self, scratch: &ScratchFolder) -> Result<()> {
        let state = self.frame.session().inner.context.state();
        let plan = self
            .with_folder_names(onefold_plan::stream::shown(self.frame.logical_plan().clone())?)?;
        let separator = self.options.get("sep").or_else(|| self.options.get("delimiter"));
        let separator = separator.and_then(|text| text.bytes().next()).unwrap_or(b',');
        let header = self.options.get("header").is_some_and(|it| it.eq_ignore_ascii_case("true"));
        let options = DataFrameWriteOptions::new().with_partition_by(self.partition_by.clone());
        let folder = format!("{}/", scratch.location());
        let frame = datafusion::dataframe::DataFrame::new(state, plan);
        let written = match self.format.as_str() {
            "parquet" => frame.write_parquet(&folder, options, None).await,
            "json" => frame.write_json(&folder, options, None).await,
            "csv" => {
                let csv = datafusion::common::config::CsvOptions::default()
                    .with_has_header(header)
                    .with_delimiter(separator);
                frame.write_csv(&folder, options, Some(csv)).await
            }
            other => {
                return Err(Error::invalid(format!(
                    "a batch cannot be written as `{other}`; there are csv, json, kafka, noop, \
                     parquet, text"
                )));
            }
        };
        written.map(|_| ()).map_err(from_datafusion)
    }

    /// The rows with the columns that become folders as the texts that name these, as Spark writes
    /// them: NULL and an empty text have a name of their own.
    fn with_folder_names(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if self.partition_by.is_empty() {
            return Ok(plan);
        }
        let context = &self.frame.session().inner.context;
        let schema = Arc::clone(plan.schema());
        let columns = schema.iter().map(|(qualifier, field)| {
            let name = field.name();
            if !self.partition_by.contains(name) {
                return Ok(Expr::Column((qualifier, field).into()));
            }
            let quoted = format!("`{}`", name.replace('`', "``"));
            let text = format!("coalesce(nullif(CAST({quoted} AS STRING), ''), '{NO_VALUE}')");
            Ok(onefold_plan::sql::expression(context, &schema, &text)?.alias(name))
        });
        let columns = columns.collect::<Result<Vec<Expr>>>()?;
        LogicalPlanBuilder::from(plan)
            .project(columns)
            .and_then(LogicalPlanBuilder::build)
            .map_err(from_datafusion)
    }

    /// The rows as one file of lines.
    async fn texts(&self, store: &dyn Store) -> Result<Vec<Staged>> {
        let plan = onefold_plan::stream::shown(self.frame.logical_plan().clone())?;
        let text =
            |it: &DataType| matches!(it, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        if !matches!(plan.schema().fields().as_ref(), [field] if text(field.data_type())) {
            return Err(Error::invalid("text files have one column, of type string"));
        }
        let context = self.frame.session().inner.context.clone();
        let frame = context.execute_logical_plan(plan).await.map_err(from_datafusion)?;
        let mut rows = frame.execute_stream().await.map_err(from_datafusion)?;
        let name = format!("part-{}-0.txt", Uuid::new_v4());
        let mut writer = store.stage(&name, "write").await?;
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(from_datafusion)?;
            let Some(column) = batch.columns().first() else { continue };
            let column = arrow::compute::cast(column, &DataType::Utf8)
                .map_err(|error| Error::internal("a text is no text").because(error))?;
            let mut lines = String::new();
            for value in column.as_string::<i32>() {
                lines.push_str(value.unwrap_or_default());
                lines.push('\n');
            }
            writer.write(lines.into()).await?;
        }
        Ok(vec![writer.finish().await?])
    }
}

/// Hive's name for the folder of rows without a value.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Bytes that are copied at once.
const COPY: usize = 4 << 20;

/// The files of a scratch folder, each under a name of its own, not yet to be seen.
async fn adopted(store: &dyn Store, scratch: &ScratchFolder) -> Result<Vec<Staged>> {
    let mut files = Vec::new();
    let root = scratch.path();
    let lost = |error: io::Error| {
        Error::unavailable(format!("the written rows in {} are lost", root.display()))
            .because(error)
    };
    found(root, root, &mut files).map_err(lost)?;
    let mut staged = Vec::with_capacity(files.len());
    for (below, path) in files {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = format!("{below}part-{}-{}", Uuid::new_v4(), name.unwrap_or_default());
        let mut writer = store.stage(&name, "write").await?;
        let mut file = tokio::fs::File::open(&path).await.map_err(lost)?;
        loop {
            let mut bytes = Vec::with_capacity(COPY);
            let limit = u64::try_from(COPY).unwrap_or(u64::MAX);
            (&mut file).take(limit).read_to_end(&mut bytes).await.map_err(lost)?;
            if bytes.is_empty() {
                break;
            }
            writer.write(bytes.into()).await?;
        }
        staged.push(writer.finish().await?);
    }
    Ok(staged)
}

/// The files below a folder, each with its folder (`a=1/`) relative to the root.
fn found(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        // No rows, no file.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found(root, &path, files)?;
            continue;
        }
        let below = folder.strip_prefix(root).unwrap_or(folder).to_string_lossy();
        let below = if below.is_empty() { String::new() } else { format!("{below}/") };
        files.push((below, path));
    }
    Ok(())
}
