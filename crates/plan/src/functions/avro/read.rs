//! Data in Avro's binary form to values.

use super::Options;
use super::schema::{VALUE, checked, shown, wrapped};
use crate::functions::encoded::{plan_error, unframed};
use arrow::array::{Array, ArrayRef, BinaryArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::DataType;
use arrow_avro::reader::{Decoder, ReaderBuilder};
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use datafusion::error::{DataFusionError, Result};

/// Stands before each value, for the decoder: there is one schema, and this is its id.
const PREFIX: [u8; 5] = [0, 0, 0, 0, 1];
const ID: u32 = 1;

/// Reads data of one schema.
#[derive(Debug)]
pub(super) struct Reader {
    writer: String,
    reader: Option<String>,
    options: Options,
}

/// Why a row cannot be read.
struct Damaged(String);

impl Reader {
    /// # Errors
    /// Plan, when a schema is no JSON.
    pub(super) fn new(schema: &str, options: &Options) -> Result<Self> {
        let writer = wrapped(&checked(schema)?);
        let reader = options
            .reader
            .as_deref()
            .map(|text| Ok::<_, DataFusionError>(wrapped(&checked(text)?)));
        Ok(Reader { writer, reader: reader.transpose()?, options: options.clone() })
    }

    /// The type of the values.
    ///
    /// # Errors
    /// Plan, when the schema cannot be read, or holds what has no type here.
    pub(super) fn gives(&self) -> Result<DataType> {
        let decoder = self.decoder(1)?;
        shown(decoder.schema().field_with_name(VALUE)?.data_type())
    }

    fn decoder(&self, rows: usize) -> Result<Decoder> {
        let wrong = |error: &dyn std::fmt::Display| {
            plan_error(format!("the Avro schema cannot be read: {error}"))
        };
        let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
        let known = store.set(Fingerprint::Id(ID), AvroSchema::new(self.writer.clone()));
        known.map_err(|error| wrong(&error))?;
        let mut builder = ReaderBuilder::new().with_batch_size(rows.max(1));
        builder = builder.with_writer_schema_store(store);
        if let Some(reader) = &self.reader {
            builder = builder.with_reader_schema(AvroSchema::new(reader.clone()));
        }
        builder.build_decoder().map_err(|error| wrong(&error))
    }

    /// A value of the planned type for each row; NULL where there is no data.
    ///
    /// # Errors
    /// Execution, with the first row that cannot be read, where that is an error.
    pub(super) fn read(&self, data: &BinaryArray, gives: &DataType) -> Result<ArrayRef> {
        let there: Vec<usize> = (0..data.len()).filter(|row| data.is_valid(*row)).collect();
        if there.is_empty() {
            return Ok(new_null_array(gives, data.len()));
        }
        let (values, places) = match self.together(data, &there)? {
            Some(values) => (values, (0..there.len()).map(Some).collect()),
            None => self.one_by_one(data, &there, gives)?,
        };
        let mut rows: Vec<Option<u32>> = vec![None; data.len()];
        for (row, place) in there.iter().zip(places) {
            if let Some(slot) = rows.get_mut(*row) {
                *slot = place.and_then(|place| u32::try_from(place).ok());
            }
        }
        let values = take(&values, &UInt32Array::from(rows), None)?;
        Ok(if values.data_type() == gives { values } else { cast(&values, gives)? })
    }

    /// All rows with one decoder; `None` when one of them cannot be read.
    fn together(&self, data: &BinaryArray, rows: &[usize]) -> Result<Option<ArrayRef>> {
        let mut decoder = self.decoder(rows.len())?;
        for row in rows {
            if self.decode(&mut decoder, data.value(*row)).is_err() {
                return Ok(None);
            }
        }
        let batch = decoder.flush().ok().flatten();
        Ok(batch.filter(|batch| batch.num_rows() == rows.len()).and_then(|it| value(&it)))
    }

    /// Each row with a decoder of its own, since one that met damage is not to be trusted: the values
    /// that could be read, and the place of each row's among them.
    fn one_by_one(
        &self,
        data: &BinaryArray,
        rows: &[usize],
        gives: &DataType,
    ) -> Result<(ArrayRef, Vec<Option<usize>>)> {
        let (mut values, mut places) = (Vec::new(), Vec::with_capacity(rows.len()));
        for row in rows {
            let mut decoder = self.decoder(1)?;
            let read = self.decode(&mut decoder, data.value(*row)).and_then(|()| {
                let batch = decoder.flush().map_err(|error| Damaged(error.to_string()))?;
                batch
                    .as_ref()
                    .and_then(value)
                    .ok_or_else(|| Damaged("it holds no value".to_owned()))
            });
            match read {
                Ok(value) => {
                    places.push(Some(values.len()));
                    values.push(value);
                }
                Err(_) if self.options.permissive => places.push(None),
                Err(Damaged(why)) => {
                    return Err(DataFusionError::Execution(format!(
                        "[MALFORMED_AVRO_MESSAGE] {} bytes in row {row} of a batch are no value of \
                         the Avro schema ({why}); the option mode => PERMISSIVE gives NULL instead, \
                         and wireFormat => confluent reads data that begins with a schema's id",
                        data.value(*row).len()
                    )));
                }
            }
        }
        if values.is_empty() {
            return Ok((new_null_array(gives, 0), places));
        }
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        Ok((concat(&values)?, places))
    }

    fn decode(&self, decoder: &mut Decoder, data: &[u8]) -> std::result::Result<(), Damaged> {
        let body = match self.options.confluent {
            false => data,
            true => unframed(data)
                .ok_or_else(|| Damaged("it does not begin with the id of a schema".to_owned()))?,
        };
        let framed = [&PREFIX[..], body].concat();
        match decoder.decode(&framed) {
            Ok(read) if read == framed.len() && !decoder.batch_is_empty() => Ok(()),
            Ok(read) if read < framed.len() => Err(Damaged("it ends early".to_owned())),
            Ok(_) => Err(Damaged("it is empty".to_owned())),
            Err(error) => Err(Damaged(error.to_string())),
        }
    }
}

fn value(batch: &RecordBatch) -> Option<ArrayRef> {
    batch.column_by_name(VALUE).cloned()
}
