//! SQLite's ways.

use super::{Dialect, Isolation, Like, POSTGRESQL, Upsert};
use crate::jdbc::names::TableName;
use arrow::datatypes::DataType;

/// SQLite.
#[derive(Debug)]
pub(super) struct Sqlite;

impl Dialect for Sqlite {
    fn name(&self) -> &'static str {
        "SQLite"
    }

    fn quote(&self) -> &'static str {
        "\""
    }

    fn placeholder(&self, _: usize) -> String {
        "?".to_owned()
    }

    fn type_of(&self, data_type: &DataType, _key: bool) -> Option<String> {
        let word = match data_type {
            DataType::Boolean => "BOOLEAN",
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::UInt8
            | DataType::UInt16 => "INTEGER",
            DataType::Int64 | DataType::UInt32 => "BIGINT",
            DataType::Float32 | DataType::Float64 => "DOUBLE",
            // A word with TEXT in it: any other would make a binary fraction of the digits.
            DataType::Decimal128(precision, scale) => {
                return Some(format!("DECIMAL_TEXT({precision},{scale})"));
            }
            DataType::UInt64 => "DECIMAL_TEXT(20,0)",
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => "TEXT",
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => "BLOB",
            DataType::Date32 => "DATE",
            DataType::Timestamp(_, None) => "DATETIME",
            DataType::Timestamp(_, Some(_)) => "TIMESTAMP",
            DataType::Dictionary(_, value) => return self.type_of(value, false),
            _ => return None,
        };
        Some(word.to_owned())
    }

    fn tables_in_transactions(&self) -> bool {
        true
    }

    /// Takes the lock of all writers at once: a lock that is asked for later may be refused at once.
    fn begin(&self, _: Isolation) -> Vec<String> {
        vec!["BEGIN IMMEDIATE".to_owned()]
    }

    fn for_update(&self) -> &'static str {
        ""
    }

    fn tables_like(&self, _: Option<&str>) -> Like {
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ?";
        Like { sql: sql.to_owned(), more: None }
    }

    fn upsert(&self, upsert: &Upsert<'_>) -> Vec<String> {
        POSTGRESQL.upsert(upsert)
    }

    fn take_place(&self, new: &TableName, old: &TableName) -> Vec<String> {
        POSTGRESQL.take_place(new, old)
    }

    fn empty(&self, table: &str, _: bool) -> String {
        format!("DELETE FROM {table}")
    }

    fn as_text(&self, column: &str) -> String {
        format!("CAST({column} AS TEXT)")
    }
}
