//! Which columns a file gets, and of which types: those that Spark and other readers know.

use super::options::Format;
use super::partitioning::NullFolder;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use onefold_types::{Error, Result};
use std::sync::Arc;

/// The columns of the rows, split into those in the files and those in the folder names.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    /// The columns of a file, with the types that are written.
    pub(crate) file: SchemaRef,
    /// Where each of them stands in the rows.
    file_from: Vec<usize>,
    /// The columns of `partitionBy`: where each stands in the rows, and its name.
    pub(crate) folders: Vec<(usize, String)>,
    /// What the folder of a value is like that spells the folder of null.
    pub(crate) null_folder: NullFolder,
}

impl Columns {
    /// Splits the columns of the rows.
    ///
    /// # Errors
    /// Invalid: a column of `partitionBy` is missing, named twice or nested, no column is left for
    /// the files, two columns share a name, or a type that the format cannot hold.
    pub(crate) fn split(format: Format, rows: &Schema, partition_by: &[String]) -> Result<Columns> {
        reject_twins(rows)?;
        let mut folders: Vec<(usize, String)> = Vec::new();
        for name in partition_by {
            let (at, field) = rows
                .fields()
                .iter()
                .enumerate()
                .find(|(_, field)| field.name().eq_ignore_ascii_case(name))
                .ok_or_else(|| missing(name, rows))?;
            if folders.iter().any(|(taken, _)| *taken == at) {
                return Err(Error::invalid(format!("partitionBy names column `{name}` twice")));
            }
            if field.data_type().is_nested() {
                return Err(Error::invalid(format!(
                    "partitionBy column `{name}` is a {}, which cannot be a folder name",
                    field.data_type()
                )));
            }
            folders.push((at, field.name().clone()));
        }
        let file_from: Vec<usize> =
            (0..rows.fields().len()).filter(|at| folders.iter().all(|(f, _)| f != at)).collect();
        if file_from.is_empty() {
            return Err(Error::invalid(
                "partitionBy takes every column, so that none is left for the files".to_owned(),
            ));
        }
        let mut fields = Vec::with_capacity(file_from.len());
        for field in file_from.iter().filter_map(|at| rows.fields().get(*at)) {
            let wanted = written(format, field.name(), field.data_type())?;
            // As Spark does, every column may be null in a file, so that later files fit.
            fields.push(Field::new(field.name(), wanted, true));
        }
        check_format(format, &fields)?;
        let file = Arc::new(Schema::new(fields));
        Ok(Columns { file, file_from, folders, null_folder: NullFolder::Shared })
    }

    /// The file's columns of these rows, cast where their type is another.
    ///
    /// # Errors
    /// Invalid, with the column, where a value does not fit its type in the file.
    pub(crate) fn of_file(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.file_from.len());
        for (at, field) in self.file_from.iter().zip(self.file.fields()) {
            let Some(column) = rows.columns().get(*at) else {
                return Err(Error::internal(format!(
                    "rows came without column `{}`",
                    field.name()
                )));
            };
            columns.push(fit(column, field)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.file), columns, &options)
            .map_err(|e| Error::internal("rows do not fit the file's columns").because(e))
    }
}

/// What a format does not hold at all.
fn check_format(format: Format, fields: &[Field]) -> Result<()> {
    match format {
        Format::Text => match fields {
            [only] if only.data_type() == &DataType::Utf8 => Ok(()),
            [only] => Err(Error::invalid(format!(
                "text files hold one column of type string, but `{}` is a {}; cast it to a string",
                only.name(),
                only.data_type()
            ))),
            more => Err(Error::invalid(format!(
                "text files hold one column of type string, but there are {} columns; select one, \
                 or use format json or csv",
                more.len()
            ))),
        },
        Format::Csv => refuse(format, fields, DataType::is_nested),
        Format::Orc => refuse(format, fields, |kind| {
            kind.is_nested() || matches!(kind, DataType::Decimal128(..) | DataType::Time64(_))
        }),
        Format::Parquet | Format::Json | Format::Avro => Ok(()),
    }
}

fn refuse(format: Format, fields: &[Field], unfit: impl Fn(&DataType) -> bool) -> Result<()> {
    match fields.iter().find(|field| unfit(field.data_type())) {
        None => Ok(()),
        Some(field) => Err(Error::invalid(format!(
            "column `{}` is of type {}, which this writer of {} files does not know; cast it, or \
             use format parquet",
            field.name(),
            field.data_type(),
            format.name()
        ))),
    }
}

fn fit(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    if column.data_type() == field.data_type() {
        return Ok(Arc::clone(column));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, field.data_type(), &options).map_err(|e| {
        Error::invalid(format!(
            "a value of column `{}` does not fit {} in a file",
            field.name(),
            field.data_type()
        ))
        .because(e)
    })
}

fn reject_twins(rows: &Schema) -> Result<()> {
    let mut names: Vec<String> =
        rows.fields().iter().map(|field| field.name().to_lowercase()).collect();
    names.sort_unstable();
    for pair in names.windows(2) {
        if let [first, second] = pair
            && first == second
        {
            return Err(Error::invalid(format!(
                "two columns are named `{first}`; give one another name with `AS`"
            )));
        }
    }
    Ok(())
}

fn missing(name: &str, rows: &Schema) -> Error {
    let known: Vec<&str> = rows.fields().iter().map(|field| field.name().as_str()).collect();
    Error::invalid(format!(
        "partitionBy names column `{name}`, but the rows have {}",
        known.join(", ")
    ))
}

/// The type in which a column is written: plain types that Spark has. Views, dictionaries and wide
/// offsets stay where the format's writer stores them as plain values anyway.
fn written(format: Format, name: &str, kind: &DataType) -> Result<DataType> {
    use DataType as T;
    let inner = |field: &FieldRef| -> Result<FieldRef> {
        let wanted = written(format, &format!("{name}.{}", field.name()), field.data_type())?;
        Ok(Arc::new(Field::new(field.name(), wanted, field.is_nullable())))
    };
    let views = matches!(format, Format::Parquet);
    Ok(match kind {
        T::Boolean | T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::Float32 | T::Float64 => {
            kind.clone()
        }
        T::Date32 | T::Decimal128(..) | T::Utf8 | T::Binary => kind.clone(),
        T::Utf8View | T::BinaryView if views => kind.clone(),
        T::LargeUtf8 | T::Utf8View => T::Utf8,
        T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => T::Binary,
        // Spark has no unsigned types: the next wider one.
        T::UInt8 => T::Int16,
        T::UInt16 => T::Int32,
        T::UInt32 => T::Int64,
        T::UInt64 => T::Decimal128(20, 0),
        T::Float16 => T::Float32,
        T::Date64 => T::Date32,
        T::Decimal32(precision, scale) | T::Decimal64(precision, scale) => {
            T::Decimal128(*precision, *scale)
        }
        T::Decimal256(precision, scale) if *precision <= 38 => T::Decimal128(*precision, *scale),
        T::Timestamp(_, None) => T::Timestamp(TimeUnit::Microsecond, None),
        T::Timestamp(_, Some(_)) => T::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        T::Time32(_) | T::Time64(_) => T::Time64(TimeUnit::Microsecond),
        T::Dictionary(_, value) => written(format, name, value)?,
        T::RunEndEncoded(_, value) => written(format, name, value.data_type())?,
        T::List(item) | T::LargeList(item) | T::FixedSizeList(item, _) => T::List(inner(item)?),
        T::ListView(item) | T::LargeListView(item) => T::List(inner(item)?),
        T::Struct(fields) => {
            T::Struct(fields.iter().map(inner).collect::<Result<Vec<_>>>()?.into())
        }
        T::Map(entries, sorted) => T::Map(map_entries(entries, inner)?, *sorted),
        other => {
            return Err(Error::invalid(format!(
                "column `{name}` is of type {other}, which {} files do not hold; cast it, such as \
                 CAST({name} AS STRING)",
                format.name()
            )));
        }
    })
}

fn map_entries(
    entries: &FieldRef,
    inner: impl Fn(&FieldRef) -> Result<FieldRef>,
) -> Result<FieldRef> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(Error::internal("a map column without entries"));
    };
    let fields: Fields = fields.iter().map(inner).collect::<Result<Vec<_>>>()?.into();
    Ok(Arc::new(Field::new(entries.name(), DataType::Struct(fields), false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int64Array, TimestampNanosecondArray, UInt64Array};
    use arrow::datatypes::TimestampMicrosecondType;

    fn schema(fields: Vec<Field>) -> Schema {
        Schema::new(fields)
    }

    #[test]
    fn rows_are_split_and_cast_to_what_spark_reads() {
        let rows = schema(vec![
            Field::new("k", DataType::Int64, false),
            Field::new("ts", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), true),
            Field::new("n", DataType::UInt64, true),
        ]);
        let columns = Columns::split(Format::Parquet, &rows, &["K".to_owned()]).unwrap();
        assert_eq!(columns.folders, vec![(0, "k".to_owned())]);
        let batch = RecordBatch::try_new(
            Arc::new(rows),
            vec![
                Arc::new(Int64Array::from(vec![1])),
                Arc::new(TimestampNanosecondArray::from(vec![5_000]).with_timezone("UTC")),
                Arc::new(UInt64Array::from(vec![u64::MAX])),
            ],
        )
        .unwrap();
        let file = columns.of_file(&batch).unwrap();
        assert_eq!(file.column(0).as_primitive::<TimestampMicrosecondType>().value(0), 5);
        assert_eq!(file.schema().field(1).data_type(), &DataType::Decimal128(20, 0));
    }

    #[test]
    fn bad_partition_columns_and_types_are_refused_by_name() {
        let rows = schema(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Duration(TimeUnit::Second), true),
        ]);
        let refused = |by: &[&str]| {
            let by: Vec<String> = by.iter().map(|name| (*name).to_owned()).collect();
            Columns::split(Format::Parquet, &rows, &by).unwrap_err().to_string()
        };
        assert!(refused(&["zzz"]).contains("`zzz`"));
        assert!(refused(&["a", "a"]).contains("twice"));
        assert!(refused(&["a", "b"]).contains("none is left"));
        assert!(refused(&[]).contains("`b`"));
    }
}
