//! Reading a version of the state as Arrow record batches, for people and for SQL.

use crate::batch::partitions_of;
use crate::merge::{Merge, Pieces, Wanted};
use crate::piece::ReadError;
use crate::place::{Place, Written};
use crate::restore::{Conversions, replace};
use crate::schema::{Codec, read_schema};
use crate::state_ref::{OperatorRef, Piece, StateRef};
use crate::{FamilyReport, OperatorId, OperatorReport, OperatorSpec, partition_of};
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use onefold_storage::Store;
use onefold_types::{BatchId, Error, Result};
use std::sync::Arc;

/// Rows of a record batch.
const ROWS: usize = 8_192;

/// Reads one version of a state from its files; needs no running query and changes nothing.
#[derive(Debug)]
pub struct StateReader {
    store: Arc<dyn Store>,
    at: StateRef,
    specs: Vec<OperatorSpec>,
}

impl StateReader {
    /// # Errors
    /// Corrupt, when the schema file is missing or damaged.
    pub async fn open(store: Arc<dyn Store>, at: &StateRef) -> Result<Self> {
        let specs = read_schema(store.as_ref(), at.schema).await?;
        Ok(StateReader { store, at: at.clone(), specs })
    }

    /// The version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.at.version
    }

    /// The operators as the batch that left this version declared them.
    #[must_use]
    pub fn operators(&self) -> &[OperatorSpec] {
        &self.specs
    }

    /// Rows and bytes of each operator at this version. Reads no further file.
    #[must_use]
    pub fn report(&self) -> Vec<OperatorReport> {
        let with_ref = |spec| Some((spec, self.operator_ref(spec)?));
        let report = |(spec, of): (&OperatorSpec, &OperatorRef)| {
            let mut report = OperatorReport {
                id: spec.id,
                label: spec.label.clone(),
                rows: 0,
                bytes: 0,
                partitions: partitions_of(spec, self.at.partitions),
                families: Vec::new(),
            };
            for (family, named) in of.families.iter().zip(&spec.families) {
                report.rows += if named.counted { family.rows } else { 0 };
                report.bytes += family.bytes;
                let (name, rows, bytes) = (family.name.clone(), family.rows, family.bytes);
                report.families.push(FamilyReport { name, rows, bytes });
            }
            report
        };
        self.specs.iter().filter_map(with_ref).map(report).collect()
    }

    /// The rows of a family: columns `key` and `value` (structs) and `partition_id`.
    ///
    /// # Errors
    /// Invalid, when there is no such operator or family.
    pub fn rows(&self, operator: OperatorId, family: usize) -> Result<StateRows> {
        self.read(operator, family, self.at.pieces.clone(), None)
    }

    /// What one batch did to a family: columns `batch_id`, `change_type` (`update` or `delete`),
    /// `key`, `value` (null if deleted) and `partition_id`.
    ///
    /// # Errors
    /// Invalid, when there is no such operator or family, or when this version does not hold the
    /// changes of that batch apart from others.
    pub fn changes(
        &self,
        operator: OperatorId,
        family: usize,
        batch: BatchId,
    ) -> Result<StateRows> {
        if batch.0 >= self.at.version {
            let version = self.at.version;
            let text = format!("version {version} of the state is older than batch {batch}");
            return Err(Error::invalid(text));
        }
        let all = self.at.pieces.iter();
        let mut covering = all.filter(|piece| (piece.from..piece.to).contains(&batch.0)).cloned();
        let pieces = match covering.next() {
            // The batch wrote nothing.
            None => Vec::new(),
            Some(piece) if piece.is_changelog() => vec![piece],
            Some(piece) => changelog_in(&piece, batch)?,
        };
        self.read(operator, family, pieces, Some(batch))
    }

    fn operator_ref(&self, spec: &OperatorSpec) -> Option<&OperatorRef> {
        self.at.operators.iter().find(|of| of.label == spec.label)
    }

    fn read(
        &self,
        operator: OperatorId,
        family: usize,
        pieces: Vec<Piece>,
        batch: Option<BatchId>,
    ) -> Result<StateRows> {
        let index = self.specs.iter().position(|spec| spec.id == operator);
        let spec = index.and_then(|index| self.specs.get(index));
        let named = spec.and_then(|spec| spec.families.get(family));
        let (Some(index), Some(spec), Some(named)) = (index, spec, named) else {
            let version = self.at.version;
            return Err(Error::invalid(format!(
                "version {version} of the state has no operator {operator} with family {family}"
            )));
        };
        let place = Place { operator: index, family };
        let since = self.operator_ref(spec).map_or(0, |of| of.since);
        Ok(StateRows {
            store: Arc::clone(&self.store),
            specs: self.specs.clone(),
            at: self.at.clone(),
            place,
            since,
            pieces,
            batch,
            schema: columns(&named.key, &named.value, batch.is_some()),
            key: Codec::new(&named.key)?,
            value: Codec::new(&named.value)?,
            merge: None,
            given: 0,
        })
    }
}

fn changelog_in(snapshot: &Piece, batch: BatchId) -> Result<Vec<Piece>> {
    let covers = |part: &&Piece| (part.from..part.to).contains(&batch.0);
    match snapshot.made_from.iter().find(covers) {
        None if snapshot.made_from.is_empty() => Err(merged_away(snapshot, batch)),
        // The batch wrote nothing.
        None => Ok(Vec::new()),
        Some(part) if part.is_changelog() => Ok(vec![part.clone()]),
        Some(_) => Err(merged_away(snapshot, batch)),
    }
}

fn merged_away(snapshot: &Piece, batch: BatchId) -> Error {
    Error::invalid(format!(
        "the changes of batch {batch} were merged with those of others into {}; read them at an \
         older version",
        snapshot.path
    ))
}

fn columns(key: &Schema, value: &Schema, changes: bool) -> SchemaRef {
    let structure = |name, schema: &Schema, nullable| {
        Field::new(name, DataType::Struct(schema.fields().clone()), nullable)
    };
    let mut fields = Vec::new();
    if changes {
        fields.push(Field::new("batch_id", DataType::Int64, false));
        fields.push(Field::new("change_type", DataType::Utf8, false));
    }
    fields.push(structure("key", key, false));
    fields.push(structure("value", value, changes));
    fields.push(Field::new("partition_id", DataType::Int32, false));
    Arc::new(Schema::new(fields))
}

/// Rows of a family, a record batch at a time, by key group and key.
#[derive(Debug)]
pub struct StateRows {
    store: Arc<dyn Store>,
    specs: Vec<OperatorSpec>,
    at: StateRef,
    place: Place,
    since: u64,
    pieces: Vec<Piece>,
    /// Set when the changes of this batch are read.
    batch: Option<BatchId>,
    schema: SchemaRef,
    key: Codec,
    value: Codec,
    merge: Option<Merge>,
    given: u64,
}

impl StateRows {
    /// The columns.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// Corrupt, when a file is damaged and nothing can take its place.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            match self.gather().await {
                Ok(rows) if rows.is_empty() => return Ok(None),
                Ok(rows) => {
                    self.given += rows.len() as u64;
                    return self.record_batch(&rows).map(Some);
                }
                // What takes its place gives the same rows in the same order.
                Err(ReadError::Damaged { path, error }) => {
                    replace(&mut self.pieces, &path, error)?;
                    self.merge = None;
                }
                Err(ReadError::Other(error)) => return Err(error),
            }
        }
    }

    async fn gather(&mut self) -> Result<Vec<Written>, ReadError> {
        if self.merge.is_none() {
            let mut merge = self.start().await?;
            for _ in 0..self.given {
                merge.next().await?;
            }
            self.merge = Some(merge);
        }
        let mut rows = Vec::new();
        if let Some(merge) = &mut self.merge {
            while rows.len() < ROWS
                && let Some(row) = merge.next().await?
            {
                rows.push(row.owned());
            }
        }
        Ok(rows)
    }

    async fn start(&self) -> Result<Merge, ReadError> {
        let Place { operator, family } = self.place;
        let spec = self.specs.get(operator);
        let named = spec.and_then(|spec| spec.families.get(family));
        let (Some(spec), Some(named)) = (spec, named) else {
            return Err(ReadError::Other(Error::internal("the family is gone")));
        };
        let (store, schema) = (&self.store, self.at.schema);
        let conversions = Conversions::load(store, &self.pieces, schema, &self.specs).await?;
        let pieces = Pieces::open(store, &self.pieces, self.at.partitions).await?;
        let wanted = Wanted { label: &spec.label, family: &named.name, since: self.since };
        let convert = |schema| conversions.of(schema, self.place);
        pieces.merge(wanted, self.batch.is_some(), convert).await
    }

    fn record_batch(&self, rows: &[Written]) -> Result<RecordBatch> {
        let keys = self.key.decode(rows.iter().map(|row| &*row.key))?;
        let there: Vec<bool> = rows.iter().map(|row| row.value.is_some()).collect();
        let removed = self.value.null_row()?;
        let value = |row: &'_ Written| row.value.clone().unwrap_or_else(|| removed.clone());
        let values: Vec<Box<[u8]>> = rows.iter().map(value).collect();
        let values = self.value.decode(values.iter().map(|value| &**value))?;
        let single = self.specs.get(self.place.operator).is_some_and(|spec| spec.single);
        let partitions = if single { 1 } else { self.at.partitions };
        let partition =
            |row: &Written| i32::try_from(partition_of(row.group, partitions)).unwrap_or_default();
        let mut columns: Vec<ArrayRef> = Vec::new();
        if let Some(batch) = self.batch {
            let batch = i64::try_from(batch.0).unwrap_or(i64::MAX);
            columns.push(Arc::new(Int64Array::from(vec![batch; rows.len()])));
            let kinds = there.iter().map(|there| if *there { "update" } else { "delete" });
            columns.push(Arc::new(StringArray::from_iter_values(kinds)));
        }
        let nulls = self.batch.map(|_| NullBuffer::from(there));
        columns.push(structure(self.key.schema(), keys, None, rows.len())?);
        columns.push(structure(self.value.schema(), values, nulls, rows.len())?);
        columns.push(Arc::new(Int32Array::from_iter_values(rows.iter().map(partition))));
        RecordBatch::try_new(self.schema(), columns).map_err(unreadable)
    }
}

fn structure(
    schema: &Schema,
    columns: Vec<ArrayRef>,
    nulls: Option<NullBuffer>,
    rows: usize,
) -> Result<ArrayRef> {
    let fields = schema.fields().clone();
    let array = StructArray::try_new_with_length(fields, columns, nulls, rows);
    Ok(Arc::new(array.map_err(unreadable)?))
}

fn unreadable(error: arrow::error::ArrowError) -> Error {
    Error::internal("rows of state do not fit their schema").because(error)
}
