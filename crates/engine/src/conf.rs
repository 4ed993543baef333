//! Runtime settings of a session, with Spark's names.

use datafusion::prelude::{SessionConfig, SessionContext};
use onefold_connector::{OptionKind, OptionSpec, Options};
use onefold_types::{Error, NamesOnly, OptionMap, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// The setting of the folder that holds the folders of tables.
pub(crate) const WAREHOUSE: &str = "spark.sql.warehouse.dir";

/// Settings that the engine itself reads. Others under `spark.` are kept for connectors and plans.
pub static SETTINGS: &[OptionSpec] = &[
    OptionSpec::new(
        "spark.sql.streaming.checkpointLocation",
        OptionKind::Text,
        "folder under which a query without checkpointLocation keeps its checkpoint",
    ),
    OptionSpec::new(
        "onefold.state.ttl",
        OptionKind::Duration,
        "how long an operator without a bound of its own keeps a key that is not written any more",
    ),
    OptionSpec::new(
        "spark.sql.streaming.minBatchesToRetain",
        OptionKind::Count { min: 2, max: 1_000_000_000 },
        "batches whose logs are kept",
    )
    .default("100"),
    OptionSpec::new(
        "spark.sql.streaming.numRecentProgressUpdates",
        OptionKind::Count { min: 1, max: 100_000 },
        "batches of which progress is kept in memory",
    )
    .default("100"),
    OptionSpec::new(
        "spark.sql.streaming.noDataProgressEventInterval",
        OptionKind::Duration,
        "how often a query without data says that it is idle",
    )
    .default("10s"),
    OptionSpec::new(
        "spark.sql.streaming.pollingDelay",
        OptionKind::Duration,
        "first pause of a back-to-back query that found no data",
    )
    .default("10ms"),
    OptionSpec::new(
        "spark.sql.streaming.stopTimeout",
        OptionKind::Duration,
        "how long stop waits; 0 is for ever",
    )
    .default("0"),
    OptionSpec::new(
        "spark.sql.streaming.stopActiveRunOnRestart",
        OptionKind::Bool,
        "whether a query that starts stops its own older run in this process",
    )
    .default("true"),
    OptionSpec::new(
        "spark.sql.streaming.offsetLog.formatVersion",
        OptionKind::Count { min: 1, max: 2 },
        "format of a new offset log; named sources need 2",
    )
    .default("1"),
    OptionSpec::new(
        WAREHOUSE,
        OptionKind::Text,
        "folder below which `to_table` puts the files of a table",
    )
    .default("spark-warehouse"),
    OptionSpec::new(
        "spark.sql.streaming.noDataMicroBatches.enabled",
        OptionKind::Bool,
        "whether a batch without input follows when the watermark moved and state waits for it",
    )
    .default("true"),
    // What follows is frozen in a checkpoint by its first batch; its defaults are in the protocol.
    OptionSpec::new(
        "spark.sql.shuffle.partitions",
        OptionKind::Count { min: 1, max: 1_000_000 },
        "partitions of state (256 at most; may be changed at a restart); 200 if not set",
    ),
    OptionSpec::new(
        "spark.sql.streaming.stateStore.providerClass",
        OptionKind::Text,
        "where state is while a query runs: memory or rocksdb; Spark's class names are understood; \
         memory if not set",
    ),
    OptionSpec::new(
        "spark.sql.streaming.multipleWatermarkPolicy",
        OptionKind::Choice(&["min", "max"]),
        "which of several watermarks is the query's; min if not set",
    ),
    OptionSpec::new(
        "spark.sql.streaming.stateStore.minDeltasForSnapshot",
        OptionKind::Count { min: 2, max: 1_000_000 },
        "changes of state that are merged into a snapshot, in the background",
    )
    .default("10"),
    OptionSpec::new(
        "onefold.state.memoryLimit",
        OptionKind::Bytes,
        "memory that the state of all queries of a session may take; by default half of \
         what the machine or its container has",
    ),
    OptionSpec::new(
        "onefold.state.localDir",
        OptionKind::Text,
        "folder for state that RocksDB keeps; by default the one for temporary files",
    ),
    OptionSpec::new(
        "onefold.watermark.idleTimeout",
        OptionKind::Duration,
        "how long a watermark waits for an input without rows; 0 is for ever",
    )
    .default("0"),
    OptionSpec::new(
        "spark.sql.streaming.schemaInference",
        OptionKind::Bool,
        "a stream of files without a schema takes it from the files that are there",
    )
    .default("false"),
    OptionSpec::new(
        "onefold.retry.maxAttempts",
        OptionKind::Count { min: 1, max: 1_000_000 },
        "tries of one batch before an outside failure ends the query",
    )
    .default("5"),
    OptionSpec::new(
        "onefold.retry.initialBackoff",
        OptionKind::Duration,
        "pause before the second try, doubled for each further one",
    )
    .default("1s"),
    OptionSpec::new("onefold.retry.maxBackoff", OptionKind::Duration, "longest pause of all")
        .default("1m"),
    OptionSpec::new(
        "onefold.requireExactlyOnce",
        OptionKind::Bool,
        "refuses to start a query that is not exactly-once",
    )
    .default("false"),
    OptionSpec::new(
        "onefold.schemaRegistry.url",
        OptionKind::Text,
        "address of the schema registry that from_avro, from_protobuf and their counterparts ask",
    ),
    OptionSpec::new(
        "onefold.schemaRegistry.basic.auth.user.info",
        OptionKind::Secret,
        "USER:PASSWORD (or key and secret) for that registry, and no other one",
    ),
    OptionSpec::new(
        "onefold.schemaRegistry.bearer.auth.token",
        OptionKind::Secret,
        "token for that registry, in place of a password",
    ),
    OptionSpec::new(
        "onefold.schemaRegistry.ssl.truststore.certificates",
        OptionKind::Text,
        "certificates in PEM that vouch for that registry, beside those of the machine",
    ),
    OptionSpec::new(
        "onefold.http.allow",
        OptionKind::Text,
        "hosts and networks that alone may be called over HTTP, with commas between; by default all. \
         Fixed when the session or the server starts",
    ),
    OptionSpec::new(
        "onefold.http.deny",
        OptionKind::Text,
        "hosts and networks that are never called. Fixed as the one above",
    ),
    OptionSpec::new(
        "onefold.http.privateNetworks",
        OptionKind::Choice(&["allowed", "refused"]),
        "whether hosts in private networks may be called; refused by a server that others than this \
         machine reach. Fixed as the one above",
    )
    .default("allowed"),
    OptionSpec::new("onefold.http.timeout", OptionKind::Duration, "how long one try of http_call may take")
        .default("30s"),
    OptionSpec::new(
        "onefold.http.maxInFlight",
        OptionKind::Count { min: 1, max: 10_000 },
        "calls of http_call at the same time",
    )
    .default("32"),
    OptionSpec::new(
        "onefold.http.requestsPerSecond",
        OptionKind::Count { min: 1, max: 1_000_000 },
        "calls of http_call a second, tries counted; no limit if not set",
    ),
    OptionSpec::new(
        "onefold.http.maxRetries",
        OptionKind::Count { min: 0, max: 1_000 },
        "tries of http_call after the first",
    )
    .default("5"),
    OptionSpec::new(
        "onefold.http.retryOn",
        OptionKind::Text,
        "statuses after which http_call calls again",
    )
    .default("408,409,425,429,500,502,503,504"),
    OptionSpec::new(
        "onefold.http.maxReplyBytes",
        OptionKind::Bytes,
        "the longest reply that http_call reads",
    )
    .default("1m"),
    OptionSpec::new(
        "onefold.http.failureThreshold",
        OptionKind::Count { min: 0, max: 1_000_000 },
        "failures in a row after which http_call leaves a receiver alone; 0 is never",
    )
    .default("20"),
    OptionSpec::new(
        "onefold.http.coolDown",
        OptionKind::Duration,
        "how long that lasts, until one call tries again",
    )
    .default("10s"),
    OptionSpec::new(
        "onefold.http.tls.certificates",
        OptionKind::Text,
        "certificates in PEM that vouch for receivers of http_call, beside those of the machine",
    ),
    OptionSpec::new(
        "onefold.http.NAME.url",
        OptionKind::Text,
        "where the credentials NAME may go: this address and those below it",
    ),
    OptionSpec::new(
        "onefold.http.NAME.bearer",
        OptionKind::Secret,
        "token that http_call sends there with option auth => NAME",
    ),
    OptionSpec::new("onefold.http.NAME.user", OptionKind::Text, "user, in place of a token"),
    OptionSpec::new("onefold.http.NAME.password", OptionKind::Secret, "that user's password"),
    OptionSpec::new(
        "onefold.http.NAME.header",
        OptionKind::Secret,
        "a header that goes with it, such as `X-Api-Key: …`",
    ),
    OptionSpec::new(
        TIME_ZONE,
        OptionKind::Text,
        "zone in which dates and times without one are read, computed and shown",
    )
    .default("UTC"),
];

/// Settings by which who starts a session or a server bounds what its users may reach: they are not
/// changed later.
const SEALED: [&str; 3] =
    ["onefold.http.allow", "onefold.http.deny", "onefold.http.privateNetworks"];

/// The setting of the session's time zone.
pub(crate) const TIME_ZONE: &str = "spark.sql.session.timeZone";

static TABLES: &[&[OptionSpec]] = &[SETTINGS];

/// The settings of a session; may be changed while it lives. A query takes those of its start.
#[derive(Clone, Default)]
pub struct RuntimeConf {
    values: Arc<RwLock<BTreeMap<String, String>>>,
    /// The planner, which has the session's zone too.
    planner: Arc<OnceLock<SessionContext>>,
    sealed: Arc<AtomicBool>,
}

impl fmt::Debug for RuntimeConf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NamesOnly(&self.all()).fmt(f)
    }
}

impl RuntimeConf {
    /// Sets a value.
    ///
    /// # Errors
    /// Invalid, when the engine knows the setting and the value is not of its kind, and for a
    /// setting of Onefold's own that there is not.
    pub fn set(&self, name: impl Into<String>, value: impl Into<String>) -> Result<()> {
        let (mut name, value) = (name.into(), value.into());
        if let Some(bound) = sealed(&name) {
            // One spelling, so that no other one of it is overlooked.
            bound.clone_into(&mut name);
        }
        if self.sealed.load(Ordering::Relaxed) {
            not_sealed(&name)?;
        }
        let value = checked(&name, value)?;
        self.values.write().unwrap_or_else(PoisonError::into_inner).insert(name, value);
        self.tell_planner();
        Ok(())
    }

    /// From now on, what bounds the session's users stays as it is.
    pub(crate) fn seal(&self) {
        self.sealed.store(true, Ordering::Relaxed);
    }

    /// Lets a planner know the zone, now and when it changes.
    pub(crate) fn attach(&self, planner: &SessionContext) {
        let _ = self.planner.set(planner.clone());
        self.tell_planner();
    }

    fn tell_planner(&self) {
        if let Some(planner) = self.planner.get() {
            self.snapshot().zone_of(planner.state_ref().write().config_mut());
        }
    }

    /// Goes back to the default.
    pub fn unset(&self, name: &str) {
        if self.sealed.load(Ordering::Relaxed) && not_sealed(name).is_err() {
            tracing::warn!("setting {name} is fixed, and stays");
            return;
        }
        self.values.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.tell_planner();
    }

    /// The value set, or the default that the engine knows.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        self.snapshot().text(name).map(str::to_owned)
    }

    /// All values that were set.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, String> {
        self.values.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn snapshot(&self) -> Conf {
        Conf { values: self.all() }
    }
}

/// The setting of [`SEALED`] that a name means.
fn sealed(name: &str) -> Option<&'static str> {
    SEALED.into_iter().find(|sealed| sealed.eq_ignore_ascii_case(name))
}

/// # Errors
/// Invalid: the setting is not one of users.
fn not_sealed(name: &str) -> Result<()> {
    if sealed(name).is_some() {
        return Err(Error::invalid(format!(
            "{name} is fixed when the session or the server starts; give it there, with --conf"
        )));
    }
    Ok(())
}

/// Whether a session or a query takes this value.
///
/// # Errors
/// As [`RuntimeConf::set`].
pub(crate) fn check(name: &str, value: &str) -> Result<()> {
    checked(name, value.to_owned()).map(drop)
}

/// The value as it is kept.
fn checked(name: &str, value: String) -> Result<String> {
    // A misspelt safety of our own must not be silent; Spark has settings that mean nothing here.
    let ours = name.to_lowercase().starts_with("onefold.");
    if ours || SETTINGS.iter().any(|row| row.name.eq_ignore_ascii_case(name)) {
        Options::check("the session", TABLES, OptionMap::new().with(name, value.as_str()))?;
    }
    if !name.eq_ignore_ascii_case(TIME_ZONE) {
        return Ok(value);
    }
    if onefold_plan::functions::is_time_zone(&value) {
        return Ok(value.trim().to_owned());
    }
    Err(Error::invalid(format!(
        "{TIME_ZONE} `{value}` is no time zone; give a region such as Europe/Berlin, UTC or an \
         offset such as +02:00"
    )))
}

/// The settings of one query, fixed at its start.
#[derive(Clone, Default)]
pub(crate) struct Conf {
    values: BTreeMap<String, String>,
}

impl fmt::Debug for Conf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NamesOnly(&self.values).fmt(f)
    }
}

impl Conf {
    /// The same with settings of the query itself.
    pub(crate) fn with(mut self, own: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        for (name, value) in own {
            not_sealed(&name)?;
            let value = checked(&name, value)?;
            self.values.insert(name, value);
        }
        Ok(self)
    }

    /// Gives a planner's settings the zone.
    pub(crate) fn zone_of(&self, planner: &mut SessionConfig) {
        planner.options_mut().execution.time_zone = self.text(TIME_ZONE).map(str::to_owned);
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let default = || SETTINGS.iter().find(|row| row.name == name).and_then(|row| row.default);
        self.values.get(name).map(String::as_str).or_else(default)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// A number of the table above.
    pub(crate) fn count(&self, name: &str) -> Result<u64> {
        self.text(name).and_then(|text| text.trim().parse().ok()).ok_or_else(|| not_of_kind(name))
    }

    /// A span of the table above, in milliseconds.
    pub(crate) fn duration_ms(&self, name: &str) -> Result<i64> {
        self.text(name)
            .and_then(onefold_connector::options::parse_duration_ms)
            .and_then(|ms| i64::try_from(ms).ok())
            .ok_or_else(|| not_of_kind(name))
    }

    /// A size of the table above, in bytes.
    pub(crate) fn bytes(&self, name: &str) -> Option<u64> {
        self.text(name).and_then(onefold_connector::options::parse_bytes)
    }

    pub(crate) fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }
}

fn not_of_kind(name: &str) -> Error {
    Error::internal(format!("setting `{name}` has no value of its kind"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_settings_are_checked_and_have_defaults() {
        let conf = RuntimeConf::default();
        assert!(conf.set("onefold.retry.maxAttempts", "often").is_err());
        conf.set("spark.sql.shuffle.partitions", "7").unwrap();
        assert_eq!(conf.get("spark.sql.shuffle.partitions").as_deref(), Some("7"));
        assert_eq!(conf.snapshot().duration_ms("onefold.retry.initialBackoff").unwrap(), 1_000);
    }

    #[test]
    fn a_misspelt_setting_of_our_own_is_refused_and_one_of_spark_is_kept() {
        let conf = RuntimeConf::default();
        let error = conf.set("onefold.requireExactlyOnc", "true").unwrap_err();
        assert!(error.to_string().contains("onefold.requireExactlyOnce"), "{error}");
        conf.set("spark.some.other", "x").unwrap();
        assert_eq!(conf.get("spark.some.other").as_deref(), Some("x"));
    }

    #[test]
    fn what_bounds_users_is_fixed_at_the_start() {
        let conf = RuntimeConf::default();
        conf.set("onefold.http.allow", "api.example.com").unwrap();
        conf.seal();
        let error = conf.set("ONEFOLD.http.allow", "*.example.com").unwrap_err();
        assert!(error.to_string().contains("--conf"), "{error}");
        conf.unset("onefold.http.allow");
        assert_eq!(conf.get("onefold.http.allow").as_deref(), Some("api.example.com"));
        let own = [("onefold.http.privateNetworks".to_owned(), "allowed".to_owned())];
        assert!(conf.snapshot().with(own).is_err());
        conf.set("onefold.http.partner.bearer", "t").unwrap();
    }

    #[test]
    fn what_is_no_time_zone_is_refused_by_name_and_the_planner_follows() {
        let conf = RuntimeConf::default();
        let planner = SessionContext::new();
        conf.attach(&planner);
        let followed = || planner.state().config_options().execution.time_zone.clone();
        assert_eq!(conf.get(TIME_ZONE).as_deref(), Some("UTC"));
        assert_eq!(followed().as_deref(), Some("UTC"));
        conf.set(TIME_ZONE, "Europe/Paris").unwrap();
        assert_eq!(followed().as_deref(), Some("Europe/Paris"));
        conf.unset(TIME_ZONE);
        assert_eq!(followed().as_deref(), Some("UTC"));
        let error = conf.set(TIME_ZONE, "Paris").unwrap_err();
        assert!(error.to_string().contains("timeZone `Paris`"), "{error}");
        let own = [("spark.sql.session.timezone".to_owned(), "+19:00".to_owned())];
        assert!(conf.snapshot().with(own).is_err());
    }
}
