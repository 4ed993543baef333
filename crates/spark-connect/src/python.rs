//! Functions of the user in Python: run by the worker modules of the user's own PySpark, in child
//! processes of this server.
//!
//! One daemon for each session forks the workers for functions on columns and rows ([`pool`]);
//! `foreachBatch` has a process of its own for each query ([`worker`]). All end with the server:
//! a daemon ends when its standard input closes.

pub(crate) mod foreach;
pub(crate) mod foreach_batch;
pub(crate) mod function;
pub(crate) mod groups;
mod pickle;
pub(crate) mod pool;
mod process;
mod task;
mod udf;
mod wire;
pub(crate) mod worker;

pub(crate) use function::PythonFunction;
pub(crate) use udf::{Shape, scalar};
