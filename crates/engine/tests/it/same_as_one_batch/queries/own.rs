//! State of the query's own.

use super::{Case, WINDOW, append, ended, in_windows, left, numbers, tumbling};
use crate::same_as_one_batch::rows::{Input, LAST, Row};
use arrow::datatypes::DataType;
use onefold_engine::{
    ExpiredTimer, GroupState, GroupTimeout, MapState, OutputMode, ProcessorContext, Rows,
    StatefulProcessor, TimeMode, UserError, Variables,
};
use std::collections::BTreeSet;

/// The values that a key has not had.
fn new_values(
    k: i64,
    rows: Rows<'_, (i64, i64, i64)>,
    state: &mut GroupState<'_, Vec<i64>>,
) -> Result<Vec<i64>, UserError> {
    let mut seen = state.get()?.unwrap_or_default();
    let mut new = Vec::new();
    for row in rows {
        let (.., v) = row?;
        if !seen.contains(&v) {
            seen.push(v);
            new.push(k * 100 + v);
        }
    }
    state.update(&seen)?;
    Ok(new)
}

fn values(input: &Input) -> BTreeSet<i64> {
    input.left.iter().map(|row| row.k * 100 + row.v).collect()
}

pub const OWN_FUNCTION: Case = append(
    "own function",
    |world, _| {
        let rows = world.frame().select_expr(&COLUMNS).unwrap().group_by(&["k"]);
        let (append, none) = (OutputMode::Append, GroupTimeout::None);
        rows.flat_map_groups_with_state("seen ARRAY<BIGINT>", "id BIGINT", append, none, new_values)
            .unwrap()
    },
    |input| values(input).into_iter().collect(),
)
.keeps(|input| input.left.iter().map(|row| row.k).collect::<BTreeSet<_>>().len())
.unsettled();

const COLUMNS: [&str; 3] = [
    "CAST((id % 10000 - id % 100) / 100 AS BIGINT) AS k",
    "CAST((id - id % 10000) / 10000 AS BIGINT) AS ms",
    "id % 100 AS v",
];

/// Count and sum of each window of a key, given out by a timer at the window's end.
#[derive(Clone, Default)]
struct Windows {
    sums: MapState<i64, (i64, i64)>,
}

impl StatefulProcessor for Windows {
    type Key = i64;
    type Input = (i64, i64, i64);
    type Initial = ();
    type Output = i64;

    fn init(&mut self, variables: &mut Variables) -> Result<(), UserError> {
        let sum = [("n", DataType::Int64), ("s", DataType::Int64)];
        let sum = sum.map(|(name, kind)| arrow::datatypes::Field::new(name, kind, true));
        let sum = DataType::Struct(Vec::from(sum).into());
        self.sums = variables.map("sums", DataType::Int64, sum, None)?;
        Ok(())
    }

    fn handle_input_rows(
        &mut self,
        _key: i64,
        rows: Rows<'_, (i64, i64, i64)>,
        context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<i64>, UserError> {
        for row in rows {
            let (_, ms, v) = row?;
            let end = tumbling(ms) + WINDOW;
            let (n, s) = self.sums.get(context, &end)?.unwrap_or_default();
            self.sums.update(context, &end, &(n + 1, s + v))?;
            context.register_timer(end)?;
        }
        Ok(Vec::new())
    }

    fn handle_expired_timer(
        &mut self,
        key: i64,
        timer: ExpiredTimer,
        context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<i64>, UserError> {
        let end = timer.expiry_ms;
        let (n, s) = self.sums.get(context, &end)?.unwrap_or_default();
        self.sums.remove(context, &end)?;
        Ok(numbers([((end - WINDOW, key), (n, s))].into()))
    }
}

pub const OWN_PROCESSOR: Case = append(
    "own processor",
    |world, _| {
        let columns = ["coalesce(k, 0) AS k", "unix_millis(ts) AS ms", "v", "ts"];
        let rows = left(world).select_expr(&columns).unwrap().group_by(&["k"]);
        let (time, append) = (TimeMode::EventTime, OutputMode::Append);
        rows.transform_with_state("id BIGINT", time, append, Windows::default()).unwrap()
    },
    |input| {
        let rows = input.left_in_time().map(|row| Row { late: 0, ..*row });
        numbers(ended(in_windows(rows), WINDOW, LAST))
    },
);
