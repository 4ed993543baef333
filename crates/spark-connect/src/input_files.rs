//! `df.inputFiles()`: the files that a plan reads.

use crate::client_session::ClientSession;
use crate::failure::Outcome;
use arrow::array::AsArray;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use std::collections::BTreeSet;

/// The hidden column in which a source of files says where a row is from.
const METADATA: &str = "_metadata";
const PATH: &str = "file_path";

/// The files with rows, sorted. Blocks: the sources tell it row by row.
///
/// # Errors
/// Those of reading.
pub(crate) fn of(session: &ClientSession, plan: &LogicalPlan) -> Outcome<Vec<String>> {
    let mut tables = Vec::new();
    plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(field) = scan.source.schema().field_with_name(METADATA)
            && let DataType::Struct(fields) = field.data_type()
            && fields.find(PATH).is_some()
        {
            tables.push((scan.table_name.clone(), scan.source.clone()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut files = BTreeSet::new();
    for (name, source) in tables {
        let path = get_field(Expr::from(datafusion::common::Column::from_name(METADATA)), PATH);
        let paths = LogicalPlanBuilder::scan(name, source, None)?
            .project(vec![path.alias(PATH)])?
            .distinct()?
            .build()?;
        for batch in session.engine.frame(paths).collect()? {
            let column = batch.columns().first();
            let texts = column.map(|it| arrow::compute::cast(it, &DataType::Utf8)).transpose();
            let texts =
                texts.map_err(|error| crate::failure::Failure::invalid(error.to_string()))?;
            if let Some(texts) = texts.as_ref().and_then(|it| it.as_string_opt::<i32>()) {
                files.extend(texts.iter().flatten().map(str::to_owned));
            }
        }
    }
    Ok(files.into_iter().collect())
}
