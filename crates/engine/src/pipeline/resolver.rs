//! The streams that the queries of a pipeline name.

use super::places::output;
use super::{PipelineOptions, PlannedTable};
use crate::batch_read;
use crate::reader::DataStreamReader;
use crate::session::Session;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use futures::future::BoxFuture;
use onefold_plan::pipeline::{StreamRead, StreamReference, StreamResolver};
use onefold_plan::stream::{StreamTable, visible_schema};
use onefold_types::{Error, OptionMap, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What a table of the file writes.
struct Output {
    path: String,
    format: String,
    schema: SchemaRef,
}

/// Makes the streams that a table's query names.
pub(super) struct Resolver {
    session: Session,
    /// Tables that may be read, by name in lower case.
    outputs: BTreeMap<String, Output>,
    make_folders: bool,
    /// Tables that were read, in lower case.
    pub(super) reads: Mutex<Vec<String>>,
    /// A table that was asked for and is not among them, in lower case.
    pub(super) missing: Mutex<Option<String>>,
}

impl StreamResolver for Resolver {
    fn stream<'a>(
        &'a self,
        reference: &'a StreamReference,
    ) -> BoxFuture<'a, Result<Arc<StreamTable>>> {
        Box::pin(async move {
            let table = match reference {
                StreamReference::Read(read) => {
                    self.reader_of(read)?.table(read.paths.clone()).await?
                }
                StreamReference::Table { name, place } => {
                    let key = name.to_lowercase();
                    self.reads.lock().unwrap_or_else(PoisonError::into_inner).push(key.clone());
                    let Some(output) = self.outputs.get(&key) else {
                        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
                        return Err(Error::invalid(format!(
                            "line {}, column {}: `{name}` is no streaming table of this file that \
                             writes files and does not read this one",
                            place.line, place.column
                        )));
                    };
                    self.make_folder(&output.path)?;
                    let schema = Some(Arc::clone(&output.schema));
                    let reader = self.reader(&output.format, schema, &OptionMap::new());
                    reader.table(vec![output.path.clone()]).await?
                }
            };
            Ok(Arc::new(table))
        })
    }

    fn whole<'a>(&'a self, read: &'a StreamRead) -> BoxFuture<'a, Result<Arc<dyn TableProvider>>> {
        Box::pin(async move {
            batch_read::now(self.session.clone(), self.reader_of(read)?, read.paths.clone()).await
        })
    }
}

impl Resolver {
    fn reader_of(&self, read: &StreamRead) -> Result<DataStreamReader> {
        let Some(format) = &read.format else {
            return Err(Error::invalid(format!(
                "line {}, column {}: read_files needs a format, for example format => 'json'",
                read.place.line, read.place.column
            )));
        };
        let reader = self.reader(format, read.schema.clone(), &read.options);
        Ok(match &read.name {
            Some(name) => reader.name(name),
            None => reader,
        })
    }

    pub(super) fn new(
        session: &Session,
        done: &[PlannedTable],
        options: &PipelineOptions,
        make_folders: bool,
    ) -> Result<Self> {
        let mut outputs = BTreeMap::new();
        for other in done.iter().filter(|it| it.table.sinks.is_empty()) {
            if let Some(path) = output(&other.table, options)? {
                let schema = visible_schema(other.plan.schema().as_arrow());
                let format = other.table.format.clone();
                outputs.insert(other.key(), Output { path, format, schema });
            }
        }
        Ok(Resolver {
            session: session.clone(),
            outputs,
            make_folders,
            reads: Mutex::default(),
            missing: Mutex::default(),
        })
    }

    fn reader(
        &self,
        format: &str,
        schema: Option<SchemaRef>,
        options: &OptionMap,
    ) -> DataStreamReader {
        let reader = self.session.read_stream().format(format).options(options.iter());
        match schema {
            Some(schema) => reader.arrow_schema(schema),
            None => reader,
        }
    }

    /// A table that is read may not have written anything yet.
    fn make_folder(&self, path: &str) -> Result<()> {
        if !self.make_folders || path.contains("://") {
            return Ok(());
        }
        std::fs::create_dir_all(path).map_err(|error| {
            Error::unavailable(format!("the folder {path} cannot be made")).because(error)
        })
    }
}
