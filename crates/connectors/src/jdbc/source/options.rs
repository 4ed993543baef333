//! What is read, as options say it.

use crate::jdbc::dialect::Dialect;
use crate::jdbc::names::TableName;
use onefold_connector::{OptionKind, OptionSpec, Options};
use onefold_types::{Error, Result};

/// Options of readers.
pub(super) static READ: &[OptionSpec] = &[
    OptionSpec::new("query", OptionKind::Text, "a query whose rows are read, instead of a table"),
    OptionSpec::new(
        "fetchsize",
        OptionKind::Count { min: 0, max: 10_000_000 },
        "rows of a batch; 0 leaves it to the reader",
    )
    .default("0"),
    OptionSpec::new(
        "partitionColumn",
        OptionKind::Text,
        "a column of whole numbers, dates or times that cuts the rows into partitions; with \
         lowerBound, upperBound and numPartitions",
    ),
    OptionSpec::new("lowerBound", OptionKind::Text, "where the first partition ends, about"),
    OptionSpec::new("upperBound", OptionKind::Text, "where the last partition begins, about"),
    OptionSpec::new(
        "numPartitions",
        OptionKind::Count { min: 1, max: 10_000 },
        "partitions, each read by a session of its own",
    ),
    OptionSpec::new(
        "onefold.jdbc.predicates",
        OptionKind::Text,
        "conditions in the database's SQL as a JSON list, each of which is a partition: what \
         spark.read.jdbc(predicates=…) gives",
    ),
    OptionSpec::new(
        "onefold.jdbc.growingColumn",
        OptionKind::Text,
        "of a stream: a column of whole numbers, dates or times whose value grows with each row that \
         is added",
    ),
    OptionSpec::new(
        "onefold.jdbc.maxRowsPerTrigger",
        OptionKind::Count { min: 1, max: u64::MAX },
        "of a stream: rows of a batch, about; all that are there where it is not given",
    ),
    OptionSpec::new("pushDownPredicate", OptionKind::Bool, "the database checks simple conditions")
        .default("true"),
    OptionSpec::new("pushDownAggregate", OptionKind::Bool, "taken and not used"),
    OptionSpec::new("pushDownLimit", OptionKind::Bool, "taken and not used"),
    OptionSpec::new("pushDownOffset", OptionKind::Bool, "taken and not used"),
    OptionSpec::new("pushDownTableSample", OptionKind::Bool, "taken and not used"),
    OptionSpec::new(
        "preferTimestampNTZ",
        OptionKind::Bool,
        "taken: a time without a zone is read as one without a zone in any case",
    ),
    OptionSpec::refused("customSchema", "cast the columns in option `query`"),
    OptionSpec::refused("prepareQuery", "put the whole statement into option `query`"),
];

/// Rows that are read together where nothing is said.
const FETCH: usize = 8_192;

/// What is read.
#[derive(Debug)]
pub(crate) struct ReadOptions {
    what: What,
    pub(super) fetch: usize,
    pub(super) split: Option<SplitOptions>,
    pub(super) filters: bool,
    /// Conditions that are partitions.
    pub(super) predicates: Vec<String>,
    /// Of a stream: the column that grows.
    pub(super) growing: Option<String>,
    /// Of a stream: rows of a batch.
    pub(super) most: Option<u64>,
}

#[derive(Debug)]
enum What {
    Table(TableName),
    Query(String),
}

/// How rows are cut into partitions.
#[derive(Debug)]
pub(super) struct SplitOptions {
    pub(super) column: String,
    pub(super) lower: String,
    pub(super) upper: String,
    pub(super) parts: u64,
}

impl ReadOptions {
    /// # Errors
    /// Invalid: nothing is to be read, or options do not go together.
    pub(super) fn read(options: &Options, paths: Vec<String>) -> Result<ReadOptions> {
        let table = options.text("dbtable").map(str::to_owned);
        let query = options.text("query").map(str::to_owned);
        let what = match (table.or_else(|| paths.into_iter().next()), query) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid(
                    "options dbtable and query are both given; give one of them",
                ));
            }
            (None, None) => {
                return Err(Error::invalid(
                    "there is nothing to read; give a table with option dbtable, or option query",
                ));
            }
            (None, Some(query)) => What::Query(query),
            // As in Spark, a query in parentheses with a name is a table.
            (Some(table), None) if table.trim_start().starts_with('(') => {
                let inner = table.trim_start().trim_start_matches('(');
                let end = inner.rfind(')').unwrap_or(inner.len());
                What::Query(inner.get(..end).unwrap_or(inner).to_owned())
            }
            (Some(table), None) => What::Table(TableName::parse(&table)?),
        };
        let fetch = options.count("fetchsize").filter(|rows| *rows > 0);
        let fetch = fetch.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(FETCH);
        let filters = options.flag("pushDownPredicate");
        let split = split(options)?;
        let predicates = predicates(options)?;
        if split.is_some() && !predicates.is_empty() {
            return Err(Error::invalid(
                "the rows are cut into partitions twice, by partitionColumn and by predicates; give \
                 one of them",
            ));
        }
        let growing = options.text("onefold.jdbc.growingColumn").map(str::to_owned);
        let most = options.count("onefold.jdbc.maxRowsPerTrigger");
        Ok(ReadOptions { what, fetch, split, filters, predicates, growing, most })
    }

    /// What stands behind FROM.
    pub(super) fn from(&self, dialect: &dyn Dialect) -> String {
        match &self.what {
            What::Table(table) => table.quoted(dialect),
            // On a line of its own: a query may end with a comment.
            What::Query(query) => {
                format!("({}\n) AS onefold_query", query.trim().trim_end_matches(';'))
            }
        }
    }

    /// Whether a table is read, and not a query.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.what, What::Table(_))
    }

    /// For people.
    pub(super) fn shown(&self) -> String {
        match &self.what {
            What::Table(table) => format!("table {table}"),
            What::Query(_) => "a query".to_owned(),
        }
    }
}

fn predicates(options: &Options) -> Result<Vec<String>> {
    let Some(text) = options.text("onefold.jdbc.predicates") else { return Ok(Vec::new()) };
    serde_json::from_str(text).map_err(|error| {
        Error::invalid("option onefold.jdbc.predicates is no JSON list of texts").because(error)
    })
}

fn split(options: &Options) -> Result<Option<SplitOptions>> {
    let text = |name: &str| options.text(name).map(str::to_owned);
    let parts = options.count("numPartitions");
    match (text("partitionColumn"), text("lowerBound"), text("upperBound"), parts) {
        (None, None, None, _) => Ok(None),
        (Some(column), Some(lower), Some(upper), Some(parts)) => {
            Ok(Some(SplitOptions { column, lower, upper, parts }))
        }
        _ => Err(Error::invalid(
            "options partitionColumn, lowerBound, upperBound and numPartitions only go together; \
             give all or none",
        )),
    }
}
