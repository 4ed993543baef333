//! The bundled sources and sinks: one folder each, and the one list of them.

pub mod console;
pub mod file_sink;
mod formats;
mod java_uri;
pub mod memory;
pub mod noop;

use onefold_connector::{SinkSpec, SourceSpec};

/// Every source, by name in `format("…")`.
pub static SOURCES: &[&SourceSpec] = &[];

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
];
