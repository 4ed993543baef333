//! Whether rows can be written by the names of their columns.

use arrow::datatypes::Schema;
use onefold_types::{Error, Result};
use std::collections::HashSet;

/// Refuses rows with two columns of one name, compared without case: what is written could not be read.
///
/// # Errors
/// Invalid, with the name.
pub(crate) fn check(schema: &Schema) -> Result<()> {
    let mut seen = HashSet::new();
    match schema.fields().iter().find(|field| !seen.insert(field.name().to_lowercase())) {
        None => Ok(()),
        Some(field) => Err(Error::invalid(format!(
            "[COLUMN_ALREADY_EXISTS] The column `{}` already exists: give one of the two another name",
            field.name()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use arrow::datatypes::{DataType, Field, Schema};

    #[test]
    fn two_columns_of_one_name_are_refused_whatever_their_letters() {
        let of = |names: &[&str]| {
            let fields = names.iter().map(|name| Field::new(*name, DataType::Int32, true));
            check(&Schema::new(fields.collect::<Vec<_>>()))
        };
        assert!(of(&["a", "b", "ab"]).is_ok());
        assert!(of(&["a", "b", "A"]).unwrap_err().to_string().contains("`A`"));
    }
}
