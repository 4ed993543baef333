//! Tables that live below setting `spark.sql.warehouse.dir`: a folder of files each, with a file
//! that says what they are. Sessions and restarts find them there; nothing else is kept.

use crate::batch_read::NowTable;
use crate::batch_write::DATABASES;
use crate::conf::WAREHOUSE;
use crate::session::{Session, SessionInner};
use crate::table_location;
use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result as PlanResult};
use onefold_storage::{CreateError, Created, Durability, move_folder};
use onefold_types::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use uuid::Uuid;

/// Readers of the folder pass over names that begin with `_`.
pub(crate) const TABLE_DEFINITION: &str = "_onefold_table.json";

/// In the names of tables that are about to take another one's place, or just left it.
const STAND_IN: &str = "__onefold_";

/// What a table of the warehouse is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableDefinition {
    /// The format of its files: `parquet`, `json`, `csv` …
    pub format: String,
    /// Its columns, as Spark's DDL; those that it is partitioned by are among them.
    pub schema: String,
    /// Options for reading and writing.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Columns whose values are folders.
    #[serde(default)]
    pub partition_by: Vec<String>,
    /// Columns that the user asked to cluster by: told again, and nothing more.
    #[serde(default)]
    pub cluster_by: Vec<String>,
    /// Where its files are, if not in its folder of the warehouse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

impl TableDefinition {
    /// Whether the table itself tells its columns, which may have changed since it was made.
    #[must_use]
    pub fn knows_its_columns(&self) -> bool {
        self.format.eq_ignore_ascii_case("delta") || self.is_of_a_database()
    }

    /// Whether its rows are those of a table of a database, which its options name: it has no files, and
    /// dropping it leaves them there.
    #[must_use]
    pub fn is_of_a_database(&self) -> bool {
        DATABASES.iter().any(|name| self.format.eq_ignore_ascii_case(name))
    }
}

impl Session {
    /// The folder of a table of the warehouse.
    fn table_folder(&self, name: &str) -> Result<PathBuf> {
        let warehouse = self.inner.conf.get(WAREHOUSE).unwrap_or_default();
        let location = table_location::location(name, &warehouse)?;
        let location = location.strip_prefix("file://").unwrap_or(&location);
        let location = location.strip_prefix("file:").unwrap_or(location);
        if location.contains("://") {
            return Err(Error::invalid(format!(
                "tables can be kept in a local warehouse only, not in {location}; set {WAREHOUSE} \
                 to a local folder"
            )));
        }
        std::path::absolute(location).map_err(|error| lost(Path::new(location), error))
    }

    /// Makes a table of the warehouse, without rows.
    ///
    /// # Errors
    /// Invalid: a name that cannot be a table's, or one that is taken. Unavailable: the disk.
    pub fn create_table(&self, name: &str, definition: &TableDefinition) -> Result<()> {
        let folder = self.table_folder(name)?;
        let location = folder.to_string_lossy().into_owned();
        let text = serde_json::to_string_pretty(definition)
            .map_err(|error| Error::internal("a table is not described").because(error))?;
        let opening = (self.inner.stores)(location, self.inner.conf.all());
        let made = self.inner.tasks.wait(async move {
            let store = opening.await?;
            match store.create(TABLE_DEFINITION, text.into(), Durability::Now).await {
                Ok(made) => Ok(matches!(made, Created::New)),
                Err(CreateError::NotDone(error) | CreateError::MaybeDone(error)) => Err(error),
            }
        })?;
        if made {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the table `{name}` already exists; choose another name, or drop it first"
        )))
    }

    /// What a table of the warehouse is; `None` when there is none of this name.
    ///
    /// # Errors
    /// Corrupt: its file does not parse. Unavailable: the disk.
    pub fn table_definition(&self, name: &str) -> Result<Option<TableDefinition>> {
        // What cannot be a table's name is none.
        let Ok(folder) = self.table_folder(name) else { return Ok(None) };
        let file = folder.join(TABLE_DEFINITION);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(lost(&file, error)),
        };
        serde_json::from_str(&text).map(Some).map_err(|error| {
            Error::corrupt(format!("{} does not describe a table", file.display())).because(error)
        })
    }

    /// Where the files of a table of the warehouse are.
    ///
    /// # Errors
    /// As [`Session::table_definition`].
    pub fn table_files(&self, name: &str, definition: &TableDefinition) -> Result<String> {
        match &definition.location {
            Some(location) => Ok(location.clone()),
            None => Ok(self.table_folder(name)?.to_string_lossy().into_owned()),
        }
    }

    /// What a reader of a table of the warehouse is given as paths: none for one of a database.
    ///
    /// # Errors
    /// As [`Session::table_definition`].
    pub fn table_paths(&self, name: &str, definition: &TableDefinition) -> Result<Vec<String>> {
        match definition.is_of_a_database() {
            true => Ok(Vec::new()),
            false => Ok(vec![self.table_files(name, definition)?]),
        }
    }

    /// Drops a table of the warehouse with its files, unless they lie elsewhere. False when there
    /// is none.
    ///
    /// # Errors
    /// Unavailable: the disk.
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        if self.table_definition(name)?.is_none() {
            return Ok(false);
        }
        let folder = self.table_folder(name)?;
        fs::remove_dir_all(&folder).map_err(|error| lost(&folder, error))?;
        Ok(true)
    }

    /// A name for a table that is to take the place of another one by [`Session::replace_table`]; no
    /// listing shows it.
    #[must_use]
    pub fn stand_in(name: &str) -> String {
        format!("{name}{STAND_IN}{}", Uuid::new_v4().simple())
    }

    /// Puts a table in the place of another one, whose files go unless they lie elsewhere. A reader
    /// finds the one or the other.
    ///
    /// # Errors
    /// Unavailable: the disk.
    pub fn replace_table(&self, name: &str, by: &str) -> Result<()> {
        let (folder, new) = (self.table_folder(name)?, self.table_folder(by)?);
        let old = self.table_folder(&Session::stand_in(name))?;
        let moved =
            |from: &Path, to: &Path| move_folder(from, to).map_err(|error| lost(from, error));
        moved(&folder, &old)?;
        moved(&new, &folder)?;
        fs::remove_dir_all(&old).map_err(|error| lost(&old, error))
    }

    /// The tables of the warehouse, sorted.
    #[must_use]
    pub fn warehouse_tables(&self) -> Vec<String> {
        let warehouse = self.inner.conf.get(WAREHOUSE).unwrap_or_default();
        let Ok(entries) = fs::read_dir(warehouse.trim_start_matches("file:")) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(std::result::Result::ok)
            .filter(|entry| entry.path().join(TABLE_DEFINITION).is_file())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| !name.contains(STAND_IN))
            .collect();
        names.sort();
        names
    }

    /// A table of the warehouse as it is now.
    async fn warehouse_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(definition) = self.table_definition(name)? else { return Ok(None) };
        let paths = self.table_paths(name, &definition)?;
        let mut reader = self.read().format(&definition.format);
        if !definition.knows_its_columns() {
            reader = reader.schema(&definition.schema);
        }
        let table: NowTable = reader.options(definition.options).table(paths).await?;
        Ok(Some(Arc::new(table)))
    }
}

fn lost(path: &Path, error: std::io::Error) -> Error {
    Error::unavailable(format!("the table in {} cannot be reached", path.display())).because(error)
}

/// The views of a session, then the tables of its warehouse.
pub(crate) struct Warehouse {
    views: MemorySchemaProvider,
    session: Weak<SessionInner>,
}

impl Warehouse {
    pub(crate) fn new(session: Weak<SessionInner>) -> Self {
        Warehouse { views: MemorySchemaProvider::new(), session }
    }

    fn session(&self) -> Option<Session> {
        self.session.upgrade().map(|inner| Session { inner })
    }
}

impl fmt::Debug for Warehouse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Warehouse").field("views", &self.views).finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for Warehouse {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.views.table_names();
        names.extend(self.session().map(|it| it.warehouse_tables()).unwrap_or_default());
        names
    }

    async fn table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        if let Some(view) = self.views.table(name).await? {
            return Ok(Some(view));
        }
        let Some(session) = self.session() else { return Ok(None) };
        let found = session.warehouse_table(name).await;
        found.map_err(|error| DataFusionError::External(Box::new(error)))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        self.views.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        self.views.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        let kept =
            || self.session().is_some_and(|it| matches!(it.table_definition(name), Ok(Some(_))));
        self.views.table_exist(name) || kept()
    }
}
