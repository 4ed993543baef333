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
//! source as options. `read_files(…)` without STREAM is a table: all files that are there, read
//! anew in each batch, to be joined with a stream.
//!
//! A sink may be made by itself, and be written into by one flow or several, each of them a query:
//!
//! ```sql
//! CREATE SINK alerts USING kafka OPTIONS ('kafka.bootstrap.servers' 'broker:9092', 'topic' 'alerts');
//! CREATE FLOW failures AS INSERT INTO alerts BY NAME SELECT value FROM STREAM read_kafka(…);
//! ```
//!
//! A table, view or query in brackets that ends in `WATERMARK ts DELAY OF INTERVAL 10 SECONDS` has
//! a watermark; an expression in the place of the column gets a name with `AS`. What each batch
//! gives is said by `OPTIONS ('outputMode' = 'complete')` or by `TBLPROPERTIES`: `append` (when
//! nothing is said), `update` or `complete`.
//!
//! ```sql
//! CREATE STREAMING TABLE per_minute USING parquet LOCATION '/out/per_minute' AS
//!   SELECT window.start AS minute, count(*) AS orders
//!   FROM STREAM(orders) WATERMARK ts DELAY OF INTERVAL 10 SECONDS
//!   GROUP BY window(ts, '1 minute');
//! ```
//!
//! Where to start: [`parse`], [`plan_table`].

mod ast;
mod clauses;
mod flows;
mod parse;
mod streams;
mod table;

pub use ast::{
    Pipeline, Place, Query, Sink, Statement, StreamRead, StreamReference, StreamingTable, View,
};
pub use parse::parse;
pub(crate) use streams::without_table_names;
pub use table::{StreamResolver, plan_table};
