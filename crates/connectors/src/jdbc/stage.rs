//! Staging: the rows of one partition into a table that nobody looks at.

use super::database::Session;
use super::failure::{Failure, FailureKind};
use super::names::TableName;
use super::sink::{Detail, JdbcSink};
use super::staging;
use super::target::Fitted;
use crate::file_sink::content::RowHasher;
use crate::file_sink::plan_failed;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{
    DataType, Decimal128Type, DurationMicrosecondType, Field, Int32Type, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, Schema,
    TimeUnit,
};
use futures::StreamExt;
use onefold_connector::{Attempt, RowStream, StagedOutput};
use onefold_storage::crash::{CrashPoint, crash_point};
use onefold_types::{Error, Result, Totals};
use std::sync::Arc;

/// One partition on its way.
pub(crate) struct Stager<'a> {
    sink: &'a JdbcSink,
    fitted: Arc<Fitted>,
    attempt: &'a Attempt,
    partition: u32,
    table: TableName,
    created: bool,
    /// Rows so far, with those that were refused.
    seen: u64,
    refused: super::refused::Refused,
}

/// Rows for the content hash, which knows no spans of time: those are numbers there.
fn with_plain_spans(batch: &RecordBatch) -> Result<RecordBatch> {
    let spans = |data_type: &DataType| {
        matches!(data_type, DataType::Interval(_) | DataType::Duration(TimeUnit::Microsecond))
    };
    if !batch.schema_ref().fields().iter().any(|field| spans(field.data_type())) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        match column.data_type() {
            DataType::Interval(IntervalUnit::YearMonth) => {
                let months = column.as_primitive::<IntervalYearMonthType>();
                Arc::new(months.reinterpret_cast::<Int32Type>())
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let spans = column.as_primitive::<IntervalMonthDayNanoType>();
                let packed = |span: IntervalMonthDayNano| {
                    let days = (i128::from(span.months) << 32) + i128::from(span.days);
                    (days << 64) + i128::from(span.nanoseconds)
                };
                Arc::new(spans.unary::<_, Decimal128Type>(packed))
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                let micros = column.as_primitive::<DurationMicrosecondType>();
                Arc::new(micros.reinterpret_cast::<Int64Type>())
            }
            _ => Arc::clone(column),
        }
    });
    let columns: Vec<ArrayRef> = columns.collect();
    let fields = batch.schema_ref().fields().iter().zip(&columns);
    let fields = fields
        .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true))
        .collect::<Vec<_>>();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| Error::internal("rows have no content hash").because(error))
}

impl<'a> Stager<'a> {
    pub(crate) fn new(
        sink: &'a JdbcSink,
        attempt: &'a Attempt,
        partition: u32,
    ) -> Result<Stager<'a>> {
        let nonce = u16::try_from(uuid::Uuid::new_v4().as_u128() & 0xffff).unwrap_or_default();
        let name = staging::name(attempt, &sink.table(), partition, nonce);
        let table = sink.options.table.beside(&name);
        let refused = super::refused::Refused::default();
        let fitted = sink.fitted()?;
        Ok(Stager { sink, fitted, attempt, partition, table, created: false, seen: 0, refused })
    }

    /// Reads the rows to their end.
    ///
    /// # Errors
    /// Invalid: a row does not fit, or the database refuses it. Unavailable: the database is gone.
    pub(crate) async fn run(mut self, mut rows: RowStream) -> Result<StagedOutput> {
        let mut hasher = RowHasher::new("");
        let mut totals = Totals::default();
        let (mut held, mut count): (Vec<RecordBatch>, usize) = (Vec::new(), 0);
        let most = self.sink.options.batch_size;
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(plan_failed)?;
            totals = totals.plus(hasher.totals(&with_plain_spans(&batch)?)?);
            let mut from = 0;
            while from < batch.num_rows() {
                let taken = (batch.num_rows() - from).min(most.saturating_sub(count).max(1));
                held.push(batch.slice(from, taken));
                from += taken;
                count += taken;
                if count >= most {
                    self.flush(&std::mem::take(&mut held)).await?;
                    count = 0;
                }
            }
        }
        if count > 0 {
            self.flush(&held).await?;
        }
        let refused = self.refused.store(self.sink, self.attempt, self.partition).await?;
        let detail = Detail {
            table: self.created.then(|| self.table.last().to_owned()),
            rows: self.seen - self.refused.count(),
            refused,
        };
        let detail = serde_json::to_value(detail)
            .map_err(|error| Error::internal("staged output is no JSON").because(error))?;
        Ok(StagedOutput { partition: self.partition, totals, detail })
    }

    fn failed(&self, mut failure: Failure) -> Error {
        failure.row = failure.row.map(|row| row + self.seen);
        failure.nothing_done(format!(
            "rows of batch {} for table {} were not staged (partition {})",
            self.attempt.batch, self.sink.options.table, self.partition
        ))
    }

    async fn flush(&mut self, held: &[RecordBatch]) -> Result<()> {
        let Some(first) = held.first() else { return Ok(()) };
        let rows = concat_batches(&first.schema(), held)
            .map_err(|error| Error::internal("rows of a batch differ in columns").because(error))?;
        let mut lent = self.sink.pool.take().await.map_err(|it| self.failed(it))?;
        if !self.created {
            let sql = self.fitted.plan.create_stage(&self.table, !self.sink.follows);
            self.sink.state().staged.entry(*self.attempt).or_default().push(self.table.clone());
            lent.session().execute(&sql, &[]).await.map_err(|it| self.failed(it))?;
            self.created = true;
        }
        let rows = self.arranged(&rows)?;
        self.load(lent.session(), &rows).await?;
        lent.give_back();
        self.seen += rows.num_rows() as u64;
        crash_point(CrashPoint::StageDuring);
        Ok(())
    }

    /// Loads rows; those that are refused are put aside if that was asked for.
    async fn load(&mut self, session: &mut dyn Session, rows: &RecordBatch) -> Result<()> {
        let columns = self.fitted.plan.staged_columns();
        let table = self.table.quoted(self.fitted.plan.dialect);
        let mut parts = vec![(0, rows.num_rows())];
        while let Some((from, to)) = parts.pop() {
            if from >= to {
                continue;
            }
            let part = rows.slice(from, to - from);
            let outcome = match self.null_key(&part) {
                Some(failure) => Err(failure),
                None => session.load(&table, &columns, &part).await,
            };
            let Err(mut failure) = outcome else { continue };
            failure.row = failure.row.map(|row| row + from as u64);
            let aside = self.sink.options.dead_letters.is_some();
            if !aside || failure.kind != FailureKind::Refused {
                return Err(self.failed(failure));
            }
            let named = failure.row.and_then(|row| usize::try_from(row).ok());
            let named = named.filter(|row| (from..to).contains(row));
            match named.or((to - from == 1).then_some(from)) {
                Some(row) => {
                    let place = self.seen + row as u64;
                    self.refused.add(rows, &columns, row, place, &failure)?;
                    parts.push((row + 1, to));
                    parts.push((from, row));
                }
                None => {
                    let middle = from + (to - from) / 2;
                    parts.push((middle, to));
                    parts.push((from, middle));
                }
            }
        }
        Ok(())
    }

    /// The first row whose key is null: it would never be found again.
    fn null_key(&self, rows: &RecordBatch) -> Option<Failure> {
        for key in &self.fitted.keys {
            let place = self.fitted.order.iter().position(|at| at == key)?;
            let column = rows.column(place);
            if column.null_count() == 0 {
                continue;
            }
            let row = (0..column.len()).find(|row| column.is_null(*row)).map(|row| row as u64);
            let name = self.fitted.plan.columns.get(place).map(|it| it.name.clone());
            let text = "a key of option upsertKeys is NULL, which is equal to no other";
            return Some(Failure::refused(text).at(row, name));
        }
        None
    }

    /// The staged columns: the rows' own in the order of the statement, and the row's place.
    fn arranged(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let internal = |error| Error::internal("rows cannot be staged").because(error);
        let mut fields = Vec::new();
        let mut columns: Vec<ArrayRef> = Vec::new();
        for at in &self.fitted.order {
            let column = rows.columns().get(*at).ok_or_else(|| {
                Error::internal("the rows of a batch do not have the query's columns")
            })?;
            let column = match column.data_type() {
                DataType::Dictionary(_, value) => cast(column, value).map_err(internal)?,
                _ => Arc::clone(column),
            };
            fields.push(Field::new(format!("c{at}"), column.data_type().clone(), true));
            columns.push(column);
        }
        let first = i64::try_from(self.seen).unwrap_or(i64::MAX);
        let last = first.saturating_add(i64::try_from(rows.num_rows()).unwrap_or(i64::MAX));
        fields.push(Field::new("seq", DataType::Int64, false));
        columns.push(Arc::new(Int64Array::from_iter_values(first..last)));
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(internal)
    }
}
