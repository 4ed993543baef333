//! `dropDuplicates` and `dropDuplicatesWithinWatermark`: the first row of each key passes.

mod forever;
mod within;

pub use forever::Deduplicate;
pub use within::DeduplicateWithin;

use crate::failure::external;
use crate::keys::Keys;
use arrow::array::BooleanArray;
use arrow::datatypes::{FieldRef, Schema};
use datafusion::common::HashSet;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use onefold_state::{KeyGroup, PartitionState};
use std::sync::Arc;

/// The family that has a row for each key seen.
const SEEN: usize = 0;

/// Rows whose key is neither in the state nor that of a row before: their places, and a mask.
fn fresh(keys: &Keys, state: &mut dyn PartitionState) -> Result<(Vec<usize>, BooleanArray)> {
    let mut met: HashSet<&[u8]> = HashSet::with_capacity(keys.len());
    let mut firsts = Vec::with_capacity(keys.len());
    let mut wanted: Vec<(KeyGroup, &[u8])> = Vec::with_capacity(keys.len());
    for (row, (group, key)) in keys.iter().enumerate() {
        if met.insert(key) {
            firsts.push(row);
            wanted.push((group, key));
        }
    }
    let found = state.get(SEEN, &wanted).map_err(external)?;
    let mut pass = vec![false; keys.len()];
    let mut fresh = Vec::with_capacity(firsts.len());
    for (row, found) in firsts.into_iter().zip(found) {
        if let (None, Some(pass)) = (found, pass.get_mut(row)) {
            *pass = true;
            fresh.push(row);
        }
    }
    Ok((fresh, pass.into()))
}

/// What key columns are called and typed.
fn fields(keys: &[PhysicalExprRef], schema: &Schema) -> Result<Vec<FieldRef>> {
    keys.iter().map(|key| Ok(Arc::clone(&key.return_field(schema)?))).collect()
}
