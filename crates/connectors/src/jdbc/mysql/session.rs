//! A session of MySQL.

use super::failed;
use super::value::{cell, described, value};
use crate::jdbc::cell::{Cell, cell_at};
use crate::jdbc::database::{Column, Session};
use crate::jdbc::dialect::MYSQL;
use crate::jdbc::failure::Failure;
use crate::jdbc::names::quoted_list;
use crate::jdbc::rows::Rows;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Row, Value};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Values of one statement, at most: the protocol counts them in 16 bits.
const VALUES: usize = 65_535;
/// Rows of one statement, at most.
const ROWS: usize = 1_000;
/// Bytes of text of one statement, about; servers take 16 MiB and more.
const BYTES: usize = 1 << 20;

/// A session.
#[derive(Debug)]
pub(super) struct MySession {
    conn: Conn,
}

impl MySession {
    pub(super) fn new(conn: Conn) -> MySession {
        MySession { conn }
    }
}

fn params(cells: &[Cell]) -> Result<Params, Failure> {
    let values: Result<Vec<Value>, String> = cells.iter().cloned().map(value).collect();
    let values = values.map_err(Failure::refused)?;
    Ok(if values.is_empty() { Params::Empty } else { Params::Positional(values) })
}

fn cells(row: Row, at: u64) -> Result<Vec<Cell>, Failure> {
    let columns = row.columns();
    let values = row.unwrap_raw();
    values
        .into_iter()
        .zip(columns.iter())
        .map(|(value, column)| {
            cell(value.unwrap_or(Value::NULL), column).map_err(|why| {
                Failure::refused(why).at(Some(at), Some(column.name_str().into_owned()))
            })
        })
        .collect()
}

#[async_trait]
impl Session for MySession {
    async fn execute(&mut self, sql: &str, values: &[Cell]) -> Result<u64, Failure> {
        if values.is_empty() {
            // Statements about transactions are none that can be prepared.
            let result = self.conn.query_iter(sql).await.map_err(failed)?;
            let touched = result.affected_rows();
            result.drop_result().await.map_err(failed)?;
            return Ok(touched);
        }
        let result = self.conn.exec_iter(sql, params(values)?).await.map_err(failed)?;
        let touched = result.affected_rows();
        result.drop_result().await.map_err(failed)?;
        Ok(touched)
    }

    async fn query(&mut self, sql: &str, values: &[Cell]) -> Result<Vec<Vec<Cell>>, Failure> {
        let rows: Vec<Row> = self.conn.exec(sql, params(values)?).await.map_err(failed)?;
        rows.into_iter().map(|row| cells(row, 0)).collect()
    }

    async fn describe(&mut self, sql: &str) -> Result<Vec<Column>, Failure> {
        let statement = self.conn.prep(sql).await.map_err(failed)?;
        let columns = statement.columns().iter().map(described).collect();
        self.conn.close(statement).await.map_err(failed)?;
        Ok(columns)
    }

    async fn load(
        &mut self,
        table: &str,
        columns: &[Column],
        rows: &RecordBatch,
    ) -> Result<(), Failure> {
        let names = quoted_list(MYSQL, columns.iter().map(|column| column.name.as_str()));
        let start = format!("INSERT INTO {table} ({names}) VALUES ");
        let one = format!("({})", vec!["?"; columns.len()].join(", "));
        let most = (VALUES / columns.len().max(1)).clamp(1, ROWS);
        self.execute("START TRANSACTION", &[]).await?;
        let mut from = 0;
        while from < rows.num_rows() {
            let (values, count) = match chunk(columns, rows, from, most) {
                Ok(chunk) => chunk,
                Err(failure) => {
                    self.execute("ROLLBACK", &[]).await?;
                    return Err(failure);
                }
            };
            let sql = format!("{start}{}", vec![one.as_str(); count].join(", "));
            let inserted = self.conn.exec_drop(sql, Params::Positional(values)).await;
            if let Err(error) = inserted {
                let mut failure = failed(error);
                failure.row = failure.row.map(|row| row + from as u64);
                self.execute("ROLLBACK", &[]).await?;
                return Err(failure);
            }
            from += count;
        }
        self.execute("COMMIT", &[]).await.map(|_| ())
    }

    fn read(
        self: Box<Self>,
        sql: String,
        values: Vec<Cell>,
        columns: Arc<Vec<Column>>,
        schema: SchemaRef,
        fetch: usize,
    ) -> BoxStream<'static, Result<RecordBatch, Failure>> {
        let (sender, receiver) = mpsc::channel(2);
        let mut conn = self.conn;
        tokio::spawn(async move {
            let sent = send_rows(&mut conn, &sql, &values, &columns, &schema, fetch, &sender).await;
            if let Err(failure) = sent {
                let _ = sender.send(Err(failure)).await;
            }
        });
        stream::unfold(receiver, |mut receiver| async move {
            let next = receiver.recv().await?;
            Some((next, receiver))
        })
        .boxed()
    }
}

/// The values of as many rows as one statement takes, and how many rows these are.
fn chunk(
    columns: &[Column],
    rows: &RecordBatch,
    from: usize,
    most: usize,
) -> Result<(Vec<Value>, usize), Failure> {
    let mut values = Vec::new();
    let (mut count, mut bytes) = (0, 0);
    while count < most && from + count < rows.num_rows() && (count == 0 || bytes < BYTES) {
        let row = from + count;
        for (array, column) in rows.columns().iter().zip(columns) {
            let value = cell_at(array, row).and_then(value).map_err(|why| {
                Failure::refused(why).at(Some(row as u64), Some(column.name.clone()))
            })?;
            if let Value::Bytes(text) = &value {
                bytes += text.len();
            }
            values.push(value);
        }
        count += 1;
    }
    Ok((values, count))
}

async fn send_rows(
    conn: &mut Conn,
    sql: &str,
    values: &[Cell],
    columns: &[Column],
    schema: &SchemaRef,
    fetch: usize,
    sender: &mpsc::Sender<Result<RecordBatch, Failure>>,
) -> Result<(), Failure> {
    let mut result = conn.exec_iter(sql, params(values)?).await.map_err(failed)?;
    let mut held = Rows::new(schema, columns, fetch);
    let mut count = 0;
    while let Some(row) = result.next().await.map_err(failed)? {
        let batch = held.add(cells(row, count)?)?;
        count += 1;
        if let Some(batch) = batch
            && sender.send(Ok(batch)).await.is_err()
        {
            return Ok(());
        }
    }
    if let Some(batch) = held.end()? {
        let _ = sender.send(Ok(batch)).await;
    }
    Ok(())
}
