//! How a query's rows become files of a table: which columns, of which types, in which folders, and
//! what the table's own description becomes.

use super::fit::{Change, fit};
use super::options::WriteOptions;
use crate::file_sink::columns::Columns;
use crate::file_sink::encode::Encoding;
use crate::file_sink::options::{FileOptions, Format};
use crate::file_sink::partitioning::NullFolder;
use arrow::array::RecordBatch;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use deltalake_core::kernel::engine::arrow_conversion::{TryIntoArrow, TryIntoKernel};
use deltalake_core::kernel::{EagerSnapshot, StructField, StructType, contains_timestampntz};
use futures::StreamExt;
use onefold_connector::RowStream;
use onefold_types::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a file where the table says nothing.
const TARGET_BYTES: u64 = 256 << 20;
/// Spark's default: a checkpoint of the log after so many commits.
const CHECKPOINT_INTERVAL: u64 = 10;

/// What a writer needs of a table that is there.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) columns: StructType,
    pub(crate) partition_by: Vec<String>,
    pub(crate) settings: BTreeMap<String, String>,
    metadata: Value,
    /// Whether times without a zone may be written.
    plain_times: bool,
}

impl Facts {
    /// Of a table as it was read.
    ///
    /// # Errors
    /// Internal: its description is no JSON.
    pub(crate) fn of(snapshot: &EagerSnapshot) -> Result<Facts> {
        let metadata = snapshot.metadata();
        let columns = snapshot.schema().as_ref().clone();
        Ok(Facts {
            partition_by: metadata.partition_columns().to_vec(),
            settings: metadata.configuration().clone().into_iter().collect(),
            metadata: serde_json::to_value(metadata)
                .map_err(|error| Error::internal("a table's description").because(error))?,
            plain_times: contains_timestampntz(columns.fields())
                || snapshot.protocol().writer_features().is_some_and(|features| {
                    features.iter().any(|feature| feature.to_string() == "timestampNtz")
                }),
            columns,
        })
    }

    /// After how many commits the log gets a checkpoint.
    pub(crate) fn checkpoint_interval(&self) -> u64 {
        let text = self.settings.get("delta.checkpointInterval");
        text.and_then(|text| text.parse().ok()).filter(|it| *it > 0).unwrap_or(CHECKPOINT_INTERVAL)
    }
}

/// What the table's description becomes with the next commit.
#[derive(Debug, Clone)]
pub(crate) struct Becomes {
    pub(crate) protocol: Option<Value>,
    pub(crate) metadata: Value,
}

/// How rows become files.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) encoding: Encoding,
    pub(crate) partition_by: Vec<String>,
    pub(crate) becomes: Option<Becomes>,
    /// Bytes of a file at most, about.
    pub(crate) cut_at: u64,
    /// Columns with statistics.
    pub(crate) stats_columns: usize,
    /// The columns that are written, in the order of the table.
    target: SchemaRef,
    /// Where each of them stands in the rows.
    from: Vec<usize>,
    /// Those of them that must not be null.
    required: Vec<usize>,
}

/// The columns of rows with the types that files hold.
fn plain(rows: &Schema) -> Result<SchemaRef> {
    Ok(Columns::split(Format::Parquet, rows, &[])?.file)
}

fn to_kernel(rows: &Schema) -> Result<StructType> {
    rows.try_into_kernel().map_err(|error: arrow::error::ArrowError| {
        Error::invalid("a Delta table does not hold rows of these columns; cast them")
            .because(error)
    })
}

impl Shape {
    /// Fits rows into a table, or into a new one where there is none.
    ///
    /// # Errors
    /// Invalid, naming the column: rows and table do not fit.
    pub(crate) fn new(
        facts: Option<&Facts>,
        rows: &Schema,
        options: &WriteOptions,
        now_ms: i64,
    ) -> Result<Shape> {
        let plain = plain(rows)?;
        let incoming = to_kernel(&plain)?;
        let (table, becomes, partition_by) = match facts {
            None => {
                let becomes = new_table(&incoming, options, now_ms)?;
                (incoming, Some(becomes), options.partition_by.clone())
            }
            Some(facts) => joined(facts, &incoming, options)?,
        };
        let settings = facts.map_or(&options.settings, |facts| &facts.settings);
        let (mut fields, mut from, mut required) = (Vec::new(), Vec::new(), Vec::new());
        for column in table.fields() {
            let Some((at, field)) = plain
                .fields()
                .iter()
                .enumerate()
                .find(|(_, field)| field.name().eq_ignore_ascii_case(column.name()))
            else {
                missing(column, &partition_by)?;
                continue;
            };
            if !column.is_nullable() {
                required.push(fields.len());
            }
            fields.push(target(column, field)?);
            from.push(at);
        }
        let target = Arc::new(Schema::new(fields));
        let mut columns = Columns::split(Format::Parquet, &target, &partition_by)?;
        columns.null_folder = NullFolder::Apart;
        let number = |name: &str| settings.get(name).map(|text| text.trim().to_owned());
        let stats_columns = match number("delta.dataSkippingNumIndexedCols") {
            None => super::stats::COLUMNS,
            Some(text) => text.parse().unwrap_or(usize::MAX),
        };
        let cut_at = number("delta.targetFileSize")
            .and_then(|text| onefold_connector::options::parse_bytes(&text))
            .unwrap_or(TARGET_BYTES);
        let files = Arc::new(FileOptions::clone(&options.files));
        Ok(Shape {
            encoding: Encoding::new(columns, files, "UTC")?,
            partition_by,
            becomes,
            cut_at,
            stats_columns,
            target,
            from,
            required,
        })
    }

    /// Whether files written for the other shape are files of this one.
    pub(crate) fn takes_files_of(&self, other: &Shape) -> bool {
        self.target == other.target && self.partition_by == other.partition_by
    }

    /// The rows with the table's columns.
    pub(crate) fn fitted(self: &Arc<Self>, rows: RowStream) -> RowStream {
        let shape = Arc::clone(self);
        let fitted = rows.map(move |rows| {
            shape.fit(&rows?).map_err(|error| DataFusionError::External(Box::new(error)))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.target), fitted))
    }

    fn fit(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let mut columns = Vec::with_capacity(self.from.len());
        for (at, field) in self.from.iter().zip(self.target.fields()) {
            let column = rows
                .columns()
                .get(*at)
                .ok_or_else(|| Error::internal(format!("rows without `{}`", field.name())))?;
            if self.required.contains(&columns.len()) && column.null_count() > 0 {
                return Err(Error::invalid(format!(
                    "a value of column `{}` is NULL, but the table's column is NOT NULL; filter \
                     such rows out, or give them a value",
                    field.name()
                )));
            }
            columns.push(cast_with_options(column, field.data_type(), &options).map_err(
                |error| {
                    Error::invalid(format!(
                        "a value of column `{}` does not fit {}",
                        field.name(),
                        field.data_type()
                    ))
                    .because(error)
                },
            )?);
        }
        RecordBatch::try_new(Arc::clone(&self.target), columns)
            .map_err(|error| Error::internal("rows do not fit the table's columns").because(error))
    }
}

/// The type in which a column is written: the rows' own where it is the table's.
fn target(column: &StructField, rows: &Field) -> Result<Field> {
    let unfit = |error: arrow::error::ArrowError| {
        Error::invalid(format!("column `{}` has a type that is not known", column.name()))
            .because(error)
    };
    let table: Field = column.try_into_arrow().map_err(unfit)?;
    let one = |field: &Field| -> Result<StructType> {
        to_kernel(&Schema::new(vec![Field::new("c", field.data_type().clone(), true)]))
    };
    let same = one(&table)? == one(rows)?;
    let kind = if same { rows.data_type() } else { table.data_type() };
    Ok(Field::new(column.name(), kind.clone(), true))
}

/// A column of the table that the rows do not have is null in them.
fn missing(column: &StructField, partition_by: &[String]) -> Result<()> {
    let what = if partition_by.contains(column.name()) {
        "the table is partitioned by"
    } else if !column.is_nullable() {
        "is NOT NULL in the table"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "the rows lack column `{}`, which {what}; add it to them",
        column.name()
    )))
}

/// A table that is there, with rows of these columns.
fn joined(
    facts: &Facts,
    incoming: &StructType,
    options: &WriteOptions,
) -> Result<(StructType, Option<Becomes>, Vec<String>)> {
    let replaces = options.change() == Change::Replace;
    let given = &options.partition_by;
    let same = given.len() == facts.partition_by.len()
        && given.iter().zip(&facts.partition_by).all(|(a, b)| a.eq_ignore_ascii_case(b));
    if !given.is_empty() && !same && !replaces {
        return Err(Error::invalid(format!(
            "the table is partitioned by ({}), but partitionBy says ({}); leave partitionBy out, or \
             replace the table with mode overwrite and option overwriteSchema=true",
            facts.partition_by.join(", "),
            given.join(", ")
        )));
    }
    let fitted = fit(&facts.columns, incoming, options.change())?;
    let partition_by = if replaces && !same { given.clone() } else { facts.partition_by.clone() };
    let changed = fitted.changed || partition_by != facts.partition_by;
    if fitted.changed && contains_timestampntz(fitted.table.fields()) && !facts.plain_times {
        return Err(Error::invalid(
            "the rows bring a column of type timestamp_ntz, which the table does not have as a \
             feature; cast it to timestamp, or add the feature timestampNtz to the table",
        ));
    }
    let becomes = changed
        .then(|| {
            let mut metadata = facts.metadata.clone();
            if let Some(it) = metadata.as_object_mut() {
                it.insert("schemaString".to_owned(), json!(schema_string(&fitted.table)?));
                it.insert("partitionColumns".to_owned(), json!(partition_by));
            }
            Ok::<_, Error>(Becomes { protocol: None, metadata })
        })
        .transpose()?;
    Ok((fitted.table, becomes, partition_by))
}

fn schema_string(columns: &StructType) -> Result<String> {
    serde_json::to_string(columns)
        .map_err(|error| Error::internal("columns are no JSON").because(error))
}

/// The description of a table that does not exist yet.
fn new_table(columns: &StructType, options: &WriteOptions, now_ms: i64) -> Result<Becomes> {
    let protocol = if contains_timestampntz(columns.fields()) {
        json!({
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["timestampNtz"],
            "writerFeatures": ["appendOnly", "invariants", "timestampNtz"],
        })
    } else {
        json!({"minReaderVersion": 1, "minWriterVersion": 2})
    };
    let mut partition_by = Vec::with_capacity(options.partition_by.len());
    for name in &options.partition_by {
        let column = columns.fields().find(|it| it.name().eq_ignore_ascii_case(name));
        // Another place tells that it is missing.
        partition_by.push(column.map_or(name, |column| column.name()).clone());
    }
    let metadata = json!({
        "id": uuid::Uuid::new_v4().to_string(),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema_string(columns)?,
        "partitionColumns": partition_by,
        "configuration": options.settings,
        "createdTime": now_ms,
    });
    Ok(Becomes { protocol: Some(protocol), metadata })
}
