//! The bundled sources and sinks: one folder each, and the one list of them.

mod compact_interval;
pub mod console;
pub mod delta;
pub mod file_sink;
pub mod file_source;
mod formats;
mod held_rows;
pub mod http;
mod java_pattern;
pub mod jdbc;
pub mod kafka;
pub mod memory;
pub mod noop;
pub mod rate;
pub mod schema_registry;
pub mod socket;
mod stored_lines;

use onefold_connector::{SinkSpec, SourceSpec, TableSpec};

/// Every source, by name in `format("…")`.
pub static SOURCES: &[&SourceSpec] = &[
    &file_source::JSON,
    &file_source::CSV,
    &file_source::TEXT,
    &file_source::PARQUET,
    &file_source::ORC,
    &file_source::AVRO,
    &file_source::BINARY_FILE,
    &rate::RATE,
    &rate::RATE_MICRO_BATCH,
    &socket::SPEC,
    &kafka::SOURCE,
    &delta::source::SPEC,
    &jdbc::source::SPEC,
];

/// Every sink, by name in `format("…")`.
pub static SINKS: &[&SinkSpec] = &[
    &file_sink::PARQUET,
    &file_sink::JSON,
    &file_sink::CSV,
    &file_sink::TEXT,
    &file_sink::AVRO,
    &file_sink::ORC,
    &console::SPEC,
    &memory::SPEC,
    &noop::SPEC,
    &kafka::sink::SPEC,
    &delta::SINK,
    &jdbc::SINK,
    &http::SINK,
];

/// Every format of tables that keep a log, by name in `USING …`.
pub static TABLES: &[&TableSpec] = &[&delta::TABLE];
