//! Records that cannot be processed leave a plan, with their error, as their source gave them.

use crate::memory::{Memory, batch, context, instantiate, run, users, users_with_metadata};
use crate::stateful::rows;
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use datafusion::prelude::SessionContext;
use onefold_connector::OutputMode;
use onefold_plan::sql;
use onefold_plan::stream::{SideRows, StreamingPlan, side_rows};
use std::sync::Arc;

fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|it| array_value_to_string(it, row).unwrap());
            lines.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    lines.sort();
    lines
}

struct Ran {
    rows: Vec<String>,
    letters: Vec<String>,
    columns: Vec<String>,
}

async fn planned(session: &SessionContext, text: &str) -> StreamingPlan {
    let plan = sql::query(session, text).await.unwrap();
    let wanted = SideRows { late: false, dead_letters: true };
    StreamingPlan::with_side_rows(plan, OutputMode::Append, wanted).unwrap()
}

/// Runs one batch of a query over named streams.
async fn ran(sources: &[(&str, Arc<Memory>)], text: &str) -> Ran {
    let session = context();
    for (name, memory) in sources {
        session.register_table(*name, memory.table(None)).unwrap();
    }
    let plan = planned(&session, text).await;
    let schema = plan.dead_letter_schema().expect("some step can fail");
    let (to, mut from) = side_rows();
    let mut about = batch(0);
    about.dead_letters = Some(to);
    let memories: Vec<&Arc<Memory>> = sources.iter().map(|(_, memory)| memory).collect();
    let planned = instantiate(&plan, &session.state(), &memories, &about).await;
    drop(about);
    let running = tokio::spawn(async move {
        let rows = run(&session, &planned).await;
        rows.into_iter().flatten().collect::<Vec<RecordBatch>>()
    });
    let mut letters = Vec::new();
    while let Some(batch) = from.recv().await {
        assert_eq!(batch.schema(), schema);
        letters.push(batch);
    }
    let rows = lines(&running.await.unwrap());
    let columns = schema.fields().iter().map(|field| field.name().clone()).collect();
    Ran { rows, letters: lines(&letters), columns }
}

fn people() -> (&'static str, Arc<Memory>) {
    ("people", Memory::new(vec![vec![users(0, 3)], vec![users(3, 6)]]))
}

#[tokio::test]
async fn the_record_leaves_whole_however_little_of_it_the_query_takes() {
    let text = "SELECT CAST(substr(name, 2) AS INT) * 10 AS n
        FROM (SELECT IF(id = 4, 'x', userName) AS name FROM people AS p WHERE p.id > 1)";
    let ran = ran(&[people()], text).await;
    assert_eq!(ran.columns, ["id", "userName", "_error"]);
    assert_eq!(ran.rows, ["20", "30", "50"]);
    let [letter] = ran.letters.as_slice() else { panic!("{:?}", ran.letters) };
    assert!(letter.starts_with("4|u4|[CAST_INVALID_INPUT]"), "{letter}");
}

#[tokio::test]
async fn a_column_that_nothing_asks_for_sends_no_record_away() {
    let text = "SELECT CAST(id AS STRING) AS id
        FROM (SELECT id, CAST(IF(id = 4, 'x', '1') AS INT) AS unused FROM people AS p)";
    let ran = ran(&[people()], text).await;
    assert_eq!(ran.rows, ["0", "1", "2", "3", "4", "5"]);
    assert!(ran.letters.is_empty(), "{:?}", ran.letters);
    assert_eq!(ran.columns, ["id", "userName", "_error"]);
}

#[tokio::test]
async fn what_a_filter_below_left_out_is_no_dead_letter_and_what_one_above_would_is() {
    let text = "SELECT n FROM (SELECT id, CAST(IF(id % 2 = 0, 'x', '1') AS INT) AS n FROM people
        WHERE id < 3) WHERE id > 100";
    let ran = ran(&[people()], text).await;
    assert!(ran.rows.is_empty(), "{:?}", ran.rows);
    let ids: Vec<&str> = ran.letters.iter().map(|it| it.split('|').next().unwrap()).collect();
    assert_eq!(ids, ["0", "2"]);
}

#[tokio::test]
async fn a_condition_that_cannot_be_computed_makes_a_dead_letter() {
    let text = "SELECT id FROM people WHERE 12 div (id - 3) > 5";
    let ran = ran(&[people()], text).await;
    assert_eq!(ran.rows, ["4", "5"]);
    assert_eq!(ran.letters.len(), 1, "{:?}", ran.letters);
    assert!(ran.letters[0].starts_with("3|u3|divide by zero"), "{:?}", ran.letters);
}

#[tokio::test]
async fn each_step_has_its_dead_letters_and_each_record_one() {
    let text = "SELECT 10 div (b - 2) AS c FROM (SELECT 10 div a AS b FROM
        (SELECT CAST(id AS INT) AS a FROM people))";
    let ran = ran(&[people()], text).await;
    // Nothing, 10, 5, 3, 2, 2, and of these 8, 3, 1 can divide.
    assert_eq!(ran.rows, ["1", "10", "3"]);
    let ids: Vec<&str> = ran.letters.iter().map(|it| it.split('|').next().unwrap()).collect();
    assert_eq!(ids, ["0", "4", "5"]);
}

#[tokio::test]
async fn hidden_columns_of_a_source_stay_out_of_dead_letters() {
    let memory = Memory::new(vec![vec![users_with_metadata(0, 2)]]);
    let ran = ran(&[("files", memory)], "SELECT 1 div id AS n FROM files").await;
    assert_eq!(ran.columns, ["id", "userName", "_error"]);
    assert_eq!((ran.rows.len(), ran.letters.len()), (1, 1));
}

#[tokio::test]
async fn records_of_sources_that_differ_go_as_json() {
    let events = Memory::new(vec![vec![rows(&[(1.0, "x", 7), (2.0, "5", 8)])]]);
    let text = "SELECT 1 div id AS n FROM people UNION ALL SELECT CAST(k AS BIGINT) FROM events";
    let ran = ran(&[people(), ("events", events)], text).await;
    assert_eq!(ran.columns, ["row", "_error"]);
    assert_eq!(ran.rows.len(), 6, "{:?}", ran.rows);
    let [first, second] = ran.letters.as_slice() else { panic!("{:?}", ran.letters) };
    assert!(first.starts_with(r#"{"id":0,"userName":"u0"}|divide by zero"#), "{first}");
    assert!(second.starts_with(r#"{"ts":"1970-01-01T00:00:01.000Z","k":"x","v":7}|"#), "{second}");
}

#[tokio::test]
async fn what_only_picks_columns_or_is_random_is_not_guarded() {
    let session = context();
    session.register_table("people", people().1.table(None)).unwrap();
    for text in [
        "SELECT userName AS name, named_struct('id', id).id AS id FROM people WHERE id IS NOT NULL",
        "SELECT CAST(id + rand() AS INT) AS n FROM people",
    ] {
        let plan = planned(&session, text).await;
        assert_eq!(plan.dead_letter_schema(), None, "{text}");
    }
}
