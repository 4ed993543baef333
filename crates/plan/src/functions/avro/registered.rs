//! Data whose schema a registry tells by the id before it.

use super::Options;
use super::read::Reader;
use crate::failure;
use crate::functions::encoded::schema_id;
use crate::functions::registry::Handle;
use arrow::array::{Array, ArrayRef, BinaryArray, UInt32Array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use onefold_connector::SchemaContent;
use onefold_types::Error;
use std::collections::BTreeMap;

/// A value of the planned type for each row; NULL where there is no data. Rows of one id are read
/// together.
///
/// # Errors
/// As [`Reader::read`], and those of the registry. What it does not know counts as damaged data.
pub(super) fn read(
    data: &BinaryArray,
    gives: &DataType,
    wanted: &str,
    options: &Options,
    registry: &Handle,
) -> Result<ArrayRef> {
    let mut by_id: BTreeMap<Option<u32>, Vec<u32>> = BTreeMap::new();
    for (row, place) in (0..data.len()).zip(0_u32..) {
        if data.is_valid(row) {
            by_id.entry(schema_id(data.value(row))).or_default().push(place);
        }
    }
    // The first column is for rows without a value.
    let mut columns = vec![new_null_array(gives, 1)];
    let mut places = vec![(0, 0); data.len()];
    for (id, rows) in by_id {
        let known = match id {
            Some(id) => registry.0.by_id(options.address.as_deref(), id),
            None => Ok(None),
        };
        let Some(known) = known.map_err(failure::external)? else {
            match options.permissive {
                true => continue,
                false => return Err(unreadable(id, rows.first().copied().unwrap_or_default())),
            }
        };
        let SchemaContent::Avro(writer) = &known.content else {
            return Err(failure::external(Error::invalid(format!(
                "the schema {} of the registry is not Avro's, but data that from_avro reads names it",
                known.id
            ))));
        };
        let options = Options { reader: Some(wanted.to_owned()), ..options.clone() };
        let own = take(data, &UInt32Array::from(rows.clone()), None)?;
        let own = own.as_any().downcast_ref::<BinaryArray>().ok_or_else(|| {
            DataFusionError::Internal("rows of one schema are no longer bytes".to_owned())
        })?;
        let values = Reader::new(writer, &options)?.read(own, gives)?;
        for (nth, row) in rows.iter().enumerate() {
            if let Some(place) = places.get_mut(*row as usize) {
                *place = (columns.len(), nth);
            }
        }
        columns.push(values);
    }
    let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    Ok(interleave(&columns, &places)?)
}

fn unreadable(id: Option<u32>, row: u32) -> DataFusionError {
    let what = match id {
        Some(id) => format!("names schema {id}, which the schema registry does not have"),
        None => "does not begin with the id of a schema".to_owned(),
    };
    DataFusionError::Execution(format!(
        "[MALFORMED_AVRO_MESSAGE] the data in row {row} of a batch {what}; was it written with \
         another registry? The option mode => PERMISSIVE gives NULL instead"
    ))
}
