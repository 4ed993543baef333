//! Tables of databases: PostgreSQL, MySQL and MariaDB, SQLite.
//!
//! Rows of a batch go to staging tables while the batch runs. Publishing is one transaction: it locks
//! the query's own row in the table of marks (a newer driver found there stops this one), moves the
//! rows, and writes the batch's mark beside them. When the reply to COMMIT is lost, a new session asks
//! the table of marks; the lock makes it wait until the lost transaction has ended.
//!
//! # Invariants
//! - Names get into statements through `names::quoted` only, values never.
//! - The address and the password are shown nowhere; `Address::shown` is what people see.
//! - Every batch writes its mark, even one without rows.
//!
//! *Where to start:* `publish` is the act, `statements` what it does, `dialect` how the databases
//! differ; `postgres`, `mysql` and `sqlite` speak to them.

mod address;
mod cell;
mod columns;
pub mod database;
mod decimal;
pub mod dialect;
pub mod failure;
mod marks;
mod mysql;
mod names;
mod options;
mod ownership;
mod pool;
mod postgres;
mod publish;
mod refused;
mod rows;
mod sink;
pub mod source;
mod sqlite;
mod stage;
mod staging;
mod statements;
mod target;
mod times;
mod tls;

pub use cell::Cell;
pub use decimal::Decimal;

use address::{Address, Kind};
use async_trait::async_trait;
use database::Database;
use dialect::Dialect;
use failure::{Failure, FailureKind};
use marks::Marks;
use onefold_connector::{Options, Sink, SinkContext, SinkDefinition, SinkRequest, SinkSpec};
use onefold_types::{Delivery, Error, Published, Result};
use options::{IfThere, WriteOptions};
use pool::Pool;
use sink::{JdbcSink, State};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use target::Fitted;

/// The sink of databases.
pub static SINK: SinkSpec = SinkSpec {
    name: "jdbc",
    summary: "a table of PostgreSQL, MySQL, MariaDB or SQLite",
    options: &[options::COMMON, options::WRITE],
    define,
};

fn define(request: SinkRequest) -> Result<Arc<dyn SinkDefinition>> {
    let database = open(&request.options)?;
    define_over(&request, database)
}

/// A definition of the sink over a database that the caller made.
///
/// # Errors
/// Invalid: the options do not fit together.
pub fn define_over(
    request: &SinkRequest,
    database: Arc<dyn Database>,
) -> Result<Arc<dyn SinkDefinition>> {
    let options = WriteOptions::read(request)?;
    Ok(Arc::new(Definition { options, database }))
}

/// The database that options name.
///
/// # Errors
/// Invalid: they name none, or something that is not known.
pub fn open(options: &Options) -> Result<Arc<dyn Database>> {
    let Some(url) = options.text("url") else {
        return Err(Error::invalid(
            "a database is needed; give its address in option `url`, such as \
             jdbc:postgresql://host:5432/db",
        ));
    };
    let mut address = Address::parse(url)?;
    if let Some(user) = options.text("user") {
        address.user = Some(user.to_owned());
    }
    if let Some(password) = options.secret("password") {
        address.password = Some(password);
    }
    for name in ["sslmode", "sslrootcert"] {
        if let Some(value) = options.text(name) {
            address.settings.insert(name.to_owned(), value.to_owned());
        }
    }
    let ways = Ways {
        first: options.text("sessionInitStatement").map(str::to_owned),
        lock: Duration::from_millis(
            options.duration_ms("onefold.jdbc.lockTimeout").unwrap_or(30_000),
        ),
        statement: Duration::from_secs(options.count("queryTimeout").unwrap_or_default()),
    };
    Ok(match address.kind {
        Kind::PostgreSql => Arc::new(postgres::Server::new(&address, ways)?),
        Kind::MySql => Arc::new(mysql::Server::new(&address, ways)?),
        Kind::Sqlite => Arc::new(sqlite::File::new(&address, ways)),
    })
}

/// How sessions begin.
#[derive(Debug, Clone)]
pub(crate) struct Ways {
    /// A statement that each session runs first.
    pub(crate) first: Option<String>,
    /// How long to wait for a lock.
    pub(crate) lock: Duration,
    /// How long a statement may take; zero is no limit.
    pub(crate) statement: Duration,
}

#[derive(Debug)]
struct Definition {
    options: WriteOptions,
    database: Arc<dyn Database>,
}

#[async_trait]
impl SinkDefinition for Definition {
    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce {
            how: "a batch's rows and its mark are one transaction of the database".to_owned(),
        }
    }

    fn description(&self) -> String {
        format!("JdbcSink[{}, table {}]", self.database.place(), self.options.table)
    }

    async fn open(&self, context: SinkContext) -> Result<Arc<dyn Sink>> {
        let looks = context.conf.get("onefold.readOnly").is_some_and(|value| value == "true");
        let options = self.options.clone().with_settings(&context.conf);
        let dialect = self.database.dialect();
        let mut sink = JdbcSink {
            pool: Pool::new(Arc::clone(&self.database), options.connections),
            marks: Marks { dialect, table: options.marks.clone() },
            query: context.query,
            generation: context.generation,
            follows: context.follows,
            clock: Arc::clone(&context.clock),
            fitted: None,
            state: Mutex::new(State::default()),
            options,
        };
        if sink.options.one_batch {
            sink.fitted = self.open_once(&sink, &context).await?;
            return Ok(Arc::new(sink));
        }
        if !looks {
            sink.claim(&context).await?;
        }
        let mark = sink.look_for_marks(&context, looks).await?;
        sink.state().mark = mark;
        if looks {
            return Ok(Arc::new(sink));
        }
        if !context.follows
            && let Err(failure) = sink.drop_leftovers().await
        {
            tracing::warn!(error = %failure, "old staging tables were not dropped");
        }
        sink.fitted = Some(self.fit(&sink, &context).await?);
        Ok(Arc::new(sink))
    }
}

impl Definition {
    /// Opens the sink for a write that is not numbered by a checkpoint.
    async fn open_once(
        &self,
        sink: &JdbcSink,
        context: &SinkContext,
    ) -> Result<Option<Arc<Fitted>>> {
        let failed = |failure: Failure| sink.not_opened(failure);
        let mut lent = sink.pool.take().await.map_err(failed)?;
        let session = lent.session();
        let table = &sink.options.table;
        if let Some((app, number)) = &sink.options.txn {
            sink.marks.create(session).await.map_err(failed)?;
            let newest = sink.marks.newest_of(session, app).await.map_err(failed)?;
            if newest.is_some_and(|newest| newest >= *number) {
                // Whether the table was there was looked at when the write was made first.
                lent.give_back();
                return Ok(None);
            }
        }
        let there = target::columns(session, sink.pool.database.dialect(), table).await;
        let there = there.map_err(failed)?.is_some();
        lent.give_back();
        match sink.options.if_there {
            IfThere::Refuse if there => Err(Error::invalid(format!(
                "the table {table} of {} already exists; use the mode append or overwrite",
                sink.pool.database.place()
            ))),
            IfThere::Ignore if there => Ok(None),
            _ => self.fit(sink, context).await.map(Some),
        }
    }

    /// Finds the table's columns for those of the rows; makes the table if it is missing.
    async fn fit(&self, sink: &JdbcSink, context: &SinkContext) -> Result<Arc<Fitted>> {
        let dialect = self.database.dialect();
        let failed = |failure: Failure| sink.not_opened(failure);
        let mut lent = sink.pool.take().await.map_err(failed)?;
        let session = lent.session();
        let rows = &context.schema;
        let mut options = sink.options.clone();
        let mut there = target::columns(session, dialect, &options.table).await.map_err(failed)?;
        let replaces = (options.anew && there.is_some()).then(|| options.table.clone());
        if let Some(old) = &replaces {
            // The new one waits beside it until its rows are there.
            options.table = old.beside(&staging::new_table(context.query, &sink.table()));
            sink.state().replacement = Some(options.table.clone());
            there = None;
        }
        let options = &options;
        if there.is_none() {
            let sql = target::creation(dialect, options, rows)?;
            let made = session.execute(&sql, &[]).await;
            there = target::columns(session, dialect, &options.table).await.map_err(failed)?;
            if let (Err(failure), None) = (made, &there) {
                return Err(failed(failure));
            }
        }
        if let Some(dead) = &options.dead_letters
            && target::columns(session, dialect, dead).await.map_err(failed)?.is_none()
        {
            session.execute(&refused::creation(dialect, dead), &[]).await.map_err(failed)?;
        }
        check_engine(session, dialect, options).await?;
        lent.give_back();
        let there = there.unwrap_or_default();
        let fitted = target::fit(dialect, options, &there, rows)?;
        Ok(Arc::new(Fitted { replaces, ..fitted }))
    }
}

/// A table that takes part in no transaction would hold half a batch after a crash.
async fn check_engine(
    session: &mut dyn database::Session,
    dialect: &dyn Dialect,
    options: &WriteOptions,
) -> Result<()> {
    let Some(sql) = dialect.engine_of() else { return Ok(()) };
    for table in [Some(&options.table), options.dead_letters.as_ref()].into_iter().flatten() {
        let schema = table.schema().map_or(Cell::Null, Cell::text);
        let rows = session.query(sql, &[schema, Cell::text(table.last())]).await;
        let rows = rows.map_err(|it| it.nothing_done(format!("the engine of {table}")))?;
        let engine = rows.first().and_then(|row| row.first()?.as_text()).unwrap_or_default();
        if !engine.is_empty() && !engine.eq_ignore_ascii_case("InnoDB") {
            return Err(Error::invalid(format!(
                "table {table} is kept by the engine {engine}, which has no transactions: half a \
                 batch could stay in it; change it with ALTER TABLE {table} ENGINE=InnoDB"
            )));
        }
    }
    Ok(())
}

impl JdbcSink {
    fn not_opened(&self, failure: Failure) -> Error {
        failure.nothing_done(format!(
            "table {} of {} was not opened",
            self.options.table,
            self.pool.database.place()
        ))
    }

    /// The query's newest mark, checked against its checkpoint.
    async fn look_for_marks(
        &self,
        context: &SinkContext,
        looks: bool,
    ) -> Result<Option<Published>> {
        let failed = |failure: Failure| self.not_opened(failure);
        let mut lent = self.pool.take().await.map_err(failed)?;
        let session = lent.session();
        let mark = match self.marks.newest(session, self.query).await {
            Ok(mark) => mark,
            Err(failure) if looks && failure.kind == FailureKind::NoTable => None,
            Err(failure) => return Err(failed(failure)),
        };
        let place = format!("{} of {}", self.table(), self.pool.database.place());
        ownership::check(&place, mark, context)?;
        if mark.is_none() && !looks && !self.options.shared {
            let other = self.marks.foreign(session, self.query, &self.table()).await;
            ownership::check_alone(&place, other.map_err(failed)?, &self.options.mode)?;
        }
        lent.give_back();
        Ok(mark)
    }
}
