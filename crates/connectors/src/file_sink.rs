//! Sinks that write files, with the manifest that Spark reads.
//!
//! Data files are written under hidden names, then all get their final names, then the batch's
//! file of the manifest is created: that create is the mark, and the atomic act. Names hold query,
//! batch and generation, so that recovery can tell files of a batch that was never published, and
//! a plain listing, without the manifest, shows no row twice after it.
//!
//! # Invariants
//! - A data file's name is made once: nothing is overwritten.
//! - Nothing that the manifest names is ever destroyed here.
//! - What an older driver left of a batch is destroyed only after that batch's mark is decided.
//!
//! Start reading at `sink::FileSink`.

mod audit;
mod avro_file;
pub(crate) mod columns;
pub(crate) mod content;
mod csv_lines;
pub(crate) mod encode;
mod json_lines;
mod json_objects;
pub(crate) mod leftovers;
mod line_file;
mod manifest;
pub(crate) mod names;
mod once;
pub(crate) mod options;
mod orc_file;
mod ownership;
pub(crate) mod parquet_file;
pub(crate) mod partitioning;
mod pattern;
mod rebuild;
mod rest;
mod sink;
mod spark_text;
pub(crate) mod stage;
pub(crate) mod stored_file;
mod text_lines;
mod value_text;

use async_trait::async_trait;
use columns::Columns;
use encode::Encoding;
pub(crate) use json_objects::JsonObjects;
use manifest::{Keeper, Manifest, Retention};
use once::OneBatch;
use onefold_connector::{
    Attempt, ONE_BATCH, OutputMode, Sink, SinkContext, SinkDefinition, SinkRequest, SinkSpec,
};
use onefold_storage::Store;
use onefold_types::{Delivery, Error, OptionMap, Result};
use options::{FileOptions, Format};
use sink::{FileSink, State};
pub(crate) use stage::plan_failed;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

macro_rules! file_sink {
    ($name:ident, $format:expr, $options:expr, $summary:expr) => {
        #[doc = $summary]
        pub static $name: SinkSpec = SinkSpec {
            name: $format.name(),
            summary: $summary,
            options: &[options::COMMON, $options],
            define: |request| define($format, request),
        };
    };
}

file_sink!(PARQUET, Format::Parquet, options::PARQUET, "Parquet files in a folder");
file_sink!(JSON, Format::Json, options::JSON, "files of JSON lines in a folder");
file_sink!(CSV, Format::Csv, options::CSV, "CSV files in a folder");
file_sink!(TEXT, Format::Text, options::TEXT, "text files in a folder, from one text column");
file_sink!(AVRO, Format::Avro, options::AVRO, "Avro files in a folder");
file_sink!(ORC, Format::Orc, options::ORC, "ORC files in a folder");

fn define(format: Format, request: SinkRequest) -> Result<Arc<dyn SinkDefinition>> {
    let name = format.name();
    let given = request.path.as_deref().or_else(|| request.options.text("path"));
    let path = match given {
        Some(path) if !path.trim().is_empty() => path.to_owned(),
        _ => {
            return Err(Error::invalid(format!(
                "the {name} sink needs a folder; give it with start(path) or option `path`"
            )));
        }
    };
    if request.output_mode != OutputMode::Append {
        return Err(Error::invalid(format!(
            "the {name} sink takes output mode append only; use outputMode(\"append\")"
        )));
    }
    let options = Arc::new(FileOptions::read(format, &request.options)?);
    let store = onefold_storage::open(&path, &OptionMap::new())?;
    Ok(Arc::new(FileSinkDefinition {
        options,
        partition_by: request.partition_by,
        store,
        path: Some(path),
    }))
}

/// A file sink as part of a query's definition.
#[derive(Debug)]
pub(crate) struct FileSinkDefinition {
    options: Arc<FileOptions>,
    partition_by: Vec<String>,
    store: Arc<dyn Store>,
    /// What to open; `None` where the caller opened the store.
    path: Option<String>,
}

impl FileSinkDefinition {
    /// How rows become files, and the time zone of times as text.
    fn encoding(&self, context: &SinkContext) -> Result<(Encoding, String)> {
        let columns = Columns::split(self.options.format, &context.schema, &self.partition_by)?;
        let session_zone = context.conf.get("spark.sql.session.timeZone");
        let time_zone = self.options.time_zone.as_ref().or(session_zone);
        let time_zone = time_zone.map_or("UTC", String::as_str).to_owned();
        spark_text::zone(&time_zone)?;
        Ok((Encoding::new(columns, Arc::clone(&self.options), &time_zone)?, time_zone))
    }

    /// The store with the session's settings: how to reach an object store is said there.
    fn store_for(&self, conf: &BTreeMap<String, String>) -> Result<Arc<dyn Store>> {
        let remote = !self.store.url().starts_with("file:");
        let prefixes = ["spark.hadoop.fs.", "fs.", "aws_", "google_", "azure_"];
        let settings: OptionMap = conf
            .iter()
            .filter(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        match &self.path {
            Some(path) if remote && !settings.is_empty() => onefold_storage::open(path, &settings),
            _ => Ok(Arc::clone(&self.store)),
        }
    }
}

/// A definition of a file sink over a store that the caller opened.
///
/// # Errors
/// Invalid: the options do not fit together.
pub fn define_over(
    spec: &'static SinkSpec,
    request: &SinkRequest,
    store: Arc<dyn Store>,
) -> Result<Arc<dyn SinkDefinition>> {
    let formats =
        [Format::Parquet, Format::Json, Format::Csv, Format::Text, Format::Avro, Format::Orc];
    let format = formats
        .into_iter()
        .find(|format| format.name() == spec.name)
        .ok_or_else(|| Error::invalid(format!("`{}` is not a sink of files", spec.name)))?;
    let options = Arc::new(FileOptions::read(format, &request.options)?);
    Ok(Arc::new(FileSinkDefinition {
        options,
        partition_by: request.partition_by.clone(),
        store,
        path: None,
    }))
}

#[async_trait]
impl SinkDefinition for FileSinkDefinition {
    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce {
            how: "a batch's entry in the manifest is created once, after its files, and is its \
                  mark"
                .to_owned(),
        }
    }

    fn description(&self) -> String {
        // Hadoop's spelling of a local path has one slash.
        let url = self.store.url();
        let place = match url.strip_prefix("file://") {
            Some(path) => format!("file:{path}"),
            None => url.to_owned(),
        };
        format!("FileSink[{place}]")
    }

    fn folder(&self) -> Option<String> {
        Some(self.store.url().to_owned())
    }

    async fn open(&self, context: SinkContext) -> Result<Arc<dyn Sink>> {
        let (encoding, time_zone) = self.encoding(&context)?;
        let store = self.store_for(&context.conf)?;
        let is_set = |name: &str| context.conf.get(name).is_some_and(|value| value == "true");
        if is_set(ONE_BATCH) {
            let options = Arc::clone(&self.options);
            return Ok(Arc::new(OneBatch::new(store, encoding, options, time_zone)));
        }
        let (files, hidden) = manifest::list_with_leftovers(store.as_ref()).await?;
        let joins = context.last_commit.is_none();
        let newest = manifest::newest(store.as_ref(), &files, joins).await?;
        ownership::check(store.as_ref(), newest.as_ref(), &context).await?;
        let interval = setting(&context.conf, "spark.sql.streaming.fileSink.log.compactInterval");
        let retention = Retention {
            age_ms: self.options.retention_ms,
            batches: self.options.retain_batches.or_else(|| {
                context.conf.get("onefold.sink.retainBatches").and_then(|text| text.parse().ok())
            }),
        };
        let keeper = Keeper {
            query: context.query,
            generation: context.generation,
            joins,
            interval: interval.unwrap_or(10),
            retention,
        };
        let manifest = Manifest::new(Arc::clone(&store), keeper, files);
        let delay = context
            .conf
            .get("spark.sql.streaming.fileSink.log.cleanupDelay")
            .and_then(|text| onefold_connector::options::parse_duration_ms(text))
            .unwrap_or(600_000);
        // One that only looks must not change anything: the process may live.
        let looks = is_set("onefold.readOnly");
        let sink = FileSink {
            store,
            manifest,
            encoding,
            options: Arc::clone(&self.options),
            query: context.query,
            generation: context.generation,
            follows: context.follows,
            time_zone,
            clock: context.clock,
            cleanup_delay_ms: i64::try_from(delay).unwrap_or(i64::MAX),
            state: Mutex::new(State::shared_to(context.last_intent)),
        };
        if context.last_commit.is_some() {
            sink.check_entries().await?;
        }
        if !looks {
            // In a sink that follows, what is staged for the newest intent may count.
            let open = context.last_intent.filter(|_| context.follows);
            leftovers::clear(sink.store.as_ref(), (sink.query, sink.generation), hidden, open)
                .await?;
        }
        Ok(Arc::new(sink))
    }
}

/// The texts of each column of rows, as Spark shows them.
///
/// # Errors
/// Invalid: a type without text, or a time zone that is not known.
pub(crate) fn spark_texts(
    rows: &arrow::array::RecordBatch,
    time_zone: &str,
) -> Result<Vec<Vec<Option<String>>>> {
    let columns = rows.schema_ref().fields().iter().zip(rows.columns());
    columns
        .map(|(field, column)| {
            let texts = spark_text::Texts::of(field.name(), column, time_zone)?;
            Ok((0..rows.num_rows()).map(|row| texts.get(row).map(str::to_owned)).collect())
        })
        .collect()
}

fn setting(conf: &BTreeMap<String, String>, name: &str) -> Option<u64> {
    conf.get(name).and_then(|text| text.trim().parse().ok())
}

/// What stands in hidden names of an attempt's files.
fn tag(attempt: &Attempt) -> String {
    use onefold_storage::planted::{Bug, planted};
    if planted(Bug::StagedNamesWithoutGeneration) {
        return format!("b{}", attempt.batch);
    }
    format!("g{}", attempt.generation)
}
