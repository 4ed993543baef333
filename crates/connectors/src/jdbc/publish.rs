//! Publishing: one transaction that checks who may, moves the rows, and writes the mark.

use super::database::Session;
use super::dialect::{Dialect, Isolation};
use super::failure::{Failure, FailureKind};
use super::marks::Entry;
use super::refused;
use super::sink::{Detail, JdbcSink};
use super::statements::{Part, Stage};
use chrono::{DateTime, SecondsFormat};
use onefold_connector::{Attempt, Fence, StagedOutput};
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_types::{Error, Generation, Mark, Published, Result, Totals};

/// What the transaction found.
enum Found {
    /// The rows are moved and the mark is written; only COMMIT is left.
    Ready,
    /// The batch is there already.
    There(Published),
    /// A newer driver owns the query.
    Fenced(Generation),
}

/// Begins a transaction.
pub(crate) async fn begin(
    session: &mut dyn Session,
    dialect: &dyn Dialect,
    isolation: Isolation,
) -> Result<(), Failure> {
    for sql in dialect.begin(isolation) {
        session.execute(&sql, &[]).await?;
    }
    Ok(())
}

pub(crate) fn fenced(table: &str, place: &str, owner: Generation) -> Error {
    Error::fenced(format!(
        "generation {owner} writes table {table} of {place}: a newer driver runs this query; stop \
         this one"
    ))
}

impl JdbcSink {
    fn mark_of(&self, attempt: &Attempt, totals: Totals) -> Published {
        let Attempt { query, batch, generation } = *attempt;
        let mark = Mark { query: Some(query), batch, generation: Some(generation) };
        Published { mark, totals: Some(totals) }
    }

    /// Publishes a batch.
    ///
    /// # Errors
    /// Fenced; Invalid: the database refuses rows; Unavailable: nothing happened; Unknown: it may
    /// have happened, and the database cannot be asked.
    pub(super) async fn publish_batch(
        &self,
        attempt: &Attempt,
        outputs: &[StagedOutput],
        totals: Totals,
        fence: &dyn Fence,
    ) -> Result<Published> {
        let stages = self.stages(outputs)?;
        fence.check().await?;
        let failed = |failure: Failure| self.not_published(attempt, failure);
        let mut lent = self.pool.take().await.map_err(failed)?;
        let session = lent.session();
        begin(session, self.pool.database.dialect(), self.options.isolation)
            .await
            .map_err(failed)?;
        let partitions: Vec<u32> = outputs.iter().map(|output| output.partition).collect();
        let found = self.prepare(session, attempt, &stages, &partitions, totals).await;
        let ended = match found {
            Ok(Found::Ready) => {
                crash_point(CrashPoint::PublishBeforeMark);
                match session.execute("COMMIT", &[]).await {
                    Ok(_) => {
                        crash_point(CrashPoint::PublishMarked);
                        self.forget_stages(attempt, &stages);
                        lent.give_back();
                        return Ok(self.mark_of(attempt, totals));
                    }
                    Err(failure) => {
                        drop(lent);
                        return self.look(attempt, totals, failure).await;
                    }
                }
            }
            Ok(Found::There(published)) => Ok(published),
            Ok(Found::Fenced(owner)) => {
                Err(fenced(&self.table(), &self.pool.database.place(), owner))
            }
            Err(failure) => Err(failure),
        };
        // A session that cannot even go back is not used again.
        if session.execute("ROLLBACK", &[]).await.is_ok() {
            lent.give_back();
        }
        ended
    }

    fn not_published(&self, attempt: &Attempt, failure: Failure) -> Error {
        failure.nothing_done(format!(
            "batch {} was not written into table {} of {}",
            attempt.batch,
            self.options.table,
            self.pool.database.place()
        ))
    }

    /// Everything of the transaction but its end.
    async fn prepare(
        &self,
        session: &mut dyn Session,
        attempt: &Attempt,
        stages: &[(Stage, Detail)],
        partitions: &[u32],
        totals: Totals,
    ) -> Result<Found> {
        let failed = |failure: Failure| self.not_published(attempt, failure);
        if let Some(found) = self.decide(session, attempt).await.map_err(failed)? {
            return Ok(found);
        }
        self.move_rows(session, attempt, stages, partitions).await?;
        self.remember(session, attempt, totals).await.map_err(failed)?;
        let dialect = self.pool.database.dialect();
        if dialect.tables_in_transactions() {
            for (stage, detail) in stages {
                let refused = detail.refused.as_deref().map(|it| self.options.table.beside(it));
                let own = detail.table.is_some().then(|| stage.table.clone());
                for table in own.into_iter().chain(refused) {
                    let sql = format!("DROP TABLE {}", table.quoted(dialect));
                    session.execute(&sql, &[]).await.map_err(failed)?;
                }
            }
        }
        Ok(Found::Ready)
    }

    /// Whether the batch may be published: who owns the query, and what is there.
    async fn decide(
        &self,
        session: &mut dyn Session,
        attempt: &Attempt,
    ) -> Result<Option<Found>, Failure> {
        if self.options.one_batch {
            let Some((app, number)) = &self.options.txn else { return Ok(None) };
            let newest = self.marks.newest_of(session, app).await?;
            let there = newest.is_some_and(|newest| newest >= *number);
            return Ok(there.then(|| Found::There(self.mark_of(attempt, Totals::default()))));
        }
        let owner = self.marks.owner(session, &self.query.to_string()).await?;
        if let Some(owner) = owner.filter(|owner| *owner > self.generation) {
            return Ok(Some(Found::Fenced(owner)));
        }
        if owner.is_none() {
            return Err(Failure::refused(format!(
                "the row of query {} is gone from table {}: somebody deleted it while the query \
                 ran; start the query again, which checks what is there",
                self.query, self.marks.table
            )));
        }
        let there = self.marks.of(session, self.query, attempt.batch).await?;
        Ok(there.map(Found::There))
    }

    async fn move_rows(
        &self,
        session: &mut dyn Session,
        attempt: &Attempt,
        stages: &[(Stage, Detail)],
        partitions: &[u32],
    ) -> Result<()> {
        let failed = |failure: Failure| self.not_published(attempt, failure);
        let fitted = self.fitted()?;
        if !fitted.plan.tells_rows() {
            for (stage, _) in stages {
                self.check_whole(session, attempt, stage).await?;
            }
        }
        let own: Vec<Stage> = stages.iter().map(|(stage, _)| stage.clone()).collect();
        for (nth, step) in fitted.plan.moves(&own).into_iter().enumerate() {
            let Some((at, expected)) = step.moves else {
                self.bring_together(session, attempt, (nth, &step.sql), &own, partitions).await?;
                continue;
            };
            let Some(stage) = own.get(at) else { continue };
            session.execute("SAVEPOINT onefold_stage", &[]).await.map_err(failed)?;
            match session.execute(&step.sql, &[]).await {
                Ok(rows) if rows == expected => {}
                // Some are lost, or the table has a trigger that takes rows away.
                Ok(_) => self.check_whole(session, attempt, stage).await?,
                Err(failure) if failure.kind == FailureKind::Refused => {
                    let back = "ROLLBACK TO SAVEPOINT onefold_stage";
                    session.execute(back, &[]).await.map_err(failed)?;
                    let partition = partitions.get(at).copied().unwrap_or_default();
                    let plan = &fitted.plan;
                    let moves = |from, to| plan.insert(&stage.table, Some((from, to)));
                    refused::isolate(self, session, plan, (stage, partition), attempt, moves)
                        .await
                        .map_err(failed)?;
                }
                Err(failure) => return Err(failed(failure)),
            }
        }
        refused::publish(self, session, stages).await.map_err(failed)?;
        let Some(old) = &fitted.replaces else { return Ok(()) };
        for sql in fitted.plan.dialect.take_place(&fitted.plan.table, old) {
            session.execute(&sql, &[]).await.map_err(|it| failed(hinted(it)))?;
        }
        Ok(())
    }

    /// The n-th statement that concerns rows of several stages; if the database refuses one, the rows
    /// that it takes, and the others go to their table, or the first of them is the failure.
    async fn bring_together(
        &self,
        session: &mut dyn Session,
        attempt: &Attempt,
        (nth, sql): (usize, &str),
        own: &[Stage],
        partitions: &[u32],
    ) -> Result<()> {
        let failed = |failure: Failure| self.not_published(attempt, failure);
        session.execute("SAVEPOINT onefold_stage", &[]).await.map_err(failed)?;
        let Err(failure) = session.execute(sql, &[]).await else { return Ok(()) };
        let hinted = hinted(failure.clone());
        let fitted = self.fitted()?;
        let plan = &fitted.plan;
        // Only a row can be put aside: not a table that does not fit, nor one that is to be emptied.
        if failure.kind != FailureKind::Refused || hinted.text != failure.text || plan.tells_rows()
        {
            return Err(failed(hinted));
        }
        session.execute("ROLLBACK TO SAVEPOINT onefold_stage", &[]).await.map_err(failed)?;
        for (at, stage) in own.iter().enumerate().filter(|(_, stage)| stage.rows > 0) {
            let moves = |from, to| {
                let part = Part { stage: at, from, to };
                let steps = plan.moves_of(own, Some(part));
                steps.into_iter().nth(nth).map(|step| step.sql).unwrap_or_default()
            };
            let partition = partitions.get(at).copied().unwrap_or_default();
            refused::isolate(self, session, plan, (stage, partition), attempt, moves)
                .await
                .map_err(failed)?;
        }
        Ok(())
    }

    /// Whether all rows of a staging table are there: one that is not logged is empty after a crash of
    /// the server.
    async fn check_whole(
        &self,
        session: &mut dyn Session,
        attempt: &Attempt,
        stage: &Stage,
    ) -> Result<()> {
        if stage.rows == 0 {
            return Ok(());
        }
        let sql =
            format!("SELECT COUNT(*) FROM {}", stage.table.quoted(self.pool.database.dialect()));
        let rows = session.query(&sql, &[]).await.map_err(|it| self.not_published(attempt, it))?;
        let rows = rows.first().and_then(|row| row.first()?.as_int()).unwrap_or_default();
        if u64::try_from(rows).ok() == Some(stage.rows) {
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "{rows} of {} staged rows of batch {} are left in {}: the database lost them when it \
             stopped; the batch runs again",
            stage.rows, attempt.batch, stage.table
        )))
    }

    async fn remember(
        &self,
        session: &mut dyn Session,
        attempt: &Attempt,
        totals: Totals,
    ) -> Result<(), Failure> {
        let query = self.query.to_string();
        let (query, batch) = match (&self.options.txn, self.options.one_batch) {
            (Some((app, number)), true) => {
                self.marks.forget(session, app, *number).await?;
                (app.as_str(), *number)
            }
            (None, true) => return Ok(()),
            (_, false) => (query.as_str(), i64::try_from(attempt.batch.0).unwrap_or(i64::MAX)),
        };
        let at = DateTime::from_timestamp_millis(self.clock.now_ms()).unwrap_or_default();
        let entry = Entry {
            query,
            batch,
            generation: attempt.generation,
            table: &self.table(),
            totals,
            at: at.to_rfc3339_opts(SecondsFormat::Millis, true),
        };
        self.marks.insert(session, &entry).await
    }

    /// The reply to COMMIT is lost, or was no: asks the table of marks what happened. The lock on
    /// the query's row makes the question wait until the lost transaction has ended.
    async fn look(&self, attempt: &Attempt, totals: Totals, failure: Failure) -> Result<Published> {
        if self.options.one_batch && self.options.txn.is_none() {
            let text = format!(
                "whether the rows were written into table {} of {} is not known: {failure}; look \
                 there before writing them again",
                self.options.table,
                self.pool.database.place()
            );
            return match failure.kind {
                FailureKind::Refused => Err(self.not_published(attempt, failure)),
                _ => Err(Error::unknown(text)),
            };
        }
        let unknown = |again: Failure| {
            Error::unknown(format!(
                "whether batch {} was written into table {} of {} is not known: {failure}; and it \
                 could not be asked: {again}",
                attempt.batch,
                self.options.table,
                self.pool.database.place()
            ))
        };
        let mut lent = self.pool.take().await.map_err(unknown)?;
        let session = lent.session();
        begin(session, self.pool.database.dialect(), self.options.isolation)
            .await
            .map_err(unknown)?;
        let found = self.decide(session, attempt).await.map_err(unknown)?;
        let _ = session.execute("ROLLBACK", &[]).await;
        lent.give_back();
        match found {
            // Of one write, the totals are known here.
            Some(Found::There(_)) if self.options.one_batch => Ok(self.mark_of(attempt, totals)),
            Some(Found::There(published)) => Ok(published),
            Some(Found::Fenced(owner)) => {
                Err(fenced(&self.table(), &self.pool.database.place(), owner))
            }
            Some(Found::Ready) | None => Err(self.not_published(attempt, failure)),
        }
    }

    /// The staging tables of a published batch are gone with it, or are garbage.
    fn forget_stages(&self, attempt: &Attempt, stages: &[(Stage, Detail)]) {
        let mut state = self.state();
        state.replacement = None;
        if self.pool.database.dialect().tables_in_transactions()
            && let Some(staged) = state.staged.get_mut(attempt)
        {
            staged.retain(|table| {
                !stages.iter().any(|(stage, detail)| {
                    stage.table == *table || detail.refused.as_deref() == Some(table.last())
                })
            });
        }
    }
}

fn hinted(failure: Failure) -> Failure {
    let hint = if failure.text.contains("(2BP01)") {
        "; with option truncate=true the table stays and only its rows go"
    } else if failure.text.contains("ON CONFLICT specification")
        || failure.text.contains("ON CONFLICT clause does not match")
    {
        "; give the table a primary key or a unique index on the columns of upsertKeys"
    } else {
        ""
    };
    Failure { text: format!("{}{hint}", failure.text), ..failure }
}
