//! Sources that read files: each file once, in the order of their times, replayed by name, size and
//! time.
//!
//! *Where to start:* `source` chooses and logs files, `listing` finds them, `reader` reads one,
//! `scan` is the plan of a batch.

mod bucket;
mod cells;
mod clean;
mod columnar;
mod csv;
mod define;
mod formats;
mod infer;
mod input;
mod java_number;
mod json;
mod json_scan;
mod lines;
mod listing;
mod log;
mod manifest;
mod note;
mod options;
mod partitions;
mod reader;
mod released;
mod rows;
mod scan;
mod seen;
mod source;
mod time_pattern;
mod times;

use crate::formats::Format;
use define::Definition;
use onefold_connector::SourceSpec;

macro_rules! spec {
    ($name:ident, $format:expr, [$($options:expr),*], $summary:literal) => {
        #[doc = $summary]
        pub static $name: SourceSpec = SourceSpec {
            name: $format.name(),
            summary: $summary,
            options: &[options::COMMON, $($options),*],
            define: |request| Box::pin(Definition::define($format, request)),
        };
    };
}

spec!(JSON, Format::Json, [options::JSON, options::VALUES], "Reads files of JSON, a value a line.");
spec!(CSV, Format::Csv, [options::CSV, options::VALUES], "Reads files of comma-separated values.");
spec!(TEXT, Format::Text, [options::TEXT], "Reads lines of text files.");
spec!(PARQUET, Format::Parquet, [], "Reads Parquet files.");
spec!(ORC, Format::Orc, [], "Reads ORC files.");
spec!(AVRO, Format::Avro, [], "Reads Avro object container files.");
spec!(BINARY_FILE, Format::BinaryFile, [], "Reads whole files as bytes.");
