//! The table that is written: made if it is missing, and its columns found for those of the rows.

use super::cell::is_flat;
use super::database::{Column, Session};
use super::dialect::Dialect;
use super::failure::{Failure, FailureKind};
use super::names::TableName;
use super::options::{Mode, WriteOptions};
use super::statements::{Change, WritePlan, create_table};
use arrow::datatypes::SchemaRef;
use onefold_types::{Error, Result};

/// The columns of a table; `None` if there is no such table.
pub(crate) async fn columns(
    session: &mut dyn Session,
    dialect: &dyn Dialect,
    table: &TableName,
) -> Result<Option<Vec<Column>>, Failure> {
    let sql = format!("SELECT * FROM {} WHERE 1 = 0", table.quoted(dialect));
    match session.describe(&sql).await {
        Ok(columns) => Ok(Some(columns)),
        Err(failure) if failure.kind == FailureKind::NoTable => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The statement of a table for rows that have none yet.
///
/// # Errors
/// Invalid: the database has no type for a column.
pub(crate) fn creation(
    dialect: &dyn Dialect,
    options: &WriteOptions,
    rows: &SchemaRef,
) -> Result<String> {
    let (keys, delete_when) = match &options.mode {
        Mode::Upsert { keys, delete_when, .. } => (keys.clone(), delete_when.clone()),
        Mode::Append | Mode::Replace => (Vec::new(), None),
    };
    let mut columns = Vec::new();
    let mut primary = Vec::new();
    for field in rows.fields() {
        let name = field.name();
        if delete_when.as_ref().is_some_and(|it| it.eq_ignore_ascii_case(name)) {
            continue;
        }
        let key = keys.iter().any(|key| key.eq_ignore_ascii_case(name));
        let given = options.column_types.iter().find(|(it, _)| it.eq_ignore_ascii_case(name));
        let declared = match given {
            Some((_, declared)) => declared.clone(),
            None => {
                dialect.type_of(field.data_type(), key).ok_or_else(|| no_type(dialect, field))?
            }
        };
        if key {
            primary.push(name.clone());
        }
        columns.push((name.clone(), declared));
    }
    let create = options.create_options.as_deref();
    Ok(create_table(dialect, &options.table, &columns, &primary, create))
}

fn no_type(dialect: &dyn Dialect, field: &arrow::datatypes::Field) -> Error {
    Error::invalid(format!(
        "{} has no type for column `{}` of type {}; cast it, or make text of it with to_json",
        dialect.name(),
        field.name(),
        field.data_type()
    ))
}

/// Finds a name among others: as it is written, else without case if only one fits.
fn find<'a>(
    name: &str,
    among: impl Iterator<Item = &'a str> + Clone,
    what: &str,
) -> Result<Option<usize>> {
    if let Some(at) = among.clone().position(|it| it == name) {
        return Ok(Some(at));
    }
    let mut found = among.enumerate().filter(|(_, it)| it.eq_ignore_ascii_case(name));
    let first = found.next();
    match (first, found.next()) {
        (Some((_, one)), Some((_, other))) => Err(Error::invalid(format!(
            "`{name}` may be `{one}` or `{other}` of {what}; spell it as one of them"
        ))),
        (first, _) => Ok(first.map(|(at, _)| at)),
    }
}

/// How rows get into a table.
#[derive(Debug)]
pub(crate) struct Fitted {
    pub(crate) plan: WritePlan,
    /// The rows' columns in the order of the staged ones.
    pub(crate) order: Vec<usize>,
    /// Those of them that are keys.
    pub(crate) keys: Vec<usize>,
    /// The table whose place the written one then takes.
    pub(crate) replaces: Option<TableName>,
}

/// Finds the table's columns for those of the rows.
///
/// # Errors
/// Invalid: one is missing, or a name fits several.
pub(crate) fn fit(
    dialect: &'static dyn Dialect,
    options: &WriteOptions,
    there: &[Column],
    rows: &SchemaRef,
) -> Result<Fitted> {
    let table = format!("table {}", options.table);
    let row_names = || rows.fields().iter().map(|field| field.name().as_str());
    let there_names = || there.iter().map(|column| column.name.as_str());
    let delete_at = match &options.mode {
        Mode::Upsert { delete_when: Some(name), .. } => Some(delete_column(name, rows)?),
        _ => None,
    };
    let mut columns: Vec<Column> = Vec::new();
    let mut order = Vec::new();
    for (at, field) in rows.fields().iter().enumerate() {
        if delete_at == Some(at) {
            continue;
        }
        if !is_flat(field.data_type()) {
            return Err(no_type(dialect, field));
        }
        let found = find(field.name(), there_names(), &table)?.and_then(|it| there.get(it));
        let Some(column) = found else {
            return Err(Error::invalid(format!(
                "{table} has no column `{}`: it has {}; add it to the table, or leave it out of the \
                 rows",
                field.name(),
                there_names().collect::<Vec<_>>().join(", ")
            )));
        };
        if columns.iter().any(|it| it.name == column.name) {
            return Err(Error::invalid(format!(
                "two columns of the rows would be `{}` of {table}; rename one of them",
                column.name
            )));
        }
        columns.push(column.clone());
        order.push(at);
    }
    let own = |name: &str| -> Result<(usize, String)> {
        let at = find(name, row_names(), "the rows")?;
        let place = at.and_then(|at| order.iter().position(|it| *it == at));
        let column = place.and_then(|place| columns.get(place));
        match (at, column) {
            (Some(at), Some(column)) => Ok((at, column.name.clone())),
            _ => Err(Error::invalid(format!(
                "the rows have no column `{name}`: they have {}; upsertKeys and upsertOrderBy name \
                 columns that are written",
                row_names().collect::<Vec<_>>().join(", ")
            ))),
        }
    };
    let mut keys = Vec::new();
    let change = match &options.mode {
        Mode::Append => Change::Append,
        Mode::Replace => Change::Replace,
        Mode::Upsert { keys: names, order_by, .. } => {
            let mut own_names = Vec::new();
            for name in names {
                let (at, name) = own(name)?;
                keys.push(at);
                own_names.push(name);
            }
            let order_by = order_by.as_deref().map(own).transpose()?.map(|(_, name)| name);
            Change::Upsert { keys: own_names, order_by, deletes: delete_at.is_some() }
        }
    };
    order.extend(delete_at);
    let table = options.table.clone();
    let plan = WritePlan { dialect, table, columns, change, truncate: options.truncate };
    Ok(Fitted { plan, order, keys, replaces: None })
}

fn delete_column(name: &str, rows: &SchemaRef) -> Result<usize> {
    let names = rows.fields().iter().map(|field| field.name().as_str());
    let at = find(name, names, "the rows")?;
    let field = at.and_then(|at| Some((at, rows.fields().get(at)?)));
    match field {
        Some((at, field)) if *field.data_type() == arrow::datatypes::DataType::Boolean => Ok(at),
        Some((_, field)) => Err(Error::invalid(format!(
            "option deleteWhen names `{name}`, which is {}; it takes a boolean column",
            field.data_type()
        ))),
        None => Err(Error::invalid(format!(
            "option deleteWhen names `{name}`, which the rows do not have"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn a_name_is_found_without_case_unless_two_would_fit() {
        let at = |name: &str, names: &[&str]| find(name, names.iter().copied(), "t");
        assert_eq!(at("Id", &["k", "id"]).unwrap(), Some(1));
        assert_eq!(at("ID", &["id", "ID"]).unwrap(), Some(1));
        assert_eq!(at("x", &["id"]).unwrap(), None);
        assert!(at("Id", &["id", "ID"]).is_err());
    }
}
