//! `df.writeTo(table)`: into tables of the warehouse, columns by name.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::python::{Calls, with_calls};
use crate::relation::Planner;
use crate::tables::{self, Matching};
use onefold_engine::{SaveMode, TableDefinition};
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::write_operation_v2::Mode;
use spark_connect_proto::{Expression, WriteOperationV2};

/// Writes the rows of a relation. Blocks.
pub(crate) fn write(
    session: &ClientSession,
    request: &WriteOperationV2,
    calls: &Calls,
) -> Outcome<()> {
    let input = request.input.as_ref().ok_or_else(|| Failure::missing("input"))?;
    let plan = with_calls(Planner::new(session).plan(input)?, calls)?;
    let name = request.table_name.as_str();
    let there = session.engine.table_definition(name)?.is_some();
    match request.mode() {
        Mode::Create => {
            tables::save(session, name, plan, SaveMode::ErrorIfExists, definition(request)?)
        }
        Mode::Replace if !there => Err(Failure::no_table(name)),
        Mode::Replace | Mode::CreateOrReplace => {
            tables::save(session, name, plan, SaveMode::Overwrite, definition(request)?)
        }
        Mode::Append => tables::insert(session, name, plan, SaveMode::Append, Matching::Name),
        Mode::Overwrite if always(request.overwrite_condition.as_ref()) => {
            tables::insert(session, name, plan, SaveMode::Overwrite, Matching::Name)
        }
        Mode::Overwrite => {
            Err(Failure::unsupported("writeTo(…).overwrite with a condition other than lit(True)"))
        }
        Mode::OverwritePartitions => {
            Err(Failure::unsupported("writeTo(…).overwritePartitions; overwrite(lit(True))"))
        }
        Mode::Unspecified => Err(Failure::missing("mode")),
    }
}

fn definition(request: &WriteOperationV2) -> Outcome<TableDefinition> {
    let column = |expression: &Expression| match &expression.expr_type {
        Some(ExprType::UnresolvedAttribute(column)) => Ok(column.unparsed_identifier.clone()),
        _ => Err(Failure::unsupported("a table partitioned by more than plain columns")),
    };
    let partition_by = request.partitioning_columns.iter().map(column);
    let mut options: std::collections::BTreeMap<String, String> =
        request.options.clone().into_iter().collect();
    let provider = request.provider.as_deref().filter(|provider| !provider.is_empty());
    Ok(TableDefinition {
        format: provider.unwrap_or("parquet").to_lowercase(),
        schema: String::new(),
        location: options.remove("path"),
        options,
        partition_by: partition_by.collect::<Outcome<Vec<_>>>()?,
        cluster_by: request.clustering_columns.clone(),
    })
}

/// Whether a condition is the literal `true`.
fn always(condition: Option<&Expression>) -> bool {
    let Some(ExprType::Literal(literal)) = condition.and_then(|it| it.expr_type.as_ref()) else {
        return false;
    };
    literal.literal_type == Some(LiteralType::Boolean(true))
}
