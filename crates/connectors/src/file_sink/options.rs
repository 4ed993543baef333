//! The options of file sinks: Spark's names, defaults and aliases.

use super::pattern::Pattern;
use onefold_connector::{OptionKind, OptionSpec, Options};
use onefold_types::{Error, Result};

/// What a file sink writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Apache Parquet.
    Parquet,
    /// One JSON object a line.
    Json,
    /// Comma-separated values.
    Csv,
    /// One text a line.
    Text,
    /// Apache Avro object container files.
    Avro,
    /// Apache ORC.
    Orc,
}

impl Format {
    /// The name in `format("…")`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Text => "text",
            Format::Avro => "avro",
            Format::Orc => "orc",
        }
    }
}

const TEXT_CODECS: &[&str] = &["none", "uncompressed", "gzip", "deflate", "bzip2", "zstd"];

/// Options of every file sink.
pub(crate) static COMMON: &[OptionSpec] = &[
    OptionSpec::new("path", OptionKind::Text, "the folder to write"),
    OptionSpec::new(
        "maxRecordsPerFile",
        OptionKind::Count { min: 0, max: u64::MAX },
        "rows of a file at most; 0 is no limit",
    )
    .default("0"),
    OptionSpec::new(
        "retention",
        OptionKind::Duration,
        "files older than this leave the manifest when it is compacted; they are not deleted",
    ),
    OptionSpec::new(
        "onefold.sink.retainBatches",
        OptionKind::Count { min: 1, max: u64::MAX },
        "batches older than this many leave the manifest when it is compacted",
    ),
    OptionSpec::new(
        "timeZone",
        OptionKind::Text,
        "time zone of times as text; default the session's",
    ),
];

const TIME_FORMATS: [OptionSpec; 3] = [
    OptionSpec::new("dateFormat", OptionKind::Text, "pattern of dates").default("yyyy-MM-dd"),
    OptionSpec::new("timestampFormat", OptionKind::Text, "pattern of timestamps")
        .default("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]"),
    OptionSpec::new("timestampNTZFormat", OptionKind::Text, "pattern of timestamps without zone")
        .default("yyyy-MM-dd'T'HH:mm:ss[.SSS]"),
];
const LINE_SEP: OptionSpec =
    OptionSpec::new("lineSep", OptionKind::Text, "what ends a line").default("\n");
const ENCODING: OptionSpec =
    OptionSpec::new("encoding", OptionKind::Choice(&["utf-8", "utf8"]), "character set");
const TEXT_COMPRESSION: OptionSpec =
    OptionSpec::new("compression", OptionKind::Choice(TEXT_CODECS), "codec of whole files")
        .default("none");

/// The codecs of Parquet files, by their names in Spark.
pub(crate) const PARQUET_CODECS: &[&str] =
    &["none", "uncompressed", "snappy", "gzip", "lz4", "lz4_raw", "zstd", "brotli"];

/// Options of the Parquet sink.
pub(crate) static PARQUET: &[OptionSpec] =
    &[OptionSpec::new("compression", OptionKind::Choice(PARQUET_CODECS), "codec of pages")
        .default("snappy")];

/// Options of the JSON sink.
pub(crate) static JSON: &[OptionSpec] = &[
    TEXT_COMPRESSION,
    LINE_SEP,
    ENCODING,
    TIME_FORMATS[0],
    TIME_FORMATS[1],
    TIME_FORMATS[2],
    OptionSpec::new("ignoreNullFields", OptionKind::Bool, "leave null fields out").default("true"),
];

/// Options of the CSV sink.
pub(crate) static CSV: &[OptionSpec] = &[
    TEXT_COMPRESSION,
    LINE_SEP,
    ENCODING,
    TIME_FORMATS[0],
    TIME_FORMATS[1],
    TIME_FORMATS[2],
    OptionSpec::new("sep", OptionKind::Text, "what stands between fields").default(","),
    OptionSpec::new("delimiter", OptionKind::Text, "another name of sep"),
    OptionSpec::new("header", OptionKind::Bool, "names of columns as the first line of each file")
        .default("false"),
    OptionSpec::new("quote", OptionKind::Text, "what encloses a field; empty is U+0000")
        .default("\""),
    OptionSpec::new("escape", OptionKind::Text, "what stands before a quote in a field")
        .default("\\"),
    OptionSpec::new("escapeQuotes", OptionKind::Bool, "enclose fields that hold quotes")
        .default("true"),
    OptionSpec::new("quoteAll", OptionKind::Bool, "enclose every field").default("false"),
    OptionSpec::new("nullValue", OptionKind::Text, "text of null").default(""),
    OptionSpec::new("emptyValue", OptionKind::Text, "text of an empty text").default("\"\""),
    OptionSpec::new(
        "ignoreLeadingWhiteSpace",
        OptionKind::Bool,
        "take spaces off the start of a field",
    )
    .default("true"),
    OptionSpec::new(
        "ignoreTrailingWhiteSpace",
        OptionKind::Bool,
        "take spaces off the end of a field",
    )
    .default("true"),
];

/// Options of the text sink.
pub(crate) static TEXT: &[OptionSpec] = &[TEXT_COMPRESSION, LINE_SEP, ENCODING];

/// Options of the Avro sink.
pub(crate) static AVRO: &[OptionSpec] = &[OptionSpec::new(
    "compression",
    OptionKind::Choice(&["uncompressed", "snappy", "deflate", "bzip2", "xz", "zstandard"]),
    "codec of blocks",
)
.default("snappy")];

/// Options of the ORC sink.
pub(crate) static ORC: &[OptionSpec] = &[OptionSpec::new(
    "compression",
    OptionKind::Choice(&["none", "uncompressed", "snappy", "zlib", "lz4", "zstd"]),
    "codec of stripes",
)
.default("zstd")];

/// The options of one file sink, read.
#[derive(Debug, Clone)]
pub(crate) struct FileOptions {
    /// The format.
    pub(crate) format: Format,
    /// The codec's name, lower case; `none` where there is none.
    pub(crate) compression: String,
    /// Rows of a file at most.
    pub(crate) rows_per_file_max: u64,
    /// Entries whose file is older leave the manifest, in milliseconds.
    pub(crate) retention_ms: Option<u64>,
    /// Entries of batches older than this many leave the manifest.
    pub(crate) retain_batches: Option<u64>,
    /// Time zone of times as text.
    pub(crate) time_zone: Option<String>,
    /// How values become text.
    pub(crate) text: TextOptions,
}

/// Options of the formats that are text.
#[derive(Debug, Clone)]
pub(crate) struct TextOptions {
    pub(crate) line_sep: String,
    pub(crate) date_format: String,
    pub(crate) timestamp_format: String,
    pub(crate) timestamp_ntz_format: String,
    pub(crate) ignore_null_fields: bool,
    pub(crate) csv: CsvOptions,
}

/// Options of CSV.
#[derive(Debug, Clone)]
pub(crate) struct CsvOptions {
    pub(crate) sep: String,
    pub(crate) header: bool,
    pub(crate) quote: char,
    pub(crate) escape: char,
    pub(crate) escape_quotes: bool,
    pub(crate) quote_all: bool,
    pub(crate) null_value: String,
    pub(crate) empty_value: String,
    pub(crate) trim_start: bool,
    pub(crate) trim_end: bool,
}

impl FileOptions {
    /// Reads checked options.
    ///
    /// # Errors
    /// Invalid: a quote or an escape of several characters, or an empty separator.
    pub(crate) fn read(format: Format, options: &Options) -> Result<FileOptions> {
        let text = |name: &str| options.text(name).unwrap_or_default().to_owned();
        let compression = options.choice("compression").unwrap_or_else(|| "none".to_owned());
        let compression =
            if compression == "uncompressed" { "none".to_owned() } else { compression };
        let csv = CsvOptions {
            sep: separator(format, options)?,
            header: options.flag("header"),
            quote: one_char(options, "quote")?,
            escape: one_char(options, "escape")?,
            escape_quotes: options.flag("escapeQuotes"),
            quote_all: options.flag("quoteAll"),
            null_value: text("nullValue"),
            empty_value: text("emptyValue"),
            trim_start: options.flag("ignoreLeadingWhiteSpace"),
            trim_end: options.flag("ignoreTrailingWhiteSpace"),
        };
        if matches!(format, Format::Json | Format::Csv) {
            for (name, zoned) in
                [("dateFormat", false), ("timestampFormat", true), ("timestampNTZFormat", false)]
            {
                Pattern::parse(name, &text(name), zoned)?;
            }
        }
        let line_sep = text("lineSep");
        if options.given("lineSep") && line_sep.is_empty() {
            return Err(Error::invalid("option `lineSep` is empty; leave it out for a newline"));
        }
        Ok(FileOptions {
            format,
            compression,
            rows_per_file_max: options.count("maxRecordsPerFile").unwrap_or(0),
            retention_ms: options.duration_ms("retention"),
            retain_batches: options.count("onefold.sink.retainBatches"),
            time_zone: options.text("timeZone").map(str::to_owned),
            text: TextOptions {
                line_sep,
                date_format: text("dateFormat"),
                timestamp_format: text("timestampFormat"),
                timestamp_ntz_format: text("timestampNTZFormat"),
                ignore_null_fields: options.flag("ignoreNullFields"),
                csv,
            },
        })
    }

    /// The extension of a data file, as Spark names it: the codec stands before the format where it
    /// is inside the file (`snappy.parquet`), after it where it is around the file (`json.gz`).
    pub(crate) fn extension(&self) -> String {
        let codec = self.compression.as_str();
        match self.format {
            Format::Parquet => match codec {
                "none" => "parquet".to_owned(),
                "gzip" => "gz.parquet".to_owned(),
                "lz4" | "lz4_raw" => "lz4raw.parquet".to_owned(),
                "brotli" => "br.parquet".to_owned(),
                other => format!("{other}.parquet"),
            },
            Format::Orc if codec == "none" => "orc".to_owned(),
            Format::Orc => format!("{codec}.orc"),
            Format::Avro => "avro".to_owned(),
            Format::Text => with_outer("txt", codec),
            other => with_outer(other.name(), codec),
        }
    }
}

fn with_outer(name: &str, codec: &str) -> String {
    match codec {
        "gzip" => format!("{name}.gz"),
        "bzip2" => format!("{name}.bz2"),
        "zstd" => format!("{name}.zst"),
        "deflate" => format!("{name}.deflate"),
        _ => name.to_owned(),
    }
}

fn separator(format: Format, options: &Options) -> Result<String> {
    if format != Format::Csv {
        return Ok(String::new());
    }
    let given = if options.given("sep") { "sep" } else { "delimiter" };
    let text = options.text(given).or_else(|| options.text("sep")).unwrap_or(",");
    match text {
        "" => Err(Error::invalid(format!("option `{given}` of the csv sink is empty"))),
        "\\t" => Ok("\t".to_owned()),
        "\\\\" => Ok("\\".to_owned()),
        other => Ok(other.to_owned()),
    }
}

/// Spark takes an empty quote or escape as U+0000: none.
fn one_char(options: &Options, name: &str) -> Result<char> {
    let text = options.text(name).unwrap_or_default();
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (None, _) => Ok('\0'),
        (Some(letter), None) => Ok(letter),
        _ => Err(Error::invalid(format!(
            "option `{name}` of the csv sink is `{text}`, but takes one character"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_types::OptionMap;

    #[test]
    fn extensions_are_those_of_spark() {
        let extension = |format, table: &'static [&'static [OptionSpec]], codec: Option<&str>| {
            let mut given = OptionMap::new();
            if let Some(codec) = codec {
                given.set("compression", codec);
            }
            let options = Options::check("sink", table, given).unwrap();
            FileOptions::read(format, &options).unwrap().extension()
        };
        static P: &[&[OptionSpec]] = &[COMMON, PARQUET];
        static J: &[&[OptionSpec]] = &[COMMON, JSON];
        static C: &[&[OptionSpec]] = &[COMMON, CSV];
        assert_eq!(extension(Format::Parquet, P, None), "snappy.parquet");
        assert_eq!(extension(Format::Parquet, P, Some("uncompressed")), "parquet");
        assert_eq!(extension(Format::Json, J, Some("GZIP")), "json.gz");
        assert_eq!(extension(Format::Csv, C, None), "csv");
    }
}
