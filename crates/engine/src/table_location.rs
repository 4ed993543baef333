//! Where the files of a named table lie, as Spark's session catalog puts them.

use onefold_types::{Error, Result};

/// The folder of table `name` below a warehouse: `WAREHOUSE/TABLE`, or `WAREHOUSE/DATABASE.db/TABLE`
/// for a table of a database other than `default`. Names are in lower case there, as Spark has them.
///
/// # Errors
/// Invalid, for a name that Spark's session catalog does not take.
pub(crate) fn location(name: &str, warehouse: &str) -> Result<String> {
    let parts = parts(name)?;
    let path: Vec<&str> = parts.iter().map(String::as_str).collect();
    let warehouse = warehouse.trim_end_matches('/');
    match *path.as_slice() {
        [table] | ["default", table] | ["spark_catalog", "default", table] => {
            Ok(format!("{warehouse}/{table}"))
        }
        [database, table] | ["spark_catalog", database, table] => {
            Ok(format!("{warehouse}/{database}.db/{table}"))
        }
        _ => Err(refused(name, "its form is TABLE or DATABASE.TABLE")),
    }
}

/// The parts of a name between dots, without back quotes, in lower case.
fn parts(name: &str) -> Result<Vec<String>> {
    let split = name.split('.').map(|part| {
        let bare = part.strip_prefix('`').and_then(|part| part.strip_suffix('`')).unwrap_or(part);
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if bare.is_empty() || !bare.chars().all(fine) {
            return Err(refused(name, "only letters a to z, digits and _ may stand in it"));
        }
        Ok(bare.to_ascii_lowercase())
    });
    split.collect()
}

fn refused(name: &str, why: &str) -> Error {
    Error::invalid(format!("`{name}` is no name of a table: {why}"))
}

#[cfg(test)]
mod tests {
    use super::location;

    #[test]
    fn tables_lie_where_sparks_catalog_puts_them() {
        for (name, place) in [
            ("Events", "/w/events"),
            ("`events_2`", "/w/events_2"),
            ("default.events", "/w/events"),
            ("Sales.Events", "/w/sales.db/events"),
            ("spark_catalog.default.events", "/w/events"),
            ("spark_catalog.sales.events", "/w/sales.db/events"),
        ] {
            assert_eq!(location(name, "/w/").unwrap(), place);
        }
        assert_eq!(location("t", "s3://box/w").unwrap(), "s3://box/w/t");
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_the_reason() {
        for name in ["", "a b", "a/b", "..", "a.", "é", "other.sales.events", "a.b.c.d", "`a.b`"] {
            let error = location(name, "/w").unwrap_err();
            assert!(error.to_string().contains("no name of a table"), "{error}");
        }
    }
}
