//! PostgreSQL's ways.

use super::{Dialect, Isolation, Like, Upsert};
use crate::jdbc::cell::Cell;
use crate::jdbc::names::{TableName, quoted};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};

/// PostgreSQL.
#[derive(Debug)]
pub(super) struct PostgreSql;

impl Dialect for PostgreSql {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn quote(&self) -> &'static str {
        "\""
    }

    fn placeholder(&self, at: usize) -> String {
        format!("${at}")
    }

    fn type_of(&self, data_type: &DataType, _key: bool) -> Option<String> {
        let word = match data_type {
            DataType::Boolean => "BOOLEAN",
            DataType::Int8 | DataType::Int16 | DataType::UInt8 => "SMALLINT",
            DataType::Int32 | DataType::UInt16 => "INTEGER",
            DataType::Int64 | DataType::UInt32 => "BIGINT",
            DataType::UInt64 => "NUMERIC(20)",
            DataType::Float32 => "REAL",
            DataType::Float64 => "DOUBLE PRECISION",
            DataType::Decimal128(precision, scale) => {
                return Some(format!("NUMERIC({precision},{scale})"));
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => "TEXT",
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => "BYTEA",
            DataType::Date32 => "DATE",
            DataType::Timestamp(_, None) => "TIMESTAMP",
            DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
            DataType::Interval(IntervalUnit::YearMonth | IntervalUnit::MonthDayNano)
            | DataType::Duration(TimeUnit::Microsecond) => "INTERVAL",
            DataType::Dictionary(_, value) => return self.type_of(value, false),
            DataType::List(field) | DataType::LargeList(field) => {
                return Some(format!("{}[]", self.type_of(field.data_type(), false)?));
            }
            _ => return None,
        };
        Some(word.to_owned())
    }

    fn tables_in_transactions(&self) -> bool {
        true
    }

    fn begin(&self, isolation: Isolation) -> Vec<String> {
        let level = match isolation {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        };
        vec![format!("BEGIN ISOLATION LEVEL {level}")]
    }

    fn fleeting(&self) -> &'static str {
        "UNLOGGED "
    }

    fn tables_like(&self, schema: Option<&str>) -> Like {
        let place = schema.map_or("current_schema()", |_| "$2");
        let sql = format!(
            "SELECT tablename::text FROM pg_catalog.pg_tables WHERE tablename LIKE $1 \
             AND schemaname = {place}"
        );
        Like { sql, more: schema.map(Cell::text) }
    }

    fn upsert(&self, upsert: &Upsert<'_>) -> Vec<String> {
        let Upsert { table, rows, keys, columns } = upsert;
        let sets: Vec<String> =
            upsert.others().map(|column| format!("{column} = excluded.{column}")).collect();
        let then = match sets.is_empty() {
            true => "NOTHING".to_owned(),
            false => format!("UPDATE SET {}", sets.join(", ")),
        };
        // SQLite takes this too, if a WHERE keeps ON from being a join's.
        let (columns, keys) = (columns.join(", "), keys.join(", "));
        vec![format!(
            "INSERT INTO {table} ({columns}) SELECT {columns} FROM {rows} AS r \
             WHERE true ON CONFLICT ({keys}) DO {then}"
        )]
    }

    fn take_place(&self, new: &TableName, old: &TableName) -> Vec<String> {
        let old_name = quoted(self, old.last());
        vec![
            format!("DROP TABLE {}", old.quoted(self)),
            format!("ALTER TABLE {} RENAME TO {old_name}", new.quoted(self)),
        ]
    }

    fn empty(&self, table: &str, truncate: bool) -> String {
        match truncate {
            true => format!("TRUNCATE TABLE {table}"),
            false => format!("DELETE FROM {table}"),
        }
    }

    fn as_text(&self, column: &str) -> String {
        format!("{column}::text")
    }

    fn text_column(&self) -> &'static str {
        "NULL::text"
    }

    fn typed(&self, column: &str, declared: &str) -> String {
        format!("{column}::{declared}")
    }

    /// Rows of transactions that began to write before every one that still does.
    fn settled_rows(&self) -> &'static str {
        "age(xmin) > age((pg_snapshot_xmin(pg_current_snapshot()))::xid)"
    }

    fn no_flag(&self) -> &'static str {
        "NULL::boolean"
    }

    fn zero(&self) -> &'static str {
        "0::bigint"
    }
}
