//! The options of file sources: Spark's names and defaults.

use onefold_connector::{OptionKind, OptionSpec};

const ANY: OptionKind = OptionKind::Count { min: 1, max: u64::MAX };

/// Options of every file source.
pub(crate) static COMMON: &[OptionSpec] = &[
    OptionSpec::new("path", OptionKind::Text, "the folder, file or pattern to read"),
    OptionSpec::new("maxFilesPerTrigger", ANY, "new files of a batch at most"),
    OptionSpec::new("maxBytesPerTrigger", OptionKind::Bytes, "bytes of a batch, at least one file"),
    OptionSpec::new("latestFirst", OptionKind::Bool, "take the newest files first")
        .default("false"),
    OptionSpec::new(
        "maxFileAge",
        OptionKind::Duration,
        "files older than the newest by more than this are left out",
    )
    .default("7d"),
    OptionSpec::new("fileNameOnly", OptionKind::Bool, "tell files by their name, not their path")
        .default("false"),
    OptionSpec::new(
        "cleanSource",
        OptionKind::Choice(&["off", "archive", "delete"]),
        "what becomes of files after their batch is committed",
    )
    .default("off"),
    OptionSpec::new("sourceArchiveDir", OptionKind::Text, "where cleanSource=archive moves files"),
    OptionSpec::new("pathGlobFilter", OptionKind::Text, "read only files whose name fits this"),
    OptionSpec::new("recursiveFileLookup", OptionKind::Bool, "read folders in folders")
        .default("false"),
    OptionSpec::new("basePath", OptionKind::Text, "where partition folders begin"),
    OptionSpec::new("ignoreCorruptFiles", OptionKind::Bool, "leave out what cannot be read")
        .default("false"),
    OptionSpec::new("ignoreMissingFiles", OptionKind::Bool, "leave out files that vanished")
        .default("false"),
    OptionSpec::new(
        "maxCachedFiles",
        OptionKind::Count { min: 0, max: u64::MAX },
        "files kept for the next batches",
    )
    .default("10000"),
    OptionSpec::new(
        "discardCachedInputRatio",
        OptionKind::Text,
        "when a small rest is listed again",
    )
    .default("0.2"),
    OptionSpec::new(
        "onefold.source.allowChangedFiles",
        OptionKind::Bool,
        "read a file again although its size or time changed",
    )
    .default("false"),
    OptionSpec::new("modifiedBefore", OptionKind::Text, "refused: only for batch reads"),
    OptionSpec::new("modifiedAfter", OptionKind::Text, "refused: only for batch reads"),
    OptionSpec::new("timeZone", OptionKind::Text, "the zone of timestamps that name none"),
];

const MODE: OptionSpec = OptionSpec::new(
    "mode",
    OptionKind::Choice(&["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]),
    "what happens to malformed records",
)
.default("PERMISSIVE");
const CORRUPT: OptionSpec = OptionSpec::new(
    "columnNameOfCorruptRecord",
    OptionKind::Text,
    "the column that gets the text of malformed records",
)
.default("_corrupt_record");
const MULTI_LINE: OptionSpec =
    OptionSpec::new("multiLine", OptionKind::Bool, "records may span lines").default("false");
const LINE_SEP: OptionSpec = OptionSpec::new("lineSep", OptionKind::Text, "what ends a line");
const ENCODING: OptionSpec =
    OptionSpec::new("encoding", OptionKind::Choice(&["UTF-8", "utf8"]), "only UTF-8");
const LOCALE: OptionSpec = OptionSpec::new(
    "locale",
    OptionKind::Choice(&["en-US", "en"]),
    "language of names of months and days",
)
.default("en-US");

/// Options of values in text files.
pub(crate) static VALUES: &[OptionSpec] = &[
    OptionSpec::new("dateFormat", OptionKind::Text, "pattern of dates, as in dd/MM/yyyy"),
    OptionSpec::new(
        "timestampFormat",
        OptionKind::Text,
        "pattern of timestamps, as in yyyy-MM-dd HH:mm:ss[.SSS][XXX]",
    ),
    OptionSpec::new("timestampNTZFormat", OptionKind::Text, "pattern of timestamps without a zone"),
    OptionSpec::new(
        "enableDateTimeParsingFallback",
        OptionKind::Bool,
        "read what does not fit a pattern as if there were none",
    )
    .default("false"),
    LOCALE,
];

/// Options of `json`.
pub(crate) static JSON: &[OptionSpec] = &[
    MODE,
    CORRUPT,
    MULTI_LINE,
    LINE_SEP,
    ENCODING,
    OptionSpec::new(
        "primitivesAsString",
        OptionKind::Bool,
        "a schema that is inferred has strings for all simple values",
    )
    .default("false"),
    OptionSpec::new("allowComments", OptionKind::Bool, "allow comments").default("false"),
    OptionSpec::new("allowUnquotedFieldNames", OptionKind::Bool, "allow bare names")
        .default("false"),
    OptionSpec::new("allowSingleQuotes", OptionKind::Bool, "allow single quotes").default("true"),
    OptionSpec::new("allowNumericLeadingZeros", OptionKind::Bool, "allow 007").default("false"),
    OptionSpec::new("allowBackslashEscapingAnyCharacter", OptionKind::Bool, "allow any escape")
        .default("false"),
    OptionSpec::new("allowUnquotedControlChars", OptionKind::Bool, "allow control characters")
        .default("false"),
    OptionSpec::new("allowNonNumericNumbers", OptionKind::Bool, "allow NaN and Infinity")
        .default("true"),
];

/// Options of `csv`.
pub(crate) static CSV: &[OptionSpec] = &[
    MODE,
    CORRUPT,
    MULTI_LINE,
    LINE_SEP,
    ENCODING,
    OptionSpec::new("sep", OptionKind::Text, "what separates fields"),
    OptionSpec::new("delimiter", OptionKind::Text, "the same as sep"),
    OptionSpec::new("header", OptionKind::Bool, "the first line names the columns")
        .default("false"),
    OptionSpec::new("quote", OptionKind::Text, "what surrounds fields; empty for none")
        .default("\""),
    OptionSpec::new("escape", OptionKind::Text, "what escapes a quote").default("\\"),
    OptionSpec::new("comment", OptionKind::Text, "lines that start with this are left out"),
    OptionSpec::new("nullValue", OptionKind::Text, "the text that stands for null").default(""),
    OptionSpec::new("emptyValue", OptionKind::Text, "what an empty quoted field reads as")
        .default(""),
    OptionSpec::new(
        "inferSchema",
        OptionKind::Bool,
        "a schema that is inferred has types, not only strings",
    )
    .default("false"),
    OptionSpec::new("nanValue", OptionKind::Text, "the text that stands for no number")
        .default("NaN"),
    OptionSpec::new("positiveInf", OptionKind::Text, "the text that stands for infinity")
        .default("Inf"),
    OptionSpec::new("negativeInf", OptionKind::Text, "the text that stands for minus infinity")
        .default("-Inf"),
    OptionSpec::new("enforceSchema", OptionKind::Bool, "ignore the names in headers")
        .default("true"),
    OptionSpec::new("ignoreLeadingWhiteSpace", OptionKind::Bool, "trim the front of fields")
        .default("false"),
    OptionSpec::new("ignoreTrailingWhiteSpace", OptionKind::Bool, "trim the end of fields")
        .default("false"),
];

/// Options of `text`.
pub(crate) static TEXT: &[OptionSpec] = &[
    LINE_SEP,
    OptionSpec::new("wholetext", OptionKind::Bool, "a file is one row").default("false"),
];
