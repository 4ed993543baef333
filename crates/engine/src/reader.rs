//! Describing a stream to read.

use crate::fault::from_datafusion;
use crate::frame::DataFrame;
use crate::session::Session;
use arrow::datatypes::SchemaRef;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{LogicalPlanBuilder, UNNAMED_TABLE};
use onefold_connector::{Options, SourceDefinition, SourceRequest, SourceSpec};
use onefold_plan::stream::StreamTable;
use onefold_types::{Error, OptionMap, Result};
use std::sync::Arc;

/// Describes a stream to read, as Spark's `DataStreamReader`.
#[derive(Debug, Clone)]
pub struct DataStreamReader {
    session: Session,
    format: Option<String>,
    schema: Option<SchemaText>,
    options: OptionMap,
    name: Option<String>,
}

#[derive(Debug, Clone)]
enum SchemaText {
    Text(String),
    Ready(SchemaRef),
}

impl DataStreamReader {
    pub(crate) fn new(session: Session) -> Self {
        DataStreamReader {
            session,
            format: None,
            schema: None,
            options: OptionMap::new(),
            name: None,
        }
    }

    /// The source, by name: `json`, `csv`, `rate` …
    #[must_use]
    pub fn format(mut self, name: &str) -> Self {
        self.format = Some(name.to_owned());
        self
    }

    /// The columns, as Spark's DDL (`id BIGINT, ts TIMESTAMP`) or its JSON. Checked by `load`.
    #[must_use]
    pub fn schema(mut self, text: &str) -> Self {
        self.schema = Some(SchemaText::Text(text.to_owned()));
        self
    }

    /// The columns, as Arrow has them.
    #[must_use]
    pub fn arrow_schema(mut self, schema: SchemaRef) -> Self {
        self.schema = Some(SchemaText::Ready(schema));
        self
    }

    /// Sets an option. Checked by `load`.
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

    /// The source's name, if it was given.
    pub(crate) fn format_name(&self) -> Option<&str> {
        self.format.as_deref()
    }

    /// The options given, unchecked.
    pub(crate) fn into_options(self) -> OptionMap {
        self.options
    }

    /// Names the stream in the checkpoint, so that it keeps its place there when the query changes.
    /// All streams of a query are named, or none is.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The stream of files under a path.
    ///
    /// # Errors
    /// Invalid: no such source, an option that it does not have, a schema that does not parse.
    pub fn load(self, path: impl Into<String>) -> Result<DataFrame> {
        self.load_paths([path.into()])
    }

    /// The stream of a source that needs no path.
    ///
    /// # Errors
    /// As [`DataStreamReader::load`].
    pub fn load_default(self) -> Result<DataFrame> {
        self.load_paths(Vec::<String>::new())
    }

    /// The stream of files under several paths.
    ///
    /// # Errors
    /// As [`DataStreamReader::load`].
    pub fn load_paths(self, paths: impl IntoIterator<Item = String>) -> Result<DataFrame> {
        let session = self.session.clone();
        let paths = paths.into_iter().collect();
        let table = session.inner.tasks.wait(self.table(paths))?;
        frame(session, table)
    }

    /// The stream of a source of one's own.
    ///
    /// # Errors
    /// Invalid, when the name cannot stand in a checkpoint.
    pub fn load_definition(self, definition: Arc<dyn SourceDefinition>) -> Result<DataFrame> {
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        frame(self.session, StreamTable::new(self.name, definition))
    }

    /// As [`DataStreamReader::table`], for a read of what is there now: the schema may be found in
    /// the files.
    pub(crate) async fn table_now(self, paths: Vec<String>) -> Result<StreamTable> {
        self.defined(paths, true).await
    }

    /// Defines the source.
    pub(crate) async fn table(self, paths: Vec<String>) -> Result<StreamTable> {
        self.defined(paths, false).await
    }

    async fn defined(mut self, mut paths: Vec<String>, whole: bool) -> Result<StreamTable> {
        let spec = self.spec()?;
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        if let Some(path) = self.options.remove("path") {
            let legacy = "spark.sql.legacy.pathOptionBehavior.enabled";
            if self.session.inner.conf.snapshot().flag(legacy) && !paths.is_empty() {
                // `load` wins then.
            } else if !paths.is_empty() {
                return Err(Error::invalid(
                    "the path is given twice, by option `path` and by `load`; give it once",
                ));
            } else {
                paths.push(path);
            }
        }
        let schema = match self.schema.take() {
            None => None,
            Some(SchemaText::Ready(schema)) => Some(schema),
            Some(SchemaText::Text(text)) => Some(onefold_plan::schema::parse_schema(&text)?),
        };
        let what = format!("source `{}`", spec.name);
        let options = Options::check(&what, spec.options, std::mem::take(&mut self.options))?;
        let mut conf = self.session.inner.conf.all();
        if whole {
            conf.insert("spark.sql.streaming.schemaInference".to_owned(), "true".to_owned());
        }
        let request = SourceRequest { options, schema, paths, conf, whole };
        let definition = (spec.define)(request).await?;
        Ok(StreamTable::new(self.name, definition))
    }

    fn spec(&self) -> Result<&'static SourceSpec> {
        let known = self.session.inner.connectors.sources;
        let Some(format) = &self.format else {
            return Err(Error::invalid(format!(
                "the stream has no format; name one with `format`: {}",
                names(known.iter().map(|spec| spec.name))
            )));
        };
        known.iter().find(|spec| spec.name.eq_ignore_ascii_case(format)).copied().ok_or_else(|| {
            Error::invalid(format!(
                "there is no source `{format}`; there are {}",
                names(known.iter().map(|spec| spec.name))
            ))
        })
    }
}

fn frame(session: Session, table: StreamTable) -> Result<DataFrame> {
    let source = provider_as_source(Arc::new(table));
    let plan = LogicalPlanBuilder::scan(UNNAMED_TABLE, source, None)
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    Ok(DataFrame::new(session, plan))
}

/// A source's name is a folder's name and stands before the first colon of a line.
fn check_name(name: &str) -> Result<()> {
    let fits = !name.is_empty()
        && name.len() <= 128
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if fits {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{name}` cannot name a stream; use letters, digits, `_` and `-`, at most 128"
    )))
}

pub(crate) fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.join(", ")
}
