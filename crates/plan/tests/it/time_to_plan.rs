//! How long a batch's plan takes to make. Run by hand: `cargo test --release -p onefold-plan --test
//! it -- --ignored --nocapture planning`.

use crate::memory::{Memory, batch, context, instantiate, users};
use onefold_connector::OutputMode;
use onefold_plan::sql;
use onefold_plan::stream::StreamingPlan;
use std::time::Instant;

#[tokio::test]
#[ignore = "a measurement, not a check"]
async fn planning_time_of_a_small_batch() {
    let context = context();
    let source = Memory::new(vec![vec![users(0, 10)]]);
    context.register_table("events", source.table(None)).unwrap();
    for text in [
        "SELECT id FROM events",
        "SELECT id + 1 AS n, upper(userName) AS u, current_timestamp() AS t FROM events \
         WHERE id % 2 = 0 AND userName LIKE 'u%' AND rand() >= 0",
    ] {
        let plan = sql::query(&context, text).await.unwrap();
        let plan = StreamingPlan::new(plan, OutputMode::Append).unwrap();
        let state = context.state();
        let start = Instant::now();
        instantiate(&plan, &state, &[&source], &batch(0)).await;
        println!("first: {:?}", start.elapsed());
        let start = Instant::now();
        for number in 1..=100 {
            instantiate(&plan, &state, &[&source], &batch(number)).await;
        }
        println!("later, each: {:?}  ({text})", start.elapsed() / 100);
    }
}
