//! Pipelines: files of SQL statements in Spark's dialect for declarative pipelines.

mod ast;

pub use ast::{
    Pipeline, Place, Query, Statement, StreamRead, StreamReference, StreamingTable, View,
};
