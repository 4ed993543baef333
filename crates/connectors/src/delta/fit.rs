//! Whether rows fit a table's columns, and what the table becomes where they may change it. Decides
//! only.

use deltalake_core::kernel::{DataType, PrimitiveType, StructField, StructType};
use onefold_types::{Error, Result};

/// How far rows may change a table's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Not at all.
    Nothing,
    /// New columns are added at the end.
    Add,
    /// The rows' columns take the place of the table's: only where all rows are replaced as well.
    Replace,
}

/// What a table's columns become.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fitted {
    /// The table's columns after the write.
    pub(crate) table: StructType,
    /// Whether they differ from those before.
    pub(crate) changed: bool,
}

/// Fits rows into a table. Names are compared without case, as Spark does.
///
/// # Errors
/// Invalid, with the column: it is not in the table, or its values are of another type.
pub(crate) fn fit(table: &StructType, rows: &StructType, change: Change) -> Result<Fitted> {
    if change == Change::Replace {
        return Ok(Fitted { table: rows.clone(), changed: table != rows });
    }
    let mut fields: Vec<StructField> = table.fields().cloned().collect();
    let mut changed = false;
    for field in rows.fields() {
        let known = fields.iter_mut().find(|it| it.name().eq_ignore_ascii_case(field.name()));
        match known {
            Some(known) => {
                let merged = merge(field.name(), &known.data_type, &field.data_type, change)?;
                if let Some(merged) = merged {
                    known.data_type = merged;
                    changed = true;
                }
            }
            None if change == Change::Add => {
                fields.push(nullable(field));
                changed = true;
            }
            None => return Err(unknown(field.name(), table)),
        }
    }
    let table = StructType::try_new(fields)
        .map_err(|error| Error::internal("columns cannot be merged").because(error))?;
    Ok(Fitted { table, changed })
}

fn nullable(field: &StructField) -> StructField {
    StructField::new(field.name().clone(), field.data_type().clone(), true)
}

fn unknown(column: &str, table: &StructType) -> Error {
    let names: Vec<&str> = table.fields().map(|field| field.name().as_str()).collect();
    Error::invalid(format!(
        "the rows have a column `{column}`, but the table has only {}; leave it out, or let the \
         table grow with option mergeSchema=true",
        names.join(", ")
    ))
}

/// What a column's type becomes; `None` where it stays.
fn merge(
    column: &str,
    table: &DataType,
    rows: &DataType,
    change: Change,
) -> Result<Option<DataType>> {
    if same(table, rows) {
        return Ok(None);
    }
    if let (DataType::Struct(table), DataType::Struct(rows)) = (table, rows) {
        // A part that rows lack cannot be told from one that others will write.
        if let Some(lost) = table.fields().find(|part| rows.field(part.name()).is_none()) {
            return Err(Error::invalid(format!(
                "column `{column}` lacks the part `{}` that the table's has; add it, as NULL",
                lost.name()
            )));
        }
        let fitted = fit(table, rows, change)?;
        return Ok(fitted.changed.then(|| DataType::from(fitted.table)));
    }
    match (table, rows) {
        (DataType::Primitive(table), DataType::Primitive(rows)) if widens(rows, table) => Ok(None),
        _ => Err(Error::invalid(format!(
            "column `{column}` of the rows is of type {rows}, but the table's is of type {table}; \
             cast it"
        ))),
    }
}

/// Whether two types are one, whatever may be null in them.
fn same(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (DataType::Struct(one), DataType::Struct(other)) => {
            one.fields().len() == other.fields().len()
                && one.fields().zip(other.fields()).all(|(one, other)| {
                    one.name() == other.name() && same(one.data_type(), other.data_type())
                })
        }
        (DataType::Array(one), DataType::Array(other)) => {
            same(one.element_type(), other.element_type())
        }
        (DataType::Map(one), DataType::Map(other)) => {
            same(one.key_type(), other.key_type()) && same(one.value_type(), other.value_type())
        }
        _ => one == other,
    }
}

/// Whether every value of `from` is one of `to`.
fn widens(from: &PrimitiveType, to: &PrimitiveType) -> bool {
    use PrimitiveType as P;
    match (from, to) {
        (P::Byte, P::Short | P::Integer | P::Long | P::Float | P::Double)
        | (P::Short, P::Integer | P::Long | P::Float | P::Double)
        | (P::Integer, P::Long | P::Double)
        | (P::Float, P::Double) => true,
        (P::Decimal(from), P::Decimal(to)) => {
            let whole = |it: &deltalake_core::kernel::DecimalType| it.precision() - it.scale();
            to.scale() >= from.scale() && whole(to) >= whole(from)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(fields: &[(&str, DataType)]) -> StructType {
        let fields = fields.iter().map(|(name, kind)| StructField::nullable(*name, kind.clone()));
        StructType::try_new(fields).unwrap()
    }

    fn names(table: &StructType) -> Vec<&str> {
        table.fields().map(|field| field.name().as_str()).collect()
    }

    #[test]
    fn fewer_columns_and_narrower_values_fit() {
        let table = columns(&[("id", DataType::LONG), ("v", DataType::DOUBLE)]);
        let rows = columns(&[("ID", DataType::INTEGER)]);
        let fitted = fit(&table, &rows, Change::Nothing).unwrap();
        assert!(!fitted.changed);
        assert_eq!(fitted.table, table);
    }

    #[test]
    fn a_new_column_is_refused_or_added_at_the_end() {
        let table = columns(&[("id", DataType::LONG)]);
        let rows = columns(&[("v", DataType::STRING), ("id", DataType::LONG)]);
        let error = fit(&table, &rows, Change::Nothing).unwrap_err().to_string();
        assert!(error.contains("`v`") && error.contains("mergeSchema"), "{error}");
        let fitted = fit(&table, &rows, Change::Add).unwrap();
        assert!(fitted.changed);
        assert_eq!(names(&fitted.table), ["id", "v"]);
        let fitted = fit(&table, &rows, Change::Replace).unwrap();
        assert_eq!(names(&fitted.table), ["v", "id"]);
    }

    #[test]
    fn values_of_another_type_are_refused_whatever_may_change() {
        let table = columns(&[("id", DataType::INTEGER)]);
        for (kind, change) in [(DataType::LONG, Change::Nothing), (DataType::STRING, Change::Add)] {
            let error = fit(&table, &columns(&[("id", kind)]), change).unwrap_err().to_string();
            assert!(error.contains("`id`") && error.contains("cast it"), "{error}");
        }
    }

    #[test]
    fn parts_of_a_struct_are_added_and_never_left_out() {
        let inner = |names: &[&str]| {
            let fields: Vec<_> = names.iter().map(|name| (*name, DataType::LONG)).collect();
            DataType::from(columns(&fields))
        };
        let table = columns(&[("s", inner(&["a"]))]);
        let grown = columns(&[("s", inner(&["a", "b"]))]);
        assert!(fit(&table, &grown, Change::Nothing).is_err());
        assert_eq!(fit(&table, &grown, Change::Add).unwrap().table, grown);
        let error = fit(&grown, &table, Change::Add).unwrap_err().to_string();
        assert!(error.contains("`b`"), "{error}");
    }
}
