//! Relations that change the columns of one input.

use super::{Planner, built};
use crate::expression::{Columns, Translator, parts_of};
use crate::failure::{Failure, Outcome};
use crate::types;
use arrow::datatypes::Field;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::SelectItem;
use onefold_plan::stream::hidden;
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::{Drop, Project, ToDf, WithColumns, WithColumnsRenamed};

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

/// The column with what its alias says of it.
pub(super) fn with_said(column: Expr, metadata: Option<&str>) -> Outcome<Expr> {
    let Some(text) = metadata.filter(|text| !text.is_empty()) else { return Ok(column) };
    let metadata = Some(FieldMetadata::from(types::metadata(text)?));
    Ok(match column {
        Expr::Alias(alias) => Expr::Alias(alias.with_metadata(metadata)),
        other => {
            let name = other.schema_name().to_string();
            other.alias_with_metadata(name, metadata)
        }
    })
}

pub(super) fn same(left: &str, right: &str) -> bool {
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
            let said = alias.metadata.as_deref();
            let item = SelectItem::ExprWithAlias { expr, alias: crate::expression::quoted(name) };
            let item = self.item(input.schema(), item)?.into_iter().next();
            let expr = item.map(|item| with_said(item, said)).transpose()?;
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
}
