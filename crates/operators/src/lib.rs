//! Streaming physical operators on DataFusion: watermarks, aggregation, deduplication, session
//! windows, limits, joins of streams, and state of the user's own.
//!
//! *Why separate:* what an operator does with rows and state depends on neither the language of
//! the query nor the life of the query around it.
//! *What always holds:* an operator reads its input to the end, whatever is read of its output, so
//! that its state is whole; it opens each partition of its state once; what it writes depends on
//! rows, state and the [`OperatorContext`] alone. Late is what is at or before the watermark of the
//! batch before, done with is what is at or before this batch's.
//! *What it is not:* it neither plans (that is `plan`) nor keeps state durable (that is `state`).
//! *Where to start:* [`OperatorContext`], then an operator.

mod aggregate;
mod context;
mod dedup;
mod ephemeral;
mod event_time;
mod exchange;
mod failure;
pub mod fault;
mod grouped;
mod groups;
mod guard;
#[cfg(test)]
mod harness;
mod join;
mod keys;
mod late;
mod limit;
mod numbers;
mod outlet;
mod output;
mod rows;
mod session;
mod side;
mod sweep;
mod transform;
mod ttl;
mod unary;
mod watermark;

pub use aggregate::{NamedExpr, StatefulAggregate};
pub use context::{EmitMode, OperatorContext, OperatorMetrics};
pub use dedup::{Deduplicate, DeduplicateWithin};
pub use ephemeral::EphemeralState;
pub use event_time::EventTimeStats;
pub use exchange::KeyGroupExchangeExec;
pub use grouped::GroupedRows;
pub use groups::{
    GroupCalls, GroupCode, GroupFunction, GroupReturns, GroupRun, GroupState, GroupTimeout,
    GroupsWithState, StateChange, UserError,
};
pub use guard::{Guard, GuardedStep, LetterOutlet, LetterShape};
pub use join::{StateBound, StreamJoin, StreamJoinSide};
pub use keys::{Keys, RowCodec, normalise};
pub use late::{LateOutlet, LateShape};
pub use limit::GlobalLimit;
pub use rows::Rows;
pub use session::SessionAggregate;
pub use side::{SideReceiver, SideSender, side_rows};
pub use transform::{
    DueTimers, ExpiredTimer, InitialState, ListState, MapState, PartitionKeys, PartitionRows,
    PartitionRun, Processor, ProcessorCode, ProcessorContext, ProcessorRun, ProcessorStart,
    ProcessorState, StatefulProcessor, TimeMode, TransformWithState, ValueState, Variables,
};
pub use ttl::StateTtl;
pub use watermark::WatermarkExec;
