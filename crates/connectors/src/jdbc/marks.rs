//! The table of marks: what a database remembers of each query, written with its rows.
//!
//! One row with batch -1 tells the driver that owns the query: it is locked by whoever publishes, so
//! that an older driver finds a newer one there and stops. The other rows are batches, the newest
//! ones as long as the checkpoint keeps them.

use super::cell::Cell;
use super::database::Session;
use super::dialect::Dialect;
use super::failure::{Failure, FailureKind};
use super::names::TableName;
use onefold_types::{BatchId, ContentHash, Generation, Mark, Published, QueryId, Totals};
use std::fmt::Write as _;

/// The batch of the row that tells the owner.
const OWNER: i64 = -1;

/// The table of marks, as one query sees it.
#[derive(Debug, Clone)]
pub(crate) struct Marks {
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) table: TableName,
}

/// A mark that another query left for a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub(crate) query: String,
    pub(crate) batch: i64,
}

/// What is remembered of a batch.
#[derive(Debug, Clone)]
pub(crate) struct Entry<'a> {
    /// The query, or the application that numbers its writes.
    pub(crate) query: &'a str,
    pub(crate) batch: i64,
    pub(crate) generation: Generation,
    /// The table that got the rows.
    pub(crate) table: &'a str,
    pub(crate) totals: Totals,
    /// When, for people.
    pub(crate) at: String,
}

fn number(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn count(cell: Option<&Cell>) -> Option<u64> {
    cell.and_then(Cell::as_int).and_then(|value| u64::try_from(value).ok())
}

impl Marks {
    fn sql(&self, text: &str) -> String {
        // `{t}` is the table, `{n}` the n-th value.
        let mut sql = text.replace("{t}", &self.table.quoted(self.dialect));
        for at in 1..=7 {
            let mut name = String::new();
            let _ = write!(name, "{{{at}}}");
            sql = sql.replace(&name, &self.dialect.placeholder(at));
        }
        sql
    }

    /// Whether the table is there.
    pub(crate) async fn exist(&self, session: &mut dyn Session) -> Result<bool, Failure> {
        match session.describe(&self.sql("SELECT query_id FROM {t} WHERE 1 = 0")).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.kind == FailureKind::NoTable => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Makes the table if it is not there.
    pub(crate) async fn create(&self, session: &mut dyn Session) -> Result<(), Failure> {
        if self.exist(session).await? {
            return Ok(());
        }
        let text = self.dialect.short_text();
        let sql = format!(
            "CREATE TABLE {{t}} (query_id {text} NOT NULL, batch_id BIGINT NOT NULL, \
             generation BIGINT NOT NULL, table_name {text} NOT NULL, row_count BIGINT NOT NULL, \
             content VARCHAR(64) NOT NULL, published_at VARCHAR(40) NOT NULL, \
             PRIMARY KEY (query_id, batch_id)) {}",
            self.dialect.table_options()
        );
        match session.execute(self.sql(&sql).trim_end(), &[]).await {
            Ok(_) => Ok(()),
            // Another query was faster.
            Err(_) if self.exist(session).await? => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Within a transaction: locks the query's own row, and tells the driver that owns the query.
    pub(crate) async fn owner(
        &self,
        session: &mut dyn Session,
        query: &str,
    ) -> Result<Option<Generation>, Failure> {
        let sql = format!(
            "SELECT generation FROM {{t}} WHERE query_id = {{1}} AND batch_id = {OWNER}{}",
            self.dialect.for_update()
        );
        let rows = session.query(&self.sql(&sql), &[Cell::text(query)]).await?;
        Ok(rows.first().and_then(|row| count(row.first())).map(Generation))
    }

    /// Within a transaction that locked the row, or found none: this driver owns the query.
    pub(crate) async fn own(
        &self,
        session: &mut dyn Session,
        query: &str,
        table: &str,
        owner: Option<Generation>,
        generation: Generation,
    ) -> Result<(), Failure> {
        if owner.is_none() {
            let entry = Entry {
                query,
                batch: OWNER,
                generation,
                table,
                totals: Totals::default(),
                at: String::new(),
            };
            return self.insert(session, &entry).await;
        }
        let sql = format!(
            "UPDATE {{t}} SET generation = {{1}} WHERE query_id = {{2}} AND batch_id = {OWNER}"
        );
        let values = [number(generation.0), Cell::text(query)];
        session.execute(&self.sql(&sql), &values).await.map(|_| ())
    }

    /// Remembers a batch.
    pub(crate) async fn insert(
        &self,
        session: &mut dyn Session,
        entry: &Entry<'_>,
    ) -> Result<(), Failure> {
        let sql = "INSERT INTO {t} (query_id, batch_id, generation, table_name, row_count, content, \
                   published_at) VALUES ({1}, {2}, {3}, {4}, {5}, {6}, {7})";
        let values = [
            Cell::text(entry.query),
            Cell::Int(entry.batch),
            number(entry.generation.0),
            Cell::text(entry.table),
            number(entry.totals.rows),
            Cell::text(entry.totals.hash.to_string()),
            Cell::text(entry.at.as_str()),
        ];
        session.execute(&self.sql(sql), &values).await.map(|_| ())
    }

    /// The mark of one batch.
    pub(crate) async fn of(
        &self,
        session: &mut dyn Session,
        query: QueryId,
        batch: BatchId,
    ) -> Result<Option<Published>, Failure> {
        let sql = "SELECT batch_id, generation, row_count, content FROM {t} \
                   WHERE query_id = {1} AND batch_id = {2}";
        let values = [Cell::text(query.to_string()), number(batch.0)];
        let rows = session.query(&self.sql(sql), &values).await?;
        rows.first().map(|row| self.published(query, row)).transpose()
    }

    /// The newest mark of a query.
    pub(crate) async fn newest(
        &self,
        session: &mut dyn Session,
        query: QueryId,
    ) -> Result<Option<Published>, Failure> {
        let sql = "SELECT batch_id, generation, row_count, content FROM {t} \
                   WHERE query_id = {1} AND batch_id >= 0 ORDER BY batch_id DESC LIMIT 1";
        let rows = session.query(&self.sql(sql), &[Cell::text(query.to_string())]).await?;
        rows.first().map(|row| self.published(query, row)).transpose()
    }

    /// The newest number that an application wrote.
    pub(crate) async fn newest_of(
        &self,
        session: &mut dyn Session,
        app: &str,
    ) -> Result<Option<i64>, Failure> {
        let sql = "SELECT MAX(batch_id) FROM {t} WHERE query_id = {1}";
        let rows = session.query(&self.sql(sql), &[Cell::text(app)]).await?;
        Ok(rows.first().and_then(|row| row.first()).and_then(Cell::as_int))
    }

    /// A mark that another query left for a table.
    pub(crate) async fn foreign(
        &self,
        session: &mut dyn Session,
        query: QueryId,
        table: &str,
    ) -> Result<Option<Foreign>, Failure> {
        let sql = "SELECT query_id, MAX(batch_id) FROM {t} WHERE table_name = {1} \
                   AND query_id <> {2} AND batch_id >= 0 \
                   AND query_id IN (SELECT query_id FROM {t} WHERE batch_id = -1) \
                   GROUP BY query_id LIMIT 1";
        let values = [Cell::text(table), Cell::text(query.to_string())];
        let rows = session.query(&self.sql(sql), &values).await?;
        Ok(rows.first().and_then(|row| {
            let query = row.first().and_then(Cell::as_text)?.to_owned();
            let batch = row.get(1).and_then(Cell::as_int)?;
            Some(Foreign { query, batch })
        }))
    }

    /// Forgets batches before one.
    pub(crate) async fn forget(
        &self,
        session: &mut dyn Session,
        query: &str,
        before: i64,
    ) -> Result<(), Failure> {
        let sql = "DELETE FROM {t} WHERE query_id = {1} AND batch_id >= 0 AND batch_id < {2}";
        let values = [Cell::text(query), Cell::Int(before)];
        session.execute(&self.sql(sql), &values).await.map(|_| ())
    }

    fn published(&self, query: QueryId, row: &[Cell]) -> Result<Published, Failure> {
        published(query, row).ok_or_else(|| {
            Failure::refused(format!(
                "a mark of query {query} in table {} is damaged: {row:?}; put it back from a backup",
                self.table
            ))
        })
    }
}

fn published(query: QueryId, row: &[Cell]) -> Option<Published> {
    let batch = BatchId(count(row.first())?);
    let generation = count(row.get(1)).map(Generation);
    let rows = count(row.get(2))?;
    let hash = row.get(3).and_then(Cell::as_text)?;
    let hash = ContentHash(u128::from_str_radix(hash, 16).ok()?);
    let mark = Mark { query: Some(query), batch, generation };
    Some(Published { mark, totals: Some(Totals { rows, hash }) })
}
