//! The ways of MySQL and MariaDB.

use super::{Dialect, Isolation, Like, Upsert};
use crate::jdbc::cell::Cell;
use crate::jdbc::names::TableName;
use arrow::datatypes::DataType;

/// MySQL and MariaDB.
#[derive(Debug)]
pub(super) struct MySql;

impl Dialect for MySql {
    fn name(&self) -> &'static str {
        "MySQL"
    }

    fn quote(&self) -> &'static str {
        "`"
    }

    fn placeholder(&self, _: usize) -> String {
        "?".to_owned()
    }

    fn type_of(&self, data_type: &DataType, key: bool) -> Option<String> {
        let word = match data_type {
            DataType::Boolean => "BOOLEAN",
            DataType::Int8 => "TINYINT",
            DataType::Int16 => "SMALLINT",
            DataType::Int32 => "INTEGER",
            DataType::Int64 => "BIGINT",
            DataType::UInt8 => "TINYINT UNSIGNED",
            DataType::UInt16 => "SMALLINT UNSIGNED",
            DataType::UInt32 => "INTEGER UNSIGNED",
            DataType::UInt64 => "BIGINT UNSIGNED",
            DataType::Float32 => "FLOAT",
            DataType::Float64 => "DOUBLE",
            DataType::Decimal128(precision, scale) => {
                return Some(format!("DECIMAL({precision},{scale})"));
            }
            // A key of an index has a length.
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null if key => {
                "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
                "LONGTEXT CHARACTER SET utf8mb4"
            }
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
                if key =>
            {
                "VARBINARY(255)"
            }
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => "LONGBLOB",
            DataType::Date32 => "DATE",
            DataType::Timestamp(_, None) => "DATETIME(6)",
            DataType::Timestamp(_, Some(_)) if key => "TIMESTAMP(6)",
            DataType::Timestamp(_, Some(_)) => "TIMESTAMP(6) NULL",
            DataType::Dictionary(_, value) => return self.type_of(value, key),
            _ => return None,
        };
        Some(word.to_owned())
    }

    fn short_text(&self) -> &'static str {
        // Two ids that differ only in case are two.
        "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    }

    fn tables_in_transactions(&self) -> bool {
        false
    }

    fn begin(&self, isolation: Isolation) -> Vec<String> {
        let level = match isolation {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        };
        vec![format!("SET TRANSACTION ISOLATION LEVEL {level}"), "START TRANSACTION".to_owned()]
    }

    fn table_options(&self) -> &'static str {
        "ENGINE=InnoDB"
    }

    fn tables_like(&self, schema: Option<&str>) -> Like {
        let place = schema.map_or("DATABASE()", |_| "?");
        let sql = format!(
            "SELECT table_name FROM information_schema.tables WHERE table_name LIKE ? \
             AND table_schema = {place}"
        );
        Like { sql, more: schema.map(Cell::text) }
    }

    /// Two statements instead of `ON DUPLICATE KEY UPDATE`: that one would also change a row that
    /// another unique index finds.
    fn upsert(&self, upsert: &Upsert<'_>) -> Vec<String> {
        let Upsert { table, rows, keys, columns } = upsert;
        let same: Vec<String> = keys.iter().map(|key| format!("t.{key} = r.{key}")).collect();
        let same = same.join(" AND ");
        let sets: Vec<String> =
            upsert.others().map(|column| format!("t.{column} = r.{column}")).collect();
        let update = (!sets.is_empty()).then(|| {
            format!("UPDATE {table} AS t JOIN {rows} AS r ON {same} SET {}", sets.join(", "))
        });
        let taken: Vec<String> = columns.iter().map(|column| format!("r.{column}")).collect();
        let first = keys.first().map_or("", String::as_str);
        let insert = format!(
            "INSERT INTO {table} ({}) SELECT {} FROM {rows} AS r LEFT JOIN {table} AS t ON {same} \
             WHERE t.{first} IS NULL",
            columns.join(", "),
            taken.join(", ")
        );
        update.into_iter().chain([insert]).collect()
    }

    fn take_place(&self, new: &TableName, old: &TableName) -> Vec<String> {
        let gone = old.beside(&format!("{}_old", new.last()));
        let [new, old, gone] = [new, old, &gone].map(|table| table.quoted(self));
        // The swap is one act.
        vec![format!("RENAME TABLE {old} TO {gone}, {new} TO {old}"), format!("DROP TABLE {gone}")]
    }

    /// Never by TRUNCATE: that commits what was done before it.
    fn empty(&self, table: &str, _: bool) -> String {
        format!("DELETE FROM {table}")
    }

    fn engine_of(&self) -> Option<&'static str> {
        Some(
            "SELECT engine FROM information_schema.tables \
             WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?",
        )
    }
}
