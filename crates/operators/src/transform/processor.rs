//! The user's processor, without its types.

use super::context::ProcessorContext;
use super::variables::Variables;
use crate::groups::{UserError, of_user};
use crate::rows::{Rows, Value, typed, untyped};
use arrow::record_batch::RecordBatch;
use onefold_types::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;

/// A timer that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiredTimer {
    /// The time for which it was registered, in milliseconds since 1970.
    pub expiry_ms: i64,
}

/// Handles the rows and timers of each key. Each partition of each batch works on a copy.
///
/// It must give the same for the same calls: a batch may run again.
pub trait StatefulProcessor: Clone + Send + Sync + 'static {
    /// The grouping key: its columns as a struct or a tuple, or a bare value where there is one.
    type Key: DeserializeOwned;
    /// A row of the input.
    type Input: DeserializeOwned;
    /// A row that comes out.
    type Output: Serialize;

    /// Declares the variables: the same ones each time.
    ///
    /// # Errors
    /// Any: the query does not start.
    fn init(&mut self, variables: &mut Variables) -> Result<(), UserError>;

    /// Handles a key's rows of the batch.
    ///
    /// # Errors
    /// Any: the query fails.
    fn handle_input_rows(
        &mut self,
        key: Self::Key,
        rows: Rows<'_, Self::Input>,
        context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<Self::Output>, UserError>;

    /// Handles a timer that is due. It is deleted already.
    ///
    /// # Errors
    /// Any: the query fails.
    fn handle_expired_timer(
        &mut self,
        key: Self::Key,
        timer: ExpiredTimer,
        context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<Self::Output>, UserError> {
        let _ = (key, timer, context);
        Ok(Vec::new())
    }

    /// Called when a partition of a batch is through.
    ///
    /// # Errors
    /// Any: the query fails.
    fn close(&mut self) -> Result<(), UserError> {
        Ok(())
    }
}

/// A key's rows.
pub(super) struct GroupRows<'a> {
    pub(super) key: Value<'static>,
    pub(super) batches: &'a [RecordBatch],
    pub(super) rows: &'a [(usize, usize)],
}

/// A processor whatever its types.
pub(super) trait AnyProcessor: Send {
    fn init(&mut self, variables: &mut Variables) -> Result<()>;

    fn rows(
        &mut self,
        rows: GroupRows<'_>,
        context: &mut ProcessorContext<'_>,
        out: &mut Vec<Value<'static>>,
    ) -> Result<()>;

    fn timer(
        &mut self,
        key: Value<'static>,
        timer: ExpiredTimer,
        context: &mut ProcessorContext<'_>,
        out: &mut Vec<Value<'static>>,
    ) -> Result<()>;

    fn close(&mut self) -> Result<()>;
}

struct Typed<P>(P);

impl<P: StatefulProcessor> AnyProcessor for Typed<P> {
    fn init(&mut self, variables: &mut Variables) -> Result<()> {
        self.0.init(variables).map_err(of_user)
    }

    fn rows(
        &mut self,
        rows: GroupRows<'_>,
        context: &mut ProcessorContext<'_>,
        out: &mut Vec<Value<'static>>,
    ) -> Result<()> {
        let key = typed(rows.key, "the key of a group")?;
        let rows = Rows::new(rows.batches, rows.rows);
        give(self.0.handle_input_rows(key, rows, context).map_err(of_user)?, out)
    }

    fn timer(
        &mut self,
        key: Value<'static>,
        timer: ExpiredTimer,
        context: &mut ProcessorContext<'_>,
        out: &mut Vec<Value<'static>>,
    ) -> Result<()> {
        let key = typed(key, "the key of a group")?;
        give(self.0.handle_expired_timer(key, timer, context).map_err(of_user)?, out)
    }

    fn close(&mut self) -> Result<()> {
        self.0.close().map_err(of_user)
    }
}

fn give<O: Serialize>(rows: Vec<O>, out: &mut Vec<Value<'static>>) -> Result<()> {
    for row in rows {
        out.push(untyped(&row, "a row that the processor gave")?);
    }
    Ok(())
}

/// A [`StatefulProcessor`] that a plan can carry.
#[derive(Clone)]
pub struct Processor(Arc<dyn Fn() -> Box<dyn AnyProcessor> + Send + Sync>);

impl Processor {
    /// Carries a processor, of which each partition of each batch takes a copy.
    pub fn new(processor: impl StatefulProcessor) -> Self {
        Processor(Arc::new(move || Box::new(Typed(processor.clone()))))
    }

    pub(super) fn instance(&self) -> Box<dyn AnyProcessor> {
        (self.0)()
    }
}

impl fmt::Debug for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Processor")
    }
}
