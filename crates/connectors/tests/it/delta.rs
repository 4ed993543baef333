//! Delta tables, against real stores.

mod columns;
mod conformance;
mod marks;
mod others;
mod rig;
mod source;
