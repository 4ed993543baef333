//! Logical plan to streaming plan; SQL pipelines; Spark schemas and functions.
//!
//! *Why separate:* what a query means and whether it may run as a stream is decided here, on
//! plans alone; the engine runs what comes out.
//! *What always holds:* a [`stream::StreamingPlan`] has passed the checks for its output mode, is
//! optimised once, and gives the same rows for the same batch: its times and random values depend
//! on the batch alone.
//! *What it is not:* it reads no data and knows no connector; sources come in through
//! [`onefold_connector::SourceDefinition`].
//! *Where to start:* [`stream::StreamingPlan`], then [`pipeline::parse`] and
//! [`schema::parse_schema`].

mod failure;
pub mod functions;
mod interval;
mod meaning;
pub mod observe;
pub mod pipeline;
mod rules;
pub mod schema;
pub mod speech;
pub mod sql;
pub mod stream;

pub use rules::in_order;
