//! The tables and functions that DataFusion's planner sees.

use super::table_functions::NUMBERS;
use crate::failure;
use crate::functions;
use arrow::datatypes::DataType;
use datafusion::catalog::TableFunctionArgs;
use datafusion::common::TableReference;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::planner::{NullOrdering, ParserOptions};
use datafusion::sql::sqlparser::ast::{self, ObjectName, ObjectNamePart};
use onefold_types::Result;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Tables by name, without case.
#[derive(Default)]
pub(crate) struct Tables {
    by_name: HashMap<String, Arc<dyn TableSource>>,
}

impl Tables {
    pub(crate) fn insert(&mut self, name: &str, table: Arc<dyn TableSource>) {
        self.by_name.insert(name.to_lowercase(), table);
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn TableSource>> {
        self.by_name.get(&name.to_lowercase())
    }

    /// Looks up the names in a query that are not known yet among the session's tables. Names that
    /// are not found may be names of `WITH` queries; the planner says so if they are not.
    pub(crate) async fn find_all(
        &mut self,
        state: &SessionState,
        query: &ast::Query,
    ) -> Result<()> {
        for name in relations(query) {
            self.find_one(state, name_parts(&name)).await?;
        }
        Ok(())
    }

    /// Looks up one name, of parts joined with dots.
    pub(crate) async fn find_name(&mut self, state: &SessionState, name: &str) -> Result<()> {
        if self.get(name).is_some() {
            return Ok(());
        }
        self.find_one(state, name.split('.').map(str::to_owned).collect()).await
    }

    async fn find_one(&mut self, state: &SessionState, parts: Vec<String>) -> Result<()> {
        let key = parts.join(".");
        if self.get(&key).is_some() {
            return Ok(());
        }
        if let Some(table) = find(state, parts).await.map_err(failure::planning)? {
            self.insert(&key, table);
        }
        Ok(())
    }
}

/// All names of tables in a query.
pub(crate) fn relations(query: &ast::Query) -> Vec<ObjectName> {
    let mut names: Vec<ObjectName> = Vec::new();
    let _: ControlFlow<()> = ast::visit_relations(query, |name| {
        if !names.contains(name) {
            names.push(name.clone());
        }
        ControlFlow::Continue(())
    });
    names
}

/// The parts of a name, joined with dots.
pub(crate) fn object_name(name: &ObjectName) -> String {
    name_parts(name).join(".")
}

fn name_parts(name: &ObjectName) -> Vec<String> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => ident.value.clone(),
            ObjectNamePart::Function(function) => function.name.value.clone(),
        })
        .collect()
}

async fn find(
    state: &SessionState,
    mut parts: Vec<String>,
) -> PlanResult<Option<Arc<dyn TableSource>>> {
    let Some(table) = parts.pop() else { return Ok(None) };
    let reference = match (parts.pop(), parts.pop()) {
        (None, _) => TableReference::bare(table.as_str()),
        (Some(schema), None) => TableReference::partial(schema, table.as_str()),
        (Some(schema), Some(catalog)) => TableReference::full(catalog, schema, table.as_str()),
    };
    let Ok(schema) = state.schema_for_ref(reference) else { return Ok(None) };
    if let Some(found) = schema.table(&table).await? {
        return Ok(Some(provider_as_source(found)));
    }
    let lower = table.to_lowercase();
    let Some(other) = schema.table_names().into_iter().find(|name| name.to_lowercase() == lower)
    else {
        return Ok(None);
    };
    Ok(schema.table(&other).await?.map(provider_as_source))
}

/// The planner's options: names are exact already, `1.5` is a decimal, strings are `Utf8`,
/// NULL is the least in an order.
pub(super) fn options() -> ParserOptions {
    ParserOptions::new()
        .with_enable_ident_normalization(false)
        .with_parse_float_as_decimal(true)
        .with_map_string_types_to_utf8view(false)
        .with_support_varchar_with_length(true)
        .with_default_null_ordering(NullOrdering::NullsMin)
}

/// A session as DataFusion's planner sees it, with Spark's operators before all others.
pub(super) struct Catalog<'a> {
    state: &'a SessionState,
    tables: &'a Tables,
    planners: Vec<Arc<dyn ExprPlanner>>,
}

impl<'a> Catalog<'a> {
    pub(super) fn new(state: &'a SessionState, tables: &'a Tables) -> Self {
        let mut planners = functions::planners();
        planners.extend(state.expr_planners().iter().cloned());
        Catalog { state, tables, planners }
    }
}

impl ContextProvider for Catalog<'_> {
    fn get_table_source(&self, name: TableReference) -> PlanResult<Arc<dyn TableSource>> {
        let parts = [name.catalog(), name.schema(), Some(name.table())];
        let key = parts.into_iter().flatten().collect::<Vec<_>>().join(".");
        match self.tables.get(&key) {
            Some(table) => Ok(Arc::clone(table)),
            None => Err(DataFusionError::Plan(format!("there is no table or view `{key}`"))),
        }
    }

    fn get_table_function_source(
        &self,
        name: &str,
        arguments: Vec<Expr>,
    ) -> PlanResult<Arc<dyn TableSource>> {
        let known = (name.trim_matches('`') == NUMBERS).then_some("range");
        let function = known.and_then(|known| self.state.table_functions().get(known));
        let function = function
            .ok_or_else(|| DataFusionError::Plan(format!("there is no table function `{name}`")))?;
        // `-1` is a call until it is computed.
        let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
        let arguments = arguments
            .into_iter()
            .map(|argument| simplifier.simplify(argument))
            .collect::<PlanResult<Vec<Expr>>>()?;
        let arguments = TableFunctionArgs::new(&arguments, self.state);
        let table = function.create_table_provider_with_args(arguments)?;
        Ok(provider_as_source(table))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        functions::own(name).or_else(|| self.state.scalar_functions().get(name).cloned())
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    /// What errors suggest: without the functions that only the planner calls.
    fn udf_names(&self) -> Vec<String> {
        let inner = |name: &str| name.starts_with("spark_") || name.starts_with("onefold_");
        let names = self.state.scalar_functions().keys();
        names.filter(|name| !inner(name)).cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}
