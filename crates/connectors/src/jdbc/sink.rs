//! The sink as the engine drives it: rows go to staging tables, one transaction moves them and
//! writes the mark.

use super::cell::Cell;
use super::failure::Failure;
use super::marks::Marks;
use super::names::TableName;
use super::options::WriteOptions;
use super::pool::Pool;
use super::publish;
use super::stage::Stager;
use super::staging;
use super::statements::Stage;
use super::target::Fitted;
use async_trait::async_trait;
use onefold_connector::{Attempt, Clock, Fence, RowStream, Sink, SinkContext, StagedOutput};
use onefold_types::{BatchId, Error, Generation, Published, QueryId, Result, Totals};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a staged partition says of itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Detail {
    /// The staging table; `None` where there were no rows.
    pub(crate) table: Option<String>,
    /// Rows in it.
    pub(crate) rows: u64,
    /// The staging table of refused rows; `None` where there were none.
    pub(crate) refused: Option<String>,
}

/// A table of a database opened by one query.
#[derive(Debug)]
pub(crate) struct JdbcSink {
    pub(super) pool: Pool,
    pub(super) marks: Marks,
    pub(super) options: WriteOptions,
    pub(super) query: QueryId,
    pub(super) generation: Generation,
    /// Another sink of the query decides; staged rows must outlive the server's crash then.
    pub(super) follows: bool,
    pub(super) clock: Arc<dyn Clock>,
    /// How rows get into the table; `None` for one that only looks, and for a write that is there
    /// already or must leave alone what is there.
    pub(super) fitted: Option<Arc<Fitted>>,
    pub(super) state: Mutex<State>,
}

/// What the sink remembers between calls.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) mark: Option<Published>,
    /// What each attempt of this process staged.
    pub(super) staged: HashMap<Attempt, Vec<TableName>>,
    /// Staging tables that nobody needs.
    pub(super) garbage: Vec<TableName>,
    /// A new table that did not take the place of another one yet.
    pub(super) replacement: Option<TableName>,
}

impl JdbcSink {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table's name for messages and marks.
    pub(super) fn table(&self) -> String {
        self.options.table.to_string()
    }

    /// Whether there is nothing to write.
    fn skips(&self) -> bool {
        self.options.one_batch && self.fitted.is_none()
    }

    pub(super) fn fitted(&self) -> Result<Arc<Fitted>> {
        self.fitted.clone().ok_or_else(|| Error::internal("a sink that only looks cannot write"))
    }

    /// The tables of what was staged.
    pub(super) fn stages(&self, outputs: &[StagedOutput]) -> Result<Vec<(Stage, Detail)>> {
        let mut stages = Vec::new();
        for output in outputs {
            let detail: Detail =
                serde_json::from_value(output.detail.clone()).map_err(|error| {
                    Error::corrupt("a staged output is none of this sink's").because(error)
                })?;
            let name = detail.table.as_deref().unwrap_or_default();
            let table = self.options.table.beside(name);
            let rows = if detail.table.is_some() { detail.rows } else { 0 };
            stages.push((Stage { table, rows }, detail));
        }
        Ok(stages)
    }

    /// Drops staging tables. What cannot be dropped stays as garbage for the next start.
    pub(super) async fn drop_tables(&self, tables: Vec<TableName>) {
        if tables.is_empty() {
            return;
        }
        let dialect = self.pool.database.dialect();
        let Ok(mut lent) = self.pool.take().await else { return };
        for table in tables {
            let sql = format!("DROP TABLE IF EXISTS {}", table.quoted(dialect));
            if let Err(failure) = lent.session().execute(&sql, &[]).await {
                tracing::warn!(table = %table, error = %failure, "a staging table was not dropped");
                return;
            }
        }
        lent.give_back();
    }

    /// Drops what older drivers of the query staged.
    pub(super) async fn drop_leftovers(&self) -> Result<(), Failure> {
        let dialect = self.pool.database.dialect();
        let table = self.table();
        let like = dialect.tables_like(self.options.table.schema());
        let pattern = Cell::text(format!("{}%", staging::prefix(self.query, &table)));
        let values: Vec<Cell> = [pattern].into_iter().chain(like.more).collect();
        let mut lent = self.pool.take().await?;
        let rows = lent.session().query(&like.sql, &values).await?;
        lent.give_back();
        let old: Vec<TableName> = rows
            .iter()
            .filter_map(|row| row.first()?.as_text())
            .filter(|name| {
                staging::parse(name, self.query, &table)
                    .is_some_and(|(_, generation)| generation < self.generation.0)
            })
            .map(|name| self.options.table.beside(name))
            .collect();
        self.drop_tables(old).await;
        Ok(())
    }

    /// Takes the query for this driver: an older one is refused from now on.
    pub(super) async fn claim(&self, context: &SinkContext) -> Result<()> {
        let place = self.pool.database.place();
        let what = format!("table {} of {place} was not opened", self.marks.table);
        let failed = |failure: Failure| failure.nothing_done(&what);
        let mut lent = self.pool.take().await.map_err(failed)?;
        let query = self.query.to_string();
        let session = lent.session();
        self.marks.create(session).await.map_err(failed)?;
        publish::begin(session, self.pool.database.dialect(), self.options.isolation)
            .await
            .map_err(failed)?;
        let owner = self.marks.owner(session, &query).await.map_err(failed)?;
        if let Some(owner) = owner.filter(|owner| *owner > context.generation) {
            let _ = session.execute("ROLLBACK", &[]).await;
            return Err(publish::fenced(&self.table(), &place, owner));
        }
        if owner != Some(context.generation) {
            let table = self.table();
            let own = self.marks.own(session, &query, &table, owner, context.generation);
            own.await.map_err(|failure| {
                // Two drivers that begin at once: the later one finds the row of the other.
                Error::unavailable(format!("{what}: {failure}"))
            })?;
        }
        session.execute("COMMIT", &[]).await.map_err(failed)?;
        lent.give_back();
        Ok(())
    }
}

#[async_trait]
impl Sink for JdbcSink {
    async fn last_mark(&self) -> Result<Option<Published>> {
        Ok(self.state().mark)
    }

    async fn conceal(&self, _: BatchId) -> Result<()> {
        // Staging tables are nobody's but ours: readers go by the table.
        Ok(())
    }

    async fn stage(
        &self,
        attempt: &Attempt,
        partition: u32,
        rows: RowStream,
    ) -> Result<StagedOutput> {
        if self.skips() {
            return crate::held_rows::drain(partition, rows, |_| ()).await;
        }
        Stager::new(self, attempt, partition)?.run(rows).await
    }

    async fn publish(
        &self,
        attempt: &Attempt,
        outputs: Vec<StagedOutput>,
        fence: &dyn Fence,
    ) -> Result<Published> {
        if self.skips() {
            return Ok(crate::noop::published(attempt, &outputs));
        }
        let totals = outputs.iter().fold(Totals::default(), |sum, it| sum.plus(it.totals));
        let published = self.publish_batch(attempt, &outputs, totals, fence).await?;
        self.state().mark = Some(published);
        Ok(published)
    }

    async fn settle(&self, published: &Published) -> Result<()> {
        let garbage = {
            let mut state = self.state();
            let mut garbage = std::mem::take(&mut state.garbage);
            let done: Vec<Attempt> = state
                .staged
                .keys()
                .filter(|attempt| attempt.batch <= published.mark.batch)
                .copied()
                .collect();
            for attempt in done {
                garbage.extend(state.staged.remove(&attempt).unwrap_or_default());
            }
            garbage
        };
        self.drop_tables(garbage).await;
        Ok(())
    }

    async fn discard(&self, attempt: &Attempt) -> Result<()> {
        let (staged, replacement) = {
            let mut state = self.state();
            (state.staged.remove(attempt).unwrap_or_default(), state.replacement.take())
        };
        self.drop_tables(staged.into_iter().chain(replacement).collect()).await;
        Ok(())
    }

    /// The rows of a batch cannot be told from others in the table: what is compared is the mark
    /// that was written with them.
    async fn audit(&self, batch: BatchId) -> Result<Option<Totals>> {
        let failed = |failure: Failure| failure.nothing_done("the mark was not read");
        let mut lent = self.pool.take().await.map_err(failed)?;
        let found = self.marks.of(lent.session(), self.query, batch).await.map_err(failed)?;
        lent.give_back();
        Ok(found.and_then(|published| published.totals))
    }

    async fn retain(&self, keep_from: BatchId) -> Result<()> {
        let failed = |failure: Failure| failure.nothing_done("old marks were not purged");
        let newest = self.state().mark.map_or(0, |published| published.mark.batch.0);
        let before = i64::try_from(keep_from.0.min(newest)).unwrap_or(i64::MAX);
        let mut lent = self.pool.take().await.map_err(failed)?;
        let query = self.query.to_string();
        self.marks.forget(lent.session(), &query, before).await.map_err(failed)?;
        lent.give_back();
        Ok(())
    }

    fn tells_totals(&self) -> bool {
        true
    }
}
