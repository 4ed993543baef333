//! `df.to(schema)`: columns by name in the order and the types of a schema, where Spark would store
//! the one type as the other.

use super::columns::{column, same};
use super::{Planner, built};
use crate::failure::{Failure, Outcome};
use crate::store_assignment::stored;
use crate::types;
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast};
use onefold_plan::schema::type_name;
use spark_connect_proto::ToSchema;

impl Planner<'_> {
    pub(super) fn fitted_to_schema(&mut self, to: &ToSchema) -> Outcome<LogicalPlan> {
        let input = self.input(to.input.as_deref())?;
        let wanted = to.schema.as_ref().ok_or_else(|| Failure::missing("schema"))?;
        let wanted = types::to_schema(wanted)?;
        let mut columns = Vec::with_capacity(wanted.fields().len());
        for field in wanted.fields() {
            let found = input.schema().iter().find(|(_, it)| same(it.name(), field.name()));
            let value = match found {
                Some((qualifier, known)) => {
                    fits(field.name(), known, field)?;
                    let expr = column(qualifier, known);
                    match known.data_type() == field.data_type() {
                        true => expr,
                        false => cast(expr, field.data_type().clone()),
                    }
                }
                None if field.is_nullable() => {
                    Expr::Literal(ScalarValue::try_from(field.data_type())?, None)
                }
                None => {
                    let known = input.schema().fields().iter();
                    let known: Vec<_> = known.map(|it| format!("`{}`", it.name())).collect();
                    return Err(Failure::no_column(field.name(), &known.join(", ")));
                }
            };
            columns.push(value.alias(field.name().as_str()));
        }
        built(LogicalPlanBuilder::from(input).project(columns))
    }
}

/// Whether a value of one field may become one of the other.
fn fits(path: &str, from: &Field, to: &Field) -> Outcome<()> {
    if from.is_nullable() && !to.is_nullable() {
        return Err(Failure::nullable_field(path));
    }
    match (from.data_type(), to.data_type()) {
        (DataType::Struct(own), DataType::Struct(wanted)) => {
            for field in wanted {
                let path = format!("{path}.{}", field.name());
                match own.iter().find(|it| same(it.name(), field.name())) {
                    Some(known) => fits(&path, known, field)?,
                    None if field.is_nullable() => {}
                    None => return Err(Failure::nullable_field(&path)),
                }
            }
            Ok(())
        }
        (DataType::List(own), DataType::List(wanted)) => {
            fits(&format!("{path}.element"), own, wanted)
        }
        (DataType::Map(own, _), DataType::Map(wanted, _)) => {
            let (DataType::Struct(own), DataType::Struct(wanted)) =
                (own.data_type(), wanted.data_type())
            else {
                return Ok(());
            };
            let names = ["key", "value"].into_iter();
            names
                .zip(own.iter().zip(wanted))
                .try_for_each(|(name, (own, wanted))| fits(&format!("{path}.{name}"), own, wanted))
        }
        (own, wanted) if stored(own, wanted) => Ok(()),
        (own, wanted) => Err(Failure::field_type(path, &type_name(own), &type_name(wanted))),
    }
}

#[cfg(test)]
mod tests {
    use super::fits;
    use onefold_plan::schema::parse_schema;

    #[test]
    fn only_what_a_table_would_store_becomes_another_type() {
        let of = |from: &str, to: &str| {
            let (from, to) = (parse_schema(from).unwrap(), parse_schema(to).unwrap());
            fits("a", from.field(0), to.field(0)).map_err(|failure| failure.message().to_owned())
        };
        assert!(of("a BIGINT", "a INT").is_ok());
        assert!(of("a DATE", "a STRING").is_ok());
        assert!(of("a STRUCT<x: INT>", "a STRUCT<y: INT, x: BIGINT>").is_ok());
        assert!(of("a STRING", "a INT").unwrap_err().contains("DATA_TYPE"));
        assert!(of("a INT", "a INT NOT NULL").unwrap_err().contains("NULLABLE"));
        assert!(of("a ARRAY<STRING>", "a ARRAY<INT>").unwrap_err().contains("`a`.`element`"));
    }
}
