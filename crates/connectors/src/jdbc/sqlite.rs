//! SQLite: a database in a file, compiled in.

mod value;

use super::Ways;
use super::address::Address;
use super::cell::{Cell, cell_at};
use super::database::{Column, Database, Session};
use super::dialect::{Dialect, SQLITE};
use super::failure::{Failure, FailureKind};
use super::rows::Rows;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, params_from_iter};
use std::sync::Arc;
use tokio::sync::mpsc;
use value::{cells, type_of, value, values};

/// A database's file.
#[derive(Debug)]
pub(crate) struct File {
    path: String,
    shown: String,
    ways: Ways,
}

impl File {
    pub(crate) fn new(address: &Address, ways: Ways) -> File {
        File { path: address.database.clone(), shown: address.shown(), ways }
    }
}

#[async_trait]
impl Database for File {
    fn dialect(&self) -> &'static dyn Dialect {
        SQLITE
    }

    fn place(&self) -> String {
        self.shown.clone()
    }

    async fn connect(&self) -> Result<Box<dyn Session>, Failure> {
        let (path, ways) = (self.path.clone(), self.ways.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let connection = Connection::open(path).map_err(failed)?;
            connection.busy_timeout(ways.lock).map_err(failed)?;
            // What was committed outlives a power cut.
            connection.execute_batch("PRAGMA synchronous = FULL").map_err(failed)?;
            if let Some(first) = ways.first {
                connection.execute_batch(&first).map_err(failed)?;
            }
            Ok::<_, Failure>(connection)
        });
        let connection = opened.await.map_err(|_| cut_off())??;
        Ok(Box::new(FileSession { connection: Some(connection) }))
    }
}

fn cut_off() -> Failure {
    Failure::lost("a call of SQLite was cut off")
}

fn failed(error: rusqlite::Error) -> Failure {
    let text = error.to_string();
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => return Failure::lost(text).disk_full(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => FailureKind::Busy,
        Some(ErrorCode::SystemIoFailure) => FailureKind::Lost,
        _ if text.contains("no such table") => FailureKind::NoTable,
        _ => FailureKind::Refused,
    };
    let column = text
        .strip_prefix("NOT NULL constraint failed: ")
        .and_then(|place| place.rsplit_once('.'))
        .map(|(_, column)| column.to_owned());
    Failure::new(kind, text).at(None, column)
}

/// A session of a file. The connection is away while a call is under way.
#[derive(Debug)]
struct FileSession {
    connection: Option<Connection>,
}

impl FileSession {
    async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let mut connection = self.connection.take().ok_or_else(cut_off)?;
        let task = tokio::task::spawn_blocking(move || {
            let outcome = work(&mut connection);
            (connection, outcome)
        });
        let (connection, outcome) = task.await.map_err(|_| cut_off())?;
        self.connection = Some(connection);
        outcome
    }
}

#[async_trait]
impl Session for FileSession {
    async fn execute(&mut self, sql: &str, cells: &[Cell]) -> Result<u64, Failure> {
        let (sql, values) = (sql.to_owned(), values(cells)?);
        self.with(move |connection| {
            let mut statement = connection.prepare(&sql).map_err(failed)?;
            let changed = statement.execute(params_from_iter(values)).map_err(failed)?;
            Ok(changed as u64)
        })
        .await
    }

    async fn query(&mut self, sql: &str, cells_given: &[Cell]) -> Result<Vec<Vec<Cell>>, Failure> {
        let (sql, values) = (sql.to_owned(), values(cells_given)?);
        self.with(move |connection| {
            let mut statement = connection.prepare(&sql).map_err(failed)?;
            let count = statement.column_count();
            let mut rows = statement.query(params_from_iter(values)).map_err(failed)?;
            let mut found = Vec::new();
            while let Some(row) = rows.next().map_err(failed)? {
                found.push(cells(row, count)?);
            }
            Ok(found)
        })
        .await
    }

    async fn describe(&mut self, sql: &str) -> Result<Vec<Column>, Failure> {
        let sql = sql.to_owned();
        self.with(move |connection| {
            let mut statement = connection.prepare(&sql).map_err(failed)?;
            let declared: Vec<(String, Option<String>)> = statement
                .columns()
                .map(|column| (column.name().to_owned(), column.decl_type().map(str::to_owned)))
                .collect();
            let mut rows = statement.query([]).map_err(failed)?;
            // A column that was computed has no type: a value has.
            let first = match rows.next().map_err(failed)? {
                Some(row) => cells(row, declared.len())?,
                None => Vec::new(),
            };
            let columns = declared.into_iter().enumerate().map(|(at, (name, declared))| {
                let data_type = match &declared {
                    Some(declared) => type_of(declared),
                    None => match first.get(at) {
                        Some(Cell::Int(_)) => DataType::Int64,
                        Some(Cell::Double(_)) => DataType::Float64,
                        Some(Cell::Bytes(_)) => DataType::Binary,
                        _ => DataType::Utf8,
                    },
                };
                let declared = declared.unwrap_or_default();
                Column { name, data_type, declared, by_text: false }
            });
            Ok(columns.collect())
        })
        .await
    }

    async fn load(
        &mut self,
        table: &str,
        columns: &[Column],
        rows: &RecordBatch,
    ) -> Result<(), Failure> {
        let names = super::names::quoted_list(SQLITE, columns.iter().map(|it| it.name.as_str()));
        let places = vec!["?"; columns.len()].join(", ");
        let sql = format!("INSERT INTO {table} ({names}) VALUES ({places})");
        let columns: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let rows = rows.clone();
        self.with(move |connection| {
            connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
            let loaded = insert(connection, &sql, &columns, &rows)
                .and_then(|()| connection.execute_batch("COMMIT").map_err(failed));
            if loaded.is_err() && !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK").map_err(failed)?;
            }
            loaded
        })
        .await
    }

    fn read(
        mut self: Box<Self>,
        sql: String,
        values: Vec<Cell>,
        columns: Arc<Vec<Column>>,
        schema: SchemaRef,
        fetch: usize,
    ) -> BoxStream<'static, Result<RecordBatch, Failure>> {
        let (sender, receiver) = mpsc::channel(2);
        let connection = self.connection.take();
        let values = value::values(&values);
        tokio::task::spawn_blocking(move || {
            let Some(connection) = connection else { return };
            let sent = values.and_then(|values| {
                send_rows(&connection, &sql, values, &columns, &schema, fetch, &sender)
            });
            if let Err(failure) = sent {
                let _ = sender.blocking_send(Err(failure));
            }
        });
        stream::unfold(receiver, |mut receiver| async move {
            let next = receiver.recv().await?;
            Some((next, receiver))
        })
        .boxed()
    }
}

fn insert(
    connection: &Connection,
    sql: &str,
    columns: &[String],
    rows: &RecordBatch,
) -> Result<(), Failure> {
    let mut statement = connection.prepare(sql).map_err(failed)?;
    for row in 0..rows.num_rows() {
        let mut values = Vec::with_capacity(columns.len());
        for (column, name) in rows.columns().iter().zip(columns) {
            let value = cell_at(column, row)
                .and_then(value)
                .map_err(|why| Failure::refused(why).at(Some(row as u64), Some(name.clone())))?;
            values.push(value);
        }
        statement
            .execute(params_from_iter(values))
            .map_err(|error| failed(error).at(Some(row as u64), None))?;
    }
    Ok(())
}

fn send_rows(
    connection: &Connection,
    sql: &str,
    values: Vec<Value>,
    columns: &[Column],
    schema: &SchemaRef,
    fetch: usize,
    sender: &mpsc::Sender<Result<RecordBatch, Failure>>,
) -> Result<(), Failure> {
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let mut rows = statement.query(params_from_iter(values)).map_err(failed)?;
    let mut held = Rows::new(schema, columns, fetch);
    while let Some(row) = rows.next().map_err(failed)? {
        if let Some(batch) = held.add(cells(row, columns.len())?)?
            && sender.blocking_send(Ok(batch)).is_err()
        {
            return Ok(());
        }
    }
    if let Some(batch) = held.end()? {
        let _ = sender.blocking_send(Ok(batch));
    }
    Ok(())
}
