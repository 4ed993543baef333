//! Columns that do not fit: a table, a schema, a reader of texts.

use super::{Failure, quoted};

impl Failure {
    /// Rows that do not have as many columns as the table that they go to.
    pub(crate) fn columns_mismatch(table: usize, rows: usize) -> Self {
        Failure::analysis(format!(
            "Cannot write to the table: it has {table} columns, and the rows have {rows}."
        ))
        .class("INSERT_COLUMN_ARITY_MISMATCH", "21S01")
    }

    /// A table whose rows are in one folder.
    pub(crate) fn not_partitioned(table: &str) -> Self {
        Failure::analysis(format!(
            "SHOW PARTITIONS is not allowed on a table that is not partitioned: {}.",
            quoted(table)
        ))
        .class("INVALID_PARTITION_OPERATION.PARTITION_SCHEMA_IS_EMPTY", "42601")
        .with("name", quoted(table))
    }

    /// Rows with a column of a type that a table's column does not take.
    pub(crate) fn not_stored(table: &str, path: &str, own: &str, wanted: &str) -> Self {
        Failure::analysis(format!(
            "Cannot write incompatible data for the table {}: Cannot safely cast {} \"{own}\" to \
             \"{wanted}\". Cast the column before it is written.",
            quoted(table),
            quoted(path)
        ))
        .class("INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "KD000")
        .with("tableName", quoted(table))
        .with("colName", quoted(path))
        .with("srcType", format!("\"{own}\""))
        .with("targetType", format!("\"{wanted}\""))
    }

    /// A frame that is to be read as texts, and has more columns or none.
    pub(crate) fn not_one_column(columns: usize) -> Self {
        Failure::analysis(format!(
            "The frame to read must have exactly one column, and it has {columns}; select the \
             column with the texts."
        ))
        .class("DATAFRAME_INPUT_NOT_SINGLE_COLUMN", "42K09")
    }

    /// A frame that is to be read as texts, and has none.
    pub(crate) fn no_texts(data_type: &str) -> Self {
        Failure::analysis(format!(
            "The column to read must have the type STRING, and it is {data_type}; cast it."
        ))
        .class("DATAFRAME_INPUT_NOT_STRING_TYPE", "42K09")
    }

    /// A column that may be NULL where a schema says that it is not.
    pub(crate) fn nullable_field(path: &str) -> Self {
        Failure::analysis(format!(
            "The column or field {} is nullable while it's required to be non-nullable.",
            quoted(path)
        ))
        .class("NULLABLE_COLUMN_OR_FIELD", "42000")
        .with("name", quoted(path))
    }

    /// A column of another type than a schema says.
    pub(crate) fn field_type(path: &str, own: &str, wanted: &str) -> Self {
        Failure::analysis(format!(
            "The column or field {} has type \"{own}\" while it's required to be \"{wanted}\".",
            quoted(path)
        ))
        .class("INVALID_COLUMN_OR_FIELD_DATA_TYPE", "42000")
        .with("name", quoted(path))
        .with("type", format!("\"{own}\""))
        .with("expectedType", format!("\"{wanted}\""))
    }
}
