//! Rows that the database refuses: found, named, and put aside when that was asked for.

use super::cell::{Cell, cell_at};
use super::database::{Column, Session};
use super::dialect::Dialect;
use super::failure::{Failure, FailureKind};
use super::names::{TableName, quoted_list};
use super::sink::{Detail, JdbcSink};
use super::staging;
use super::statements::{SEQ, Stage, WritePlan};
use arrow::array::RecordBatch;
use onefold_connector::Attempt;
use onefold_types::{Error, Result};
use serde_json::{Map, Value, json};

/// Refused rows of a partition that are held until the others are staged.
const MOST: usize = 100_000;

/// The columns of a table of refused rows.
const COLUMNS: [&str; 7] =
    ["query_id", "batch_id", "partition_id", "row_nr", "column_name", "reason", "row_json"];

/// A row that was refused.
#[derive(Debug)]
struct Row {
    place: u64,
    column: Option<String>,
    reason: String,
    content: String,
}

/// The refused rows of one partition.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    rows: Vec<Row>,
}

impl Refused {
    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Puts a row aside.
    ///
    /// # Errors
    /// Invalid: there are too many.
    pub(crate) fn add(
        &mut self,
        rows: &RecordBatch,
        columns: &[Column],
        row: usize,
        place: u64,
        failure: &Failure,
    ) -> Result<()> {
        if self.rows.len() >= MOST {
            return Err(Error::invalid(format!(
                "more than {MOST} rows of one partition are refused, the last one with: {failure}; \
                 something else than single rows is wrong"
            )));
        }
        let cells = rows.columns().iter().map(|column| cell_at(column, row).unwrap_or(Cell::Null));
        let named = columns.iter().map(|column| column.name.as_str()).zip(cells);
        let content = content(named.filter(|(name, _)| *name != SEQ));
        let (column, reason) = (failure.column.clone(), failure.text.clone());
        self.rows.push(Row { place, column, reason, content });
        Ok(())
    }

    /// Stages the rows for the table of refused rows; the staging table's name, if there are any.
    pub(crate) async fn store(
        &self,
        sink: &JdbcSink,
        attempt: &Attempt,
        partition: u32,
    ) -> Result<Option<String>> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let failed = |failure: Failure| failure.nothing_done("refused rows were not staged");
        let name = format!("{}d", staging::name(attempt, &sink.table(), partition, 0));
        let table = sink.options.table.beside(&name);
        sink.state().staged.entry(*attempt).or_default().push(table.clone());
        let dialect = sink.pool.database.dialect();
        let mut lent = sink.pool.take().await.map_err(failed)?;
        let session = lent.session();
        let drop = format!("DROP TABLE IF EXISTS {}", table.quoted(dialect));
        session.execute(&drop, &[]).await.map_err(failed)?;
        session.execute(&creation(dialect, &table), &[]).await.map_err(failed)?;
        session.execute("BEGIN", &[]).await.map_err(failed)?;
        for row in &self.rows {
            insert(session, dialect, &table, attempt, partition, row).await.map_err(failed)?;
        }
        session.execute("COMMIT", &[]).await.map_err(failed)?;
        lent.give_back();
        Ok(Some(name))
    }
}

/// A row as JSON, for people.
fn content<'a>(cells: impl Iterator<Item = (&'a str, Cell)>) -> String {
    let map: Map<String, Value> =
        cells.map(|(name, cell)| (name.to_owned(), shown(&cell))).collect();
    Value::Object(map).to_string()
}

fn shown(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Bool(value) => json!(value),
        Cell::Int(value) => json!(value),
        Cell::UInt(value) => json!(value),
        Cell::Float(value) if value.is_finite() => json!(value),
        Cell::Double(value) if value.is_finite() => json!(value),
        Cell::Float(value) => json!(value.to_string()),
        Cell::Double(value) => json!(value.to_string()),
        Cell::Decimal(value) => json!(value.to_string()),
        // The table that it goes to may not take a NUL either.
        Cell::Text(text) => json!(text.replace('\0', "\u{fffd}")),
        Cell::Bytes(bytes) => {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            json!(hex.concat())
        }
        Cell::Date(days) => json!(super::times::date(*days)),
        Cell::Timestamp(micros) => json!(super::times::timestamp(*micros)),
        Cell::Interval(months, days, micros) => {
            json!(super::times::interval(*months, *days, *micros))
        }
        Cell::List(items) => Value::Array(items.iter().map(shown).collect()),
    }
}

/// The statement of a table of refused rows.
pub(crate) fn creation(dialect: &dyn Dialect, table: &TableName) -> String {
    let text = dialect.short_text();
    let long = if dialect.quote() == "`" { "LONGTEXT CHARACTER SET utf8mb4" } else { "TEXT" };
    let types = [text, "BIGINT", "BIGINT", "BIGINT", text, long, long];
    let columns: Vec<String> =
        COLUMNS.iter().zip(types).map(|(name, of)| format!("{name} {of}")).collect();
    format!(
        "CREATE TABLE {} ({}) {}",
        table.quoted(dialect),
        columns.join(", "),
        dialect.table_options()
    )
    .trim_end()
    .to_owned()
}

async fn insert(
    session: &mut dyn Session,
    dialect: &dyn Dialect,
    table: &TableName,
    attempt: &Attempt,
    partition: u32,
    row: &Row,
) -> Result<(), Failure> {
    let places: Vec<String> = (1..=COLUMNS.len()).map(|at| dialect.placeholder(at)).collect();
    let sql = format!(
        "INSERT INTO {} ({}) VALUES ({})",
        table.quoted(dialect),
        COLUMNS.join(", "),
        places.join(", ")
    );
    let number = |value: u64| Cell::Int(i64::try_from(value).unwrap_or(i64::MAX));
    let values = [
        Cell::text(attempt.query.to_string()),
        number(attempt.batch.0),
        number(partition.into()),
        number(row.place),
        row.column.as_deref().map_or(Cell::Null, Cell::text),
        Cell::text(row.reason.replace('\0', "\u{fffd}")),
        Cell::text(row.content.as_str()),
    ];
    session.execute(&sql, &values).await.map(|_| ())
}

/// Within the transaction that publishes: the staged refused rows go to their table.
pub(crate) async fn publish(
    sink: &JdbcSink,
    session: &mut dyn Session,
    stages: &[(Stage, Detail)],
) -> Result<(), Failure> {
    let Some(dead) = &sink.options.dead_letters else { return Ok(()) };
    let dialect = sink.pool.database.dialect();
    for name in stages.iter().filter_map(|(_, detail)| detail.refused.as_deref()) {
        let columns = COLUMNS.join(", ");
        let sql = format!(
            "INSERT INTO {} ({columns}) SELECT {columns} FROM {}",
            dead.quoted(dialect),
            sink.options.table.beside(name).quoted(dialect)
        );
        session.execute(&sql, &[]).await?;
    }
    Ok(())
}

/// Moves the rows of a stage that the database takes, in ever smaller parts, within a transaction
/// whose last savepoint is `onefold_rows`. `moves` is the statement for the places from one up to
/// another. Without a table for refused rows the first one that is refused is the failure.
///
/// # Errors
/// The failure of the first refused row, with its place; or of the connection.
pub(crate) async fn isolate(
    sink: &JdbcSink,
    session: &mut dyn Session,
    plan: &WritePlan,
    (stage, partition): (&Stage, u32),
    attempt: &Attempt,
    moves: impl Fn(u64, u64) -> String,
) -> Result<(), Failure> {
    // Places of staged rows may have gaps, where rows were put aside before.
    let dialect = sink.pool.database.dialect();
    let last = format!("SELECT MAX({SEQ}) FROM {}", stage.table.quoted(dialect));
    let last = session.query(&last, &[]).await?;
    let last = last.first().and_then(|row| row.first()?.as_int()).unwrap_or_default();
    let end = u64::try_from(last).unwrap_or_default().saturating_add(1);
    let mut parts = vec![(0, end)];
    while let Some((from, to)) = parts.pop() {
        session.execute("SAVEPOINT onefold_rows", &[]).await?;
        let outcome = session.execute(&moves(from, to), &[]).await;
        let Err(failure) = outcome else {
            session.execute("RELEASE SAVEPOINT onefold_rows", &[]).await?;
            continue;
        };
        if failure.kind != FailureKind::Refused {
            return Err(failure);
        }
        session.execute("ROLLBACK TO SAVEPOINT onefold_rows", &[]).await?;
        session.execute("RELEASE SAVEPOINT onefold_rows", &[]).await?;
        if to - from > 1 {
            let middle = from + (to - from) / 2;
            parts.push((middle, to));
            parts.push((from, middle));
            continue;
        }
        let column = failure.column.clone();
        let Some(dead) = &sink.options.dead_letters else {
            let text = format!("{} (partition {partition})", failure.text);
            return Err(Failure { text, ..failure }.at(Some(from), column));
        };
        let content = staged_row(session, plan, stage, from).await?;
        let row = Row { place: from, column, reason: failure.text, content };
        insert(session, dialect, dead, attempt, partition, &row).await?;
    }
    Ok(())
}

/// A staged row as JSON.
async fn staged_row(
    session: &mut dyn Session,
    plan: &WritePlan,
    stage: &Stage,
    place: u64,
) -> Result<String, Failure> {
    let names: Vec<&str> = plan.columns.iter().map(|column| column.name.as_str()).collect();
    let sql = format!(
        "SELECT {} FROM {} WHERE {SEQ} = {place}",
        quoted_list(plan.dialect, names.iter().copied()),
        stage.table.quoted(plan.dialect)
    );
    let rows = session.query(&sql, &[]).await?;
    let cells = rows.into_iter().next().unwrap_or_default();
    Ok(content(names.into_iter().zip(cells)))
}
