//! Files in SQL: the tables of the schemas `parquet`, `json` and their like are files, by their paths
//! (``FROM parquet.`/data/orders` ``).

use crate::batch_read;
use crate::reader::DataStreamReader;
use crate::session::{Session, SessionInner};
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result as PlanResult};
use std::fmt;
use std::sync::{Arc, Weak};

/// The formats that SQL may name so.
pub(crate) const FORMATS: [&str; 8] =
    ["parquet", "json", "csv", "orc", "text", "avro", "binaryFile", "delta"];

/// The files of one format.
pub(crate) struct FormatTables {
    format: &'static str,
    session: Weak<SessionInner>,
}

impl FormatTables {
    pub(crate) fn new(format: &'static str, session: Weak<SessionInner>) -> Self {
        FormatTables { format, session }
    }
}

impl fmt::Debug for FormatTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormatTables").field("format", &self.format).finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for FormatTables {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn table(&self, path: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        let Some(inner) = self.session.upgrade() else { return Ok(None) };
        let session = Session { inner };
        let reader = DataStreamReader::new(session.clone()).format(self.format);
        let table = batch_read::now(session, reader, vec![path.to_owned()]).await;
        table.map(Some).map_err(|error| DataFusionError::External(Box::new(error)))
    }

    fn table_exist(&self, _path: &str) -> bool {
        true
    }
}
