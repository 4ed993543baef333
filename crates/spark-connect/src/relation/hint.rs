//! `df.hint(…)`: those that spread rows do so; joins choose their own way, and other hints mean
//! nothing, as in Spark.

use super::Planner;
use super::spread::{number, spread_by};
use crate::failure::{Failure, Outcome};
use datafusion::logical_expr::{Expr, LogicalPlan};
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::{ExprType, UnresolvedAttribute};
use spark_connect_proto::{Expression, Hint};

/// A parameter of a hint.
enum Parameter<'a> {
    Number(i32),
    Column(&'a str),
    Other,
}

fn parameter(expression: &Expression) -> Parameter<'_> {
    match &expression.expr_type {
        Some(ExprType::Literal(literal)) => match &literal.literal_type {
            Some(LiteralType::Integer(number)) => Parameter::Number(*number),
            Some(LiteralType::String(name)) => Parameter::Column(name),
            _ => Parameter::Other,
        },
        Some(ExprType::UnresolvedAttribute(column)) => {
            Parameter::Column(&column.unparsed_identifier)
        }
        _ => Parameter::Other,
    }
}

impl Planner<'_> {
    pub(super) fn hint(&mut self, hint: &Hint) -> Outcome<LogicalPlan> {
        let input = self.input(hint.input.as_deref())?;
        let name = hint.name.to_uppercase();
        let parameters: Vec<Parameter<'_>> = hint.parameters.iter().map(parameter).collect();
        match (name.as_str(), parameters.as_slice()) {
            ("COALESCE", [Parameter::Number(count)]) => {
                spread_by(input, Vec::new(), number(*count)?.min(self.partitions()))
            }
            ("COALESCE", _) => Err(wrong(&name, "one number of partitions")),
            ("REPARTITION" | "REPARTITION_BY_RANGE" | "REBALANCE", parameters) => {
                let (count, columns) = match parameters {
                    [Parameter::Number(count), columns @ ..] => (number(*count)?, columns),
                    columns => (self.partitions(), columns),
                };
                let columns = columns.iter().map(|column| match column {
                    Parameter::Column(column) => self.hinted(&input, column),
                    _ => Err(wrong(&name, "a number of partitions, then columns")),
                });
                let columns = columns.collect::<Outcome<Vec<_>>>()?;
                spread_by(input, columns, count)
            }
            _ => Ok(input),
        }
    }

    fn hinted(&self, input: &LogicalPlan, column: &str) -> Outcome<Expr> {
        let attribute = UnresolvedAttribute {
            unparsed_identifier: column.to_owned(),
            ..UnresolvedAttribute::default()
        };
        let expr_type = Some(ExprType::UnresolvedAttribute(attribute));
        self.expression(input, &Expression { common: None, expr_type })
    }
}

fn wrong(hint: &str, takes: &str) -> Failure {
    Failure::analysis(format!("the hint {hint} takes {takes}"))
}
