//! Functions of Python over whole rows: `mapInPandas`, `mapInArrow`, `applyInPandas`,
//! `applyInArrow`.
//!
//! The planner knows such a function as one that gives a list of rows for each of its rows; the
//! lists are then taken apart.

use super::columns::visible;
use super::{Planner, built};
use crate::failure::{Failure, Outcome};
use crate::functions;
use crate::python::function::eval;
use crate::python::groups::{StatefulFunction, state_schema};
use crate::python::{PythonFunction, Shape};
use arrow::datatypes::DataType;
use datafusion::common::{Column, JoinType, UnnestOptions};
use datafusion::functions::core::expr_fn::{get_field, named_struct};
use datafusion::functions_aggregate::expr_fn::array_agg;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr, lit};
use onefold_plan::stream::{self, GroupFunction, GroupTimeout, GroupsOptions};
use spark_connect_proto::{
    ApplyInPandasWithState, CoGroupMap, CommonInlineUserDefinedFunction, GroupMap, MapPartitions,
};
use std::sync::Arc;

/// The column of lists. No user can name it without backquotes.
const LISTS: &str = "#rows";

/// A row for each group: its key, and all its rows with their key in front as a list.
fn in_groups(input: LogicalPlan, keys: Vec<Expr>, name: &str) -> Outcome<LogicalPlan> {
    let mut parts = Vec::new();
    for (place, key) in keys.iter().enumerate() {
        parts.push(lit(format!("#key{place}")));
        parts.push(key.clone().unalias());
    }
    for (qualifier, field) in input.schema().iter() {
        parts.push(lit(field.name().as_str()));
        parts.push(super::columns::column(qualifier, field));
    }
    let rows = array_agg(named_struct(parts)).alias(name);
    let groups: Vec<Expr> = keys.into_iter().map(Expr::unalias).collect();
    built(LogicalPlanBuilder::from(input).aggregate(groups, vec![rows]))
}

impl Planner<'_> {
    /// A function of this plan.
    pub(super) fn function(
        &self,
        function: &CommonInlineUserDefinedFunction,
    ) -> Outcome<PythonFunction> {
        let calls = self.calls.clone();
        Ok(PythonFunction { calls, ..PythonFunction::of(self.session, function)? })
    }

    pub(super) fn map_partitions(&mut self, map: &MapPartitions) -> Outcome<LogicalPlan> {
        let input = stream::shown(self.input(map.input.as_deref())?)?;
        let function = map.func.as_ref().ok_or_else(|| Failure::missing("func"))?;
        let function = self.function(function)?;
        if ![eval::MAP_IN_PANDAS, eval::MAP_IN_ARROW].contains(&function.eval_type) {
            return Err(Failure::unsupported("this kind of function over partitions"));
        }
        let columns = visible(input.schema());
        let names = input.schema().fields().iter().map(|field| field.name().clone()).collect();
        self.listed(input, function, Shape::Rows { names }, columns)
    }

    pub(super) fn group_map(&mut self, map: &GroupMap) -> Outcome<LogicalPlan> {
        if let Some(info) = &map.transform_with_state_info {
            return self.transform_with_state(map, info);
        }
        let input = stream::shown(self.input(map.input.as_deref())?)?;
        let function = map.func.as_ref().ok_or_else(|| Failure::missing("func"))?;
        let function = self.function(function)?;
        if ![eval::GROUPED_PANDAS, eval::GROUPED_ARROW].contains(&function.eval_type) {
            return Err(Failure::unsupported("this kind of function over groups"));
        }
        if stream::is_streaming(&input) {
            return Err(Failure::unsupported("applyInPandas over a stream"));
        }
        let keys = self.items(input.schema(), &map.grouping_expressions)?;
        let count = keys.len();
        let grouped = in_groups(input, keys, "#group")?;
        let group = vec![Expr::Column(Column::from_name("#group"))];
        self.listed(grouped, function, Shape::Groups { keys: count }, group)
    }

    /// Groups of two frames in pairs, by their keys; one of a pair may have no rows.
    pub(super) fn cogroup_map(&mut self, map: &CoGroupMap) -> Outcome<LogicalPlan> {
        let function = map.func.as_ref().ok_or_else(|| Failure::missing("func"))?;
        let function = self.function(function)?;
        if ![eval::COGROUPED_PANDAS, eval::COGROUPED_ARROW].contains(&function.eval_type) {
            return Err(Failure::unsupported("this kind of function over pairs of groups"));
        }
        let left = stream::shown(self.input(map.input.as_deref())?)?;
        let right = stream::shown(self.input(map.other.as_deref())?)?;
        if stream::is_streaming(&left) || stream::is_streaming(&right) {
            return Err(Failure::unsupported("cogroup over a stream"));
        }
        let left_keys = self.items(left.schema(), &map.input_grouping_expressions)?;
        let right_keys = self.items(right.schema(), &map.other_grouping_expressions)?;
        let count = left_keys.len();
        if count != right_keys.len() {
            return Err(Failure::analysis("the groups of a cogroup have different keys"));
        }
        let side = |plan, keys, group| -> Outcome<LogicalPlan> {
            let grouped = in_groups(plan, keys, group)?;
            let columns = grouped.schema().columns().into_iter().enumerate();
            let columns = columns.map(|(place, column)| {
                let name = if place < count { format!("{group}{place}") } else { group.to_owned() };
                Expr::Column(column).alias(name)
            });
            built(LogicalPlanBuilder::from(grouped).project(columns.collect::<Vec<_>>()))
        };
        let (left, right) = (side(left, left_keys, "#left")?, side(right, right_keys, "#right")?);
        let column = |name: String| Expr::Column(Column::from_name(name));
        let same = (0..count).map(|place| {
            let (one, other) = (column(format!("#left{place}")), column(format!("#right{place}")));
            binary_expr(one, Operator::IsNotDistinctFrom, other)
        });
        let same: Vec<Expr> = same.collect();
        let joined = built(LogicalPlanBuilder::from(left).join_on(right, JoinType::Full, same))?;
        let pair = vec![column("#left".to_owned()), column("#right".to_owned())];
        self.listed(joined, function, Shape::Cogroups { keys: count }, pair)
    }

    pub(super) fn apply_with_state(
        &mut self,
        apply: &ApplyInPandasWithState,
    ) -> Outcome<LogicalPlan> {
        let input = stream::shown(self.input(apply.input.as_deref())?)?;
        if !stream::is_streaming(&input) {
            return Err(Failure::unsupported("applyInPandasWithState over what is no stream"));
        }
        let function = apply.func.as_ref().ok_or_else(|| Failure::missing("func"))?;
        let function = self.function(function)?;
        if function.eval_type != eval::GROUPED_WITH_STATE {
            return Err(Failure::unsupported("this kind of function over groups with state"));
        }
        let timeout = match apply.timeout_conf.to_lowercase().as_str() {
            "notimeout" => GroupTimeout::None,
            "processingtimetimeout" => GroupTimeout::ProcessingTime,
            "eventtimetimeout" => GroupTimeout::EventTime,
            other => return Err(Failure::invalid(format!("there is no timeout `{other}`"))),
        };
        let mode = crate::streaming::output_mode(&apply.output_mode)?;
        let output = super::local::schema_of(&apply.output_schema)?;
        let function =
            PythonFunction { output: DataType::Struct(output.fields().clone()), ..function };
        let (input, keys) = self.keyed(input, &apply.grouping_expressions)?;
        let state = super::local::schema_of(&apply.state_schema)?;
        let watermarked = input
            .schema()
            .fields()
            .iter()
            .any(|field| field.metadata().contains_key(stream::WATERMARK_DELAY));
        let code = StatefulFunction {
            function,
            pool: self.session.python()?,
            keys: keys.len(),
            state: onefold_plan::schema::schema_json(&state),
            watermarked,
        };
        let options = GroupsOptions {
            name: None,
            state: Arc::new(state_schema()),
            output,
            timeout,
            mode,
            function: GroupFunction::code(Arc::new(code)),
        };
        Ok(stream::groups_with_state(input, keys, options)?)
    }

    /// The rows with the columns of their key in front, under names of our own; and these columns.
    fn keyed(
        &self,
        input: LogicalPlan,
        grouping: &[spark_connect_proto::Expression],
    ) -> Outcome<(LogicalPlan, Vec<Expr>)> {
        let keys = self.items(input.schema(), grouping)?;
        let mut columns: Vec<Expr> = keys
            .into_iter()
            .enumerate()
            .map(|(place, key)| key.unalias().alias(format!("#key{place}")))
            .collect();
        let count = columns.len();
        columns.extend(visible(input.schema()));
        let keyed = built(LogicalPlanBuilder::from(input).project(columns))?;
        let keys = keyed.schema().columns().into_iter().take(count).map(Expr::Column).collect();
        Ok((keyed, keys))
    }

    /// The rows that a function gives for these columns.
    fn listed(
        &self,
        input: LogicalPlan,
        function: PythonFunction,
        shape: Shape,
        columns: Vec<Expr>,
    ) -> Outcome<LogicalPlan> {
        let DataType::Struct(fields) = function.output.clone() else {
            return Err(Failure::analysis(format!(
                "the return type of the function `{}` is no list of columns",
                function.name
            )));
        };
        let name = functions::known(self.session, function, shape)?;
        let state = self.session.engine.context().state();
        let udf = state.scalar_functions().get(&name).cloned();
        let udf = udf.ok_or_else(|| Failure::missing("function"))?;
        let lists = udf.call(columns).alias(LISTS);
        let options = UnnestOptions::new().with_preserve_nulls(false);
        let rows = LogicalPlanBuilder::from(input)
            .project(vec![lists])
            .and_then(|plan| plan.unnest_column_with_options(Column::from_name(LISTS), options));
        let row = Expr::Column(Column::from_name(LISTS));
        let columns: Vec<Expr> = fields
            .iter()
            .map(|field| get_field(row.clone(), field.name().as_str()).alias(field.name().as_str()))
            .collect();
        built(rows.and_then(|plan| plan.project(columns)))
    }
}
