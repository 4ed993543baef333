//! The source, through its contract.

mod batch;
mod columns;
mod limits;
mod lost;
mod positions;
mod rig;
mod starting;
mod topology;
mod transactions;
