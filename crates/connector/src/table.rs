//! What can be done to a table that keeps a log, beside reading it and writing into it.

use arrow::array::RecordBatch;
use datafusion::prelude::Expr;
use futures::future::BoxFuture;
use onefold_types::Result;
use std::collections::BTreeMap;

/// The static description of a format of such tables.
pub struct TableSpec {
    /// The name in `USING …`.
    pub name: &'static str,
    /// Does something to a table. What is given back are the rows that a user sees.
    pub run: fn(TableRequest) -> BoxFuture<'static, Result<RecordBatch>>,
}

/// Something that is to be done to a table.
#[derive(Debug)]
pub struct TableRequest {
    /// The table's folder, as a path or URL.
    pub path: String,
    /// Runtime settings of the session.
    pub conf: BTreeMap<String, String>,
    /// What.
    pub act: TableAct,
    /// Who does it, and the number of the change among his: a table that has this one or a later one
    /// stays as it is.
    pub once: Option<(String, i64)>,
}

/// What can be done to a table.
#[derive(Debug)]
pub enum TableAct {
    /// Tells its commits, newest first.
    History {
        /// How many at most.
        limit: Option<usize>,
    },
    /// Puts small files together.
    Optimize,
    /// Deletes files that no version needs which is younger than this.
    Vacuum {
        /// Hours; as the table says if `None`.
        retain_hours: Option<u64>,
        /// Only tells the files.
        dry_run: bool,
    },
    /// Deletes rows.
    Delete {
        /// Which; all if `None`.
        condition: Option<Expr>,
    },
    /// Changes rows.
    Update {
        /// Which; all if `None`.
        condition: Option<Expr>,
        /// Columns and their new values.
        set: Vec<(String, Expr)>,
    },
    /// Brings rows together with others.
    Merge(Box<TableMerge>),
}

impl TableAct {
    /// Whether it is about rows, and not about what is told of them and how they are kept.
    #[must_use]
    pub fn changes_rows(&self) -> bool {
        match self {
            TableAct::Delete { .. } | TableAct::Update { .. } | TableAct::Merge(_) => true,
            TableAct::History { .. } | TableAct::Optimize | TableAct::Vacuum { .. } => false,
        }
    }
}

/// A merge of rows into a table.
#[derive(Debug)]
pub struct TableMerge {
    /// The rows. They are computed once, before.
    pub rows: Vec<RecordBatch>,
    /// Qualifies the rows' columns in expressions.
    pub rows_alias: String,
    /// Qualifies the table's columns in expressions.
    pub table_alias: String,
    /// Which rows belong together.
    pub on: Expr,
    /// What happens, the first that fits.
    pub clauses: Vec<MergeClause>,
    /// Columns that the table does not have are added to it.
    pub adds_columns: bool,
}

/// A clause of a merge.
#[derive(Debug)]
pub struct MergeClause {
    /// Which rows it is for.
    pub when: MergeWhen,
    /// Which of those; all if `None`.
    pub condition: Option<Expr>,
    /// What becomes of them.
    pub act: MergeAct,
}

/// Which rows a clause of a merge is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeWhen {
    /// Of the table, with one among the others.
    Matched,
    /// Of the others, with none in the table.
    NotMatched,
    /// Of the table, with none among the others.
    NotMatchedBySource,
}

/// What becomes of a row in a merge.
#[derive(Debug)]
pub enum MergeAct {
    /// Columns get values.
    Update(Vec<(String, Expr)>),
    /// A row of these columns is added.
    Insert(Vec<(String, Expr)>),
    /// It goes.
    Delete,
}
