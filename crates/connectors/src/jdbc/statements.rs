//! The statements of a write, as text: decided here, run elsewhere.

use super::database::Column;
use super::dialect::{Dialect, Upsert};
use super::names::{TableName, quoted};

/// A staged row's place among its partition's.
pub(crate) const SEQ: &str = "onefold_seq";
/// Whether a staged row goes.
const DELETE: &str = "onefold_delete";

/// What is written, and where.
#[derive(Debug, Clone)]
pub(crate) struct WritePlan {
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) table: TableName,
    /// The columns that are written, as the table has them, in the order of the rows' columns.
    pub(crate) columns: Vec<Column>,
    pub(crate) change: Change,
    pub(crate) truncate: bool,
}

/// What becomes of the rows, by the table's own names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Append,
    Replace,
    Upsert { keys: Vec<String>, order_by: Option<String>, deletes: bool },
}

/// A statement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) sql: String,
    /// The rows that it moves, and the place of their stage among those given.
    pub(crate) moves: Option<(usize, u64)>,
}

/// A staged partition.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) table: TableName,
    pub(crate) rows: u64,
}

/// Rows of one stage by their places, half open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// The stage's place among those given.
    pub(crate) stage: usize,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl WritePlan {
    fn name(&self, column: &str) -> String {
        quoted(self.dialect, column)
    }

    fn deletes(&self) -> bool {
        matches!(self.change, Change::Upsert { deletes: true, .. })
    }

    /// The columns of a staging table, for loading: those of the rows, and the row's place.
    pub(crate) fn staged_columns(&self) -> Vec<Column> {
        let own = |name: &str, data_type| Column {
            name: name.to_owned(),
            data_type,
            declared: String::new(),
            by_text: false,
        };
        let mut columns = self.columns.clone();
        if self.deletes() {
            columns.push(own(DELETE, arrow::datatypes::DataType::Boolean));
        }
        columns.push(own(SEQ, arrow::datatypes::DataType::Int64));
        columns
    }

    /// Makes an empty staging table with the columns' own types and without their constraints.
    pub(crate) fn create_stage(&self, stage: &TableName, fleeting: bool) -> String {
        let dialect = self.dialect;
        let mut columns: Vec<String> = self
            .columns
            .iter()
            .map(|column| match column.by_text {
                true => format!("{} AS {}", dialect.text_column(), self.name(&column.name)),
                false => self.name(&column.name),
            })
            .collect();
        if self.deletes() {
            columns.push(format!("{} AS {DELETE}", dialect.no_flag()));
        }
        columns.push(format!("{} AS {SEQ}", dialect.zero()));
        format!(
            "CREATE {}TABLE {} AS SELECT {} FROM {} WHERE 1 = 0",
            if fleeting { dialect.fleeting() } else { "" },
            stage.quoted(dialect),
            columns.join(", "),
            self.table.quoted(dialect)
        )
    }

    /// The columns of a staging table in their own types.
    fn taken(&self) -> String {
        let taken: Vec<String> = self
            .columns
            .iter()
            .map(|column| {
                let name = self.name(&column.name);
                match column.by_text {
                    true => {
                        format!("{} AS {name}", self.dialect.typed(&name, &column.declared))
                    }
                    false => name,
                }
            })
            .collect();
        taken.join(", ")
    }

    /// Adds the rows of a staging table, all or those with places in a range.
    pub(crate) fn insert(&self, stage: &TableName, range: Option<(u64, u64)>) -> String {
        let columns: Vec<String> =
            self.columns.iter().map(|column| self.name(&column.name)).collect();
        let only = match range {
            Some((from, to)) => format!(" WHERE {SEQ} >= {from} AND {SEQ} < {to}"),
            None => String::new(),
        };
        format!(
            "INSERT INTO {} ({}) SELECT {} FROM {}{only}",
            self.table.quoted(self.dialect),
            columns.join(", "),
            self.taken(),
            stage.quoted(self.dialect)
        )
    }

    /// Moves staged rows to where they are seen.
    pub(crate) fn moves(&self, stages: &[Stage]) -> Vec<Step> {
        self.moves_of(stages, None)
    }

    /// As [`WritePlan::moves`]; of rows that are brought together by keys, only those that count and
    /// stand in a part. The n-th statement is the n-th of all.
    pub(crate) fn moves_of(&self, stages: &[Stage], only: Option<Part>) -> Vec<Step> {
        let stages: Vec<(usize, &Stage)> =
            stages.iter().enumerate().filter(|(_, stage)| stage.rows > 0).collect();
        let inserts = || {
            stages.iter().map(|(at, it)| Step {
                sql: self.insert(&it.table, None),
                moves: Some((*at, it.rows)),
            })
        };
        match &self.change {
            Change::Append => inserts().collect(),
            Change::Replace => {
                let table = self.table.quoted(self.dialect);
                let empty = Step { sql: self.dialect.empty(&table, self.truncate), moves: None };
                [empty].into_iter().chain(inserts()).collect()
            }
            Change::Upsert { .. } if stages.is_empty() => Vec::new(),
            Change::Upsert { keys, order_by, .. } => {
                self.upserts(&stages, keys, order_by.as_deref(), only)
            }
        }
    }

    fn upserts(
        &self,
        stages: &[(usize, &Stage)],
        keys: &[String],
        order_by: Option<&str>,
        only: Option<Part>,
    ) -> Vec<Step> {
        let dialect = self.dialect;
        let marks = if self.deletes() { format!("{DELETE}, {SEQ}") } else { SEQ.to_owned() };
        let parts: Vec<String> = stages
            .iter()
            .map(|(part, stage)| {
                let table = stage.table.quoted(dialect);
                format!("SELECT {}, {marks}, {part} AS onefold_part FROM {table}", self.taken())
            })
            .collect();
        let keys: Vec<String> = keys.iter().map(|key| self.name(key)).collect();
        let newest = order_by.map_or_else(String::new, |column| {
            let column = self.name(column);
            format!("CASE WHEN {column} IS NULL THEN 1 ELSE 0 END, {column} DESC, ")
        });
        let nth = format!(
            "(SELECT u.*, ROW_NUMBER() OVER (PARTITION BY {} ORDER BY {newest}onefold_part DESC, \
             {SEQ} DESC) AS onefold_nth FROM ({}) AS u) AS n",
            keys.join(", "),
            parts.join(" UNION ALL ")
        );
        let only = only.map_or_else(String::new, |Part { stage, from, to }| {
            format!(" AND onefold_part = {stage} AND {SEQ} >= {from} AND {SEQ} < {to}")
        });
        let latest = |and: &str| format!("(SELECT * FROM {nth} WHERE onefold_nth = 1{only}{and})");
        let table = self.table.quoted(dialect);
        let mut steps = Vec::new();
        let mut kept = latest("");
        if self.deletes() {
            let keys = keys.join(", ");
            let gone = latest(&format!(" AND {DELETE} IS TRUE"));
            kept = latest(&format!(" AND {DELETE} IS NOT TRUE"));
            steps.push(format!(
                "DELETE FROM {table} WHERE ({keys}) IN (SELECT {keys} FROM {gone} AS g)"
            ));
        }
        let columns: Vec<String> =
            self.columns.iter().map(|column| self.name(&column.name)).collect();
        let upsert = Upsert { table: &table, rows: &kept, keys: &keys, columns: &columns };
        steps.extend(dialect.upsert(&upsert));
        steps.into_iter().map(|sql| Step { sql, moves: None }).collect()
    }

    /// Whether the statements that move rows tell how many these were.
    pub(crate) fn tells_rows(&self) -> bool {
        !matches!(self.change, Change::Upsert { .. })
    }
}

/// A new table.
pub(crate) fn create_table(
    dialect: &dyn Dialect,
    table: &TableName,
    columns: &[(String, String)],
    keys: &[String],
    options: Option<&str>,
) -> String {
    let mut parts: Vec<String> = columns
        .iter()
        .map(|(name, declared)| format!("{} {declared}", quoted(dialect, name)))
        .collect();
    if !keys.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| quoted(dialect, key)).collect();
        parts.push(format!("PRIMARY KEY ({})", keys.join(", ")));
    }
    let options = options.unwrap_or_else(|| dialect.table_options());
    format!("CREATE TABLE {} ({}) {options}", table.quoted(dialect), parts.join(", "))
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::dialect::{MYSQL, POSTGRESQL};
    use super::*;
    use arrow::datatypes::DataType;

    fn plan(dialect: &'static dyn Dialect, change: Change) -> WritePlan {
        let column = |name: &str, declared: &str, by_text| Column {
            name: name.to_owned(),
            data_type: DataType::Utf8,
            declared: declared.to_owned(),
            by_text,
        };
        let columns = vec![column("k", "text", false), column("a\"b", "inet", true)];
        let table = TableName::parse("s.t").unwrap();
        WritePlan { dialect, table, columns, change, truncate: false }
    }

    fn stage(rows: u64) -> Stage {
        Stage { table: TableName::parse("s.x").unwrap(), rows }
    }

    #[test]
    fn appended_rows_are_moved_in_their_own_types_and_counted() {
        let plan = plan(POSTGRESQL, Change::Append);
        let created = plan.create_stage(&TableName::parse("s.x").unwrap(), true);
        assert_eq!(
            created,
            "CREATE UNLOGGED TABLE \"s\".\"x\" AS SELECT \"k\", NULL::text AS \"a\"\"b\", \
             0::bigint AS onefold_seq FROM \"s\".\"t\" WHERE 1 = 0"
        );
        let steps = plan.moves(&[stage(3), stage(0)]);
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].moves, Some((0, 3)));
        assert_eq!(
            steps[0].sql,
            "INSERT INTO \"s\".\"t\" (\"k\", \"a\"\"b\") SELECT \"k\", \"a\"\"b\"::inet AS \
             \"a\"\"b\" FROM \"s\".\"x\""
        );
    }

    #[test]
    fn a_complete_result_without_rows_empties_the_table() {
        let steps = plan(MYSQL, Change::Replace).moves(&[]);
        assert_eq!(steps, [Step { sql: "DELETE FROM `s`.`t`".to_owned(), moves: None }]);
    }

    #[test]
    fn a_table_of_keys_alone_has_nothing_to_update() {
        let keys = vec!["k".to_owned(), "a\"b".to_owned()];
        let change = Change::Upsert { keys, order_by: None, deletes: false };
        let steps = plan(POSTGRESQL, change.clone()).moves(&[stage(1)]);
        assert!(steps[0].sql.ends_with("DO NOTHING"), "{}", steps[0].sql);
        let steps = plan(MYSQL, change).moves(&[stage(1)]);
        assert_eq!(steps.len(), 1);
        assert!(steps[0].sql.starts_with("INSERT INTO"), "{}", steps[0].sql);
    }
}
