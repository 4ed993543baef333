//! Partitions of a read: ranges of a column that together have every row once.

use super::options::SplitOptions;
use crate::jdbc::cell::Cell;
use crate::jdbc::columns::column;
use crate::jdbc::database::Column;
use crate::jdbc::dialect::Dialect;
use crate::jdbc::names::quoted;
use arrow::datatypes::DataType;
use onefold_types::{Error, Result};

/// A condition and its values; `?` stands for each of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    pub(super) text: String,
    pub(super) values: Vec<Cell>,
}

/// The conditions of the partitions; one that is empty has all rows.
///
/// # Errors
/// Invalid: the column is none that can be cut, or the bounds are none of its values.
pub(super) fn conditions(
    dialect: &dyn Dialect,
    columns: &[Column],
    split: Option<&SplitOptions>,
) -> Result<Vec<Condition>> {
    let all = || Condition { text: String::new(), values: Vec::new() };
    let Some(split) = split else { return Ok(vec![all()]) };
    let own = columns.iter().find(|column| column.name.eq_ignore_ascii_case(&split.column));
    let own = own.ok_or_else(|| {
        Error::invalid(format!(
            "option partitionColumn names `{}`, which is not there",
            split.column
        ))
    })?;
    let (lower, upper) = (bound(own, &split.lower)?, bound(own, &split.upper)?);
    if lower > upper {
        return Err(Error::invalid("option lowerBound is larger than upperBound"));
    }
    let name = quoted(dialect, &own.name);
    let cuts = cuts(lower, upper, split.parts);
    if cuts.is_empty() {
        return Ok(vec![all()]);
    }
    let value = |at: i128| match own.data_type {
        DataType::Date32 => Cell::Date(i32::try_from(at).unwrap_or(i32::MAX)),
        DataType::Timestamp(..) => Cell::Timestamp(i64::try_from(at).unwrap_or(i64::MAX)),
        _ => Cell::Int(i64::try_from(at).unwrap_or(i64::MAX)),
    };
    let mut found = Vec::new();
    for (at, cut) in cuts.iter().enumerate() {
        found.push(match at.checked_sub(1).and_then(|before| cuts.get(before)) {
            // NULL is in no range.
            None => Condition {
                text: format!("({name} < ? OR {name} IS NULL)"),
                values: vec![value(*cut)],
            },
            Some(before) => Condition {
                text: format!("({name} >= ? AND {name} < ?)"),
                values: vec![value(*before), value(*cut)],
            },
        });
    }
    if let Some(last) = cuts.last() {
        found.push(Condition { text: format!("{name} >= ?"), values: vec![value(*last)] });
    }
    Ok(found)
}

/// The values between partitions.
fn cuts(lower: i128, upper: i128, parts: u64) -> Vec<i128> {
    let width = upper - lower;
    let parts = i128::from(parts).min(width.max(1));
    (1..parts).map(|part| lower + width * part / parts).collect()
}

fn bound(own: &Column, text: &str) -> Result<i128> {
    let bad = || {
        Error::invalid(format!(
            "`{text}` is no bound for column `{}` of type {}; partitionColumn is a column of whole \
             numbers, dates or times",
            own.name, own.data_type
        ))
    };
    match &own.data_type {
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Decimal128(_, _) => text.trim().parse().map_err(|_| bad()),
        DataType::Date32 | DataType::Timestamp(..) => {
            let array = column(&[Cell::text(text)], &own.data_type).map_err(|_| bad())?;
            match crate::jdbc::cell::cell_at(&array, 0).map_err(|_| bad())? {
                Cell::Date(days) => Ok(days.into()),
                Cell::Timestamp(micros) => Ok(micros.into()),
                _ => Err(bad()),
            }
        }
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jdbc::dialect::POSTGRESQL;

    #[test]
    fn every_value_is_in_one_partition() {
        let column = Column {
            name: "id".to_owned(),
            data_type: DataType::Int64,
            declared: String::new(),
            by_text: false,
        };
        let split = SplitOptions {
            column: "ID".to_owned(),
            lower: "0".to_owned(),
            upper: "10".to_owned(),
            parts: 3,
        };
        let found = conditions(POSTGRESQL, &[column], Some(&split)).unwrap();
        let texts: Vec<&str> = found.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(
            texts,
            ["(\"id\" < ? OR \"id\" IS NULL)", "(\"id\" >= ? AND \"id\" < ?)", "\"id\" >= ?"]
        );
        assert_eq!(found[1].values, [Cell::Int(3), Cell::Int(6)]);
        assert_eq!(cuts(5, 5, 8), Vec::<i128>::new());
        assert_eq!(cuts(i64::MIN.into(), i64::MAX.into(), 2), [-1]);
    }
}
