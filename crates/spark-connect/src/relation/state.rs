//! `transformWithState` and `transformWithStateInPandas`.

use super::columns::visible;
use super::{Planner, built};
use crate::failure::{Failure, Outcome};
use crate::python::PythonFunction;
use crate::python::function::eval;
use crate::python::transform::{Declaration, GroupedColumns, PythonProcessor};
use crate::types;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use onefold_plan::stream::{self, Processor, TimeMode, TransformOptions};
use spark_connect_proto::{Expression, GroupMap, TransformWithStateInfo, data_type};
use std::sync::Arc;

impl Planner<'_> {
    pub(super) fn transform_with_state(
        &mut self,
        map: &GroupMap,
        info: &TransformWithStateInfo,
    ) -> Outcome<LogicalPlan> {
        let input = stream::shown(self.input(map.input.as_deref())?)?;
        let function = map.func.as_ref().ok_or_else(|| Failure::missing("func"))?;
        let function = self.function(function)?;
        let with_initial = match function.eval_type {
            eval::STATE_PANDAS | eval::STATE_ROWS => false,
            eval::STATE_PANDAS_INITIAL | eval::STATE_ROWS_INITIAL => true,
            _ => return Err(Failure::unsupported("this kind of processor with state")),
        };
        let time = match info.time_mode.to_lowercase().as_str() {
            "none" => TimeMode::None,
            "processingtime" => TimeMode::ProcessingTime,
            "eventtime" => TimeMode::EventTime,
            other => {
                return Err(Failure::analysis(format!(
                    "[STATEFUL_PROCESSOR_UNKNOWN_TIME_MODE] Unknown time mode {other}. Accepted \
                     timeMode modes are 'none', 'processingTime', 'eventTime'"
                )));
            }
        };
        // Spark takes any mode of the query, whatever the processor is written for.
        crate::streaming::output_mode(map.output_mode())?;
        let output = output_of(info, &function)?;
        let (input, keys, rows) = self.by_key(input, &map.grouping_expressions)?;
        let initial = match (with_initial, map.initial_input.as_deref()) {
            (true, Some(initial)) => {
                let plan = stream::shown(self.plan(initial)?)?;
                Some(self.by_key(plan, &map.initial_grouping_expressions)?)
            }
            _ => None,
        };
        let encoding = "spark.sql.streaming.stateStore.encodingFormat";
        let encoding = crate::conf::value(&self.session.engine, encoding);
        let code = PythonProcessor {
            function,
            pool: self.session.python()?,
            rows,
            initial: initial.as_ref().map(|(.., columns)| columns.clone()),
            nullable: encoding.is_some_and(|name| name.eq_ignore_ascii_case("avro")),
            declared: Declaration::default(),
        };
        let event_time = info.event_time_column_name.clone().filter(|name| !name.is_empty());
        let options = TransformOptions {
            name: None,
            output,
            time,
            mode: None,
            event_time,
            processor: Processor::code(Arc::new(code)),
            initial: initial.map(|(plan, keys, _)| (plan, keys)),
        };
        Ok(stream::transform_with_state(input, keys, options)?)
    }

    /// The rows with those parts of their key in front that are no columns of theirs; the key; and
    /// the columns as a worker gets them.
    fn by_key(
        &self,
        input: LogicalPlan,
        grouping: &[Expression],
    ) -> Outcome<(LogicalPlan, Vec<Expr>, GroupedColumns)> {
        let columns = visible(input.schema());
        let fields = input.schema().fields().iter().enumerate();
        let shown: Vec<usize> =
            fields.filter(|(_, field)| !stream::hidden(field)).map(|(at, _)| at).collect();
        let parts = self.items(input.schema(), grouping)?;
        let (mut extra, mut places, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let bare = part.clone().unalias();
            let at = match &bare {
                Expr::Column(column) => input.schema().maybe_index_of_column(column),
                _ => None,
            };
            let found = at.and_then(|at| shown.iter().position(|place| *place == at));
            places.push(found.ok_or(extra.len()));
            if found.is_none() {
                names.push(part.schema_name().to_string());
                extra.push(bare.alias(format!("#key{}", extra.len())));
            }
        }
        let count = extra.len();
        let keys: Vec<usize> =
            places.into_iter().map(|place| place.map_or_else(|it| it, |it| it + count)).collect();
        extra.extend(columns);
        let plan = built(LogicalPlanBuilder::from(input).project(extra))?;
        let all = plan.schema().columns();
        let exprs: Option<Vec<Expr>> =
            keys.iter().map(|place| all.get(*place).cloned().map(Expr::Column)).collect();
        let exprs = exprs.ok_or_else(|| Failure::missing("grouping_expressions"))?;
        let fields = plan.schema().fields().iter().enumerate().map(|(place, field)| {
            let name = names.get(place).map_or(field.name(), |name| name);
            Field::new(name, field.data_type().clone(), true)
        });
        let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok((plan, exprs, GroupedColumns { schema, keys, extra: count }))
    }
}

/// The columns that come out.
fn output_of(info: &TransformWithStateInfo, function: &PythonFunction) -> Outcome<SchemaRef> {
    let declared = info.output_schema.as_ref();
    if let Some(data_type::Kind::Unparsed(text)) = declared.and_then(|it| it.kind.as_ref()) {
        return super::local::schema_of(&text.data_type_string);
    }
    let output = match declared {
        Some(declared) => types::to_arrow(declared)?,
        None => function.output.clone(),
    };
    match output {
        DataType::Struct(fields) => Ok(Arc::new(Schema::new(fields))),
        _ => Err(Failure::analysis("what transformWithState gives is no list of columns")),
    }
}
