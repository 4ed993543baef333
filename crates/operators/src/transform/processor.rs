//! The user's processor, without its types.

use super::code::{DueTimers, ProcessorCode, ProcessorRun, ProcessorStart, ProcessorState};
use super::context::ProcessorContext;
use super::variables::Variables;
use crate::grouped::GroupedRows;
use crate::groups::{UserError, of_user};
use crate::rows::{Rows, Value, batch_of_values, row, typed, untyped};
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
    /// A row of the initial state; `()` where there is none.
    type Initial: DeserializeOwned;
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

    /// Handles a key's rows of the initial state, in the query's first batch and before all rows
    /// of the stream.
    ///
    /// # Errors
    /// Any: the query fails. That of a processor that does not say otherwise: it takes none.
    fn handle_initial_state(
        &mut self,
        key: Self::Key,
        rows: Rows<'_, Self::Initial>,
        context: &mut ProcessorContext<'_>,
    ) -> Result<(), UserError> {
        let _ = (key, rows, context);
        Err("the processor takes no initial state; write handle_initial_state, or leave it out"
            .into())
    }

    /// Called when a partition of a batch is through.
    ///
    /// # Errors
    /// Any: the query fails.
    fn close(&mut self) -> Result<(), UserError> {
        Ok(())
    }
}

/// A [`StatefulProcessor`], or code of another language, that a plan can carry.
#[derive(Debug, Clone)]
pub struct Processor(Arc<dyn ProcessorCode>);

impl Processor {
    /// Carries a processor, of which each partition of each batch takes a copy.
    pub fn new(processor: impl StatefulProcessor) -> Self {
        Processor(Arc::new(Typed(processor)))
    }

    /// Code over Arrow, of any language.
    #[must_use]
    pub fn code(code: Arc<dyn ProcessorCode>) -> Self {
        Processor(code)
    }

    pub(super) fn get(&self) -> &dyn ProcessorCode {
        self.0.as_ref()
    }
}

/// A processor that takes and gives Rust's types.
struct Typed<P>(P);

impl<P> fmt::Debug for Typed<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Typed")
    }
}

impl<P: StatefulProcessor> ProcessorCode for Typed<P> {
    fn declare(&self, variables: &mut Variables) -> Result<()> {
        self.0.clone().init(variables).map_err(of_user)
    }

    fn start(&self) -> Result<ProcessorStart> {
        let mut processor = self.0.clone();
        // Its handles are set by declaring; what is declared is the same as before.
        processor.init(&mut Variables::again()).map_err(of_user)?;
        Ok(ProcessorStart::Calls(Box::new(Typed(processor))))
    }
}

impl<P: StatefulProcessor> ProcessorRun for Typed<P> {
    fn initial(
        &mut self,
        groups: &GroupedRows,
        state: &mut ProcessorState<'_>,
    ) -> Result<Vec<RecordBatch>> {
        for group in 0..groups.len() {
            let Some(mut context) = state.at(group)? else { continue };
            let key = typed(row(&groups.keys, group)?.into_owned(), "the key of a group")?;
            let rows = Rows::new(&groups.rows, groups.rows_of(group));
            self.0.handle_initial_state(key, rows, &mut context).map_err(of_user)?;
        }
        Ok(Vec::new())
    }

    fn rows(
        &mut self,
        groups: &GroupedRows,
        state: &mut ProcessorState<'_>,
    ) -> Result<Vec<RecordBatch>> {
        let mut out = Vec::new();
        for group in 0..groups.len() {
            let Some(mut context) = state.at(group)? else { continue };
            let key = typed(row(&groups.keys, group)?.into_owned(), "the key of a group")?;
            let rows = Rows::new(&groups.rows, groups.rows_of(group));
            let given = self.0.handle_input_rows(key, rows, &mut context);
            give(given.map_err(of_user)?, &mut out)?;
        }
        Ok(vec![batch_of_values(state.output(), out, GIVEN)?])
    }

    fn timers(
        &mut self,
        due: &DueTimers,
        state: &mut ProcessorState<'_>,
    ) -> Result<Vec<RecordBatch>> {
        let mut out = Vec::new();
        for (place, expiry_ms) in due.expiries_ms.iter().enumerate() {
            let Some(mut context) = state.at(place)? else { continue };
            let key = typed(row(&due.keys, place)?.into_owned(), "the key of a group")?;
            let timer = ExpiredTimer { expiry_ms: *expiry_ms };
            let given = self.0.handle_expired_timer(key, timer, &mut context);
            give(given.map_err(of_user)?, &mut out)?;
        }
        Ok(vec![batch_of_values(state.output(), out, GIVEN)?])
    }

    fn close(&mut self) -> Result<()> {
        self.0.close().map_err(of_user)
    }
}

const GIVEN: &str = "a row that the processor gave";

fn give<O: Serialize>(rows: Vec<O>, out: &mut Vec<Value<'static>>) -> Result<()> {
    for row in rows {
        out.push(untyped(&row, GIVEN)?);
    }
    Ok(())
}
