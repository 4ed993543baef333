//! Reading what is there now, as a table and not as a stream.
//!
//! The same sources as for streams read it, so that options, schemas and odd rows mean the same:
//! each execution opens the source anew over an empty log, takes everything, and reads that.

use crate::fault::from_datafusion;
use crate::frame::DataFrame;
use crate::reader::DataStreamReader;
use crate::session::{Session, SessionInner};
use crate::state_table::{self, StateFormat};
use crate::timer::Timer;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session as PlanSession, TableProvider};
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::logical_expr::{
    Expr, LogicalPlanBuilder, TableProviderFilterPushDown, TableType, UNNAMED_TABLE,
};
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{
    Clock, LatestOffset, ReadLimit, ScanRequest, SourceContext, SourceDefinition,
};
use onefold_types::{Error, OffsetRange, QueryId, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use uuid::Uuid;

/// Describes a table to read, as Spark's `DataFrameReader`.
#[derive(Debug, Clone)]
pub struct DataFrameReader {
    session: Session,
    stream: DataStreamReader,
}

impl DataFrameReader {
    pub(crate) fn new(session: Session) -> Self {
        let stream = DataStreamReader::new(session.clone());
        DataFrameReader { session, stream }
    }

    /// The source, by name: `json`, `csv`, `parquet` …
    #[must_use]
    pub fn format(mut self, name: &str) -> Self {
        self.stream = self.stream.format(name);
        self
    }

    /// The columns, as Spark's DDL or its JSON.
    #[must_use]
    pub fn schema(mut self, text: &str) -> Self {
        self.stream = self.stream.schema(text);
        self
    }

    /// Sets options.
    #[must_use]
    pub fn options<N: Into<String>, V: Into<String>>(
        mut self,
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.stream = self.stream.options(pairs);
        self
    }

    /// What is under the paths.
    ///
    /// # Errors
    /// As [`DataStreamReader::load`].
    pub fn load_paths(self, paths: impl IntoIterator<Item = String>) -> Result<DataFrame> {
        let paths = paths.into_iter().collect();
        let session = self.session.clone();
        let now = session.inner.tasks.wait(self.provider(paths))?;
        let plan = LogicalPlanBuilder::scan(UNNAMED_TABLE, provider_as_source(now), None)
            .and_then(LogicalPlanBuilder::build)
            .map_err(from_datafusion)?;
        Ok(DataFrame::new(session, plan))
    }

    /// What is under the paths, as a table of any kind.
    async fn provider(self, paths: Vec<String>) -> Result<Arc<dyn TableProvider>> {
        match self.stream.format_name().and_then(StateFormat::of) {
            Some(format) => {
                let options = self.stream.into_options();
                state_table::table(&self.session, format, options, paths).await
            }
            None => Ok(Arc::new(self.table(paths).await?)),
        }
    }

    /// What is under the paths, as a table of a source.
    pub(crate) async fn table(self, paths: Vec<String>) -> Result<NowTable> {
        let session = Arc::downgrade(&self.session.inner);
        let table = self.stream.table_now(paths).await?;
        Ok(NowTable { definition: Arc::clone(table.definition()), session })
    }
}

/// The table of all that a source has.
pub(crate) async fn now(
    session: Session,
    reader: DataStreamReader,
    paths: Vec<String>,
) -> Result<Arc<dyn TableProvider>> {
    DataFrameReader { session, stream: reader }.provider(paths).await
}

/// All that a source has, each time it is scanned.
#[derive(Debug)]
pub(crate) struct NowTable {
    definition: Arc<dyn SourceDefinition>,
    /// The session keeps views of tables, so that a table must not keep the session.
    session: Weak<SessionInner>,
}

#[async_trait]
impl TableProvider for NowTable {
    fn schema(&self) -> SchemaRef {
        self.definition.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> PlanResult<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn PlanSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let outer = |error| DataFusionError::External(Box::new(error));
        let folder = ScratchFolder::new();
        let session = self
            .session
            .upgrade()
            .ok_or_else(|| outer(Error::unavailable("the session of this table has ended")))?;
        let conf: BTreeMap<String, String> = session.conf.all();
        let location = folder.location();
        let store = (session.stores)(location, conf.clone()).await.map_err(outer)?;
        let clock: Arc<dyn Clock> = Arc::<dyn Timer>::clone(&session.timer);
        let context = SourceContext {
            query: QueryId(Uuid::new_v4()),
            checkpoint: store,
            log_folder: "sources/0".to_owned(),
            history: Vec::new(),
            clock,
            conf,
        };
        let source = self.definition.open(context).await.map_err(outer)?;
        let latest = source.latest_offset(None, ReadLimit::All).await.map_err(outer)?;
        let LatestOffset { end, note, .. } = latest;
        let range = OffsetRange { start: None, end, note };
        let scan = ScanRequest { projection, filters, session: state };
        source.read(&range, scan).await.map_err(outer)
    }
}

/// A temporary folder that goes away, made by whoever writes into it.
pub(crate) struct ScratchFolder(std::path::PathBuf);

impl ScratchFolder {
    pub(crate) fn new() -> Self {
        ScratchFolder(std::env::temp_dir().join(format!("onefold-read-{}", Uuid::new_v4())))
    }

    pub(crate) fn location(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // What is left in a temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
