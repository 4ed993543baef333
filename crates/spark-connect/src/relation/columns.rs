//! Relations that change the columns of one input.

use super::{Planner, built};
use crate::expression::{Columns, Translator, parts_of};
use crate::failure::{Failure, Outcome};
use crate::types;
use arrow::datatypes::Field;
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::SelectItem;
use onefold_plan::stream::hidden;
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::{Drop, Project, ToDf, ToSchema, WithColumns, WithColumnsRenamed};

/// A column of a schema as an expression.
pub(super) fn column(
    qualifier: Option<&datafusion::common::TableReference>,
    field: &std::sync::Arc<Field>,
) -> Expr {
    Expr::Column(Column::from((qualifier, field)))
}

/// The columns that `*` gives.
pub(super) fn visible(schema: &DFSchema) -> Vec<Expr> {
    schema
        .iter()
        .filter(|(_, field)| !hidden(field))
        .map(|(qualifier, field)| column(qualifier, field))
        .collect()
}

/// The columns whose whole name a regular expression matches, as ``colRegex("`(a|b)`")`` asks.
pub(super) fn matching(schema: &DFSchema, pattern: &str) -> Outcome<Vec<Expr>> {
    let pattern = pattern.trim_matches('`');
    let regex = regex::RegexBuilder::new(&format!("^(?:{pattern})$"))
        .case_insensitive(true)
        .build()
        .map_err(|error| Failure::analysis(format!("`{pattern}` is no pattern: {error}")))?;
    Ok(schema
        .iter()
        .filter(|(_, field)| !hidden(field) && regex.is_match(field.name()))
        .map(|(qualifier, field)| column(qualifier, field))
        .collect())
}

fn same(left: &str, right: &str) -> bool {
    left.to_lowercase() == right.to_lowercase()
}

impl Planner<'_> {
    pub(super) fn project(&mut self, project: &Project) -> Outcome<LogicalPlan> {
        // Without an input it is one row of values: `spark.sql("SELECT 1")` of other clients.
        let input = match project.input.as_deref() {
            Some(input) => self.plan(input)?,
            None => LogicalPlanBuilder::empty(true).build()?,
        };
        let items = self.items(input.schema(), &project.expressions)?;
        Ok(onefold_plan::sql::project(input, items)?)
    }

    pub(super) fn renamed_in_order(&mut self, to: &ToDf) -> Outcome<LogicalPlan> {
        let input = self.input(to.input.as_deref())?;
        let columns = visible(input.schema());
        if columns.len() != to.column_names.len() {
            return Err(Failure::analysis(format!(
                "The number of columns doesn't match: {} old names, {} new ones",
                columns.len(),
                to.column_names.len()
            )));
        }
        let renamed: Vec<Expr> = columns
            .into_iter()
            .zip(&to.column_names)
            .map(|(column, name)| column.alias(name.as_str()))
            .collect();
        built(LogicalPlanBuilder::from(input).project(renamed))
    }

    pub(super) fn renamed(&mut self, renamed: &WithColumnsRenamed) -> Outcome<LogicalPlan> {
        let input = self.input(renamed.input.as_deref())?;
        let mut names: Vec<(String, String)> = renamed
            .renames
            .iter()
            .map(|it| (it.col_name.clone(), it.new_col_name.clone()))
            .collect();
        names.extend(renamed.rename_columns_map.clone());
        let columns: Vec<Expr> = input
            .schema()
            .iter()
            .map(|(qualifier, field)| {
                let mut name = field.name().clone();
                for (old, new) in &names {
                    if same(&name, old) {
                        name.clone_from(new);
                    }
                }
                let column = column(qualifier, field);
                if name == *field.name() { column } else { column.alias(name) }
            })
            .collect();
        built(LogicalPlanBuilder::from(input).project(columns))
    }

    pub(super) fn with_columns(&mut self, with: &WithColumns) -> Outcome<LogicalPlan> {
        let input = self.input(with.input.as_deref())?;
        let mut added: Vec<(String, Option<Expr>)> = Vec::with_capacity(with.aliases.len());
        for alias in &with.aliases {
            let [name] = alias.name.as_slice() else {
                return Err(Failure::unsupported("a column of several names"));
            };
            let value = alias.expr.as_deref().ok_or_else(|| Failure::missing("alias.expr"))?;
            let columns = Columns::new(input.schema(), &self.qualifiers, self.session);
            let expr = Translator::new(&columns).expression(value)?;
            let alias = crate::expression::quoted(name);
            let item = SelectItem::ExprWithAlias { expr, alias };
            let expr = self.item(input.schema(), item)?.into_iter().next();
            added.push((name.clone(), expr));
        }
        let mut columns = Vec::new();
        for (qualifier, field) in input.schema().iter() {
            match added.iter_mut().find(|(name, _)| same(name, field.name())) {
                None => columns.push(column(qualifier, field)),
                Some((_, expr)) => columns.extend(expr.take()),
            }
        }
        columns.extend(added.into_iter().filter_map(|(_, expr)| expr));
        Ok(onefold_plan::sql::project(input, columns)?)
    }

    pub(super) fn drop_columns(&mut self, drop: &Drop) -> Outcome<LogicalPlan> {
        let input = self.input(drop.input.as_deref())?;
        let mut gone: Vec<Expr> = Vec::new();
        let mut names: Vec<String> = drop.column_names.clone();
        for expression in &drop.columns {
            match self.expression(&input, expression) {
                Ok(expr) => gone.push(expr),
                // A column that is not there is passed over.
                Err(failure) => {
                    let Some(ExprType::UnresolvedAttribute(attribute)) = &expression.expr_type
                    else {
                        return Err(failure);
                    };
                    names.extend(parts_of(&attribute.unparsed_identifier)?.pop());
                }
            }
        }
        let columns: Vec<Expr> = input
            .schema()
            .iter()
            .filter(|(_, field)| !names.iter().any(|name| same(name, field.name())))
            .map(|(qualifier, field)| column(qualifier, field))
            .filter(|column| !gone.contains(column))
            .collect();
        built(LogicalPlanBuilder::from(input).project(columns))
    }

    /// Columns by name in the order and the types of a schema.
    pub(super) fn fitted_to_schema(&mut self, to: &ToSchema) -> Outcome<LogicalPlan> {
        let input = self.input(to.input.as_deref())?;
        let wanted = to.schema.as_ref().ok_or_else(|| Failure::missing("schema"))?;
        let wanted = types::to_schema(wanted)?;
        let mut columns = Vec::with_capacity(wanted.fields().len());
        for field in wanted.fields() {
            let found = input.schema().iter().find(|(_, it)| same(it.name(), field.name()));
            columns.push(match found {
                Some((qualifier, known)) => {
                    let expr = column(qualifier, known);
                    let expr = if known.data_type() == field.data_type() {
                        expr
                    } else {
                        datafusion::logical_expr::cast(expr, field.data_type().clone())
                    };
                    expr.alias(field.name().as_str())
                }
                None if field.is_nullable() => {
                    let null = datafusion::common::ScalarValue::try_from(field.data_type())?;
                    Expr::Literal(null, None).alias(field.name().as_str())
                }
                None => {
                    return Err(Failure::analysis(format!(
                        "there is no column `{}`, and the schema says that it is never NULL",
                        field.name()
                    )));
                }
            });
        }
        built(LogicalPlanBuilder::from(input).project(columns))
    }
}
