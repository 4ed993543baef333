//! `FROM t PIVOT (sum(x) FOR k IN (1 AS one, 2))`: a column for each value and aggregate, over groups of
//! all columns that neither names.

use super::naming::name_of;
use super::scope::{Relation, ident, same};
use super::text::parse_query;
use datafusion::sql::sqlparser::ast::{
    Expr, ExprWithAlias, Ident, PivotValueSource, TableAlias, TableFactor, Value, visit_expressions,
};
use onefold_types::{Error, Result};
use std::ops::ControlFlow;

/// A table with PIVOT behind it, whose own columns are known.
pub(super) struct Pivot<'a> {
    pub(super) table: &'a TableFactor,
    pub(super) aggregates: &'a [ExprWithAlias],
    pub(super) column: &'a [Expr],
    pub(super) values: &'a PivotValueSource,
    pub(super) alias: Option<&'a TableAlias>,
}

impl Pivot<'_> {
    /// The query that it stands for; `relations` are those of the table.
    ///
    /// # Errors
    /// Several pivot columns, or values that are no list.
    pub(super) fn as_query(&self, relations: &[Relation]) -> Result<TableFactor> {
        let ([column], PivotValueSource::List(values)) = (self.column, self.values) else {
            return Err(Error::invalid(
                "PIVOT takes one column and a list of values: FOR k IN (1, 2)",
            ));
        };
        let groups = self.groups(relations, column);
        let mut items: Vec<String> = groups.clone();
        for value in values {
            for aggregate in self.aggregates {
                let meant = format!("{column} = {}", value.expr);
                let name = ident(&self.name(value, aggregate));
                // Where no row has the value there is no result, not even a count of 0.
                items.push(format!(
                    "CASE WHEN count(1) FILTER (WHERE {meant}) > 0 THEN {} END AS {name}",
                    filtered(&aggregate.expr, &meant)?
                ));
            }
        }
        let by = match groups.is_empty() {
            true => String::new(),
            false => format!(" GROUP BY {}", groups.join(", ")),
        };
        let text = format!("SELECT {} FROM {}{by}", items.join(", "), self.table);
        let (query, _) = parse_query(&text)?;
        let alias = self.alias.cloned().unwrap_or(TableAlias {
            explicit: true,
            name: ident("#pivot"),
            columns: Vec::new(),
            at: None,
        });
        Ok(TableFactor::Derived {
            lateral: false,
            subquery: query,
            alias: Some(alias),
            sample: None,
        })
    }

    /// The columns that neither the aggregates nor the pivot column name.
    fn groups(&self, relations: &[Relation], column: &Expr) -> Vec<String> {
        let mut named: Vec<String> = Vec::new();
        let mut note = |expr: &Expr| {
            match expr {
                Expr::Identifier(name) => named.push(name.value.clone()),
                Expr::CompoundIdentifier(path) => {
                    named.extend(path.iter().map(|part: &Ident| part.value.clone()));
                }
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        };
        let _ = visit_expressions(column, &mut note);
        for aggregate in self.aggregates {
            let _ = visit_expressions(&aggregate.expr, &mut note);
        }
        let columns = relations.iter().flat_map(|relation| &relation.columns);
        columns
            .filter(|column| column.shown() && !named.iter().any(|it| same(it, &column.name)))
            .map(|column| ident(&column.name).to_string())
            .collect()
    }

    fn name(&self, value: &ExprWithAlias, aggregate: &ExprWithAlias) -> String {
        let of_value = match (&value.alias, &value.expr) {
            (Some(alias), _) => alias.value.clone(),
            (None, Expr::Value(text)) => match &text.value {
                Value::SingleQuotedString(text) => text.clone(),
                other => other.to_string(),
            },
            (None, expr) => name_of(expr),
        };
        let of_aggregate = match &aggregate.alias {
            Some(alias) => alias.value.clone(),
            None => name_of(&aggregate.expr),
        };
        match self.aggregates {
            [_] => of_value,
            _ => format!("{of_value}_{of_aggregate}"),
        }
    }
}

/// An aggregate over the rows for which a condition holds.
fn filtered(aggregate: &Expr, condition: &str) -> Result<String> {
    match aggregate {
        Expr::Function(call) if call.filter.is_none() => {
            Ok(format!("{call} FILTER (WHERE {condition})"))
        }
        other => Err(Error::invalid(format!(
            "PIVOT takes aggregate functions, and `{other}` is none; compute with the columns that \
             it makes"
        ))),
    }
}
