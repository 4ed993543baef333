use crate::memory::{Memory, batch, context, instantiate, pretty, run, users};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::MemTable;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use onefold_connector::OutputMode;
use onefold_plan::sql;
use onefold_plan::stream::StreamingPlan;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn two() -> (SessionContext, Arc<Memory>, Arc<Memory>) {
    let context = context();
    let first = Memory::new(vec![vec![users(0, 3), users(3, 4)], vec![users(10, 12)]]);
    let second = Memory::new(vec![vec![users(100, 101)]]);
    context.register_table("events", first.table(None)).unwrap();
    context.register_table("others", second.table(None)).unwrap();
    let fixed = users(0, 2);
    let table = MemTable::try_new(fixed.schema(), vec![vec![fixed]]).unwrap();
    context.register_table("dim", Arc::new(table)).unwrap();
    (context, first, second)
}

async fn plan(context: &SessionContext, text: &str) -> StreamingPlan {
    StreamingPlan::new(sql::query(context, text).await.unwrap(), OutputMode::Append).unwrap()
}

async fn refused(context: &SessionContext, text: &str, mode: OutputMode) -> String {
    let logical = sql::query(context, text).await.unwrap();
    StreamingPlan::new(logical, mode).unwrap_err().to_string()
}

#[tokio::test]
async fn projection_and_filter_reach_the_source_and_partitions_stay() {
    let (context, first, _) = two();
    let plan = plan(&context, "SELECT id + 1 AS next FROM events WHERE id >= 2").await;
    let instance = instantiate(&plan, &context.state(), &[&first], &batch(0)).await;
    assert_eq!(
        pretty(&run(&context, &instance).await),
        "+------+\n| next |\n+------+\n| 3    |\n| 4    |\n| 11   |\n| 12   |\n+------+"
    );
    assert_eq!(instance.plan.output_partitioning().partition_count(), 2);
    assert_eq!(instance.input_rows[0].load(Ordering::Relaxed), 6);
    let asked = first.asked.lock().unwrap().clone();
    assert_eq!(asked, [(Some(vec![0]), vec!["id >= Int64(2)".to_owned()])]);
    let shown = displayable(instance.plan.as_ref()).indent(false).to_string();
    assert!(!shown.contains("Repartition") && !shown.contains("Coalesce"), "{shown}");
}

#[tokio::test]
async fn sources_stand_in_plan_order_and_one_table_used_twice_is_one_source() {
    let (context, first, second) = two();
    let text = "SELECT id FROM others UNION ALL SELECT id FROM events \
                UNION ALL SELECT id FROM others";
    let plan = plan(&context, text).await;
    let ids: Vec<_> = plan.sources().iter().map(|source| source.id.as_str()).collect();
    assert_eq!(ids, ["0", "1"]);
    assert_eq!(plan.sources()[0].definition.schema(), second.schema);
    let instance = instantiate(&plan, &context.state(), &[&second, &first], &batch(0)).await;
    let rows = run(&context, &instance).await;
    assert_eq!(rows.len(), 4);
    assert_eq!(rows.iter().flatten().map(|batch| batch.num_rows()).sum::<usize>(), 8);
    assert_eq!(instance.input_rows[0].load(Ordering::Relaxed), 1);
    assert_eq!(instance.input_rows[1].load(Ordering::Relaxed), 6);
}

#[tokio::test]
async fn names_are_the_ids_only_when_all_sources_have_one() {
    let context = context();
    let first = Memory::new(vec![vec![users(0, 1)]]);
    let second = Memory::new(vec![vec![users(0, 1)]]);
    let text = "SELECT id FROM a UNION ALL SELECT id FROM b";
    let ids = |plan: &StreamingPlan| -> Vec<String> {
        plan.sources().iter().map(|source| source.id.clone()).collect()
    };
    context.register_table("a", first.table(Some("alpha"))).unwrap();
    context.register_table("b", second.table(None)).unwrap();
    assert_eq!(ids(&plan(&context, text).await), ["0", "1"]);
    context.deregister_table("b").unwrap();
    context.register_table("b", second.table(Some("beta"))).unwrap();
    assert_eq!(ids(&plan(&context, text).await), ["alpha", "beta"]);
    context.deregister_table("b").unwrap();
    context.register_table("b", second.table(Some("alpha"))).unwrap();
    assert!(refused(&context, text, OutputMode::Append).await.contains("`alpha`"));
    context.deregister_table("b").unwrap();
    context.register_table("b", second.table(Some("../x"))).unwrap();
    assert!(refused(&context, text, OutputMode::Append).await.contains("letters, digits"));
}

#[tokio::test]
async fn what_a_stream_cannot_have_is_refused_by_name() {
    let (context, ..) = two();
    let cases = [
        ("SELECT count(*) FROM events", "append output mode not supported"),
        ("SELECT id FROM events INTERSECT SELECT id FROM others", "not supported"),
        ("SELECT id FROM events EXCEPT SELECT id FROM others", "not supported"),
        ("SELECT id FROM events ORDER BY id", "sorting is not supported"),
        ("SELECT id FROM events LIMIT 1 OFFSET 1", "offset is not supported"),
        ("SELECT sum(id) OVER (PARTITION BY id) AS s FROM events", "non-time-based windows"),
        ("SELECT e.id FROM events e JOIN others o ON e.id < o.id", "without equality predicate"),
        ("SELECT e.id FROM events e LEFT JOIN others o ON e.id = o.id", "stream-stream LeftOuter"),
        ("SELECT id FROM events WHERE id IN (SELECT id FROM others)", "a subquery that reads"),
        ("SELECT id FROM dim", "reads no stream"),
        ("SELECT id FROM events UNION ALL SELECT id FROM dim", "union between streaming and batch"),
        ("SELECT d.id FROM dim d LEFT JOIN events e ON e.id = d.id", "left outer join"),
        ("SELECT d.id FROM dim d FULL JOIN events e ON e.id = d.id", "full outer join"),
    ];
    for (text, wanted) in cases {
        let error = refused(&context, text, OutputMode::Append).await;
        assert!(error.contains(wanted), "{text}: {error}");
    }
    let complete = refused(&context, "SELECT id FROM events", OutputMode::Complete).await;
    assert!(complete.contains("complete output mode not supported"), "{complete}");
    let update = sql::query(&context, "SELECT id FROM events").await.unwrap();
    assert!(StreamingPlan::new(update, OutputMode::Update).is_ok());
}

#[tokio::test]
async fn static_sides_may_do_what_streams_may_not() {
    let (context, first, _) = two();
    let text = "SELECT e.id, d.n FROM events e \
                LEFT JOIN (SELECT id, count(*) AS n FROM dim GROUP BY id ORDER BY id) d \
                ON e.id = d.id WHERE e.id < (SELECT max(id) + 10 FROM dim)";
    let plan = plan(&context, text).await;
    let instance = instantiate(&plan, &context.state(), &[&first], &batch(0)).await;
    let rows = run(&context, &instance).await;
    assert_eq!(instance.plan.output_partitioning().partition_count(), 2);
    assert_eq!(
        pretty(&rows),
        "+----+---+\n| id | n |\n+----+---+\n| 0  | 1 |\n| 1  | 1 |\n| 2  |   |\n| 3  |   |\n\
         | 10 |   |\n+----+---+"
    );
}

#[tokio::test]
async fn semi_and_anti_joins_keep_the_stream_flowing() {
    let (context, first, _) = two();
    for (text, wanted) in [
        ("SELECT id FROM events WHERE id IN (SELECT id FROM dim)", 2),
        ("SELECT id FROM events e WHERE NOT EXISTS (SELECT 1 FROM dim d WHERE d.id = e.id)", 4),
        ("SELECT id FROM events WHERE id NOT IN (SELECT id FROM dim)", 4),
        ("SELECT e.id FROM events e LEFT SEMI JOIN dim d ON e.ID = d.id", 2),
        ("SELECT e.id FROM dim d JOIN events e ON e.id = d.id", 2),
        ("SELECT e.id FROM events e CROSS JOIN dim d", 12),
    ] {
        let plan = plan(&context, text).await;
        let instance = instantiate(&plan, &context.state(), &[&first], &batch(0)).await;
        let rows = run(&context, &instance).await;
        let count: usize = rows.iter().flatten().map(|batch| batch.num_rows()).sum();
        assert_eq!(count, wanted, "{text}");
    }
}

#[tokio::test]
async fn time_is_the_batchs_time_and_follows_the_batch() {
    let (context, _, second) = two();
    let text = "SELECT current_timestamp() AS t, now() AS n, current_date AS d, \
                unix_timestamp() AS u, date_format(current_timestamp, 'HH:mm:ss.SSS') AS f \
                FROM others WHERE now() > TIMESTAMP '2020-01-01'";
    let plan = plan(&context, text).await;
    let schema = plan.schema();
    assert_eq!(
        schema.field(0).data_type(),
        &onefold_plan::schema::parse_type("TIMESTAMP").unwrap()
    );
    assert_eq!(schema.field(2).data_type(), &DataType::Date32);
    let instance = instantiate(&plan, &context.state(), &[&second], &batch(0)).await;
    let shown = pretty(&run(&context, &instance).await);
    let row = "| 2026-01-01T00:00:00.123Z | 2026-01-01T00:00:00.123Z | 2026-01-01 | 1767225600 \
               | 00:00:00.123 |";
    assert!(shown.contains(row), "{shown}");
    let mut later = batch(1);
    later.timestamp_ms += 3_600_000;
    let instance = instantiate(&plan, &context.state(), &[&second], &later).await;
    assert!(pretty(&run(&context, &instance).await).contains("| 01:00:00.123 |"));
}

#[tokio::test]
async fn random_values_come_again_for_the_same_batch_and_differ_between_batches() {
    let (context, first, _) = two();
    let text = "SELECT id, rand() AS r, randn() AS n, uuid() AS u, random() AS r2, rand(42) AS s \
                FROM events";
    let plan = plan(&context, text).await;
    let mut shown = Vec::new();
    for number in [0, 0, 1] {
        let instance = instantiate(&plan, &context.state(), &[&first], &batch(number)).await;
        shown.push(run(&context, &instance).await);
    }
    assert_eq!(pretty(&shown[0]), pretty(&shown[1]));
    assert_ne!(pretty(&shown[0]), pretty(&shown[2]));
    let column = |batches: &[arrow::array::RecordBatch], place: usize| -> Vec<String> {
        let values = batches.iter().flat_map(|batch| {
            let column = batch.column(place);
            (0..batch.num_rows())
                .map(|row| arrow::util::display::array_value_to_string(column, row).unwrap())
                .collect::<Vec<_>>()
        });
        values.collect()
    };
    // All values of one call differ, two calls differ, and so do partitions.
    let mut all: Vec<String> = [1, 2, 3, 4]
        .into_iter()
        .flat_map(|place| [column(&shown[0][0], place), column(&shown[0][1], place)].concat())
        .collect();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
    // An explicit seed gives Spark's own numbers, in each batch the same.
    assert_eq!(column(&shown[0][0], 5), column(&shown[2][0], 5));
    assert!(column(&shown[0][0], 5)[0].starts_with("0.6191"), "{:?}", column(&shown[0][0], 5));
    assert_ne!(column(&shown[0][0], 5)[0], column(&shown[0][1], 5)[0]);
}

#[tokio::test]
async fn random_filters_run_seeded_below_and_above_a_request_to_repartition() {
    let (context, first, _) = two();
    let logical = sql::query(&context, "SELECT id FROM events WHERE rand() >= 0").await.unwrap();
    let logical = datafusion::logical_expr::LogicalPlanBuilder::from(logical)
        .repartition(datafusion::logical_expr::Partitioning::RoundRobinBatch(3))
        .unwrap()
        .project(vec![
            datafusion::prelude::col("id"),
            sql::expression(&context, &datafusion::common::DFSchema::empty(), "uuid()")
                .unwrap()
                .alias("u"),
        ])
        .unwrap()
        .build()
        .unwrap();
    let plan = StreamingPlan::new(logical, OutputMode::Append).unwrap();
    let instance = instantiate(&plan, &context.state(), &[&first], &batch(0)).await;
    let shown = displayable(instance.plan.as_ref()).indent(false).to_string();
    assert!(shown.contains("SpreadExec") && shown.contains("SeededExec"), "{shown}");
    let rows = run(&context, &instance).await;
    assert_eq!(rows.len(), 3);
    assert_eq!(rows.iter().flatten().map(|batch| batch.num_rows()).sum::<usize>(), 6);
}

#[tokio::test]
async fn arrays_explode_and_structs_spread() {
    let (context, first, _) = two();
    let text = "SELECT id, explode(split('a,b', ',')) AS part FROM events WHERE id = 10";
    let plan = plan(&context, text).await;
    let instance = instantiate(&plan, &context.state(), &[&first], &batch(0)).await;
    assert_eq!(
        pretty(&run(&context, &instance).await),
        "+----+------+\n| id | part |\n+----+------+\n| 10 | a    |\n| 10 | b    |\n+----+------+"
    );
}

#[tokio::test]
async fn a_query_without_columns_of_the_source_still_counts_rows() {
    let (context, first, _) = two();
    let plan = plan(&context, "SELECT 1 AS one FROM events").await;
    assert_eq!(plan.schema().field(0).data_type(), &DataType::Int32);
    let instance = instantiate(&plan, &context.state(), &[&first], &batch(0)).await;
    let rows = run(&context, &instance).await;
    assert_eq!(rows.iter().flatten().map(|batch| batch.num_rows()).sum::<usize>(), 6);
    assert_eq!(first.asked.lock().unwrap()[0].0, Some(vec![0]));
}

#[tokio::test]
async fn a_stream_cannot_be_read_as_a_table() {
    let (context, ..) = two();
    let logical = sql::query(&context, "SELECT id FROM events").await.unwrap();
    let error = context.state().create_physical_plan(&logical).await.unwrap_err().to_string();
    assert!(error.contains("write_stream().start()"), "{error}");
    // The walk over a plan still works for whoever inspects it.
    let mut nodes = 0;
    logical
        .apply_with_subqueries(|_| {
            nodes += 1;
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
    assert!(nodes > 0);
}

#[tokio::test]
async fn the_sessions_tables_stay_when_a_query_runs() {
    let (context, first, _) = two();
    let plan = plan(&context, "SELECT id FROM events").await;
    instantiate(&plan, &context.state(), &[&first], &batch(0)).await;
    assert!(context.table_exist("events").unwrap() && context.table_exist("dim").unwrap());
}

#[tokio::test]
async fn an_empty_batch_of_ranges_is_an_internal_error_and_no_panic() {
    let (context, ..) = two();
    let plan = plan(&context, "SELECT id FROM events").await;
    let error = plan.instantiate(&context.state(), &[], &batch(0)).await.unwrap_err();
    assert_eq!(error.kind(), onefold_types::ErrorKind::Internal);
}
