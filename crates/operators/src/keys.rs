//! Keys of state as bytes, and back.
//!
//! A key is the arrow-row encoding of its columns, made [normal](normalise) first, so that keys
//! that Spark takes for equal have equal bytes: −0.0 is 0.0, one NaN is like another, also inside
//! structs and lists, and NULL equals NULL. The encoding of several columns is the encodings of
//! each one after the other, and none is the beginning of another, so the bytes of the first
//! columns are a prefix that can be scanned.

mod expr;
mod layout;
mod normalise;

use crate::failure;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use onefold_state::{KeyGroup, key_group};
use std::sync::Arc;

pub(crate) use expr::{event_time, normal, window_start};
pub(crate) use layout::KeyLayout;
pub use normalise::normalise;

/// Encodes rows of some columns as bytes that compare as the rows do, and decodes them.
#[derive(Debug)]
pub struct RowCodec {
    converter: RowConverter,
    types: Vec<DataType>,
}

impl RowCodec {
    /// For columns of these types, where nested fields count as nullable and a dictionary as its
    /// values.
    ///
    /// # Errors
    /// Plan error: a type has no encoding.
    pub fn try_new(types: impl IntoIterator<Item = DataType>) -> Result<Self> {
        let types: Vec<DataType> = types.into_iter().map(|data_type| plain(&data_type)).collect();
        let fields: Vec<SortField> = types.iter().cloned().map(SortField::new).collect();
        Ok(RowCodec { converter: RowConverter::new(fields)?, types })
    }

    /// For the columns of a schema.
    ///
    /// # Errors
    /// As [`RowCodec::try_new`].
    pub fn of(schema: &Schema) -> Result<Self> {
        RowCodec::try_new(schema.fields().iter().map(|field| field.data_type().clone()))
    }

    /// The bytes of each row, the columns as they are: for values of state.
    ///
    /// # Errors
    /// When the columns are not of the codec's types.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<Rows> {
        let fitted = columns.iter().zip(&self.types).map(|(column, wanted)| fit(column, wanted));
        let fitted = fitted.collect::<Result<Vec<_>>>()?;
        if fitted.len() != columns.len() || fitted.len() != self.types.len() {
            return Err(failure::internal(format!(
                "{} columns are encoded as {}",
                columns.len(),
                self.types.len()
            )));
        }
        Ok(self.converter.convert_columns(&fitted)?)
    }

    /// The bytes of each row, the columns made normal first: for keys of state.
    ///
    /// # Errors
    /// As [`RowCodec::encode`].
    pub fn encode_keys(&self, columns: &[ArrayRef]) -> Result<Rows> {
        let columns = columns.iter().map(normalise).collect::<Result<Vec<_>>>()?;
        self.encode(&columns)
    }

    /// The columns of encoded rows.
    ///
    /// # Errors
    /// Corrupt text; bytes that no codec of these types wrote may also panic, so give only what a
    /// checksum has vouched for.
    pub fn decode<'a>(&self, rows: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        let parser = self.converter.parser();
        Ok(self.converter.convert_rows(rows.into_iter().map(|row| parser.parse(row)))?)
    }

    /// The bytes of one row of values, made normal.
    ///
    /// # Errors
    /// As [`RowCodec::encode`].
    pub fn encode_one(&self, values: &[ScalarValue]) -> Result<Vec<u8>> {
        let columns = values.iter().map(ScalarValue::to_array).collect::<Result<Vec<_>>>()?;
        let rows = self.encode_keys(&columns)?;
        Ok(rows.row(0).data().to_vec())
    }

    /// The types of the columns.
    #[must_use]
    pub fn types(&self) -> &[DataType] {
        &self.types
    }
}

/// The values of expressions over a batch, as arrays.
pub(crate) fn evaluate(exprs: &[PhysicalExprRef], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let rows = batch.num_rows();
    exprs.iter().map(|expr| expr.evaluate(batch)?.into_array(rows)).collect()
}

/// The encoded keys of a batch, each with its key group. No expressions: every key is empty and
/// they are all in one group.
#[derive(Debug)]
pub struct Keys {
    rows: Option<Rows>,
    groups: Vec<KeyGroup>,
}

impl Keys {
    /// The keys of a batch by expressions and their codec.
    ///
    /// # Errors
    /// What evaluating and encoding give.
    pub fn of(exprs: &[PhysicalExprRef], codec: &RowCodec, batch: &RecordBatch) -> Result<Self> {
        if exprs.is_empty() {
            return Ok(Keys::empty(batch.num_rows()));
        }
        Keys::encode(codec, &evaluate(exprs, batch)?)
    }

    /// That many empty keys.
    #[must_use]
    pub fn empty(rows: usize) -> Self {
        Keys { rows: None, groups: vec![key_group(&[]); rows] }
    }

    /// The keys in these columns, of which there is at least one.
    ///
    /// # Errors
    /// As [`RowCodec::encode`].
    pub fn encode(codec: &RowCodec, columns: &[ArrayRef]) -> Result<Self> {
        let rows = codec.encode_keys(columns)?;
        let groups = rows.iter().map(|row| key_group(row.data())).collect();
        Ok(Keys { rows: Some(rows), groups })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The key groups, in row order.
    #[must_use]
    pub fn groups(&self) -> &[KeyGroup] {
        &self.groups
    }

    /// Key group and bytes of a row, which must be there.
    #[must_use]
    pub fn get(&self, row: usize) -> (KeyGroup, &[u8]) {
        let group = self.groups.get(row).copied().unwrap_or_default();
        (group, self.rows.as_ref().map_or(&[][..], |rows| rows.row(row).data()))
    }

    /// Key group and bytes of each row.
    pub fn iter(&self) -> impl Iterator<Item = (KeyGroup, &[u8])> {
        (0..self.len()).map(|row| self.get(row))
    }
}

/// The columns of a family as they stand in its spec: every one nullable and without metadata, so
/// that the state's schema does not depend on which sources had rows or who named a column.
pub(crate) fn state_schema(fields: impl IntoIterator<Item = FieldRef>) -> SchemaRef {
    let fields: Vec<Field> = fields
        .into_iter()
        .map(|field| Field::new(field.name(), plain(field.data_type()), true))
        .collect();
    Arc::new(Schema::new(fields))
}

/// A type with every nested field nullable and without metadata; a dictionary is its values.
pub(crate) fn plain(data_type: &DataType) -> DataType {
    let inner =
        |field: &FieldRef| Arc::new(Field::new(field.name(), plain(field.data_type()), true));
    match data_type {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::List(field) => DataType::List(inner(field)),
        DataType::LargeList(field) => DataType::LargeList(inner(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(inner(field), *size),
        DataType::Dictionary(_, values) => plain(values),
        other => other.clone(),
    }
}

/// What the columns of these expressions are called and typed in `schema`.
pub(crate) fn key_fields(
    exprs: &[(PhysicalExprRef, String)],
    schema: &Schema,
) -> Result<Vec<FieldRef>> {
    let field = |(expr, name): &(PhysicalExprRef, String)| {
        let field = expr.return_field(schema)?;
        Ok(Arc::new(field.as_ref().clone().with_name(name)))
    };
    exprs.iter().map(field).collect()
}

/// The column as that type: a cast where more than the trimmings of nested fields differs.
pub(crate) fn fit(column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    if column.data_type() == wanted {
        return Ok(Arc::clone(column));
    }
    let fitted = normalise::refit(column, wanted)?;
    if fitted.data_type() == wanted {
        return Ok(fitted);
    }
    Ok(arrow::compute::cast(&fitted, wanted)?)
}

/// The rows in `columns`, cast to `schema` where their nested types differ in names, nullability or
/// metadata only.
pub(crate) fn batch_of(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = arrow::record_batch::RecordBatchOptions::new().with_row_count(Some(rows));
    let fields = schema.fields().iter();
    let fitted = columns.iter().zip(fields).map(|(column, field)| fit(column, field.data_type()));
    let columns = fitted.collect::<Result<Vec<_>>>()?;
    if columns.len() != schema.fields().len() {
        return Err(failure::internal(format!(
            "{} columns were made where the schema has {}",
            columns.len(),
            schema.fields().len()
        )));
    }
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
