use super::{Running, streams};
use datafusion::logical_expr::LogicalPlanBuilder;
use onefold_connector::OutputMode;
use onefold_plan::sql;
use onefold_plan::stream::{StreamingPlan, with_watermark};

#[tokio::test]
async fn strings_group_by_a_window_under_its_own_name() {
    let context = streams();
    let plan = sql::query(&context, "SELECT * FROM events").await.unwrap();
    let plan = with_watermark(plan, "ts", "5 seconds").unwrap();
    let items = |text: &str| sql::select_items(&context, plan.schema(), text).unwrap();
    let groups = [items("window(ts, '10 seconds')"), items("k")].concat();
    let results = items("count(*) AS n");
    let grouped = LogicalPlanBuilder::from(plan.clone()).aggregate(groups, results).unwrap();
    let grouped = grouped.build().unwrap();
    let names: Vec<_> =
        grouped.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["window", "k", "n"]);
    let columns = ["unix_timestamp(window.start) AS s", "k", "n"]
        .map(|text| sql::select_items(&context, grouped.schema(), text).unwrap().remove(0));
    let grouped = LogicalPlanBuilder::from(grouped).project(columns).unwrap().build().unwrap();
    let plan = StreamingPlan::new(grouped, OutputMode::Append).unwrap();
    let mut query = Running::new(context, plan);
    query.one(&[(1.0, "a", 1), (2.0, "a", 1), (16.0, "a", 1)]).await;
    assert_eq!(query.sorted(&[]).await, ["0 a 2"]);
}
