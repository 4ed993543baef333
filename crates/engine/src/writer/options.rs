//! The writer's own options, and how those of a sink are told from them.

use crate::conf::{Conf, SETTINGS};
use onefold_connector::{OptionKind, OptionSpec, Options, SinkSpec};
use onefold_plan::stream::TtlOptions;
use onefold_types::{Error, OptionMap, Result};

/// Options of the writer itself, whatever the sink.
pub static WRITER_OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "checkpointLocation",
        OptionKind::Text,
        "folder that keeps the query's progress; the same at every start",
    ),
    OptionSpec::new("path", OptionKind::Text, "folder of the output"),
    OptionSpec::new("queryName", OptionKind::Text, "name of the query, as `query_name`"),
    OptionSpec::new(
        "requireExactlyOnce",
        OptionKind::Bool,
        "refuses to start a query that is not exactly-once",
    )
    .default("false"),
    OptionSpec::new(
        "onefold.lateRows.path",
        OptionKind::Text,
        "folder of a second sink, which gets the rows that are dropped as late; its other options \
         have the same prefix",
    ),
    OptionSpec::new(
        "onefold.lateRows.format",
        OptionKind::Text,
        "the second sink, by name; parquet if only its path is given",
    ),
    OptionSpec::new(
        "onefold.deadLetters.path",
        OptionKind::Text,
        "folder of a sink of its own for records that cannot be processed: the query goes on without \
         them; its other options have the same prefix",
    ),
    OptionSpec::new(
        "onefold.deadLetters.format",
        OptionKind::Text,
        "that sink, by name; parquet if only its path is given",
    ),
    OptionSpec::new(
        "onefold.sinks.NAME.path",
        OptionKind::Text,
        "folder of one more sink of the result, under a name of yours; its other options have the same \
         prefix",
    ),
    OptionSpec::new(
        "onefold.sinks.NAME.format",
        OptionKind::Text,
        "that sink, by name; parquet if only its path is given",
    ),
];

/// What options of the time to live of one operator's state begin with; its name follows.
pub(super) const TTL_PREFIX: &str = "onefold.state.ttl.";

pub(super) static WRITER_TABLE: &[&[OptionSpec]] = &[WRITER_OPTIONS];
pub(super) static SETTING_TABLE: &[&[OptionSpec]] = &[SETTINGS];

/// How long operators without a bound keep what is not written.
pub(super) fn ttl_options(conf: &Conf, by_label: &OptionMap) -> Result<TtlOptions> {
    let ms = |text: &str| {
        let ms = onefold_connector::options::parse_duration_ms(text);
        ms.and_then(|ms| i64::try_from(ms).ok()).ok_or_else(|| {
            Error::invalid(format!("onefold.state.ttl is `{text}`; it is a span of time, as 12h"))
        })
    };
    let by_label = by_label.iter().map(|(label, text)| Ok((label.to_owned(), ms(text)?)));
    Ok(TtlOptions {
        all_ms: conf.text("onefold.state.ttl").map(ms).transpose()?,
        by_label: by_label.collect::<Result<_>>()?,
    })
}

pub(super) fn has_option(spec: &SinkSpec, name: &str) -> bool {
    let mut rows = spec.options.iter().flat_map(|rows| rows.iter());
    rows.any(|row| row.means(name))
}

/// As [`Options::check`]; but a name that is nearer to one of the writer's own than to any of the
/// sink's is said to be that.
pub(super) fn check_sink_options(spec: &'static SinkSpec, given: OptionMap) -> Result<Options> {
    let rows = || spec.options.iter().flat_map(|rows| rows.iter());
    let distance = |row: &OptionSpec, name: &str| {
        strsim::damerau_levenshtein(&row.name.to_lowercase(), &name.to_lowercase())
    };
    for (name, _) in given.iter() {
        if has_option(spec, name) {
            continue;
        }
        let own = WRITER_OPTIONS.iter().map(|row| distance(row, name)).min();
        let sinks = rows().map(|row| distance(row, name)).min();
        if own < sinks || sinks.is_none() {
            let wrong = OptionMap::new().with(name, "");
            return Options::check("writeStream", WRITER_TABLE, wrong);
        }
    }
    Options::check(&format!("sink `{}`", spec.name), spec.options, given)
}

/// The options given, without secrets.
pub(super) fn shown_options(spec: &SinkSpec, options: &Options) -> Vec<(String, String)> {
    spec.options
        .iter()
        .flat_map(|rows| rows.iter())
        .filter(|row| options.given(row.name))
        .filter_map(|row| Some((row, options.text(row.name)?)))
        .filter(|(row, value)| row.may_be_kept(value))
        .map(|(row, value)| (row.name.to_owned(), value.to_owned()))
        .collect()
}
