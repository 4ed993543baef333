//! A session of PostgreSQL.

use super::binary;
use super::failed;
use crate::jdbc::cell::{Cell, cell_at};
use crate::jdbc::database::{Column, Session};
use crate::jdbc::dialect::POSTGRESQL;
use crate::jdbc::failure::Failure;
use crate::jdbc::names::{quoted, quoted_list};
use crate::jdbc::rows::Rows;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};
use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt};
use futures::{SinkExt, TryStreamExt};
use std::error::Error as StdError;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, SimpleQueryMessage};

/// What COPY in binary begins with: a fixed text, no flags, and no header.
const COPY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// What is sent at once, about.
const PART: usize = 1 << 20;

/// A session.
#[derive(Debug)]
pub(super) struct PgSession {
    client: Client,
    /// The types of the table that rows were loaded into last.
    loading: Option<(String, Vec<Type>)>,
}

impl PgSession {
    pub(super) fn new(client: Client) -> PgSession {
        PgSession { client, loading: None }
    }
}

/// A value that is sent.
#[derive(Debug)]
struct Param<'a>(&'a Cell);

type Fault = Box<dyn StdError + Sync + Send>;

impl ToSql for Param<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        if *self.0 == Cell::Null {
            return Ok(IsNull::Yes);
        }
        binary::write(self.0, ty, out)?;
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A value that comes.
struct Taken(Cell);

impl<'a> FromSql<'a> for Taken {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Fault> {
        Ok(Taken(binary::read(ty, raw)?))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Fault> {
        Ok(Taken(Cell::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn cells(row: &tokio_postgres::Row, before: u64) -> Result<Vec<Cell>, Failure> {
    let columns = row.columns().iter().enumerate();
    columns
        .map(|(at, column)| {
            row.try_get::<_, Taken>(at)
                .map(|taken| taken.0)
                .map_err(|error| failed(error).at(Some(before), Some(column.name().to_owned())))
        })
        .collect()
}

/// The type of values here, where a column has that type there.
fn type_of(ty: &Type, modifier: i32, depth: usize) -> DataType {
    match ty.kind() {
        Kind::Domain(inner) => return type_of(inner, modifier, depth),
        Kind::Array(item) => {
            let mut data_type = type_of(item, modifier, 1);
            for _ in 0..depth.max(1) {
                data_type = DataType::List(Arc::new(Field::new("element", data_type, true)));
            }
            return data_type;
        }
        _ => {}
    }
    match *ty {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 | Type::OID => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::NUMERIC => {
            // As the server packs them: precision above, scale in eleven bits below.
            let packed = modifier - 4;
            let precision = u8::try_from((packed >> 16) & 0xffff).unwrap_or(u8::MAX);
            let scale = i8::try_from(packed & 0x7ff).unwrap_or(i8::MAX);
            match modifier >= 4
                && (1..=38).contains(&precision)
                && scale.unsigned_abs() <= precision
            {
                true => DataType::Decimal128(precision, scale),
                false => DataType::Decimal128(38, 18),
            }
        }
        Type::BYTEA => DataType::Binary,
        Type::DATE => DataType::Date32,
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        _ => DataType::Utf8,
    }
}

impl PgSession {
    async fn rows(&self, sql: &str, values: &[Cell]) -> Result<Vec<Vec<Cell>>, Failure> {
        let statement = self.client.prepare(sql).await.map_err(failed)?;
        let params: Vec<Param<'_>> = values.iter().map(Param).collect();
        let params: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        let rows = self.client.query(&statement, &params).await.map_err(failed)?;
        rows.iter().map(|row| cells(row, 0)).collect()
    }

    /// How deep the arrays of a column are: the catalog tells, or a value where it does not.
    async fn depth(&self, table: Option<u32>, column: Option<i16>) -> Result<usize, Failure> {
        let (Some(table), Some(column)) = (table, column) else { return Ok(1) };
        let sql = "SELECT attndims::int8, attname::text, attrelid::regclass::text \
                   FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND attnum = $2";
        let values = [Cell::Int(table.into()), Cell::Int(column.into())];
        let rows = self.rows(sql, &values).await?;
        let Some([depth, name, table]) = rows.first().and_then(|row| row.first_chunk::<3>()) else {
            return Ok(1);
        };
        let depth = depth.as_int().unwrap_or_default();
        if depth > 0 {
            return Ok(usize::try_from(depth).unwrap_or(1));
        }
        let (name, table) =
            (name.as_text().unwrap_or_default(), table.as_text().unwrap_or_default());
        let name = quoted(POSTGRESQL, name);
        // The table's name comes quoted from the server.
        let sql = format!(
            "SELECT array_ndims({name})::int8 FROM {table} WHERE array_ndims({name}) IS NOT NULL LIMIT 1"
        );
        let rows = self.rows(&sql, &[]).await?;
        let depth = rows.first().and_then(|row| row.first()?.as_int()).unwrap_or(1);
        Ok(usize::try_from(depth).unwrap_or(1))
    }

    async fn loading_types(&mut self, table: &str, names: &str) -> Result<Vec<Type>, Failure> {
        if let Some((known, types)) = &self.loading
            && known == table
        {
            return Ok(types.clone());
        }
        let sql = format!("SELECT {names} FROM {table} WHERE 1 = 0");
        let statement = self.client.prepare(&sql).await.map_err(failed)?;
        let types: Vec<Type> =
            statement.columns().iter().map(|column| column.type_().clone()).collect();
        self.loading = Some((table.to_owned(), types.clone()));
        Ok(types)
    }
}

#[async_trait]
impl Session for PgSession {
    async fn execute(&mut self, sql: &str, values: &[Cell]) -> Result<u64, Failure> {
        if values.is_empty() {
            let messages = self.client.simple_query(sql).await.map_err(failed)?;
            let touched = messages.iter().rev().find_map(|message| match message {
                SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
                _ => None,
            });
            return Ok(touched.unwrap_or_default());
        }
        let statement = self.client.prepare(sql).await.map_err(failed)?;
        let params: Vec<Param<'_>> = values.iter().map(Param).collect();
        let params: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        self.client.execute(&statement, &params).await.map_err(failed)
    }

    async fn query(&mut self, sql: &str, values: &[Cell]) -> Result<Vec<Vec<Cell>>, Failure> {
        self.rows(sql, values).await
    }

    async fn describe(&mut self, sql: &str) -> Result<Vec<Column>, Failure> {
        let statement = self.client.prepare(sql).await.map_err(failed)?;
        let mut columns = Vec::new();
        for column in statement.columns() {
            let (ty, modifier) = (column.type_(), column.type_modifier());
            let by_text = !binary::is_known(ty);
            let depth = match ty.kind() {
                Kind::Array(_) if !by_text => {
                    self.depth(column.table_oid(), column.column_id()).await?
                }
                _ => 1,
            };
            let declared = if by_text {
                let sql = "SELECT format_type($1, $2)";
                let values = [Cell::Int(ty.oid().into()), Cell::Int(modifier.into())];
                let rows = self.rows(sql, &values).await?;
                let declared = rows.first().and_then(|row| row.first()?.as_text());
                declared.unwrap_or(ty.name()).to_owned()
            } else {
                ty.name().to_owned()
            };
            let data_type = if by_text { DataType::Utf8 } else { type_of(ty, modifier, depth) };
            columns.push(Column { name: column.name().to_owned(), data_type, declared, by_text });
        }
        Ok(columns)
    }

    async fn load(
        &mut self,
        table: &str,
        columns: &[Column],
        rows: &RecordBatch,
    ) -> Result<(), Failure> {
        let names = quoted_list(POSTGRESQL, columns.iter().map(|column| column.name.as_str()));
        let types = self.loading_types(table, &names).await?;
        let sql = format!("COPY {table} ({names}) FROM STDIN (FORMAT BINARY)");
        // All of it before the first byte is sent: a value that does not fit costs no statement.
        let mut parts: Vec<Bytes> = Vec::new();
        let mut out = BytesMut::with_capacity(PART);
        out.put_slice(COPY_HEADER);
        let fields = i16::try_from(types.len())
            .map_err(|_| Failure::refused("a table has no so many columns"))?;
        for row in 0..rows.num_rows() {
            out.put_i16(fields);
            for ((array, ty), column) in rows.columns().iter().zip(&types).zip(columns) {
                cell_at(array, row)
                    .and_then(|cell| binary::write_field(&cell, ty, &mut out))
                    .map_err(|why| {
                        Failure::refused(why).at(Some(row as u64), Some(column.name.clone()))
                    })?;
            }
            if out.len() >= PART {
                parts.push(out.split().freeze());
                out.reserve(PART);
            }
        }
        out.put_i16(-1);
        parts.push(out.freeze());
        let copy = self.client.copy_in::<_, Bytes>(&sql).await.map_err(failed)?;
        futures::pin_mut!(copy);
        for part in parts {
            copy.feed(part).await.map_err(failed)?;
        }
        copy.finish().await.map_err(failed)?;
        Ok(())
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
        tokio::spawn(async move {
            if let Err(failure) =
                send_rows(&self.client, &sql, &values, &columns, &schema, fetch, &sender).await
            {
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

async fn send_rows(
    client: &Client,
    sql: &str,
    values: &[Cell],
    columns: &[Column],
    schema: &SchemaRef,
    fetch: usize,
    sender: &mpsc::Sender<Result<RecordBatch, Failure>>,
) -> Result<(), Failure> {
    let statement = client.prepare(sql).await.map_err(failed)?;
    let params: Vec<Param<'_>> = values.iter().map(Param).collect();
    let params = params.iter().map(|param| param as &(dyn ToSql + Sync));
    let rows = client.query_raw(&statement, params).await.map_err(failed)?;
    futures::pin_mut!(rows);
    let mut held = Rows::new(schema, columns, fetch);
    let mut count = 0;
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        let batch = held.add(cells(&row, count)?)?;
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
