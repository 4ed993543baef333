//! Delta tables.
//!
//! The sink writes data files first, then one commit to the table's log that names them and holds
//! the batch's mark: creating that commit's file is the atomic act. The source follows the log.
//!
//! The log's protocol around our own rows (commits, marks, conflicts) is decided and written here,
//! through our store, which is durable; checkpoints of the log, snapshots, and the commands that
//! rewrite files are the library's, over the same store.
//!
//! # Invariants
//! - A version's commit is created, never overwritten; an unknown outcome is looked into before
//!   anything else is done.
//! - A batch goes behind the commits of others only after looking for its own mark in each of them.
//! - Every batch commits its mark, even one without rows.
//!
//! *Where to start:* `mark` decides what another's commit means, `sink` acts on it.

mod audit;
mod bridge;
mod checkpoint;
mod commands;
mod commit;
mod features;
mod files;
mod fit;
mod history;
mod known;
mod mark;
mod once;
mod options;
mod ownership;
mod publish;
mod shape;
mod sink;
pub mod source;
mod stats;
mod table;

use async_trait::async_trait;
use onefold_connector::{
    Options, OutputMode, Sink, SinkContext, SinkDefinition, SinkRequest, SinkSpec, TableSpec,
};
use onefold_storage::Store;
use onefold_types::{Delivery, Error, OptionMap, Result};
use options::WriteOptions;
use shape::Shape;
use sink::{DeltaSink, State};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use table::Table;

/// The Delta sink.
pub static SINK: SinkSpec = SinkSpec {
    name: "delta",
    summary: "a Delta table in a folder",
    options: &[options::WRITE],
    define,
};

/// What can be done to a Delta table.
pub static TABLE: TableSpec =
    TableSpec { name: "delta", run: |request| Box::pin(commands::run(request)) };

fn define(request: SinkRequest) -> Result<Arc<dyn SinkDefinition>> {
    let given = request.path.as_deref().or_else(|| request.options.text("path"));
    let path = match given {
        Some(path) if !path.trim().is_empty() => path.to_owned(),
        _ => {
            return Err(Error::invalid(
                "the delta sink needs a table; give its folder with start(path) or option `path`, \
                 or its name with toTable(name)",
            ));
        }
    };
    let store = onefold_storage::open(&path, &OptionMap::new())?;
    Definition::checked(&request, store, Some(path))
}

/// A definition of the Delta sink over a store that the caller opened.
///
/// # Errors
/// Invalid: the options do not fit together.
pub fn define_over(
    request: &SinkRequest,
    store: Arc<dyn Store>,
) -> Result<Arc<dyn SinkDefinition>> {
    Definition::checked(request, store, None)
}

#[derive(Debug)]
struct Definition {
    options: WriteOptions,
    given: Options,
    store: Arc<dyn Store>,
    /// What to open; `None` where the caller opened the store.
    path: Option<String>,
}

impl Definition {
    fn checked(
        request: &SinkRequest,
        store: Arc<dyn Store>,
        path: Option<String>,
    ) -> Result<Arc<dyn SinkDefinition>> {
        if request.output_mode == OutputMode::Update {
            return Err(Error::invalid(
                "the delta sink takes output modes append and complete; for update, merge the rows \
                 in foreachBatch",
            ));
        }
        let options = WriteOptions::read(request)?;
        Ok(Arc::new(Definition { options, given: request.options.clone(), store, path }))
    }

    /// The store with the session's settings: how to reach an object store is said there.
    fn store_for(&self, conf: &BTreeMap<String, String>) -> Result<Arc<dyn Store>> {
        match &self.path {
            Some(path) if !self.store.url().starts_with("file:") => table::open_store(path, conf),
            _ => Ok(Arc::clone(&self.store)),
        }
    }
}

#[async_trait]
impl SinkDefinition for Definition {
    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce {
            how: "a batch's files and its mark are one commit of the table's log".to_owned(),
        }
    }

    fn description(&self) -> String {
        // Hadoop's spelling of a local path has one slash.
        let url = self.store.url();
        match url.strip_prefix("file://") {
            Some(path) => format!("DeltaSink[file:{path}]"),
            None => format!("DeltaSink[{url}]"),
        }
    }

    fn folder(&self) -> Option<String> {
        Some(self.store.url().to_owned())
    }

    async fn open(&self, context: SinkContext) -> Result<Arc<dyn Sink>> {
        let looks = context.conf.get("onefold.readOnly").is_some_and(|value| value == "true");
        let options = self.options.clone().with_settings(&context.conf, &self.given)?;
        let table = Table::over(self.store_for(&context.conf)?)?;
        let known = known::read(&table, context.query).await?;
        if !options.one_batch {
            ownership::check(table.url(), &known, &context)?;
        }
        let now = context.clock.now_ms();
        let shape = match Shape::new(known.facts.as_ref(), &context.schema, &options, now) {
            // Who only looks need not know the columns.
            Err(_) if looks => None,
            shape => Some(shape?),
        };
        let state = State::opened(known, shape, context.last_intent);
        Ok(Arc::new(DeltaSink {
            table,
            options,
            query: context.query,
            rows: context.schema,
            clock: context.clock,
            state: Mutex::new(state),
        }))
    }
}
