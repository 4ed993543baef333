//! Spark's functions, operators and casts.
//!
//! `datafusion-spark` has most functions; this module registers them first and adds what is
//! missing, where Spark spells or means something else than DataFusion. Casts, arithmetic and
//! division follow Spark's ANSI mode, which is Spark 4's default: a value that does not fit is an
//! error, and `try_cast` gives NULL. What depends on the session's time zone takes it from
//! `datafusion.execution.time_zone`.

mod aggregates;
mod arithmetic;
mod average;
mod avro;
mod calendar;
pub(crate) mod cast;
mod charsets;
mod clock;
mod clock_fields;
mod collected;
mod concat;
mod csv;
mod datetime;
mod decimal_division;
mod decimal_exact;
mod encoded;
mod extremes;
pub(crate) mod floats;
pub(crate) mod generators;
pub(crate) mod higher_order;
pub(crate) mod http_call;
mod implicit;
pub(crate) mod inferred;
pub(crate) mod json;
mod list_facts;
mod list_fields;
mod lists;
mod maps;
mod murmur;
mod nested_text;
pub(crate) mod nth_field;
mod numerals;
mod operators;
mod options;
mod pattern;
mod patterns;
mod protobuf;
mod raising;
pub(crate) mod registry;
mod sequence;
mod simple;
mod strings;
mod sum;
mod timestamp_text;
mod typed;
mod utc_times;
pub(crate) mod window;
pub(crate) mod zone;
pub(crate) mod zoned_times;

pub use http_call::{calls_of, use_calls};
pub use inferred::{CsvColumns, JsonColumns};
pub use registry::use_registry;

use crate::failure;
use crate::meaning::SparkMeaning;
use crate::stream::{RandomFunction, RandomKind};
use arrow::array::ArrayRef;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::prelude::SessionContext;
use onefold_types::Result;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Registers all functions with a session.
///
/// # Errors
/// Internal, when the session refuses a function.
pub fn register(context: &SessionContext) -> Result<()> {
    let state = context.state_ref();
    let mut state = state.write();
    // First, since it registers the functions that are there anew, with all their names.
    crate::rules::replace(&mut state);
    datafusion_spark::register_all(&mut *state).map_err(failure::planning)?;
    for (own, known) in ALIASES {
        if let Ok(function) = state.udf(known) {
            let function = function.as_ref().clone().with_aliases([own]);
            state.register_udf(Arc::new(function)).map_err(failure::planning)?;
        }
    }
    aggregates::register(&mut *state)?;
    for function in OWN.values() {
        state.register_udf(Arc::clone(function)).map_err(failure::planning)?;
    }
    // Not among our own above: a session may have those that ask a registry, and call others.
    state.register_udf(Arc::new(avro::from_avro(None))).map_err(failure::planning)?;
    state.register_udf(Arc::new(http_call::function(None, None))).map_err(failure::planning)?;
    for function in collected::functions() {
        state.register_udaf(function).map_err(failure::planning)?;
    }
    for function in extremes::functions() {
        state.register_udaf(function).map_err(failure::planning)?;
    }
    state.register_udaf(average::function()).map_err(failure::planning)?;
    state.register_udaf(sum::function()).map_err(failure::planning)?;
    floats::register(&mut *state)?;
    implicit::register(&mut *state)?;
    state.add_analyzer_rule(Arc::new(SparkMeaning));
    for function in higher_order::functions() {
        state.register_higher_order_function(function).map_err(failure::planning)?;
    }
    Ok(())
}

/// Whether a text names a time zone as Spark takes it.
#[must_use]
pub fn is_time_zone(name: &str) -> bool {
    zone::Zone::parse(name).is_some()
}

/// The columns with each instant in them as what clocks of a zone show then, a timestamp without
/// zone; what names no zone is taken for UTC.
///
/// # Errors
/// Internal, when the columns are not of their types.
pub fn civil_times(columns: &[ArrayRef], zone: &str) -> Result<Vec<ArrayRef>> {
    let zone = zone::Zone::parse(zone).unwrap_or_else(zone::Zone::utc);
    let civil = columns.iter().map(|column| zone::civil(column, &zone));
    civil.collect::<datafusion::error::Result<_>>().map_err(failure::planning)
}

/// Spark's name and DataFusion's for the same function.
const ALIASES: [(&str, &str); 18] = [
    ("charindex", "locate"),
    ("date_diff", "datediff"),
    ("to_timestamp_ltz", "to_timestamp"),
    ("timestampadd", "timestampadd"),
    ("try_url_decode", "try_url_decode"),
    ("regexp", "regexp_like"),
    ("rlike", "regexp_like"),
    ("ucase", "upper"),
    ("lcase", "lower"),
    ("startswith", "starts_with"),
    ("endswith", "ends_with"),
    ("sign", "signum"),
    ("power", "pow"),
    ("ifnull", "nvl"),
    ("named_struct", "named_struct"),
    ("len", "length"),
    ("sha", "sha1"),
    ("array_join", "array_to_string"),
];

static OWN: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let mut functions = vec![
        ScalarUDF::new_from_impl(RandomFunction::registered(RandomKind::Uniform))
            .with_aliases(["random"]),
        ScalarUDF::new_from_impl(RandomFunction::registered(RandomKind::Normal)),
        ScalarUDF::new_from_impl(RandomFunction::registered(RandomKind::Uuid)),
    ];
    functions.extend(cast::functions());
    functions.extend(arithmetic::functions());
    functions.extend(avro::functions());
    functions.extend(charsets::functions());
    functions.extend(clock::functions());
    functions.extend(clock_fields::functions());
    functions.push(concat::function());
    functions.extend(datetime::functions());
    functions.extend(zoned_times::functions());
    functions.extend(decimal_division::functions());
    functions.extend(decimal_exact::functions());
    functions.extend(strings::functions());
    functions.extend(generators::functions());
    functions.extend(inferred::functions());
    functions.extend(json::functions());
    functions.extend(calendar::functions());
    functions.extend(list_facts::functions());
    functions.push(list_fields::function());
    functions.extend(lists::functions());
    functions.extend(maps::functions());
    functions.extend(murmur::functions());
    functions.push(nth_field::function());
    functions.extend(numerals::functions());
    functions.extend(patterns::functions());
    functions.extend(protobuf::functions());
    functions.extend(raising::functions());
    functions.extend(sequence::functions());
    functions.extend(utc_times::functions());
    functions.extend(window::functions());
    let mut by_name = HashMap::new();
    for function in functions {
        let function = Arc::new(function);
        for alias in function.aliases() {
            by_name.insert(alias.clone(), Arc::clone(&function));
        }
        by_name.insert(function.name().to_owned(), function);
    }
    by_name
});

/// One of our own functions, by name in lower case.
pub(crate) fn own(name: &str) -> Option<Arc<ScalarUDF>> {
    OWN.get(name).cloned()
}

/// Planners for Spark's operators and special forms, to stand before all others.
pub(crate) fn planners() -> Vec<Arc<dyn ExprPlanner>> {
    vec![
        Arc::new(operators::SparkOperators),
        Arc::new(datafusion_spark::planner::SparkFunctionPlanner),
    ]
}
