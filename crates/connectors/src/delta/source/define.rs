//! A Delta source as part of a query's definition.

use super::super::features;
use super::super::table::Table;
use super::open::DeltaSource;
use super::options::ReadOptions;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use deltalake_core::kernel::EagerSnapshot;
use onefold_connector::{Source, SourceContext, SourceDefinition, SourceRequest};
use onefold_types::{Error, Replay, Result};
use std::sync::Arc;

/// A table that is read.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) table: Table,
    pub(crate) options: ReadOptions,
    /// What tells this table from another one in the same folder.
    pub(crate) id: String,
    pub(crate) schema: SchemaRef,
    /// A table is read, and not a stream.
    pub(crate) whole: bool,
}

/// Checks a request and finds the columns.
///
/// # Errors
/// Invalid: no table is there, it needs what this reader does not do, or options do not fit.
pub(crate) async fn define(request: SourceRequest) -> Result<Arc<dyn SourceDefinition>> {
    let SourceRequest { options, schema, mut paths, conf, whole } = request;
    if paths.is_empty() {
        paths.extend(options.text("path").map(str::to_owned));
    }
    let [path] = paths.as_slice() else {
        return Err(Error::invalid(
            "the delta source reads one table; give its folder with load(path) or option `path`",
        ));
    };
    let options = ReadOptions::read(&options, whole)?;
    let table = Table::open(path, &conf)?;
    if !table.exists().await? {
        return Err(Error::invalid(format!(
            "{} is not a Delta table: it has no folder `_delta_log` with commits; check the path",
            table.url()
        )));
    }
    let newest = table.snapshot(None).await?;
    features::check_readable(table.url(), &newest)?;
    let id = newest.metadata().id().to_owned();
    let version =
        if whole { super::open::as_of(&table, &options, newest.version()).await? } else { None };
    let snapshot = match version {
        Some(version) => table.snapshot(Some(version)).await?,
        None => newest,
    };
    let columns = columns(&snapshot);
    if let Some(given) = schema
        && !same(&given, &columns)
    {
        return Err(Error::invalid(format!(
            "a schema was given for the table {}, which has columns of its own ({}); leave the \
             schema out",
            table.url(),
            columns.fields().iter().map(|it| it.name().as_str()).collect::<Vec<_>>().join(", ")
        )));
    }
    let definition = Definition { table, options, id, schema: columns, whole };
    Ok(Arc::new(Shared(Arc::new(definition))))
}

/// The columns of a table. Every one may be null: a stream is read across versions.
pub(crate) fn columns(snapshot: &EagerSnapshot) -> SchemaRef {
    let schema = snapshot.arrow_schema();
    let fields: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true).with_metadata(Default::default()))
        .collect();
    Arc::new(Schema::new(fields))
}

fn same(given: &Schema, columns: &Schema) -> bool {
    given.fields().len() == columns.fields().len()
        && given.fields().iter().zip(columns.fields()).all(|(one, other)| {
            one.name().eq_ignore_ascii_case(other.name())
                && one.data_type().equals_datatype(other.data_type())
        })
}

/// A definition that its sources share.
#[derive(Debug)]
struct Shared(Arc<Definition>);

#[async_trait]
impl SourceDefinition for Shared {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.schema)
    }

    fn replay(&self) -> Replay {
        Replay::Exact { how: "files of a table never change, and its log names them".to_owned() }
    }

    fn description(&self) -> String {
        let url = self.0.table.url();
        match url.strip_prefix("file://") {
            Some(path) => format!("DeltaSource[file:{path}]"),
            None => format!("DeltaSource[{url}]"),
        }
    }

    fn folders(&self) -> Vec<String> {
        vec![self.0.table.url().to_owned()]
    }

    async fn open(&self, _: SourceContext) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(DeltaSource::new(Arc::clone(&self.0))))
    }
}
