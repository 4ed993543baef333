//! A row as a record, and what it adds to the batch.

use super::cluster::Record;
use super::columns::Rows;
use super::content::record_hash;
use onefold_types::{ContentHash, Error, Result, Totals};

/// One row on its way.
pub(crate) struct Row<'a> {
    pub(crate) record: Record<'a>,
}

impl<'r> Row<'r> {
    /// Row `at` of a batch of rows. `place` is the engine's partition and the row's number there.
    ///
    /// # Errors
    /// Invalid: Kafka has no use for it.
    pub(crate) fn of<'a: 'r>(
        rows: &'r Rows<'a>,
        at: usize,
        room: &'r mut Vec<(&'a str, Option<&'a [u8]>)>,
        (partition, number): (u32, u64),
    ) -> Result<Row<'r>> {
        let record = rows.record(at, room).map_err(|error| {
            let what = format!("row {number} of partition {partition} cannot go to Kafka");
            Error::new(error.kind(), what).because(error)
        })?;
        Ok(Row { record })
    }

    /// What it adds to the batch.
    pub(crate) fn totals(&self) -> Totals {
        let Record { topic, key, value, headers, .. } = self.record;
        let hash = record_hash(topic, key, value, headers.iter().copied());
        Totals { rows: 1, hash: ContentHash(hash) }
    }
}
