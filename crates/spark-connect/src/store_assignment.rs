//! Which values a column of a table takes, as in Spark's default for `spark.sql.storeAssignmentPolicy`
//! (ANSI): a number as another number, a date as a time, all but nested values as a text; what does not
//! fit when it is computed is an error of its row.

use crate::failure::{Failure, Outcome};
use arrow::datatypes::DataType;
use onefold_plan::schema::type_name;

/// Whether Spark stores values of a type in a column of another one.
pub(crate) fn stored(from: &DataType, to: &DataType) -> bool {
    let number = |it: &DataType| it.is_numeric() || it.is_decimal();
    let time = |it: &DataType| matches!(it, DataType::Date32 | DataType::Timestamp(..));
    let text =
        |it: &DataType| matches!(it, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    from == to
        || from.is_null()
        || (number(from) && number(to))
        || (time(from) && time(to))
        || (text(to) && !from.is_nested())
}

/// Refuses rows whose column has values of a type that a table's column does not take.
///
/// # Errors
/// `INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST`, with the path of the value and both types.
pub(crate) fn check(table: &str, path: &str, from: &DataType, to: &DataType) -> Outcome<()> {
    let nested = |name: &str| format!("{path}.{name}");
    match (from, to) {
        (DataType::Struct(own), DataType::Struct(wanted)) if own.len() == wanted.len() => {
            own.iter().zip(wanted).try_for_each(|(own, wanted)| {
                check(table, &nested(wanted.name()), own.data_type(), wanted.data_type())
            })
        }
        (DataType::List(own), DataType::List(wanted)) => {
            check(table, &nested("element"), own.data_type(), wanted.data_type())
        }
        (DataType::Map(own, _), DataType::Map(wanted, _)) => {
            match (own.data_type(), wanted.data_type()) {
                (DataType::Struct(own), DataType::Struct(wanted)) => {
                    let pairs = own.iter().zip(wanted).zip(["key", "value"]);
                    pairs.into_iter().try_for_each(|((own, wanted), name)| {
                        check(table, &nested(name), own.data_type(), wanted.data_type())
                    })
                }
                _ => Ok(()),
            }
        }
        _ if stored(from, to) => Ok(()),
        _ => Err(Failure::not_stored(table, path, &type_name(from), &type_name(to))),
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use onefold_plan::schema::parse_schema;

    #[test]
    fn a_table_takes_what_loses_its_meaning_in_no_row() {
        let of = |from: &str, to: &str| {
            let (from, to) = (parse_schema(from).unwrap(), parse_schema(to).unwrap());
            let (from, to) = (from.field(0).data_type(), to.field(0).data_type());
            check("t", "a", from, to).map_err(|failure| failure.message().to_owned())
        };
        for (from, to) in [
            ("a BIGINT", "a INT"),
            ("a DOUBLE", "a DECIMAL(5,2)"),
            ("a DATE", "a TIMESTAMP"),
            ("a BOOLEAN", "a STRING"),
            ("a ARRAY<INT>", "a ARRAY<BIGINT>"),
            ("a STRUCT<x: INT>", "a STRUCT<x: STRING>"),
        ] {
            assert_eq!(of(from, to), Ok(()), "{from} as {to}");
        }
        for (from, to) in [
            ("a STRING", "a INT"),
            ("a BOOLEAN", "a INT"),
            ("a INT", "a DATE"),
            ("a TIMESTAMP", "a BIGINT"),
            ("a ARRAY<STRING>", "a ARRAY<INT>"),
            ("a MAP<STRING, STRING>", "a MAP<STRING, INT>"),
            ("a STRUCT<x: STRING>", "a STRUCT<x: INT>"),
            ("a ARRAY<INT>", "a STRING"),
        ] {
            let refused = of(from, to).unwrap_err();
            assert!(refused.contains("Cannot safely cast"), "{from} as {to}: {refused}");
        }
    }
}
