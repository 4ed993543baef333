//! A table that only grows, as a stream: ranges of a column whose values grow with the rows.
//!
//! A range is `(from, to]` of the column, so that it can be read again, as long as rows are only added
//! and each has a larger value than all that were read. Two things watch over that: in PostgreSQL a
//! range ends before the first row that a transaction which was still open may come before, and the
//! rows of a range are counted when it is chosen and when it is read.

use super::Definition;
use super::scan;
use super::split::Condition;
use crate::jdbc::cell::Cell;
use crate::jdbc::failure::Failure;
use crate::jdbc::names::quoted;
use arrow::datatypes::DataType;
use async_trait::async_trait;
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{LatestOffset, ReadLimit, ScanRequest, Source};
use onefold_types::{Error, Offset, OffsetRange, Result};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// A place in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Position {
    /// All rows up to this value were read: a number, days or microseconds since 1970-01-01.
    /// `None` before the first row.
    up_to: Option<i64>,
}

/// What an intent keeps of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    /// Its rows.
    rows: u64,
}

/// The source of one query.
#[derive(Debug)]
pub(super) struct Growing {
    definition: Arc<Definition>,
    /// Where an available-now run ends.
    pinned: Mutex<Option<Position>>,
}

impl Position {
    fn parse(offset: &Offset) -> Result<Position> {
        serde_json::from_str(offset.json()).map_err(|error| {
            Error::corrupt(format!("`{}` is no place in a table's column", offset.json()))
                .because(error)
        })
    }

    fn offset(self) -> Result<Offset> {
        serde_json::to_string(&self)
            .map(Offset::new)
            .map_err(|error| Error::internal("a place is no JSON").because(error))
    }
}

/// Whether values of a column can be places.
pub(super) fn fits(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Timestamp(..)
    )
}

impl Growing {
    pub(super) fn new(definition: Arc<Definition>) -> Growing {
        Growing { definition, pinned: Mutex::default() }
    }

    fn pinned(&self) -> Option<Position> {
        *self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell(&self, value: i64) -> Cell {
        match self.definition.growing.as_ref().map(|column| &column.data_type) {
            Some(DataType::Date32) => Cell::Date(i32::try_from(value).unwrap_or(i32::MAX)),
            Some(DataType::Timestamp(..)) => Cell::Timestamp(value),
            _ => Cell::Int(value),
        }
    }

    fn column(&self) -> String {
        let name = self.definition.growing.as_ref().map_or("", |column| column.name.as_str());
        quoted(self.definition.database.dialect(), name)
    }

    /// The rows behind a place, up to another one if it is given.
    fn range(&self, from: Position, to: Option<Position>) -> Condition {
        let column = self.column();
        let mut texts = vec![format!("{column} IS NOT NULL")];
        let mut values = Vec::new();
        for (sign, value) in [(">", from.up_to), ("<=", to.and_then(|to| to.up_to))] {
            if let Some(value) = value {
                texts.push(format!("{column} {sign} ?"));
                values.push(self.cell(value));
            }
        }
        Condition { text: texts.join(" AND "), values }
    }

    async fn ask(&self, select: &str, condition: Condition) -> Result<Option<Cell>> {
        let definition = &self.definition;
        let dialect = definition.database.dialect();
        let (sql, values) = scan::statement(select, &[], condition, |at| dialect.placeholder(at));
        let failed = |failure: Failure| {
            failure.nothing_done(format!("{} was not asked for rows", definition.what()))
        };
        let mut session = definition.database.connect().await.map_err(failed)?;
        let rows = session.query(&sql, &values).await.map_err(failed)?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()))
    }

    /// The last place that no open transaction may come before; `None` if nothing is new.
    async fn end(&self, from: Position, most: Option<u64>) -> Result<Option<Position>> {
        let column = self.column();
        let mut condition = self.range(from, self.pinned());
        let safe = self.definition.database.dialect().settled_rows();
        if !safe.is_empty() {
            condition.text = format!("{} AND {safe}", condition.text);
        }
        let from_table = &self.definition.from;
        let found = match most {
            None => self.ask(&format!("SELECT MAX({column}) FROM {from_table}"), condition).await?,
            Some(most) => {
                // The last of the first rows; others with the same value come along.
                let dialect = self.definition.database.dialect();
                let inner = format!("SELECT {column} FROM {from_table}");
                let (sql, values) =
                    scan::statement(&inner, &[], condition, |at| dialect.placeholder(at));
                let sql = format!(
                    "SELECT MAX({column}) FROM ({sql} ORDER BY {column} LIMIT {most}) AS onefold_first"
                );
                let failed = |failure: Failure| {
                    failure
                        .nothing_done(format!("{} was not asked for rows", self.definition.what()))
                };
                let mut session = self.definition.database.connect().await.map_err(failed)?;
                let rows = session.query(&sql, &values).await.map_err(failed)?;
                rows.into_iter().next().and_then(|row| row.into_iter().next())
            }
        };
        self.position(found)
    }

    fn position(&self, found: Option<Cell>) -> Result<Option<Position>> {
        let Some(cell) = found.filter(|cell| *cell != Cell::Null) else { return Ok(None) };
        let growing = self.definition.growing.as_ref();
        let data_type = growing.map_or(DataType::Int64, |column| column.data_type.clone());
        // SQLite gives days and times as text.
        let array = crate::jdbc::columns::column(&[cell], &data_type)
            .map_err(|unfit| Error::invalid(format!("{}: {}", self.column(), unfit.why)))?;
        let up_to = match crate::jdbc::cell::cell_at(&array, 0).map_err(Error::invalid)? {
            Cell::Date(days) => Some(i64::from(days)),
            Cell::Timestamp(micros) => Some(micros),
            cell => cell.as_int(),
        };
        Ok(Some(Position { up_to }))
    }

    async fn count(&self, from: Position, to: Position) -> Result<u64> {
        let select = format!("SELECT COUNT(*) FROM {}", self.definition.from);
        let count = self.ask(&select, self.range(from, Some(to))).await?;
        Ok(count.and_then(|cell| cell.as_int()).and_then(|it| u64::try_from(it).ok()).unwrap_or(0))
    }
}

#[async_trait]
impl Source for Growing {
    async fn pin_available(&self) -> Result<()> {
        let end = self.end(Position { up_to: None }, None).await?;
        *self.pinned.lock().unwrap_or_else(PoisonError::into_inner) = end;
        Ok(())
    }

    async fn latest_offset(
        &self,
        start: Option<&Offset>,
        limit: ReadLimit,
    ) -> Result<LatestOffset> {
        let from = match start {
            Some(start) => Position::parse(start)?,
            None => Position { up_to: None },
        };
        let most = match limit {
            ReadLimit::Options => self.definition.options.most,
            ReadLimit::All => None,
        };
        let Some(end) = self.end(from, most).await? else {
            return Ok(LatestOffset { end: start.cloned(), latest: None, note: None });
        };
        let note = Note { rows: self.count(from, end).await? };
        let note = serde_json::to_string(&note)
            .map_err(|error| Error::internal("a note is no JSON").because(error))?;
        Ok(LatestOffset { end: Some(end.offset()?), latest: None, note: Some(note) })
    }

    async fn read(
        &self,
        range: &OffsetRange,
        request: ScanRequest<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let start = range.start.as_ref().map(Position::parse).transpose()?;
        let from = start.unwrap_or(Position { up_to: None });
        let end = range.end.as_ref().map(Position::parse).transpose()?.unwrap_or(from);
        if let Some(note) = &range.note {
            let note: Note = serde_json::from_str(note).map_err(|error| {
                Error::corrupt(format!("`{note}` is no note of a table")).because(error)
            })?;
            let rows = self.count(from, end).await?;
            if rows != note.rows {
                return Err(Error::corrupt(format!(
                    "{} had {} rows in the range of this batch when it was begun, and has {rows} \
                     now: rows of a stream are only added, each with a larger value in column {} \
                     than those before it; put the rows back, or start with a new checkpoint",
                    self.definition.what(),
                    note.rows,
                    self.column()
                )));
            }
        }
        let mut only = self.range(from, Some(end));
        if range.empty() {
            only.text = format!("{} AND 1 = 0", only.text);
        }
        scan::plan(&self.definition, request.projection, request.filters, Some(only))
    }

    async fn release(&self, _: &OffsetRange) -> Result<()> {
        Ok(())
    }
}
