//! Taking out of the state what a watermark is done with.

use crate::failure::external;
use crate::output::CHUNK;
use datafusion::error::Result;
use onefold_state::{KeyGroup, PartitionState, StateRow};
use std::ops::{Bound, Range};

/// Removes, group by group and in key order, the rows of an ordered family whose first key column,
/// a timestamp or integer, is at or before a tick. NULL is never done with.
#[derive(Debug)]
pub(crate) struct Sweep {
    family: usize,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    groups: Range<u32>,
}

/// What stands before the bytes of a value that is not NULL.
const VALUE: u8 = 1;

impl Sweep {
    /// Over the groups of a partition.
    pub(crate) fn new(family: usize, last_tick: i64, groups: Range<u32>) -> Self {
        let to = match last_tick.checked_add(1) {
            Some(next) => encode_tick(next).to_vec(),
            None => vec![VALUE + 1],
        };
        Sweep { family, from: first(), to: Bound::Excluded(to), groups }
    }

    /// Removes the next rows and gives them; none when it is through.
    pub(crate) fn next(
        &mut self,
        state: &mut dyn PartitionState,
    ) -> Result<Vec<(KeyGroup, StateRow)>> {
        let mut taken = Vec::new();
        while taken.len() < CHUNK && !self.groups.is_empty() {
            let group = KeyGroup::try_from(self.groups.start).unwrap_or(KeyGroup::MAX);
            let room = CHUNK - taken.len();
            let rows = if state.rows_in(self.family, group) == 0 {
                Vec::new()
            } else {
                let (from, to) = (as_slice(&self.from), as_slice(&self.to));
                state.scan(self.family, group, from, to, room).map_err(external)?
            };
            for row in &rows {
                state.remove(self.family, group, &row.key).map_err(external)?;
            }
            if rows.len() < room {
                self.groups.start += 1;
                self.from = first();
            } else if let Some(last) = rows.last() {
                self.from = Bound::Excluded(last.key.to_vec());
            }
            taken.extend(rows.into_iter().map(|row| (group, row)));
        }
        Ok(taken)
    }
}

/// How many bytes a tick takes in a key.
pub(crate) const TICK: usize = 9;

/// The encoding of a timestamp or 64-bit integer that is not NULL, as in arrow's row format: a mark
/// and the number, its sign flipped, big-endian.
pub(crate) fn encode_tick(tick: i64) -> [u8; TICK] {
    let [a, b, c, d, e, f, g, h] = (tick ^ i64::MIN).to_be_bytes();
    [VALUE, a, b, c, d, e, f, g, h]
}

/// The tick that an encoding begins or ends with; `None` for NULL and what is none.
pub(crate) fn decode_tick(bytes: &[u8]) -> Option<i64> {
    match bytes {
        [VALUE, a, b, c, d, e, f, g, h] => {
            Some(i64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]) ^ i64::MIN)
        }
        _ => None,
    }
}

fn first() -> Bound<Vec<u8>> {
    Bound::Included(vec![VALUE])
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(bytes) => Bound::Included(bytes),
        Bound::Excluded(bytes) => Bound::Excluded(bytes),
        Bound::Unbounded => Bound::Unbounded,
    }
}

#[cfg(test)]
mod tests {
    use super::{decode_tick, encode_tick};
    use crate::keys::RowCodec;
    use arrow::datatypes::{DataType, TimeUnit};
    use datafusion::common::ScalarValue;

    #[test]
    fn a_tick_is_encoded_as_arrow_does() {
        let timestamp = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let codec = RowCodec::try_new([timestamp]).unwrap();
        for tick in [i64::MIN, -1, 0, 1, 1_767_225_600_000_000, i64::MAX] {
            let value = ScalarValue::TimestampMicrosecond(Some(tick), Some("UTC".into()));
            assert_eq!(codec.encode_one(&[value]).unwrap(), encode_tick(tick));
            assert_eq!(decode_tick(&encode_tick(tick)), Some(tick));
        }
    }
}
