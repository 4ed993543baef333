//! Questions about plans that need no rows.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::relation::Planner;
use crate::{SPARK_VERSION, input_files, rows, types};
use datafusion::logical_expr::LogicalPlan;
use onefold_plan::schema::{parse_schema, schema_ddl, type_name};
use onefold_plan::stream;
use spark_connect_proto::analyze_plan_request::Analyze;
use spark_connect_proto::analyze_plan_request::explain::ExplainMode;
use spark_connect_proto::analyze_plan_response as answer;
use spark_connect_proto::analyze_plan_response::Result as Answer;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Plan, Relation, plan};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The relation that a plan message holds.
fn relation(plan: Option<Plan>) -> Outcome<Relation> {
    match crate::execute::opened(plan)? {
        plan::OpType::Root(relation) => Ok(relation),
        _ => Err(Failure::invalid("only a relation can be analysed, not a command")),
    }
}

fn planned(session: &ClientSession, plan: Option<Plan>) -> Outcome<LogicalPlan> {
    Planner::new(session).plan(&relation(plan)?)
}

/// Whether the rows came from the client, or from a command.
fn is_local(relation: &RelType) -> bool {
    matches!(
        relation,
        RelType::LocalRelation(_)
            | RelType::CachedLocalRelation(_)
            | RelType::ChunkedCachedLocalRelation(_)
            | RelType::Catalog(_)
            | RelType::ShowString(_)
            | RelType::HtmlString(_)
    )
}

/// Answers a question. Blocks.
pub(crate) fn analyze(session: &ClientSession, question: Analyze) -> Outcome<Answer> {
    Ok(match question {
        Analyze::Schema(asked) => {
            let plan = planned(session, asked.plan)?;
            let schema = rows_schema(&plan);
            Answer::Schema(answer::Schema { schema: Some(types::from_schema(&schema)) })
        }
        Analyze::Explain(asked) => {
            let extended = asked.explain_mode() == ExplainMode::Extended;
            let plan = planned(session, asked.plan)?;
            let explain_string = explain(session, &plan, extended)?;
            Answer::Explain(answer::Explain { explain_string })
        }
        Analyze::TreeString(asked) => {
            let plan = planned(session, asked.plan)?;
            let schema = rows_schema(&plan);
            let mut text = String::from("root\n");
            let depth = asked.level.and_then(|level| usize::try_from(level).ok());
            tree(schema.fields(), " |", depth.unwrap_or(usize::MAX), &mut text);
            Answer::TreeString(answer::TreeString { tree_string: text })
        }
        Analyze::IsLocal(asked) => {
            let relation = relation(asked.plan)?;
            let is_local = relation.rel_type.as_ref().is_some_and(is_local);
            Planner::new(session).plan(&relation)?;
            Answer::IsLocal(answer::IsLocal { is_local })
        }
        Analyze::IsStreaming(asked) => {
            let plan = planned(session, asked.plan)?;
            Answer::IsStreaming(answer::IsStreaming { is_streaming: stream::is_streaming(&plan) })
        }
        Analyze::InputFiles(asked) => {
            let plan = planned(session, asked.plan)?;
            Answer::InputFiles(answer::InputFiles { files: input_files::of(session, &plan)? })
        }
        Analyze::SparkVersion(_) => {
            Answer::SparkVersion(answer::SparkVersion { version: SPARK_VERSION.to_owned() })
        }
        Analyze::DdlParse(asked) => {
            let parsed = match parse_schema(&asked.ddl_string) {
                Ok(schema) => types::from_schema(&schema),
                // One type alone is fine, too.
                Err(error) => match onefold_plan::schema::parse_type(&asked.ddl_string) {
                    Ok(data_type) => types::from_arrow(&data_type),
                    Err(_) => return Err(error.into()),
                },
            };
            Answer::DdlParse(answer::DdlParse { parsed: Some(parsed) })
        }
        Analyze::JsonToDdl(asked) => {
            let schema = parse_schema(&asked.json_string)?;
            Answer::JsonToDdl(answer::JsonToDdl { ddl_string: schema_ddl(&schema) })
        }
        Analyze::SameSemantics(asked) => {
            let target = planned(session, asked.target_plan)?;
            let other = planned(session, asked.other_plan)?;
            Answer::SameSemantics(answer::SameSemantics { result: target == other })
        }
        Analyze::SemanticHash(asked) => {
            let mut hasher = DefaultHasher::new();
            planned(session, asked.plan)?.hash(&mut hasher);
            let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
            let result = i32::from_le_bytes([a, b, c, d]);
            Answer::SemanticHash(answer::SemanticHash { result })
        }
        // Frames are computed when asked for; what is "persisted" is computed again, and all that
        // is kept is that the client wanted it.
        Analyze::Persist(asked) => {
            let relation = asked.relation.ok_or_else(|| Failure::missing("relation"))?;
            Planner::new(session).plan(&relation)?;
            session.persisted.keep(&relation, asked.storage_level);
            Answer::Persist(answer::Persist {})
        }
        Analyze::Unpersist(asked) => {
            let relation = asked.relation.ok_or_else(|| Failure::missing("relation"))?;
            session.persisted.forget(&relation);
            Answer::Unpersist(answer::Unpersist {})
        }
        Analyze::GetStorageLevel(asked) => {
            let relation = asked.relation.ok_or_else(|| Failure::missing("relation"))?;
            let storage_level = Some(session.persisted.level(&relation));
            Answer::GetStorageLevel(answer::GetStorageLevel { storage_level })
        }
    })
}

/// The columns that a client sees.
pub(crate) fn rows_schema(plan: &LogicalPlan) -> arrow::datatypes::Schema {
    let visible = stream::visible_schema(plan.schema().as_arrow());
    let plain = rows::plain_schema(&visible);
    // The metadata of columns (comments, watermarks) is for the client, too.
    let fields: Vec<_> = plain
        .fields()
        .iter()
        .zip(visible.fields())
        .map(|(plain, own)| plain.as_ref().clone().with_metadata(own.metadata().clone()))
        .collect();
    arrow::datatypes::Schema::new(fields)
}

/// A plan as text; `extended` with all steps on the way to it, under Spark's headings.
///
/// # Errors
/// The plan does not hold.
pub(crate) fn explain(
    session: &ClientSession,
    plan: &LogicalPlan,
    extended: bool,
) -> Outcome<String> {
    let mut text = String::new();
    if stream::is_streaming(plan) {
        let _ = writeln!(text, "== Streaming Plan ==\n{}", plan.display_indent());
        return Ok(text);
    }
    let frame = session.engine.frame(plan.clone());
    if extended {
        // Names and types are found while a plan is made: what was parsed is analysed.
        let shown = plan.display_indent();
        let columns = schema_ddl(&rows_schema(plan));
        let _ = writeln!(text, "== Parsed Logical Plan ==\n{shown}\n");
        let _ = writeln!(text, "== Analyzed Logical Plan ==\n{columns}\n{shown}\n");
        let optimized = frame.optimized_plan()?;
        let _ = writeln!(text, "== Optimized Logical Plan ==\n{}\n", optimized.display_indent());
    }
    let physical = frame.physical_plan()?;
    let _ = writeln!(text, "== Physical Plan ==\n{physical}");
    Ok(text)
}

/// Fields as `printSchema` shows them.
fn tree(fields: &arrow::datatypes::Fields, margin: &str, depth: usize, text: &mut String) {
    for field in fields {
        let _ = writeln!(
            text,
            "{margin}-- {}: {} (nullable = {})",
            field.name(),
            tree_name(field.data_type()),
            field.is_nullable()
        );
        inner(field.data_type(), &format!("{margin}    |"), depth.saturating_sub(1), text);
    }
}

fn inner(data_type: &arrow::datatypes::DataType, margin: &str, depth: usize, text: &mut String) {
    use arrow::datatypes::DataType;
    if depth == 0 {
        return;
    }
    match data_type {
        DataType::Struct(fields) => tree(fields, margin, depth, text),
        DataType::List(element) => {
            let _ = writeln!(
                text,
                "{margin}-- element: {} (containsNull = {})",
                tree_name(element.data_type()),
                element.is_nullable()
            );
            inner(element.data_type(), &format!("{margin}    |"), depth - 1, text);
        }
        DataType::Map(entries, _) => {
            if let DataType::Struct(fields) = entries.data_type()
                && let [key, value] = fields.as_ref()
            {
                let _ = writeln!(text, "{margin}-- key: {}", tree_name(key.data_type()));
                let _ = writeln!(
                    text,
                    "{margin}-- value: {} (valueContainsNull = {})",
                    tree_name(value.data_type()),
                    value.is_nullable()
                );
                inner(value.data_type(), &format!("{margin}    |"), depth - 1, text);
            }
        }
        _ => {}
    }
}

/// The names that Spark's tree has: `long` for BIGINT.
fn tree_name(data_type: &arrow::datatypes::DataType) -> String {
    use arrow::datatypes::DataType;
    match data_type {
        DataType::Int8 => "byte".to_owned(),
        DataType::Int16 => "short".to_owned(),
        DataType::Int32 => "integer".to_owned(),
        DataType::Int64 => "long".to_owned(),
        DataType::Struct(_) => "struct".to_owned(),
        DataType::List(_) => "array".to_owned(),
        DataType::Map(..) => "map".to_owned(),
        other => type_name(other).to_lowercase(),
    }
}
