//! Pipelines: files of SQL statements in Spark's dialect for declarative pipelines.
//!
//! ```sql
//! SET spark.sql.shuffle.partitions = 4;
//! CREATE TEMPORARY VIEW paid AS
//!   SELECT * FROM STREAM read_files('/in', format => 'json', schema => 'id BIGINT, paid BOOLEAN')
//!   WHERE paid;
//! CREATE STREAMING TABLE orders USING parquet LOCATION '/out/orders' AS SELECT id FROM STREAM(paid);
//! ```
//!
//! A stream in a query is `STREAM read_files('path', format => 'json', option => value …)`, or any
//! other source by its own name: `STREAM rate(rowsPerSecond => 10)`. `STREAM read_stream(format =>
//! 'rate', …)` says the same, and `STREAM(name)` or `STREAM name` reads another table or view of
//! the file. `schema`, `name`, `format` and `path` are arguments of Onefold; all others go to the
//! source as options.
//!
//! Where to start: [`parse`], [`plan_table`].

mod ast;
mod clauses;
mod parse;
mod streams;
mod table;

pub use ast::{
    Pipeline, Place, Query, Statement, StreamRead, StreamReference, StreamingTable, View,
};
pub use parse::parse;
pub use table::{StreamResolver, plan_table};
