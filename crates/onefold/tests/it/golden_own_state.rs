//! State of the user's own over the inputs of Spark's runs of the same functions, there written in
//! Python: the same rows, batches, watermarks and counts of state.

use crate::golden_state::{Case, EVENTS, PROVIDERS};
use onefold::arrow::datatypes::{DataType, Field};
use onefold::{
    ExpiredTimer, GroupState, GroupTimeout, ListState, MapState, OutputMode, ProcessorContext,
    Rows, Session, StatefulProcessor, TimeMode, UserError, ValueState, Variables,
};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Event {
    ts: i64,
    v: i64,
}

#[derive(Serialize)]
struct Count {
    k: String,
    n: i64,
    timed_out: bool,
}

/// Counts a key's rows until none comes for 90 seconds.
fn count(
    k: String,
    rows: Rows<'_, Event>,
    state: &mut GroupState<'_, (i64,)>,
) -> Result<Vec<Count>, UserError> {
    let (mut n,) = state.get()?.unwrap_or_default();
    if state.has_timed_out() {
        state.remove();
        return Ok(vec![Count { k, n, timed_out: true }]);
    }
    let mut newest = 0;
    for row in rows {
        n += 1;
        newest = newest.max(row?.ts / 1_000);
    }
    state.update(&(n,))?;
    state.set_timeout_timestamp(newest.max(state.current_watermark_ms()) + 90_000)?;
    Ok(vec![Count { k, n, timed_out: false }])
}

#[test]
fn a_function_over_groups_with_timeouts_is_sparks() {
    for &provider in PROVIDERS {
        let case = Case::new("j_apply_in_pandas_with_state");
        case.check(provider, |session: &Session| {
            let rows = case.read(session, "input", EVENTS);
            let groups = rows.with_watermark("ts", "30 seconds").unwrap().group_by(&["k"]);
            groups
                .flat_map_groups_with_state(
                    "n BIGINT",
                    "k STRING, n BIGINT, timed_out BOOLEAN",
                    OutputMode::Append,
                    GroupTimeout::EventTime,
                    count,
                )
                .unwrap()
        });
    }
}

/// A value, a list, a map and timers.
#[derive(Clone, Default)]
struct All {
    count: ValueState<(i64,)>,
    seen: ListState<(i64,)>,
    by_value: MapState<(String,), (i64,)>,
}

fn columns(fields: &[(&str, DataType)]) -> DataType {
    let fields = fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true));
    DataType::Struct(fields.collect())
}

impl StatefulProcessor for All {
    type Key = String;
    type Input = Event;
    type Initial = ();
    type Output = (String, i64);

    fn init(&mut self, variables: &mut Variables) -> Result<(), UserError> {
        let number = |name| columns(&[(name, DataType::Int64)]);
        self.count = variables.value("cnt", number("n"), None)?;
        self.seen = variables.list("seen", number("v"), None)?;
        let key = columns(&[("mk", DataType::Utf8)]);
        self.by_value = variables.map("m", key, number("mv"), None)?;
        Ok(())
    }

    fn handle_input_rows(
        &mut self,
        key: String,
        rows: Rows<'_, Event>,
        context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<(String, i64)>, UserError> {
        let (before,) = self.count.get(context)?.unwrap_or_default();
        let n = before + i64::try_from(rows.len())?;
        for row in rows {
            let v = row?.v;
            self.seen.append(context, &(v,))?;
            self.by_value.update(context, &(v.to_string(),), &(n,))?;
        }
        self.count.update(context, &(n,))?;
        context.register_timer(context.current_watermark_ms() + 60_000)?;
        Ok(vec![(key, n)])
    }

    fn handle_expired_timer(
        &mut self,
        key: String,
        timer: ExpiredTimer,
        _context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<(String, i64)>, UserError> {
        Ok(vec![(format!("{key}!"), timer.expiry_ms)])
    }
}

#[test]
fn a_processor_with_variables_and_timers_is_sparks() {
    for &provider in PROVIDERS {
        let case = Case::new("k_transform_with_state_pandas");
        case.check(provider, |session: &Session| {
            let rows = case.read(session, "input", EVENTS);
            let groups = rows.with_watermark("ts", "30 seconds").unwrap().group_by(&["k"]);
            groups
                .transform_with_state(
                    "k STRING, n BIGINT",
                    TimeMode::EventTime,
                    OutputMode::Append,
                    All::default(),
                )
                .unwrap()
        });
    }
}
