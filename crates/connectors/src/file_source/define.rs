//! A file source as part of a query: checks what the user asked for and finds the schema.

use super::cells::{Cells, nullable};
use super::clean::Cleaner;
use super::csv::Dialect;
use super::formats::{Formats, Reading};
use super::input::Tolerance;
use super::json_scan::Leniency;
use super::listing::{Places, expand, has_glob, matcher};
use super::note::ChosenFile;
use super::partitions;
use super::reader::{FormatReader, Wanted};
use super::rows::Mode;
use super::scan::{FileScan, METADATA, Origin, Shared, metadata_fields};
use super::seen::SeenFiles;
use super::source::{FileSource, Limit};
use super::times::Zone;
use crate::formats::Format;
use crate::java_uri;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{
    Options, ScanRequest, Source, SourceContext, SourceDefinition, SourceRequest,
};
use onefold_storage::location::local_path;
use onefold_types::{Error, Replay, Result};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How files are chosen.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) limit: Limit,
    pub(crate) latest_first: bool,
    pub(crate) max_age_ms: i64,
    pub(crate) names_only: bool,
    pub(crate) cached_max: usize,
    pub(crate) discard_ratio: f64,
}

/// A checked file source.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    options: Options,
    pub(crate) places: Places,
    pub(crate) choice: Choice,
    pub(crate) tolerance: Tolerance,
    reader: FormatReader,
    leniency: Leniency,
    formats: Arc<Formats>,
    base: Option<String>,
    data_columns: usize,
    partition_columns: Vec<Field>,
    schema: SchemaRef,
}

fn invalid<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::invalid(text))
}

/// An absolute path or pattern of what a user gave. A plain path is taken as it is; of a URL the
/// escapes are taken out.
fn absolute(given: &str) -> Result<String> {
    if given.is_empty() {
        return invalid("the path of the file source is empty; give load() a folder");
    }
    if let Some(path) = local_path(given)? {
        return Ok(trimmed(&path.to_string_lossy()));
    }
    if let Some((scheme, _)) = given.split_once("://") {
        return invalid(format!(
            "{given}: the file source reads local files only so far, not `{scheme}://`"
        ));
    }
    if given.starts_with('/') {
        return Ok(trimmed(given));
    }
    let here = std::env::current_dir()
        .map_err(|error| Error::unavailable("the current folder is gone").because(error))?;
    Ok(trimmed(&format!("{}/{given}", here.display())))
}

fn trimmed(path: &str) -> String {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    format!("/{}", parts.join("/"))
}

fn one_char(options: &Options, name: &str) -> Result<Option<char>> {
    let text = options.text(name).unwrap_or_default();
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (None, _) | (Some('\0'), None) => Ok(None),
        (Some(letter), None) => Ok(Some(letter)),
        _ => invalid(format!("option `{name}` is `{text}`, but takes one character")),
    }
}

fn mode(options: &Options) -> Mode {
    match options.choice("mode").as_deref() {
        Some("dropmalformed") => Mode::DropMalformed,
        Some("failfast") => Mode::FailFast,
        _ => Mode::Permissive,
    }
}

fn leniency(options: &Options) -> Leniency {
    Leniency {
        comments: options.flag("allowComments"),
        unquoted_names: options.flag("allowUnquotedFieldNames"),
        single_quotes: options.flag("allowSingleQuotes"),
        leading_zeros: options.flag("allowNumericLeadingZeros"),
        escape_any: options.flag("allowBackslashEscapingAnyCharacter"),
        control_chars: options.flag("allowUnquotedControlChars"),
        non_numbers: options.flag("allowNonNumericNumbers"),
    }
}

fn choice(options: &Options) -> Result<Choice> {
    let files = options.count("maxFilesPerTrigger");
    let bytes = options.bytes("maxBytesPerTrigger");
    let limit = match (files, bytes) {
        (Some(_), Some(_)) => {
            return invalid(
                "maxFilesPerTrigger and maxBytesPerTrigger exclude each other; give one of them",
            );
        }
        (Some(files), None) => Limit::Files(usize::try_from(files).unwrap_or(usize::MAX)),
        (None, Some(bytes)) => Limit::Bytes(bytes),
        (None, None) => Limit::None,
    };
    for name in ["modifiedBefore", "modifiedAfter"] {
        if options.given(name) {
            return invalid(format!("option `{name}` is only for batch reads; leave it out"));
        }
    }
    let latest_first = options.flag("latestFirst");
    // As in Spark: with newest first and a limit, old files come last and must not be too old then.
    let max_age_ms = if latest_first && limit != Limit::None {
        i64::MAX
    } else {
        options.duration_ms("maxFileAge").and_then(|ms| i64::try_from(ms).ok()).unwrap_or(i64::MAX)
    };
    let ratio = options.text("discardCachedInputRatio").and_then(|text| text.parse().ok());
    Ok(Choice {
        limit,
        latest_first,
        max_age_ms,
        names_only: options.flag("fileNameOnly"),
        cached_max: options
            .count("maxCachedFiles")
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(10_000),
        discard_ratio: ratio.filter(|ratio| (0.0..=1.0).contains(ratio)).ok_or_else(|| {
            Error::invalid("option `discardCachedInputRatio` takes a number from 0 to 1")
        })?,
    })
}

fn separator(options: &Options) -> Option<Vec<u8>> {
    options.text("lineSep").filter(|text| !text.is_empty()).map(|text| text.as_bytes().to_vec())
}

fn reader(format: Format, options: &Options, data: &Fields) -> Result<FormatReader> {
    let corrupt_column =
        || options.text("columnNameOfCorruptRecord").unwrap_or_default().to_owned();
    Ok(match format {
        Format::Json => FormatReader::Json {
            multi_line: options.flag("multiLine"),
            separator: separator(options),
            mode: mode(options),
            corrupt_column: corrupt_column(),
        },
        Format::Csv => {
            let corrupt_column = corrupt_column();
            let given = options.text("sep").or_else(|| options.text("delimiter")).unwrap_or(",");
            let names = data
                .iter()
                .map(|field| field.name().clone())
                .filter(|name| *name != corrupt_column)
                .collect();
            let dialect = Dialect {
                separator: if given == "\\t" { "\t".to_owned() } else { given.to_owned() },
                quote: one_char(options, "quote")?,
                escape: one_char(options, "escape")?,
                comment: one_char(options, "comment")?,
                header: options.flag("header"),
                enforce_schema: options.flag("enforceSchema"),
                null_value: options.text("nullValue").unwrap_or_default().to_owned(),
                empty_value: options.text("emptyValue").unwrap_or_default().to_owned(),
                trim_leading: options.flag("ignoreLeadingWhiteSpace"),
                trim_trailing: options.flag("ignoreTrailingWhiteSpace"),
                multi_line: options.flag("multiLine"),
                line_separator: separator(options),
                places: Vec::new(),
                names,
            };
            if dialect.separator.is_empty() {
                return invalid("option `sep` is empty; give the text that separates fields");
            }
            FormatReader::Csv { dialect, mode: mode(options), corrupt_column }
        }
        Format::Text => {
            FormatReader::Text { whole: options.flag("wholetext"), separator: separator(options) }
        }
        Format::Parquet => FormatReader::Parquet,
        Format::BinaryFile => FormatReader::BinaryFile,
    })
}

/// The columns that a format has by itself, or that the user gave.
fn given_columns(format: Format, given: Option<&SchemaRef>) -> Result<Fields> {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Ok(match (format, given) {
        (Format::BinaryFile, _) => vec![
            Field::new("path", DataType::Utf8, true),
            Field::new("modificationTime", time, true),
            Field::new("length", DataType::Int64, true),
            Field::new("content", DataType::Binary, true),
        ]
        .into(),
        (_, Some(schema)) => nullable(schema.fields()),
        (Format::Text, None) => vec![Field::new("value", DataType::Utf8, true)].into(),
        (_, None) => {
            return invalid(format!(
                "a stream of {} files needs a schema; give one, as in schema(\"id BIGINT\")",
                format.name()
            ));
        }
    })
}

fn check_columns(format: Format, data: &Fields) -> Result<()> {
    match format {
        Format::Text
            if data.len() != 1 || data.iter().any(|f| f.data_type() != &DataType::Utf8) =>
        {
            invalid("text files have one column, of type string; correct the schema")
        }
        Format::Json | Format::Csv => {
            for field in data {
                let nested = field.data_type().is_nested() && format == Format::Csv;
                Cells::new(field.data_type())
                    .and_then(|_| {
                        if nested {
                            return invalid("csv holds no nested values; use another type");
                        }
                        Ok(())
                    })
                    .map_err(|error| {
                        Error::invalid(format!("column `{}` does not fit", field.name()))
                            .because(error)
                    })?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

impl Definition {
    /// Checks a request.
    pub(crate) async fn define(
        format: Format,
        request: SourceRequest,
    ) -> Result<Arc<dyn SourceDefinition>> {
        let work = move || Self::check(format, request);
        let definition = tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| Error::internal("checking a source stopped").because(error))??;
        Ok(Arc::new(definition))
    }

    fn check(format: Format, request: SourceRequest) -> Result<Definition> {
        let SourceRequest { options, schema, mut paths } = request;
        if paths.is_empty() {
            paths.extend(options.text("path").map(str::to_owned));
        }
        if paths.is_empty() {
            return invalid("the file source needs a path; give load() a folder");
        }
        let places = Places {
            patterns: paths.iter().map(|path| absolute(path)).collect::<Result<_>>()?,
            name_filter: options.text("pathGlobFilter").map(matcher).transpose()?,
            recursive: options.flag("recursiveFileLookup"),
        };
        for pattern in &places.patterns {
            if !has_glob(pattern) && !Path::new(pattern).exists() {
                return invalid(format!(
                    "{} does not exist; make the folder or correct the path",
                    java_uri::file_uri(Path::new(pattern))
                ));
            }
        }
        let zone = zone_of(&options, &BTreeMap::new())?;
        let base = base_of(&options, &places)?;
        let partition_columns = match &base {
            Some(base) => {
                let files = places.list(&SeenFiles::new(i64::MAX, false))?;
                let paths: Vec<String> = files.into_iter().map(|file| file.path).collect();
                partitions::columns(&paths, base, schema.as_ref(), true, zone)
            }
            None => Vec::new(),
        };
        let data: Fields = given_columns(format, schema.as_ref())?
            .iter()
            .filter(|field| {
                !partition_columns.iter().any(|p| p.name().eq_ignore_ascii_case(field.name()))
            })
            .cloned()
            .collect();
        check_columns(format, &data)?;
        let mut fields: Vec<Field> = data.iter().map(|field| field.as_ref().clone()).collect();
        fields.extend(partition_columns.iter().cloned());
        if !fields.iter().any(|field| field.name() == METADATA) {
            let kind = DataType::Struct(metadata_fields(format == Format::Parquet));
            let hidden = HashMap::from([("onefold.hidden".to_owned(), "true".to_owned())]);
            fields.push(Field::new(METADATA, kind, true).with_metadata(hidden));
        }
        let definition = Definition {
            choice: choice(&options)?,
            tolerance: Tolerance {
                corrupt: options.flag("ignoreCorruptFiles"),
                missing: options.flag("ignoreMissingFiles"),
                changed: options.flag("onefold.source.allowChangedFiles"),
            },
            reader: reader(format, &options, &data)?,
            leniency: leniency(&options),
            formats: Arc::new(Formats::of(&options)?),
            base,
            data_columns: data.len(),
            partition_columns,
            schema: Arc::new(Schema::new(fields)),
            options,
            places,
        };
        definition.cleaner()?;
        Ok(definition)
    }

    /// The zone of timestamps that name none.
    pub(crate) fn zone(&self, conf: &BTreeMap<String, String>) -> Result<Zone> {
        zone_of(&self.options, conf)
    }

    /// What becomes of files that are done.
    pub(crate) fn cleaner(&self) -> Result<Option<Cleaner>> {
        match self.options.choice("cleanSource").as_deref() {
            Some("delete") => Ok(Some(Cleaner::Delete)),
            Some("archive") => {
                let Some(folder) = self.options.text("sourceArchiveDir") else {
                    return invalid("cleanSource=archive needs sourceArchiveDir; give it a folder");
                };
                let folder = PathBuf::from(absolute(folder)?);
                for pattern in &self.places.patterns {
                    for root in expand(pattern)? {
                        if folder.starts_with(&root) || root.starts_with(&folder) {
                            return invalid(format!(
                                "sourceArchiveDir {} and the source {} lie in one another; \
                                 archive elsewhere",
                                folder.display(),
                                root.display()
                            ));
                        }
                    }
                }
                Ok(Some(Cleaner::Archive(folder)))
            }
            _ => Ok(None),
        }
    }

    /// The plan that reads these files.
    pub(crate) fn scan(
        &self,
        files: Vec<ChosenFile>,
        zone: Zone,
        request: &ScanRequest<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let projection = request.projection.unwrap_or(&all);
        let mut of_file = Vec::new();
        let mut origins = Vec::new();
        let mut metadata = false;
        for at in projection {
            let partitions_end = self.data_columns + self.partition_columns.len();
            origins.push(if *at < self.data_columns {
                let place = of_file.iter().position(|known| known == at).unwrap_or_else(|| {
                    of_file.push(*at);
                    of_file.len() - 1
                });
                Origin::File(place)
            } else if *at < partitions_end {
                Origin::Partition(at - self.data_columns)
            } else {
                metadata = true;
                Origin::Metadata
            });
        }
        let project = |columns: &[usize]| {
            self.schema
                .project(columns)
                .map(Arc::new)
                .map_err(|error| Error::internal("a column is out of range").because(error))
        };
        let config = request.session.config();
        let formats = Arc::clone(&self.formats);
        let reading = Reading { zone, leniency: self.leniency, formats };
        let in_paths = Reading::plain(zone, self.leniency);
        let shared = Shared {
            reader: self.reader.clone(),
            wanted: Wanted {
                schema: project(&of_file)?,
                reading,
                batch_rows: config.batch_size().max(1),
                tolerance: self.tolerance,
                row_index: metadata && matches!(self.reader, FormatReader::Parquet),
            },
            origins,
            schema: project(projection)?,
        };
        let files = files
            .into_iter()
            .map(|file| {
                let values = partitions::scalars(
                    &file.path,
                    self.base.as_deref(),
                    &self.partition_columns,
                    &in_paths,
                )?;
                Ok((file, values))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(FileScan::new(shared, files, config.target_partitions())))
    }
}

fn zone_of(options: &Options, conf: &BTreeMap<String, String>) -> Result<Zone> {
    let name = options
        .text("timeZone")
        .or_else(|| conf.get("spark.sql.session.timeZone").map(String::as_str))
        .unwrap_or("UTC");
    Zone::parse(name).ok_or_else(|| {
        Error::invalid(format!("`{name}` is no time zone; write it as UTC, +01:00 or Europe/Paris"))
    })
}

/// Where partition folders begin, as a URI: `basePath`, or the one path that is no pattern.
fn base_of(options: &Options, places: &Places) -> Result<Option<String>> {
    if places.recursive {
        return Ok(None);
    }
    if let Some(base) = options.text("basePath") {
        return Ok(Some(java_uri::file_uri(Path::new(&absolute(base)?))));
    }
    Ok(match places.patterns.as_slice() {
        [one] if !has_glob(one) => Some(java_uri::file_uri(Path::new(one))),
        _ => None,
    })
}

#[async_trait]
impl SourceDefinition for Definition {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn replay(&self) -> Replay {
        if self.tolerance.changed {
            return Replay::None {
                why: "onefold.source.allowChangedFiles lets files change between two readings"
                    .to_owned(),
            };
        }
        Replay::Exact {
            how: "each file is recorded with its size and time, and checked when it is read"
                .to_owned(),
        }
    }

    fn description(&self) -> String {
        let paths: Vec<String> = self.places.patterns.iter().map(|p| format!("file:{p}")).collect();
        format!("FileStreamSource[{}]", paths.join(","))
    }

    fn folders(&self) -> Vec<String> {
        self.places
            .patterns
            .iter()
            .map(|pattern| {
                let plain = pattern.split('/').take_while(|part| !has_glob(part));
                let path = plain.collect::<Vec<_>>().join("/");
                java_uri::file_uri(Path::new(&path))
            })
            .collect()
    }

    async fn open(&self, context: SourceContext) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(FileSource::open(Arc::new(self.clone()), context).await?))
    }
}
