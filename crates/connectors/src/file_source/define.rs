//! A file source as part of a query: checks what the user asked for and finds the schema.

mod content;
mod overlap;
mod places;

use super::clean::Cleaner;
use super::formats::{Formats, Reading};
use super::infer::{self, Inference};
use super::input::Tolerance;
use super::json_scan::Leniency;
use super::listing::{Places, has_glob};
use super::note::ChosenFile;
use super::partitions;
use super::reader::{FormatReader, Wanted};
use super::scan::{FileScan, METADATA, Origin, Shared, metadata_fields};
use super::source::{FileSource, Limit};
use super::times::Zone;
use crate::formats::Format;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use async_trait::async_trait;
use content::{check_columns, given_columns, leniency, reader};
use datafusion::physical_plan::ExecutionPlan;
use onefold_connector::{
    Options, Overlap, ScanRequest, Source, SourceContext, SourceDefinition, SourceRequest,
};
use onefold_storage::Place;
use onefold_types::{Error, Replay, Result};
use places::{base_of, local_place, places};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;

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

impl Definition {
    /// Checks a request.
    pub(crate) async fn define(
        format: Format,
        request: SourceRequest,
    ) -> Result<Arc<dyn SourceDefinition>> {
        let runtime = Handle::current();
        let work = move || Self::check(format, request, runtime);
        let definition = tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| Error::internal("checking a source stopped").because(error))??;
        Ok(Arc::new(definition))
    }

    fn check(format: Format, request: SourceRequest, runtime: Handle) -> Result<Definition> {
        let SourceRequest { options, schema, mut paths, conf, whole: _ } = request;
        if paths.is_empty() {
            paths.extend(options.text("path").map(str::to_owned));
        }
        let places = places(&paths, &options, &conf, runtime)?;
        let zone = zone_of(&options, &conf)?;
        let tolerance = Tolerance {
            corrupt: options.flag("ignoreCorruptFiles"),
            missing: options.flag("ignoreMissingFiles"),
            changed: options.flag("onefold.source.allowChangedFiles"),
        };
        let schema = match schema {
            None if infers(format, &conf) => {
                let reader = reader(format, &options, &Fields::empty())?;
                let inference = Inference {
                    strings: options.flag("primitivesAsString"),
                    csv_types: options.flag("inferSchema"),
                    leniency: leniency(&options),
                    zone,
                };
                Some(infer::schema(&places, &reader, tolerance, inference)?)
            }
            given => given,
        };
        let base = base_of(&options, &places)?;
        let partition_columns = match &base {
            Some(base) => {
                partitions::columns(&places.samples()?, base, schema.as_ref(), true, zone)
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
            tolerance,
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
            Some("delete") => Ok(Some(Cleaner::Delete(self.places.bucket.clone()))),
            Some("archive") => self.archive().map(Some),
            _ => Ok(None),
        }
    }

    fn archive(&self) -> Result<Cleaner> {
        let Some(folder) = self.options.text("sourceArchiveDir") else {
            return invalid("cleanSource=archive needs sourceArchiveDir; give it a folder");
        };
        if let Some(bucket) = &self.places.bucket {
            return invalid(format!(
                "cleanSource=archive moves local files only, not those of {}; use \
                 cleanSource=delete, or a rule of the bucket",
                bucket.start()
            ));
        }
        let path = PathBuf::from(local_place(folder, "sourceArchiveDir")?);
        let archive = Place::find(folder)?;
        if let Some(Overlap { input, .. }) = overlap::find(&self.places, &archive)? {
            return invalid(format!(
                "sourceArchiveDir {archive} and the source {input} lie in one another; archive \
                 elsewhere"
            ));
        }
        Ok(Cleaner::Archive(path))
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
                bucket: self.places.bucket.clone(),
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

/// Whether the schema is taken from the files that are there.
fn infers(format: Format, conf: &BTreeMap<String, String>) -> bool {
    !matches!(format, Format::Text | Format::BinaryFile)
        && conf
            .get("spark.sql.streaming.schemaInference")
            .is_some_and(|text| text.trim().eq_ignore_ascii_case("true"))
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
            how: match self.places.bucket {
                Some(_) => "each file is recorded with its ETag, and checked when it is read",
                None => "each file is recorded with its size and time, and checked when it is read",
            }
            .to_owned(),
        }
    }

    fn description(&self) -> String {
        let start = self.places.bucket.as_ref().map_or("file:", |bucket| bucket.start());
        let paths: Vec<String> =
            self.places.patterns.iter().map(|path| format!("{start}{path}")).collect();
        format!("FileStreamSource[{}]", paths.join(","))
    }

    fn folders(&self) -> Vec<String> {
        self.places
            .patterns
            .iter()
            .map(|pattern| {
                let plain = pattern.split('/').take_while(|part| !has_glob(part));
                self.places.uri(&plain.collect::<Vec<_>>().join("/"))
            })
            .collect()
    }

    fn overlap(&self, place: &Place) -> Result<Option<Overlap>> {
        overlap::find(&self.places, place)
    }

    async fn open(&self, context: SourceContext) -> Result<Arc<dyn Source>> {
        let mut definition = self.clone();
        if let Some(bucket) = &self.places.bucket {
            definition.places.bucket = Some(bucket.with_settings(&context.conf)?);
        }
        Ok(Arc::new(FileSource::open(Arc::new(definition), context).await?))
    }
}
