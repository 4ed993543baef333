//! The session's settings, as the client reads and writes them.

use crate::failure::{Failure, Outcome};
use onefold_engine::{SETTINGS, Session};
use spark_connect_proto::KeyValue;
use spark_connect_proto::config_request::operation::OpType;

/// Settings of Spark that clients read by themselves, with the values of a fresh Spark 4.2.
const DEFAULTS: &[(&str, &str)] = &[
    ("spark.app.name", "onefold"),
    ("spark.master", "local[*]"),
    ("spark.connect.session.planCompression.threshold", "10485760"),
    ("spark.connect.session.planCompression.defaultAlgorithm", "ZSTD"),
    ("spark.connect.session.resultChunking.maxChunkSize", "120795955"),
    ("spark.python.sql.dataFrameDebugging.enabled", "true"),
    ("spark.sql.ansi.enabled", "true"),
    ("spark.sql.caseSensitive", "false"),
    ("spark.sql.connect.enrichError.enabled", "true"),
    ("spark.sql.connect.serverStacktrace.enabled", "true"),
    ("spark.sql.execution.arrow.enabled", "true"),
    ("spark.sql.execution.arrow.fallback.enabled", "true"),
    ("spark.sql.execution.arrow.maxRecordsPerBatch", "10000"),
    ("spark.sql.execution.arrow.pyspark.enabled", "true"),
    ("spark.sql.execution.arrow.pyspark.fallback.enabled", "true"),
    ("spark.sql.execution.arrow.pyspark.selfDestruct.enabled", "false"),
    ("spark.sql.execution.arrow.useLargeVarTypes", "false"),
    ("spark.sql.execution.pandas.convertToArrowArraySafely", "true"),
    ("spark.sql.execution.pandas.inferPandasDictAsMap", "false"),
    ("spark.sql.execution.pandas.structHandlingMode", "legacy"),
    ("spark.sql.artifact.isolation.enabled", "true"),
    ("spark.sql.execution.pyspark.binaryAsBytes", "true"),
    ("spark.sql.execution.pythonUDF.arrow.enabled", "true"),
    ("spark.sql.execution.pythonUDTF.arrow.enabled", "true"),
    ("spark.sql.leafNodeDefaultParallelism", "4"),
    (
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    ),
    ("spark.sql.legacy.allowUntypedScalaUDF", "false"),
    ("spark.sql.mapKeyDedupPolicy", "EXCEPTION"),
    ("spark.sql.pyspark.inferNestedDictAsStruct.enabled", "false"),
    ("spark.sql.pyspark.jvmStacktrace.enabled", "false"),
    ("spark.sql.pyspark.legacy.inferArrayTypeFromFirstElement.enabled", "false"),
    ("spark.sql.pyspark.legacy.inferMapTypeFromFirstPair.enabled", "false"),
    ("spark.sql.repl.eagerEval.enabled", "false"),
    ("spark.sql.repl.eagerEval.maxNumRows", "20"),
    ("spark.sql.repl.eagerEval.truncate", "20"),
    ("spark.sql.session.localRelationBatchOfChunksSizeBytes", "1073741824"),
    ("spark.sql.session.localRelationCacheThreshold", "1048576"),
    ("spark.sql.session.localRelationChunkSizeBytes", "16777216"),
    ("spark.sql.session.localRelationChunkSizeRows", "10000"),
    ("spark.sql.session.localRelationSizeLimit", "3221225472"),
    ("spark.sql.session.timeZone", "UTC"),
    ("spark.sql.shuffle.partitions", "200"),
    ("spark.sql.sources.default", "parquet"),
    ("spark.sql.streaming.minBatchesToRetain", "100"),
    ("spark.sql.streaming.multipleWatermarkPolicy", "min"),
    ("spark.sql.timestampType", "TIMESTAMP_LTZ"),
    ("spark.sql.warehouse.dir", "spark-warehouse"),
];

/// Settings that are fixed when a server starts.
const STATIC: [&str; 4] =
    ["spark.master", "spark.sql.warehouse.dir", "spark.sql.extensions", "spark.plugins"];

/// The value that holds for a setting.
pub(crate) fn value(session: &Session, key: &str) -> Option<String> {
    session.conf().get(key).or_else(|| default(key))
}

fn default(key: &str) -> Option<String> {
    DEFAULTS.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned()).or_else(
        || {
            let known = SETTINGS.iter().find(|row| row.name == key)?;
            known.default.map(str::to_owned)
        },
    )
}

fn pair(key: &str, value: Option<String>) -> KeyValue {
    KeyValue { key: key.to_owned(), value }
}

/// Sets one setting.
///
/// # Errors
/// The setting is fixed, or the value is not of its kind.
pub(crate) fn set(session: &Session, key: &str, value: &str) -> Outcome<()> {
    if STATIC.contains(&key) {
        return Err(Failure::analysis(format!(
            "Cannot modify the value of the static Spark config \"{key}\"."
        )));
    }
    session.conf().set(key, value).map_err(Failure::from)
}

/// Answers one call: pairs and warnings.
pub(crate) fn answer(
    session: &Session,
    operation: OpType,
) -> Outcome<(Vec<KeyValue>, Vec<String>)> {
    let mut pairs = Vec::new();
    let mut warnings = Vec::new();
    match operation {
        OpType::Set(request) => {
            let silent = request.silent();
            for KeyValue { key, value } in request.pairs {
                let value = value.ok_or_else(|| Failure::missing("value"))?;
                match set(session, &key, &value) {
                    Err(failure) if silent => {
                        warnings.push(failure.message().to_owned());
                    }
                    done => done?,
                }
            }
        }
        OpType::Get(request) => {
            for key in request.keys {
                let found = value(session, &key).ok_or_else(|| Failure::no_setting(&key))?;
                pairs.push(pair(&key, Some(found)));
            }
        }
        OpType::GetWithDefault(request) => {
            for asked in request.pairs {
                let found = session.conf().get(&asked.key).or(asked.value);
                pairs.push(pair(&asked.key, found.or_else(|| default(&asked.key))));
            }
        }
        OpType::GetOption(request) => {
            for key in request.keys {
                pairs.push(pair(&key, value(session, &key)));
            }
        }
        OpType::GetAll(request) => {
            let mut all: std::collections::BTreeMap<String, String> = DEFAULTS
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            all.extend(session.conf().all());
            let prefix = request.prefix.unwrap_or_default();
            for (key, value) in all {
                if let Some(rest) = key.strip_prefix(&prefix) {
                    pairs.push(pair(rest, Some(value)));
                }
            }
        }
        OpType::Unset(request) => {
            for key in request.keys {
                session.conf().unset(&key);
            }
        }
        OpType::IsModifiable(request) => {
            for key in request.keys {
                let fixed = STATIC.contains(&key.as_str());
                let known = default(&key).is_some() || session.conf().get(&key).is_some();
                pairs.push(pair(&key, Some((known && !fixed).to_string())));
            }
        }
    }
    Ok((pairs, warnings))
}
