//! The sink and the reader of databases.

mod conformance;
mod faulty;
mod marks;
mod rig;
mod rows;
mod stream;
mod tables;
mod types;
