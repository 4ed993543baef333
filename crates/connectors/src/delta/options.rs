//! The options of the Delta sink: Spark's names.

use super::fit::Change;
use crate::file_sink::options::{FileOptions, Format, PARQUET_CODECS};
use onefold_connector::{ONE_BATCH, OptionKind, OptionSpec, Options, OutputMode, SinkRequest};
use onefold_types::{Error, OptionMap, Result};
use std::collections::BTreeMap;

/// Settings of a session that become settings of new tables.
const DEFAULTS: &str = "spark.databricks.delta.properties.defaults.";
/// The session's setting beside option `mergeSchema`.
const AUTO_MERGE: &str = "spark.databricks.delta.schema.autoMerge.enabled";
/// Whether an overwrite replaces the whole, or the partitions that get rows.
const OVERWRITE_SETTING: &str = "spark.sql.sources.partitionOverwriteMode";

/// Options of the sink.
pub(crate) static WRITE: &[OptionSpec] = &[
    OptionSpec::new("path", OptionKind::Text, "the table's folder"),
    OptionSpec::new(
        "mergeSchema",
        OptionKind::Bool,
        "columns that the table does not have are added to it",
    ),
    OptionSpec::new(
        "overwriteSchema",
        OptionKind::Bool,
        "where all rows are replaced, the columns are as well",
    ),
    OptionSpec::new(
        "partitionOverwriteMode",
        OptionKind::Choice(&["static", "dynamic"]),
        "dynamic: an overwrite replaces only the partitions that get rows",
    ),
    OptionSpec::new(
        "maxRecordsPerFile",
        OptionKind::Count { min: 0, max: u64::MAX },
        "rows of a file at most; 0 is no limit",
    )
    .default("0"),
    OptionSpec::new("compression", OptionKind::Choice(PARQUET_CODECS), "the codec of the files")
        .default("snappy"),
    OptionSpec::new("userMetadata", OptionKind::Text, "a text that the history shows"),
    OptionSpec::new(
        "txnAppId",
        OptionKind::Text,
        "with txnVersion: a write that the table has already is not made again",
    ),
    OptionSpec::new(
        "txnVersion",
        OptionKind::Count { min: 0, max: i64::MAX as u64 },
        "the number of the write among those of txnAppId",
    ),
    OptionSpec::refused("replaceWhere", "delete the rows first, then append"),
];

/// What a write was asked for.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) files: FileOptions,
    pub(crate) partition_by: Vec<String>,
    pub(crate) output_mode: OutputMode,
    /// Settings of a new table.
    pub(crate) settings: BTreeMap<String, String>,
    /// Only the partitions that get rows are replaced.
    pub(crate) by_partition: bool,
    pub(crate) user_metadata: Option<String>,
    /// An application's id and the number of this write among its own.
    pub(crate) txn: Option<(String, i64)>,
    /// There will be no other batch.
    pub(crate) one_batch: bool,
    merges: bool,
    replaces: bool,
}

impl WriteOptions {
    /// Reads what a request says.
    ///
    /// # Errors
    /// Invalid: options that do not go together.
    pub(crate) fn read(request: &SinkRequest) -> Result<WriteOptions> {
        let options = &request.options;
        let mut files = OptionMap::new();
        for name in ["maxRecordsPerFile", "compression"] {
            if let Some(value) = options.text(name) {
                files.set(name, value);
            }
        }
        let spec = &crate::file_sink::PARQUET;
        let files = Options::check("sink `delta`", spec.options, files)?;
        let app = options.text("txnAppId").map(str::to_owned);
        let txn = match (app, options.count("txnVersion")) {
            (Some(app), Some(version)) => Some((app, i64::try_from(version).unwrap_or(i64::MAX))),
            (None, None) => None,
            _ => {
                return Err(Error::invalid(
                    "options txnAppId and txnVersion only go together; give both or none",
                ));
            }
        };
        Ok(WriteOptions {
            files: FileOptions::read(Format::Parquet, &files)?,
            partition_by: request.partition_by.clone(),
            output_mode: request.output_mode,
            settings: BTreeMap::new(),
            by_partition: options.choice("partitionOverwriteMode").as_deref() == Some("dynamic"),
            user_metadata: options.text("userMetadata").map(str::to_owned),
            txn,
            one_batch: false,
            merges: options.flag("mergeSchema"),
            replaces: options.flag("overwriteSchema"),
        })
    }

    /// With what the session's settings say.
    ///
    /// # Errors
    /// Invalid: settings that do not go together.
    pub(crate) fn with_settings(
        mut self,
        conf: &BTreeMap<String, String>,
        given: &Options,
    ) -> Result<WriteOptions> {
        let is_set = |name: &str| conf.get(name).is_some_and(|it| it.eq_ignore_ascii_case("true"));
        self.one_batch = is_set(ONE_BATCH);
        self.merges |= !given.given("mergeSchema") && is_set(AUTO_MERGE);
        if !given.given("partitionOverwriteMode") {
            let setting = conf.get(OVERWRITE_SETTING);
            self.by_partition = setting.is_some_and(|it| it.eq_ignore_ascii_case("dynamic"));
        }
        self.by_partition &= self.one_batch;
        self.settings = conf
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix(DEFAULTS)?, value)))
            .map(|(name, value)| (format!("delta.{name}"), value.clone()))
            .collect();
        if self.replaces && self.output_mode != OutputMode::Complete {
            return Err(Error::invalid(
                "option overwriteSchema needs a write that replaces all rows: mode overwrite, or \
                 output mode complete; to add columns, use mergeSchema",
            ));
        }
        Ok(self)
    }

    /// How far rows may change the table's columns.
    pub(crate) fn change(&self) -> Change {
        if self.replaces {
            Change::Replace
        } else if self.merges {
            Change::Add
        } else {
            Change::Nothing
        }
    }

    /// Whether rows that are there go.
    pub(crate) fn overwrites(&self) -> bool {
        self.output_mode == OutputMode::Complete
    }
}
