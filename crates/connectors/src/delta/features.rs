//! What a table asks of its writers that this one does not do: refused by name, before anything is
//! written.

use super::table::failed;
use deltalake_core::DeltaTableError;
use deltalake_core::kernel::transaction::{PROTOCOL, TransactionError};
use deltalake_core::kernel::{EagerSnapshot, StructType};
use onefold_types::{Error, Result};
use std::collections::HashMap;

/// Checks that a table can be appended to.
///
/// # Errors
/// Invalid, naming the features of the protocol or the setting.
pub(crate) fn check_writable(place: &str, snapshot: &EagerSnapshot) -> Result<()> {
    PROTOCOL.can_write_to(snapshot).map_err(|error| unsupported(place, "write", error))?;
    let settings = snapshot.metadata().configuration();
    if let Some(what) = refused_setting(settings) {
        return Err(Error::invalid(format!(
            "the table {place} has {what}, which this writer does not do; write it with another \
             engine, or take the setting off"
        )));
    }
    match refused_column(snapshot.schema().as_ref()) {
        Some((column, what)) => Err(Error::invalid(format!(
            "column `{column}` of the table {place} has {what}, which this writer does not check; \
             write the table with another engine, or take that off"
        ))),
        None => Ok(()),
    }
}

/// Checks that a table can be read.
///
/// # Errors
/// Invalid, naming the features of the protocol.
pub(crate) fn check_readable(place: &str, snapshot: &EagerSnapshot) -> Result<()> {
    PROTOCOL.can_read_from(snapshot).map_err(|error| unsupported(place, "read", error))
}

fn unsupported(place: &str, act: &str, error: TransactionError) -> Error {
    match error {
        TransactionError::UnsupportedTableFeatures(features) => {
            let names: Vec<String> = features.iter().map(ToString::to_string).collect();
            Error::invalid(format!(
                "the table {place} needs features that this version does not {act}: {}; {act} it \
                 with an engine that has them, or drop them from the table",
                names.join(", ")
            ))
        }
        other => failed(
            &format!("the table {place} cannot be {act}"),
            DeltaTableError::Transaction { source: other },
        ),
    }
}

/// A setting of the table that a writer would have to follow.
fn refused_setting(settings: &HashMap<String, String>) -> Option<String> {
    let on =
        |name: &str| settings.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if let Some(name) = settings.keys().filter(|name| name.starts_with("delta.constraints.")).min()
    {
        return Some(format!("the check `{name}`"));
    }
    if let Some(mode) = settings.get("delta.columnMapping.mode").filter(|mode| *mode != "none") {
        return Some(format!("column mapping (`delta.columnMapping.mode` = {mode})"));
    }
    ["delta.enableRowTracking", "delta.enableInCommitTimestamps"]
        .into_iter()
        .find(|name| on(name))
        .map(|name| format!("`{name}`"))
}

/// A column whose values a writer would have to check or to make.
fn refused_column(columns: &StructType) -> Option<(String, String)> {
    let marks = ["delta.invariants", "delta.generationExpression", "delta.identity.start"];
    columns.fields().find_map(|field| {
        let what = marks.into_iter().find(|mark| field.metadata.contains_key(*mark))?;
        Some((field.name().clone(), format!("`{what}`")))
    })
}

/// Whether marks of a table that has this setting are forgotten with time.
pub(crate) fn forgets_marks(settings: &HashMap<String, String>) -> Option<&str> {
    settings.get("delta.setTransactionRetentionDuration").map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(name: &str, value: &str) -> HashMap<String, String> {
        HashMap::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn settings_that_bind_a_writer_are_refused_by_name() {
        for (name, value) in [
            ("delta.constraints.positive", "x > 0"),
            ("delta.columnMapping.mode", "name"),
            ("delta.enableRowTracking", "true"),
            ("delta.enableInCommitTimestamps", "TRUE"),
        ] {
            let what = refused_setting(&settings(name, value)).unwrap();
            assert!(what.contains(name), "{what}");
        }
        for (name, value) in [
            ("delta.appendOnly", "true"),
            ("delta.columnMapping.mode", "none"),
            ("delta.enableRowTracking", "false"),
            ("delta.enableChangeDataFeed", "true"),
        ] {
            assert_eq!(refused_setting(&settings(name, value)), None, "{name}");
        }
    }
}
