//! Functions of the user in Python: run by the worker modules of the user's own PySpark, in child
//! processes of this server.
//!
//! One daemon for each session forks the workers for functions on columns and rows ([`pool`]);
//! `foreachBatch` has a process of its own for each query ([`worker`]). All end with the server:
//! a daemon ends when its standard input closes. A processor of `transformWithState` ([`transform`])
//! asks for its state over a socket of its own ([`state_server`]). The calls of a query's functions
//! end with the query, whatever they do ([`calls`]).

mod calls;
pub(crate) mod data_source;
pub(crate) mod foreach;
pub(crate) mod foreach_batch;
pub(crate) mod function;
pub(crate) mod groups;
pub(crate) mod memory;
mod pickle;
pub(crate) mod pool;
mod process;
mod state_messages;
mod state_rows;
mod state_server;
mod state_socket;
mod task;
pub(crate) mod transform;
mod udf;
mod unpickle;
mod wire;
pub(crate) mod worker;

pub(crate) use calls::Calls;
pub(crate) use function::PythonFunction;
pub(crate) use udf::{Shape, scalar, with_calls};
