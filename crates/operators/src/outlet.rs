//! Where rows leave an operator that makes few at a time: gathered into batches of a good size.

use crate::output::{CHUNK, Output};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;

/// Sends rows on.
#[derive(Debug)]
pub(crate) struct Outlet {
    rows: BatchCoalescer,
    to: Output,
}

impl Outlet {
    /// Rows of `schema` go to `to`.
    pub(crate) fn new(schema: SchemaRef, to: Output) -> Self {
        Outlet { rows: BatchCoalescer::new(schema, CHUNK), to }
    }

    /// Takes rows. They are sent when enough have come together.
    pub(crate) async fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() > 0 {
            self.rows.push_batch(batch)?;
        }
        self.send().await;
        Ok(())
    }

    /// Sends what is left.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        self.rows.finish_buffered_batch()?;
        self.send().await;
        Ok(())
    }

    async fn send(&mut self) {
        while let Some(batch) = self.rows.next_completed_batch() {
            self.to.send(batch).await;
        }
    }
}
