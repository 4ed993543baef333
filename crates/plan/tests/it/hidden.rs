use crate::memory::{Memory, batch, context, instantiate, pretty, run, users_with_metadata};
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::prelude::SessionContext;
use onefold_connector::OutputMode;
use onefold_plan::sql;
use onefold_plan::stream::{StreamingPlan, visible_schema};
use std::sync::Arc;

fn hidden() -> (SessionContext, Arc<Memory>) {
    let context = context();
    let source = Memory::new(vec![vec![users_with_metadata(0, 1)]]);
    context.register_table("files", source.table(None)).unwrap();
    (context, source)
}

async fn columns(context: &SessionContext, text: &str) -> Vec<String> {
    let plan = sql::query(context, text).await.unwrap();
    let plan = StreamingPlan::new(plan, OutputMode::Append).unwrap();
    plan.schema().fields().iter().map(|field| field.name().clone()).collect()
}

#[tokio::test]
async fn hidden_columns_come_only_when_named() {
    let (context, source) = hidden();
    assert_eq!(columns(&context, "SELECT * FROM files").await, ["id", "userName"]);
    assert_eq!(columns(&context, "SELECT f.* FROM files f").await, ["id", "userName"]);
    assert_eq!(
        columns(&context, "SELECT *, _metadata FROM files").await,
        ["id", "userName", "_metadata"]
    );
    assert_eq!(
        columns(&context, "SELECT * FROM (SELECT *, _METADATA FROM files)").await,
        ["id", "userName", "_metadata"]
    );
    assert_eq!(columns(&context, "SELECT * EXCEPT (ID) FROM files").await, ["userName"]);
    let text = "SELECT id, _metadata.File_Name AS f FROM files WHERE _metadata.file_name LIKE 'a%'";
    let plan = sql::query(&context, text).await.unwrap();
    let plan = StreamingPlan::new(plan, OutputMode::Append).unwrap();
    let instance = instantiate(&plan, &context.state(), &[&source], &batch(0)).await;
    assert_eq!(
        pretty(&run(&context, &instance).await),
        "+----+--------+\n| id | f      |\n+----+--------+\n| 0  | a.json |\n+----+--------+"
    );
}

#[tokio::test]
async fn select_items_leave_hidden_columns_out_of_the_star() {
    let (context, source) = hidden();
    let table = datafusion::datasource::provider_as_source(source.table(None));
    let scan = LogicalPlanBuilder::scan("s", table, None).unwrap().build().unwrap();
    assert_eq!(visible_schema(scan.schema().as_arrow()).fields().len(), 2);
    let names = |text: &str| -> Vec<String> {
        let items = sql::select_items(&context, scan.schema(), text).unwrap();
        items.iter().map(|item| item.schema_name().to_string()).collect()
    };
    assert_eq!(names("*").len(), 2);
    assert_eq!(names("ID + 1"), ["(ID + 1)"]);
    let mut items = sql::select_items(&context, scan.schema(), "*").unwrap();
    items.extend(sql::select_items(&context, scan.schema(), "_metadata").unwrap());
    let plan = LogicalPlanBuilder::from(scan.clone()).project(items).unwrap().build().unwrap();
    let plan = StreamingPlan::new(plan, OutputMode::Append).unwrap();
    assert_eq!(plan.schema().fields().len(), 3);
    assert!(plan.schema().field(2).metadata().is_empty());
    // A scan as it is: what nobody named is dropped.
    assert_eq!(
        StreamingPlan::new(scan.clone(), OutputMode::Append).unwrap().schema().fields().len(),
        2
    );
    let item = sql::column(scan.schema(), "_Metadata").unwrap();
    let plan = LogicalPlanBuilder::from(scan).project(vec![item]).unwrap().build().unwrap();
    assert_eq!(StreamingPlan::new(plan, OutputMode::Append).unwrap().schema().fields().len(), 1);
}

#[tokio::test]
async fn names_are_found_without_case_and_errors_name_what_there_is() {
    let (context, _) = hidden();
    assert_eq!(columns(&context, "SELECT USERNAME, Id AS I FROM FILES").await, ["userName", "I"]);
    let text = "SELECT x.username FROM (SELECT upper(userNAME) AS UserName FROM files) X \
                WHERE X.USERNAME LIKE 'U%'";
    assert_eq!(columns(&context, text).await, ["UserName"]);
    let text = "WITH c AS (SELECT id AS TheId FROM files) SELECT theid FROM C";
    assert_eq!(columns(&context, text).await, ["TheId"]);
    assert_eq!(
        columns(&context, "SELECT `userName`, id+1 FROM files").await,
        ["userName", "(id + 1)"]
    );
    let error = sql::query(&context, "SELECT nope FROM files").await.unwrap_err().to_string();
    assert!(error.contains("nope") && error.contains("userName"), "{error}");
    let error = sql::query(&context, "SELECT 1 FROM nothing").await.unwrap_err().to_string();
    assert!(error.contains("there is no table or view `nothing`"), "{error}");
}
