//! What every test of a database needs: one server of each kind, a table of its own, and a query's
//! side of the contract.

use crate::sink::rig::{Gate, ManualClock, stream};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use onefold_connector::{
    Attempt, Clock, ONE_BATCH, Options, OutputMode, SAVE_MODE, Sink, SinkContext, SinkDefinition,
    SinkEffects, SinkRequest,
};
use onefold_connectors::jdbc::database::Database;
use onefold_connectors::jdbc::{self, Cell};
use onefold_testkit::database::DatabaseServer;
use onefold_types::{BatchId, Generation, OptionMap, Published, QueryId, Result, RunId};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// A database of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    MariaDb,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Sqlite, Kind::Postgres, Kind::MariaDb];
}

fn started(
    cell: &'static OnceLock<Option<DatabaseServer>>,
    start: fn() -> std::io::Result<DatabaseServer>,
) -> Option<&'static DatabaseServer> {
    let server = cell.get_or_init(|| match start() {
        Ok(server) => Some(server),
        Err(error) if std::env::var("CI").is_ok_and(|ci| ci == "true") => {
            panic!("no database: {error}")
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "skipped, since no database starts: {error}");
            None
        }
    });
    server.as_ref()
}

/// The address of a server of a kind, or of a new file in a folder; `None` where none can be
/// started on this machine. With `CI=true` that is a failure.
pub(crate) fn url(kind: Kind, folder: &Path) -> Option<String> {
    static POSTGRES: OnceLock<Option<DatabaseServer>> = OnceLock::new();
    static MARIADB: OnceLock<Option<DatabaseServer>> = OnceLock::new();
    Some(match kind {
        Kind::Sqlite => format!("jdbc:sqlite:{}/x.db", folder.display()),
        Kind::Postgres => {
            let port = started(&POSTGRES, DatabaseServer::postgres)?.port();
            format!("jdbc:postgresql://127.0.0.1:{port}/postgres?user=onefold")
        }
        Kind::MariaDb => {
            let port = started(&MARIADB, DatabaseServer::mariadb)?.port();
            format!("jdbc:mariadb://127.0.0.1:{port}/onefold?user=onefold&password=onefold-secret")
        }
    })
}

/// A name that no other test has.
pub(crate) fn unique(name: &str) -> String {
    format!("{name}_{}", Uuid::new_v4().simple().to_string().get(..12).unwrap())
}

/// A query that writes a table.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) kind: Kind,
    pub(crate) options: OptionMap,
    pub(crate) table: String,
    pub(crate) output_mode: OutputMode,
    pub(crate) schema: SchemaRef,
    pub(crate) query: QueryId,
    pub(crate) conf: BTreeMap<String, String>,
}

impl Rig {
    /// A table of its own in a database of a kind.
    pub(crate) fn new(kind: Kind, folder: &Path) -> Option<Rig> {
        let table = unique("t");
        let options = OptionMap::new()
            .with("url", url(kind, folder)?)
            .with("dbtable", table.clone())
            .with("onefold.jdbc.marksTable", unique("marks"));
        Some(Rig {
            kind,
            options,
            table,
            output_mode: OutputMode::Append,
            schema: crate::sink::rig::schema(),
            query: QueryId(Uuid::new_v4()),
            conf: BTreeMap::new(),
        })
    }

    /// The same with an option.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Rig {
        self.options.set(name, value);
        self
    }

    /// The same table, another query.
    pub(crate) fn other(&self) -> Rig {
        Rig { query: QueryId(Uuid::new_v4()), ..self.clone() }
    }

    fn checked(&self) -> Result<Options> {
        let spec = &jdbc::SINK;
        Options::check(spec.name, spec.options, self.options.clone())
    }

    pub(crate) fn database(&self) -> Arc<dyn Database> {
        jdbc::open(&self.checked().unwrap()).unwrap()
    }

    pub(crate) fn definition(&self) -> Result<Arc<dyn SinkDefinition>> {
        self.definition_over(jdbc::open(&self.checked()?)?)
    }

    pub(crate) fn definition_over(
        &self,
        database: Arc<dyn Database>,
    ) -> Result<Arc<dyn SinkDefinition>> {
        let request = SinkRequest {
            options: self.checked()?,
            path: None,
            partition_by: Vec::new(),
            query_name: None,
            output_mode: self.output_mode,
        };
        jdbc::define_over(&request, database)
    }

    /// Opens the sink as driver `generation`; commits and intents as the checkpoint has them.
    pub(crate) async fn open(
        &self,
        generation: u64,
        last_commit: Option<u64>,
        last_intent: Option<u64>,
    ) -> Result<Arc<dyn Sink>> {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock(AtomicI64::new(1_800_000_000_000)));
        let context = SinkContext {
            query: self.query,
            run: RunId(self.query.0),
            generation: Generation(generation),
            last_commit: last_commit.map(BatchId),
            last_intent: last_intent.map(BatchId),
            follows: false,
            schema: Arc::clone(&self.schema),
            clock,
            effects: SinkEffects::forgotten(self.query),
            conf: self.conf.clone(),
        };
        self.definition()?.open(context).await
    }

    pub(crate) fn attempt(&self, batch: u64, generation: u64) -> Attempt {
        Attempt { query: self.query, batch: BatchId(batch), generation: Generation(generation) }
    }

    /// Runs one batch through, up to the commit.
    pub(crate) async fn run(
        &self,
        sink: &dyn Sink,
        generation: u64,
        batch: u64,
        rows: Vec<RecordBatch>,
    ) -> Result<Published> {
        let attempt = self.attempt(batch, generation);
        let mut outputs = Vec::new();
        for (partition, rows) in (0..).zip(rows) {
            match sink.stage(&attempt, partition, stream(vec![rows])).await {
                Ok(output) => outputs.push(output),
                Err(error) => {
                    sink.discard(&attempt).await?;
                    return Err(error);
                }
            }
        }
        let published = sink.publish(&attempt, outputs, &Gate::default()).await?;
        sink.settle(&published).await?;
        Ok(published)
    }

    /// Writes once, as `DataFrame.write`.
    pub(crate) async fn write(&self, mode: &str, rows: RecordBatch) -> Result<()> {
        self.other().write_as(mode, rows).await
    }

    /// As [`Rig::write`], with staging tables of this query's name.
    pub(crate) async fn write_as(&self, mode: &str, rows: RecordBatch) -> Result<()> {
        let mut rig = Rig { schema: rows.schema(), ..self.clone() };
        if mode == "overwrite" {
            rig.output_mode = OutputMode::Complete;
        }
        rig.conf.insert(ONE_BATCH.to_owned(), "true".to_owned());
        rig.conf.insert(SAVE_MODE.to_owned(), mode.to_owned());
        let sink = rig.open(1, None, None).await?;
        rig.run(&*sink, 1, 0, vec![rows]).await.map(|_| ())
    }

    /// Runs a statement.
    pub(crate) async fn execute(&self, sql: &str) {
        let mut session = self.database().connect().await.unwrap();
        session.execute(sql, &[]).await.unwrap();
    }

    /// The rows of a query.
    pub(crate) async fn query(&self, sql: &str) -> Vec<Vec<Cell>> {
        let mut session = self.database().connect().await.unwrap();
        session.query(sql, &[]).await.unwrap()
    }

    /// The ids in the table, sorted.
    pub(crate) async fn ids(&self) -> Vec<i64> {
        let rows = self.query(&format!("SELECT id FROM {} ORDER BY id", self.table)).await;
        rows.iter().map(|row| row[0].as_int().unwrap()).collect()
    }

    /// Staging tables of this query: they should be gone.
    pub(crate) async fn staging_tables(&self) -> usize {
        let dialect = self.database().dialect();
        let mut session = self.database().connect().await.unwrap();
        let own = xxhash_rust::xxh3::xxh3_64(format!("{} {}", self.query, self.table).as_bytes());
        let pattern = [Cell::text(format!("onefold_s_{own:016x}_%"))];
        session.query(&dialect.tables_like(None).sql, &pattern).await.unwrap().len()
    }
}

/// Runs a test on each kind of database that can be started.
#[macro_export]
macro_rules! on_each_database {
    ($rig:ident, $test:block) => {
        for kind in $crate::jdbc::rig::Kind::ALL {
            let folder = tempfile::tempdir().unwrap();
            if let Some($rig) = $crate::jdbc::rig::Rig::new(kind, folder.path()) $test
        }
    };
}
