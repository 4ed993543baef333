//! Sinks beside the main one, as the writer's options describe them.

use super::DataStreamWriter;
use super::options::{has_option, shown_options};
use crate::run::definition::{Beside, FurtherSink, SinkRecord};
use arrow::datatypes::SchemaRef;
use onefold_connector::{Options, OutputMode, SinkDefinition, SinkRequest, SourceDefinition};
use onefold_plan::stream::{SideRows, StreamingPlan};
use onefold_types::{Error, OptionMap, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The format of a further sink that names none, as of the main one.
const DEFAULT: &str = "parquet";

impl Beside {
    /// What options of their sink begin with.
    fn prefix(self) -> &'static str {
        match self {
            Beside::Result => "onefold.sinks.",
            Beside::LateRows => "onefold.lateRows.",
            Beside::DeadLetters => "onefold.deadLetters.",
        }
    }

    /// Their columns; the error of a query that has none of them.
    fn schema(self, plan: &StreamingPlan, writer: &DataStreamWriter) -> Result<SchemaRef> {
        match self {
            Beside::Result => Ok(plan.schema()),
            Beside::LateRows => {
                let state = writer.session.inner.context.state();
                plan.late_schema(&state)?.ok_or_else(no_late_rows)
            }
            Beside::DeadLetters => plan.dead_letter_schema().ok_or_else(no_dead_letters),
        }
    }
}

/// A sink that is asked for.
struct Wanted {
    rows: Beside,
    name: String,
    /// One of the user's own.
    own: Option<Arc<dyn SinkDefinition>>,
    options: OptionMap,
}

/// All that is asked for beside the main sink.
pub(super) struct WantedBeside {
    sinks: Vec<Wanted>,
    /// Whether the main sink is to take dead letters.
    letters_in_main: bool,
}

impl WantedBeside {
    /// What has to leave the plan.
    pub(super) fn rows(&self) -> SideRows {
        let wanted = |rows: Beside| self.sinks.iter().any(|it| it.rows == rows);
        SideRows {
            late: wanted(Beside::LateRows),
            dead_letters: self.letters_in_main || wanted(Beside::DeadLetters),
        }
    }
}

impl DataStreamWriter {
    /// Takes the options of further sinks out of the writer's.
    pub(super) fn wanted_beside(&mut self) -> WantedBeside {
        let mut wanted = WantedBeside { sinks: Vec::new(), letters_in_main: false };
        let own = [
            (Beside::LateRows, self.late_rows.take()),
            (Beside::DeadLetters, self.dead_letters.take()),
        ];
        for (rows, own) in own {
            let prefix = rows.prefix();
            if own.is_none() && self.main_takes(prefix) {
                wanted.letters_in_main |= rows == Beside::DeadLetters;
                continue;
            }
            let options = self.options_below(prefix);
            if own.is_some() || !options.is_empty() {
                let name = rows.name().to_owned();
                wanted.sinks.push(Wanted { rows, name, own, options });
            }
        }
        wanted.sinks.extend(self.of_result());
        wanted
    }

    /// The further sinks of the result, by name: those of one's own, and those of options
    /// `onefold.sinks.NAME.OPTION`.
    fn of_result(&mut self) -> impl Iterator<Item = Wanted> + use<> {
        let mut by_name: BTreeMap<String, Wanted> = BTreeMap::new();
        let rows = Beside::Result;
        let fresh = |name: &str| Wanted {
            rows,
            name: name.to_owned(),
            own: None,
            options: OptionMap::new(),
        };
        for (name, own) in self.also_into.drain(..) {
            by_name.entry(name.to_lowercase()).or_insert_with(|| fresh(&name)).own = Some(own);
        }
        for (key, value) in self.options_below(rows.prefix()).iter() {
            let (name, option) = key.split_once('.').unwrap_or((key, ""));
            let wanted = by_name.entry(name.to_lowercase()).or_insert_with(|| fresh(name));
            wanted.options.set(option, value);
        }
        by_name.into_values()
    }

    /// Whether there are options with a prefix, and all are the main sink's own.
    fn main_takes(&self, prefix: &str) -> bool {
        let Ok(spec) = self.sink_spec() else { return false };
        let names = self.options.iter().map(|(name, _)| name);
        let mut names = names.filter(|name| begins(name, prefix)).peekable();
        self.sink.is_none() && names.peek().is_some() && names.all(|name| has_option(spec, name))
    }

    /// The sinks that are asked for.
    pub(super) fn further_sinks(
        &self,
        wanted: WantedBeside,
        plan: &StreamingPlan,
        query_name: Option<&str>,
    ) -> Result<Vec<FurtherSink>> {
        let sinks = wanted.sinks.into_iter().map(|it| self.further_sink(it, plan, query_name));
        sinks.collect()
    }

    fn further_sink(
        &self,
        Wanted { rows, name, own, mut options }: Wanted,
        plan: &StreamingPlan,
        query_name: Option<&str>,
    ) -> Result<FurtherSink> {
        if rows == Beside::Result {
            check_name(&name)?;
        }
        if let Some(sink) = own {
            if !options.is_empty() {
                return Err(Error::invalid(format!(
                    "a sink of one's own for {name} takes its options where it is made, not by {}",
                    rows.prefix().trim_end_matches('.')
                )));
            }
            let schema = rows.schema(plan, self)?;
            return Ok(FurtherSink { rows, name, schema, sink, record: SinkRecord::default() });
        }
        let format = options.remove("format");
        let named = format.is_some();
        let format = format.unwrap_or_else(|| DEFAULT.to_owned());
        let spec = self.known_sink(&format)?;
        let path = options.remove("path");
        let partition_by: Vec<String> = options
            .remove("partitionBy")
            .map(|text| text.split(',').map(|name| name.trim().to_owned()).collect())
            .unwrap_or_default();
        let what = format!("sink `{}` of {name}", spec.name);
        let options = Options::check(&what, spec.options, options).map_err(|error| {
            let text =
                format!("{error}; {}format, which is not given, is {DEFAULT}", rows.prefix());
            if named { error } else { Error::new(error.kind(), text) }
        })?;
        let record = SinkRecord {
            format: Some(spec.name.to_owned()),
            path: path.clone(),
            partition_by: partition_by.clone(),
            options: shown_options(spec, &options),
        };
        let table = |query: &str| format!("{query}_{}", name.replace(' ', "_"));
        let query_name = query_name.map(table);
        let output_mode = match rows {
            Beside::Result => self.output_mode,
            Beside::LateRows | Beside::DeadLetters => OutputMode::Append,
        };
        let request = SinkRequest { options, path, partition_by, query_name, output_mode };
        let mut sink = (spec.define)(request)?;
        let schema = rows.schema(plan, self)?;
        if rows == Beside::DeadLetters {
            sink = sink.of_dead_letters()?.unwrap_or(sink);
            sink.check_dead_letters(&schema, &sources(plan))?;
        }
        Ok(FurtherSink { rows, name, schema, sink, record })
    }

    /// Takes out the options whose names begin so, without that.
    pub(super) fn options_below(&mut self, prefix: &str) -> OptionMap {
        let names = self.options.iter().map(|(name, _)| name.to_owned());
        let names: Vec<String> = names.filter(|name| begins(name, prefix)).collect();
        let mut below = OptionMap::new();
        for name in names {
            if let Some(value) = self.options.remove(&name) {
                below.set(name.get(prefix.len()..).unwrap_or_default(), value);
            }
        }
        below
    }
}

/// The columns of dead letters, if they go into the main sink.
///
/// # Errors
/// Invalid, when they would go into two, or there are none.
pub(super) fn letters_in_main(
    main: &dyn SinkDefinition,
    further: &[FurtherSink],
    plan: &StreamingPlan,
) -> Result<Option<SchemaRef>> {
    if main.dead_letters().is_none() {
        return Ok(None);
    }
    if further.iter().any(|it| it.rows == Beside::DeadLetters) {
        return Err(Error::invalid(
            "dead letters go into the main sink or into one of their own, not into both",
        ));
    }
    let letters = plan.dead_letter_schema().ok_or_else(no_dead_letters)?;
    main.check_dead_letters(&letters, &sources(plan))?;
    Ok(Some(letters))
}

fn sources(plan: &StreamingPlan) -> Vec<Arc<dyn SourceDefinition>> {
    plan.sources().iter().map(|source| Arc::clone(&source.definition)).collect()
}

/// The name of a sink stands in records of the checkpoint, in options and in names of tables.
fn check_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(fits) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{}` cannot be the name of a sink: letters, digits, `_` and `-` can (options are \
         onefold.sinks.NAME.format, onefold.sinks.NAME.path and the like)",
        name.escape_debug()
    )))
}

fn begins(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

fn no_late_rows() -> Error {
    Error::invalid(
        "no operator of this query drops late rows, so that onefold.lateRows would stay empty: give \
         a stateful operator an event time with a watermark, or take the options out",
    )
}

fn no_dead_letters() -> Error {
    Error::invalid(
        "no step of this query can send a single record away, so that onefold.deadLetters would stay \
         empty. Steps that can are select, where and the like before the first aggregation, join or \
         deduplication, with something that may fail (from_json and the like fail in mode FAILFAST \
         only) and nothing that is random, a subquery or a function in Python; the keys and values \
         of an aggregation cannot: compute them in a select before it, or take the options out",
    )
}
