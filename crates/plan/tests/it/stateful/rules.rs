use super::{Running, streams};
use crate::memory::{Memory, batch, range};
use onefold_connector::{OutputMode, Source};
use onefold_plan::sql;
use onefold_plan::stream::{StreamingPlan, drop_duplicates, with_watermark};
use onefold_state::StateStore;
use onefold_types::BatchId;
use std::sync::Arc;

const MARKED: &str = "events WATERMARK ts DELAY OF INTERVAL 5 SECONDS";

async fn refusal(text: &str, mode: OutputMode) -> String {
    let context = streams();
    let text = text.replace("MARKED", MARKED);
    match sql::query(&context, &text).await.and_then(|plan| StreamingPlan::new(plan, mode)) {
        Ok(plan) => format!("taken, with {:?}", plan.warnings()),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn each_output_mode_has_the_operators_that_spark_allows() {
    use OutputMode::{Append, Complete, Update};
    let windowed = "SELECT window, count(*) AS n FROM MARKED GROUP BY window(ts, '1 minute')";
    let chain = "SELECT window.start AS s, count(*) AS n FROM (SELECT window, k, count(*) AS n \
                 FROM MARKED GROUP BY window(ts, '1 minute'), k) \
                 GROUP BY window(window, '5 minutes')";
    let sessions = "SELECT session_window, k, count(*) AS n FROM MARKED \
                    GROUP BY session_window(ts, '5 seconds'), k";
    let inner = "SELECT e.v FROM MARKED AS e JOIN others AS o ON e.k = o.k";
    let left = "SELECT e.v FROM events WATERMARK ts DELAY OF INTERVAL 1 SECOND AS e \
                LEFT JOIN others WATERMARK ts DELAY OF INTERVAL 1 SECOND AS o \
                ON e.k = o.k AND o.ts BETWEEN e.ts AND e.ts + INTERVAL '10' SECOND";
    let cases = [
        (windowed, Append, "taken, with []"),
        (windowed, Update, "taken, with []"),
        (windowed, Complete, "taken, with [\"the operator `aggregate by window` keeps every"),
        ("SELECT k, count(*) AS n FROM MARKED GROUP BY k", Append, "without watermark"),
        ("SELECT k, count(*) AS n FROM MARKED GROUP BY k", Update, "taken, with [\"the operator"),
        (chain, Append, "taken, with []"),
        (chain, Update, "multiple stateful operators are not supported in update output mode"),
        (chain, Complete, "multiple stateful operators are not supported in complete"),
        (sessions, Append, "taken, with []"),
        (sessions, Update, "update output mode not supported for session window"),
        (sessions, Complete, "taken"),
        (
            "SELECT session_window, count(*) AS n FROM MARKED \
             GROUP BY session_window(ts, '5 seconds')",
            Append,
            "a session window needs a key beside it",
        ),
        (inner, Append, "taken, with [\"the operator `join on k` keeps the rows of both sides"),
        (inner, Update, "taken"),
        (inner, Complete, "complete output mode not supported"),
        (left, Append, "taken, with []"),
        (left, Update, "LeftOuter join of two streaming"),
        ("SELECT DISTINCT k FROM events", Append, "taken, with [\"the operator `deduplicate by"),
        ("SELECT DISTINCT k FROM events", Complete, "complete output mode not supported"),
        ("SELECT k FROM events LIMIT 3", Append, "taken, with []"),
        ("SELECT k FROM events LIMIT 3", Update, "limits are not supported"),
        ("SELECT k FROM events ORDER BY k", Append, "sorting is not supported"),
        ("SELECT count(*) AS n FROM events GROUP BY ROLLUP(k)", Update, "taken, with [\"the op"),
        ("SELECT count(*) AS n FROM events GROUP BY ROLLUP(k)", Append, "without watermark"),
        (
            "SELECT window(ts, '1 minute'), window(ts, '2 minutes') AS w FROM events",
            Append,
            "multiple time/session window expressions",
        ),
    ];
    for (text, mode, wanted) in cases {
        let found = refusal(text, mode).await;
        assert!(found.contains(wanted), "{text} in {mode:?}: {found}");
    }
}

#[tokio::test]
async fn watermarks_that_make_no_sense_are_refused() {
    let context = streams();
    let plan = || async { sql::query(&context, "SELECT * FROM events").await.unwrap() };
    for (column, delay, wanted) in [
        ("nothing", "1 second", "there is no column `nothing`"),
        ("v", "1 second", "must be defined on a window or a timestamp, but `v` is of type BIGINT"),
        ("ts", "-1 second", "should not be negative"),
        ("ts", "soon", "is not an interval"),
    ] {
        let error = with_watermark(plan().await, column, delay).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let twice = with_watermark(plan().await, "ts", "1 month").unwrap();
    let twice = with_watermark(twice, "ts", "2 seconds").unwrap();
    let error = StreamingPlan::new(twice, OutputMode::Append).unwrap_err().to_string();
    assert!(error.contains("redefining watermark is disallowed"), "{error}");
    let without = drop_duplicates(plan().await, None, true).unwrap_err().to_string();
    assert!(without.contains("without watermark"), "{without}");
}

#[tokio::test]
async fn operators_are_numbered_from_the_sink_and_named_by_what_they_do() {
    let text = "SELECT window.end AS e, count(*) AS n FROM (SELECT window, k, count(*) AS n \
                FROM (SELECT DISTINCT ts, k FROM MARKED) \
                GROUP BY window(ts, '1 minute'), k) GROUP BY window(window, '5 minutes')";
    let text = text.replace("MARKED", MARKED);
    let query = Running::sql(&text, OutputMode::Append).await;
    let specs = query.plan.operators(&streams().state()).unwrap();
    let named: Vec<_> =
        specs.iter().map(|it| (it.id, it.kind.as_str(), it.label.as_str())).collect();
    assert_eq!(
        named,
        [
            (0, "stateStoreSave", "aggregate by window"),
            (1, "stateStoreSave", "aggregate by window, k"),
            (2, "dedupe", "deduplicate by ts, k"),
        ]
    );
    let watermarks = query.plan.watermarks();
    assert_eq!(watermarks.len(), 1);
    assert_eq!((watermarks[0].id.as_str(), watermarks[0].delay_ms), ("ts@0", 5000));
}

#[tokio::test]
async fn columns_that_no_operator_needs_are_not_read() {
    let text = "SELECT window.start AS s, count(*) AS n FROM MARKED WHERE k > 'b' \
                GROUP BY window(ts, '1 minute')";
    let context = streams();
    let text = text.replace("MARKED", MARKED);
    let plan = sql::query(&context, &text).await.unwrap();
    let plan = StreamingPlan::new(plan, OutputMode::Append).unwrap();
    let state = context.state();
    let store = StateStore::in_memory(plan.operators(&state).unwrap(), 2).unwrap();
    let source = Memory::new(vec![vec![super::rows(&[])]]);
    let mut about = batch(0);
    about.state = Some(store.begin(BatchId(0)).unwrap());
    let reads = [(Arc::clone(&source) as Arc<dyn Source>, range())];
    plan.instantiate(&state, &reads, &about).await.unwrap();
    let asked = source.asked.lock().unwrap().clone();
    assert_eq!(asked[0].0, Some(vec![0, 1]));
    assert!(asked[0].1.iter().any(|filter| filter.contains("k > ")), "{asked:?}");
}

#[tokio::test]
async fn the_result_says_nothing_of_watermarks() {
    let context = streams();
    let plan = sql::query(&context, &format!("SELECT ts FROM {MARKED}")).await.unwrap();
    assert!(plan.schema().field(0).metadata().contains_key("spark.watermarkDelayMs"));
    let plan = StreamingPlan::new(plan, OutputMode::Append).unwrap();
    assert!(plan.schema().field(0).metadata().is_empty());
    assert!(!plan.keeps_state() && plan.watermarks().len() == 1);
}
