//! State of the user's own: timeouts, timers, TTL and initial state over restarts.

use crate::state_table::{read, texts};
use crate::world::{Host, World};
use arrow::datatypes::DataType;
use onefold_engine::{
    DataFrame, ExpiredTimer, GroupState, GroupTimeout, ListState, MapState, OutputMode,
    ProcessorContext, Rows, StatefulProcessor, TimeMode, Trigger, UserError, ValueState, Variables,
};
use std::time::Duration;

const PROVIDERS: &[&str] = &[
    "memory",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
];
const START: i64 = 1_700_000_000_000;

/// Starts anew with more rows, at a time, with so many partitions.
fn go_on(world: &World, rows: &[i64], at_ms: i64, partitions: u32, frame: &DataFrame) {
    world.source.rows.lock().unwrap().extend(rows);
    world.timer.set(START + at_ms);
    let conf = world.session.conf();
    conf.set("spark.sql.shuffle.partitions", partitions.to_string()).unwrap();
    world.run_frame(frame, 1).unwrap();
}

/// Each provider with a world of its own.
fn worlds(check: impl Fn(&World)) {
    let local = tempfile::tempdir().unwrap();
    let host = Host::new(true);
    for &provider in PROVIDERS {
        let world = host.world(0, 10);
        let conf = world.session.conf();
        conf.set("spark.sql.streaming.stateStore.providerClass", provider).unwrap();
        conf.set("onefold.state.localDir", local.path().to_str().unwrap()).unwrap();
        check(&world);
    }
}

fn by_parity(world: &World) -> onefold_engine::GroupedData {
    world.frame().select_expr(&["id % 2 AS k", "id"]).unwrap().group_by(&["k"])
}

/// Gives key and count of a key that had no rows for a second.
fn quiet(
    k: i64,
    rows: Rows<'_, (i64, i64)>,
    state: &mut GroupState<'_, (i64,)>,
) -> Result<Vec<i64>, UserError> {
    let (count,) = state.get()?.unwrap_or_default();
    if state.has_timed_out() {
        state.remove();
        return Ok(vec![k * 1_000 + count]);
    }
    state.update(&(count + i64::try_from(rows.len())?,))?;
    state.set_timeout_duration(Duration::from_secs(1))?;
    Ok(Vec::new())
}

#[test]
fn timeouts_by_the_clock_are_over_after_a_restart_with_other_partitions_too() {
    worlds(|world| {
        let groups = by_parity(world);
        let (append, clock) = (OutputMode::Append, GroupTimeout::ProcessingTime);
        let frame = groups
            .flat_map_groups_with_state("n BIGINT", "id BIGINT", append, clock, quiet)
            .unwrap();
        // Each start makes one more batch without rows, since the clock goes on.
        go_on(world, &[0, 1], 0, 2, &frame);
        go_on(world, &[2], 1_001, 3, &frame);
        go_on(world, &[3], 5_000, 1, &frame);
        assert_eq!(world.seen(), [&[][..], &[], &[1_001], &[], &[2], &[]]);
        // At its very time a timeout is not over.
        go_on(world, &[4], 6_000, 2, &frame);
        go_on(world, &[6], 6_001, 2, &frame);
        assert_eq!(world.seen()[6..], [&[][..], &[], &[1_001], &[]]);
    });
}

#[test]
fn a_map_over_groups_gives_a_row_a_call_in_update_mode_only() {
    worlds(|world| {
        let count = |k: i64, rows: Rows<'_, (i64, i64)>, state: &mut GroupState<'_, (i64,)>| {
            let (count,) = state.get()?.unwrap_or_default();
            let count = count + i64::try_from(rows.len())?;
            state.update(&(count,))?;
            Ok::<_, UserError>((k * 1_000 + count,))
        };
        let groups = by_parity(world);
        let frame =
            groups.map_groups_with_state("n BIGINT", "id BIGINT", GroupTimeout::None, count);
        let frame = frame.unwrap();
        let run = |rows: &[i64]| {
            world.source.rows.lock().unwrap().extend(rows);
            let writer = world.writer_of(&frame, Trigger::AvailableNow);
            let query = writer.output_mode(OutputMode::Update).start_default().unwrap();
            query.await_termination(None).unwrap();
        };
        run(&[0, 1, 2]);
        run(&[3]);
        assert_eq!(world.seen(), [&[2, 1_001][..], &[1_002]]);
        let error = world.run_frame(&frame, 1).unwrap_err().chain();
        assert!(error.contains("append output mode"), "{error}");
    });
}

/// Remembers all there is to remember of a key.
#[derive(Clone, Default)]
struct Memory {
    total: ValueState<i64>,
    recent: ListState<i64>,
    by_id: MapState<i64, String>,
}

impl StatefulProcessor for Memory {
    type Key = i64;
    type Input = (i64, i64);
    type Initial = (i64, i64);
    type Output = i64;

    fn init(&mut self, variables: &mut Variables) -> Result<(), UserError> {
        self.total = variables.value("total", DataType::Int64, None)?;
        let ttl = Some(Duration::from_secs(10));
        self.recent = variables.list("recent", DataType::Int64, ttl)?;
        self.by_id = variables.map("by_id", DataType::Int64, DataType::Utf8, None)?;
        Ok(())
    }

    fn handle_initial_state(
        &mut self,
        _key: i64,
        rows: Rows<'_, (i64, i64)>,
        context: &mut ProcessorContext<'_>,
    ) -> Result<(), UserError> {
        for row in rows {
            let total = self.total.get(context)?.unwrap_or(0) + row?.1;
            self.total.update(context, &total)?;
        }
        Ok(())
    }

    /// Gives the total, the number of recent rows and that of all rows as one number.
    fn handle_input_rows(
        &mut self,
        key: i64,
        rows: Rows<'_, (i64, i64)>,
        context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<i64>, UserError> {
        let mut total = self.total.get(context)?.unwrap_or(0);
        for row in rows {
            let (_, id) = row?;
            total += 1;
            self.recent.append(context, &id)?;
            self.by_id.update(context, &id, &format!("of {key}"))?;
        }
        self.total.update(context, &total)?;
        for timer in context.list_timers()? {
            context.delete_timer(timer)?;
        }
        context.register_timer(context.current_processing_time_ms() + 3_000)?;
        let recent = i64::try_from(self.recent.get(context)?.len())?;
        let all = i64::try_from(self.by_id.entries(context)?.len())?;
        Ok(vec![total * 10_000 + recent * 100 + all])
    }

    fn handle_expired_timer(
        &mut self,
        key: i64,
        timer: ExpiredTimer,
        context: &mut ProcessorContext<'_>,
    ) -> Result<Vec<i64>, UserError> {
        let late = context.current_processing_time_ms() - timer.expiry_ms;
        let total = self.total.get(context)?.unwrap_or(0);
        Ok(vec![-(total * 100_000 + late * 10 + key)])
    }
}

#[test]
fn variables_timers_ttl_and_initial_state_live_over_restarts_with_other_partitions() {
    worlds(|world| {
        let initial = "SELECT CAST(0 AS BIGINT) AS k, CAST(100 AS BIGINT) AS n \
                       UNION ALL SELECT 0, 20 UNION ALL SELECT 7, 5";
        let initial = world.session.sql(initial).unwrap().group_by(&["k"]);
        let frame = by_parity(world)
            .transform_with_initial_state(
                "id BIGINT",
                TimeMode::ProcessingTime,
                OutputMode::Append,
                Memory::default(),
                &initial,
            )
            .unwrap();
        go_on(world, &[0, 1], 0, 2, &frame);
        assert_eq!(world.seen(), [vec![10_101, 1_210_101], vec![]]);
        // The initial state is not taken again; the timer of key 1 fires 100 ms late, that of key 0
        // was put off by its row.
        go_on(world, &[2], 3_100, 5, &frame);
        assert_eq!(world.seen()[2..], [vec![-101_001, 1_220_202], vec![]]);
        // What is older than ten seconds is gone from the list, and only from it.
        go_on(world, &[4], 10_500, 1, &frame);
        let fired = -(123 * 100_000 + 4_400 * 10);
        let fired_before = -(122 * 100_000 + 4_400 * 10);
        let seen = world.seen()[4].clone();
        assert!(seen.contains(&1_230_203), "{seen:?}");
        assert!(!seen.contains(&fired) && !seen.contains(&fired_before), "{seen:?}");
        assert_eq!(seen.len(), 1, "a row of the key puts its timer off");
    });
}

#[test]
fn variables_are_tables_with_sparks_columns() {
    worlds(|world| {
        let (mode, output) = (TimeMode::ProcessingTime, OutputMode::Append);
        let groups = by_parity(world);
        let frame = groups.transform_with_state("id BIGINT", mode, output, Memory::default());
        let frame = frame.unwrap();
        go_on(world, &[0, 1, 2], 0, 2, &frame);
        let rows = |name: &str, flat: &str, columns: &[&str]| {
            let options = [("stateVarName", name), ("flattenCollectionTypes", flat)];
            texts(&read(world, "statestore", &options).unwrap(), columns)
        };
        let key = "key.k AS k";
        assert_eq!(rows("total", "true", &[key, "value.value AS v"]), ["0 2", "1 1"]);
        let elements = rows("recent", "true", &[key, "list_element.value AS v"]);
        assert_eq!(elements, ["0 0", "0 2", "1 1"]);
        let columns = [key, "user_map_key.value AS id", "user_map_value.value AS v"];
        let entries = rows("by_id", "true", &columns);
        assert_eq!(entries, ["0 0 of 0", "0 2 of 0", "1 1 of 1"]);
        let columns = [key, "list_value[0].value AS first", "size(list_value) AS n"];
        assert_eq!(rows("recent", "false", &columns), ["0 0 2", "1 1 1"]);
        assert_eq!(rows("by_id", "false", &[key, "size(map_value) AS n"]), ["0 2", "1 1"]);
        let feed =
            [("stateVarName", "total"), ("readChangeFeed", "true"), ("changeStartBatchId", "0")];
        let feed = read(world, "statestore", &feed).unwrap();
        assert_eq!(texts(&feed, &["change_type", key]).first().unwrap(), "update 0");
        let one = |partition| {
            let options = [
                ("stateVarName", "total"),
                ("snapshotPartitionId", partition),
                ("snapshotStartBatchId", "0"),
            ];
            texts(&read(world, "statestore", &options).unwrap(), &[key])
        };
        assert_eq!([one("0"), one("1")].concat().len(), 2);
        let metadata = read(world, "state-metadata", &[]).unwrap();
        let seen = texts(&metadata, &["stateStoreName", "operatorProperties"]);
        assert!(seen.len() == 1 && seen[0].starts_with("default "), "{seen:?}");
        for (name, kind) in [
            ("total", "ValueState"),
            ("recent", "ListState"),
            ("by_id", "MapState"),
            ("$procTimers_keyToTimestamp", "TimerState"),
        ] {
            let wanted = format!("\"stateName\":\"{name}\",\"stateVariableType\":\"{kind}\"");
            assert!(seen[0].contains(&wanted), "{wanted} in {seen:?}");
        }
    });
}

#[test]
fn an_initial_state_that_cannot_be_is_refused() {
    worlds(|world| {
        let transform = |initial: &onefold_engine::GroupedData| {
            by_parity(world).transform_with_initial_state(
                "id BIGINT",
                TimeMode::ProcessingTime,
                OutputMode::Append,
                Memory::default(),
                initial,
            )
        };
        let error = transform(&by_parity(world)).unwrap_err().to_string();
        assert!(error.contains("a static table"), "{error}");
        let table = world.session.sql("SELECT 'a' AS k, 1 AS n").unwrap();
        let error = transform(&table.group_by(&["k", "n"])).unwrap_err().to_string();
        assert!(error.contains("grouped by 1 keys, but the initial state by 2"), "{error}");
        let frame = transform(&table.group_by(&["k"])).unwrap();
        let error = world.run_frame(&frame, 1).unwrap_err().chain();
        assert!(error.contains("does not have the types"), "{error}");
    });
}

/// Counts in Arrow, without types of Rust: as code of another language does.
#[derive(Debug, Clone)]
struct Columns;

impl onefold_engine::GroupCode for Columns {
    fn start(&self) -> onefold_types::Result<Box<dyn onefold_engine::GroupRun>> {
        Ok(Box::new(self.clone()))
    }
}

impl onefold_engine::GroupRun for Columns {
    fn call(
        &mut self,
        calls: &onefold_engine::GroupCalls,
    ) -> onefold_types::Result<onefold_engine::GroupReturns> {
        use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StructArray};
        use arrow::datatypes::Int64Type;
        use std::sync::Arc;
        let groups = &calls.groups;
        let keys = groups.keys.column(0).as_primitive::<Int64Type>();
        let before = calls.states.column(0).as_primitive::<Int64Type>();
        let counts = (0..groups.len()).map(|group| {
            let rows = i64::try_from(groups.rows_of(group).len()).unwrap();
            rows + if calls.states.is_null(group) { 0 } else { before.value(group) }
        });
        let counts: Int64Array = counts.collect();
        let out: Int64Array =
            keys.iter().zip(&counts).map(|(k, n)| Some(k? * 1_000 + n?)).collect();
        let DataType::Struct(fields) = calls.states.data_type() else { panic!("no struct") };
        let states = StructArray::new(fields.clone(), vec![Arc::new(counts) as ArrayRef], None);
        let out: ArrayRef = Arc::new(out);
        Ok(onefold_engine::GroupReturns {
            output: vec![
                arrow::record_batch::RecordBatch::try_new(Arc::clone(&calls.output), vec![out])
                    .unwrap(),
            ],
            states,
            changes: vec![onefold_engine::StateChange::Update; groups.len()],
            timeouts_ms: vec![None; groups.len()],
        })
    }
}

#[test]
fn code_over_arrow_is_called_for_many_keys_at_once() {
    worlds(|world| {
        let function = onefold_engine::GroupFunction::code(std::sync::Arc::new(Columns));
        let (append, none) = (OutputMode::Append, GroupTimeout::None);
        let groups = by_parity(world);
        let frame = groups.groups_with_state("n BIGINT", "id BIGINT", append, none, function);
        let frame = frame.unwrap();
        go_on(world, &[0, 1, 2], 0, 2, &frame);
        go_on(world, &[4, 6], 1, 3, &frame);
        assert_eq!(world.seen(), [&[2, 1_001][..], &[4]]);
    });
}
