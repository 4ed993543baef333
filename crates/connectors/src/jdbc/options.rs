//! The options of databases: Spark's names.

use super::address::Address;
use super::dialect::Isolation;
use super::names::TableName;
use onefold_connector::{
    ONE_BATCH, OptionKind, OptionSpec, Options, OutputMode, SAVE_MODE, SinkRequest,
};
use onefold_types::{Error, Result};
use std::collections::BTreeMap;

/// Options of readers and writers.
pub(crate) static COMMON: &[OptionSpec] = &[
    // It may hold a password.
    OptionSpec::new(
        "url",
        OptionKind::Secret,
        "the database: jdbc:postgresql://host:5432/db, jdbc:mysql://…, jdbc:mariadb://… or \
         jdbc:sqlite:PATH",
    )
    .harmless(Address::holds_no_secret),
    OptionSpec::new("dbtable", OptionKind::Text, "the table, with its schema if it needs one"),
    OptionSpec::new("user", OptionKind::Text, "who goes in"),
    OptionSpec::new("password", OptionKind::Secret, "the password"),
    OptionSpec::new(
        "sslmode",
        OptionKind::Text,
        "as in the url: disable, prefer, require or verify-full",
    ),
    OptionSpec::new(
        "sslrootcert",
        OptionKind::Text,
        "as in the url: a file of certificates that servers are checked with",
    ),
    OptionSpec::new("driver", OptionKind::Text, "taken and not needed: no Java driver is loaded"),
    OptionSpec::new(
        "sessionInitStatement",
        OptionKind::Text,
        "a statement that each session runs first",
    ),
    OptionSpec::new(
        "queryTimeout",
        OptionKind::Count { min: 0, max: 86_400 },
        "seconds that a statement may take in PostgreSQL; 0 is no limit",
    )
    .default("0"),
    OptionSpec::new(
        "onefold.jdbc.connections",
        OptionKind::Count { min: 1, max: 256 },
        "sessions at the same time, at most",
    )
    .default("4"),
    OptionSpec::new(
        "onefold.jdbc.lockTimeout",
        OptionKind::Duration,
        "how long to wait for a lock that another session has",
    )
    .default("30s"),
];

/// Options of writers.
pub(crate) static WRITE: &[OptionSpec] = &[
    OptionSpec::new(
        "batchsize",
        OptionKind::Count { min: 1, max: 10_000_000 },
        "rows that are sent together; 8192 where it is not given",
    ),
    OptionSpec::new(
        "isolationLevel",
        OptionKind::Choice(&[
            "NONE",
            "READ_COMMITTED",
            "READ_UNCOMMITTED",
            "REPEATABLE_READ",
            "SERIALIZABLE",
        ]),
        "of the transaction that publishes; NONE and READ_UNCOMMITTED are READ_COMMITTED",
    )
    .default("READ_COMMITTED"),
    OptionSpec::new(
        "truncate",
        OptionKind::Bool,
        "a table that is overwritten stays, with its columns, and its rows go; by TRUNCATE where that is \
         part of a transaction (PostgreSQL)",
    ),
    OptionSpec::new("cascadeTruncate", OptionKind::Bool, "taken and not used"),
    OptionSpec::new(
        "createTableOptions",
        OptionKind::Text,
        "what a new table's statement ends with",
    ),
    OptionSpec::new(
        "createTableColumnTypes",
        OptionKind::Text,
        "types of a new table's columns: `name CHAR(64), note VARCHAR(1024)`",
    ),
    OptionSpec::new(
        "upsertKeys",
        OptionKind::Text,
        "columns that tell which row is which, with commas: rows with the same take the place of \
         those that are there",
    ),
    OptionSpec::new(
        "upsertOrderBy",
        OptionKind::Text,
        "with upsertKeys: of rows of a batch with the same keys, the one with the largest value of \
         this column counts, else the last one",
    ),
    OptionSpec::new(
        "deleteWhen",
        OptionKind::Text,
        "with upsertKeys: a boolean column, not stored; where it is true, the row goes",
    ),
    OptionSpec::new(
        "onefold.jdbc.marksTable",
        OptionKind::Text,
        "the table of marks, for all queries of a database; made if missing",
    )
    .default("onefold_marks"),
    OptionSpec::new(
        "onefold.jdbc.deadLetterTable",
        OptionKind::Text,
        "rows that the database refuses go to this table in the same transaction, and the query \
         goes on; made if missing",
    ),
    OptionSpec::new(
        "onefold.jdbc.sharedTable",
        OptionKind::Bool,
        "several queries append to the table; without it, a table that another query wrote stops a \
         new one, since a checkpoint that was made anew would write all rows again",
    ),
    OptionSpec::new(
        "txnAppId",
        OptionKind::Text,
        "with txnVersion: a write that the database has already is not made again",
    ),
    OptionSpec::new(
        "txnVersion",
        OptionKind::Count { min: 0, max: i64::MAX as u64 },
        "the number of the write among those of txnAppId",
    ),
];

/// What becomes of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They are added.
    Append,
    /// They take the place of rows with the same keys.
    Upsert { keys: Vec<String>, order_by: Option<String>, delete_when: Option<String> },
    /// They take the place of all rows.
    Replace,
}

/// What `DataFrame.write` does with a table that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfThere {
    Write,
    Refuse,
    Ignore,
}

/// What a write was asked for.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) table: TableName,
    pub(crate) marks: TableName,
    pub(crate) dead_letters: Option<TableName>,
    pub(crate) mode: Mode,
    pub(crate) truncate: bool,
    pub(crate) isolation: Isolation,
    pub(crate) batch_size: usize,
    pub(crate) connections: usize,
    pub(crate) create_options: Option<String>,
    pub(crate) column_types: Vec<(String, String)>,
    pub(crate) shared: bool,
    /// An application's id and the number of this write among its own.
    pub(crate) txn: Option<(String, i64)>,
    /// There will be no other batch.
    pub(crate) one_batch: bool,
    pub(crate) if_there: IfThere,
    /// A table that is there is replaced by a new one.
    pub(crate) anew: bool,
}

impl WriteOptions {
    /// Reads what a request says.
    ///
    /// # Errors
    /// Invalid: something is missing, or options do not go together.
    pub(crate) fn read(request: &SinkRequest) -> Result<WriteOptions> {
        let options = &request.options;
        if !request.partition_by.is_empty() {
            return Err(Error::invalid(
                "the jdbc sink takes no partitionBy; partitions of a table are the database's",
            ));
        }
        let table = options.text("dbtable").or(request.path.as_deref()).unwrap_or_default();
        if table.is_empty() {
            return Err(Error::invalid("the jdbc sink needs a table; give it in option `dbtable`"));
        }
        let marks = options.text("onefold.jdbc.marksTable").unwrap_or("onefold_marks");
        let app = options.text("txnAppId").map(str::to_owned);
        let txn = match (app, options.count("txnVersion")) {
            // All tables of a database share their marks.
            (Some(app), Some(version)) => {
                Some((format!("{app} {table}"), i64::try_from(version).unwrap_or(i64::MAX)))
            }
            (None, None) => None,
            _ => {
                return Err(Error::invalid(
                    "options txnAppId and txnVersion only go together; give both or none",
                ));
            }
        };
        let isolation = match options.choice("isolationLevel").as_deref() {
            Some("repeatable_read") => Isolation::RepeatableRead,
            Some("serializable") => Isolation::Serializable,
            _ => Isolation::ReadCommitted,
        };
        let count = |name: &str, default: u64| {
            usize::try_from(options.count(name).unwrap_or(default)).unwrap_or(usize::MAX)
        };
        let table = TableName::parse(table)?;
        let marks = TableName::parse(marks)?;
        let dead_letters =
            options.text("onefold.jdbc.deadLetterTable").map(TableName::parse).transpose()?;
        apart(&table, &marks, dead_letters.as_ref())?;
        Ok(WriteOptions {
            table,
            marks,
            dead_letters,
            mode: mode(options, request.output_mode)?,
            truncate: options.flag("truncate"),
            isolation,
            batch_size: count("batchsize", 8192),
            connections: count("onefold.jdbc.connections", 4),
            create_options: options.text("createTableOptions").map(str::to_owned),
            column_types: column_types(options.text("createTableColumnTypes").unwrap_or(""))?,
            shared: options.flag("onefold.jdbc.sharedTable"),
            txn,
            one_batch: false,
            if_there: IfThere::Write,
            anew: false,
        })
    }

    /// With what the session's settings say.
    pub(crate) fn with_settings(mut self, conf: &BTreeMap<String, String>) -> WriteOptions {
        self.one_batch = conf.get(ONE_BATCH).is_some_and(|it| it.eq_ignore_ascii_case("true"));
        let overwrites = conf.get(SAVE_MODE).is_some_and(|mode| mode == "overwrite");
        self.anew = self.one_batch && overwrites && !self.truncate;
        self.if_there = match conf.get(SAVE_MODE).map(String::as_str) {
            Some("errorifexists") if self.one_batch => IfThere::Refuse,
            Some("ignore") if self.one_batch => IfThere::Ignore,
            _ => IfThere::Write,
        };
        self
    }
}

fn mode(options: &Options, output: OutputMode) -> Result<Mode> {
    let keys = names(options.text("upsertKeys").unwrap_or(""));
    let column = |name: &str| {
        options.text(name).map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned)
    };
    let (order_by, delete_when) = (column("upsertOrderBy"), column("deleteWhen"));
    if keys.is_empty() {
        if order_by.is_some() || delete_when.is_some() {
            return Err(Error::invalid(
                "options upsertOrderBy and deleteWhen need upsertKeys: the columns that tell which \
                 row is which",
            ));
        }
        return match output {
            OutputMode::Append => Ok(Mode::Append),
            OutputMode::Complete => Ok(Mode::Replace),
            OutputMode::Update => Err(Error::invalid(
                "output mode update needs option upsertKeys: the columns that tell which row is \
                 which",
            )),
        };
    }
    match output {
        OutputMode::Complete => Err(Error::invalid(
            "upsertKeys go with output modes append and update; a complete result takes the place \
             of all rows",
        )),
        OutputMode::Append | OutputMode::Update => Ok(Mode::Upsert { keys, order_by, delete_when }),
    }
}

/// Three tables, each for something else.
fn apart(table: &TableName, marks: &TableName, dead: Option<&TableName>) -> Result<()> {
    let clash = if dead.is_some_and(|dead| dead.may_be(table)) {
        Some(("onefold.jdbc.deadLetterTable", "the table of option dbtable"))
    } else if dead.is_some_and(|dead| dead.may_be(marks)) {
        Some(("onefold.jdbc.deadLetterTable", "the table of marks"))
    } else if table.may_be(marks) {
        Some(("dbtable", "the table of marks"))
    } else {
        None
    };
    match clash {
        None => Ok(()),
        Some((option, other)) => Err(Error::invalid(format!(
            "option {option} names {other}; give it a table of its own"
        ))),
    }
}

fn names(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Reads `name CHAR(64), note VARCHAR(1024)`.
fn column_types(text: &str) -> Result<Vec<(String, String)>> {
    let mut types = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    let ends = text.char_indices().chain([(text.len(), ',')]);
    for (at, c) in ends {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 || at == text.len() => {
                let part = text.get(start..at).unwrap_or_default().trim();
                start = at + 1;
                if part.is_empty() {
                    continue;
                }
                let (name, declared) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
                let plain = |c: char| c.is_ascii_alphanumeric() || " (),_[]".contains(c);
                if declared.trim().is_empty() || !declared.chars().all(plain) {
                    return Err(Error::invalid(format!(
                        "option createTableColumnTypes: `{part}` is no column with its type; give \
                         `name CHAR(64), note VARCHAR(1024)`"
                    )));
                }
                types.push((name.trim_matches(['`', '"']).to_owned(), declared.trim().to_owned()));
            }
            _ => {}
        }
    }
    Ok(types)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_types::OptionMap;

    fn read(output_mode: OutputMode, options: OptionMap) -> Result<WriteOptions> {
        static ALL: &[&[OptionSpec]] = &[COMMON, WRITE];
        let options = Options::check("jdbc", ALL, options.with("dbtable", "t"))?;
        WriteOptions::read(&SinkRequest {
            options,
            path: None,
            partition_by: Vec::new(),
            query_name: None,
            output_mode,
        })
    }

    #[test]
    fn a_mode_is_what_the_output_and_the_keys_say() {
        let keys = || OptionMap::new().with("upsertKeys", "a, b");
        assert_eq!(read(OutputMode::Append, OptionMap::new()).unwrap().mode, Mode::Append);
        assert_eq!(read(OutputMode::Complete, OptionMap::new()).unwrap().mode, Mode::Replace);
        let upsert = read(OutputMode::Update, keys()).unwrap().mode;
        let two = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(upsert, Mode::Upsert { keys: two, order_by: None, delete_when: None });
        assert!(read(OutputMode::Update, OptionMap::new()).is_err());
        assert!(read(OutputMode::Complete, keys()).is_err());
        let alone = OptionMap::new().with("deleteWhen", "gone");
        assert!(read(OutputMode::Append, alone).is_err());
    }

    #[test]
    fn rows_marks_and_refused_rows_have_a_table_each() {
        let dead = |name: &str| OptionMap::new().with("onefold.jdbc.deadLetterTable", name);
        assert!(read(OutputMode::Append, dead("s.t2")).is_ok());
        // Without a schema it may be the same one.
        for name in ["t", "T", "\"t\"", "public.t", "onefold_marks"] {
            let error = read(OutputMode::Append, dead(name)).unwrap_err().to_string();
            assert!(error.contains("deadLetterTable"), "{error}");
        }
        let marks = OptionMap::new().with("onefold.jdbc.marksTable", "t");
        assert!(read(OutputMode::Append, marks).is_err());
    }

    #[test]
    fn types_of_columns_are_types_and_nothing_else() {
        let types = column_types("id BIGINT, `n` DECIMAL(10, 2)").unwrap();
        let pair = |name: &str, of: &str| (name.to_owned(), of.to_owned());
        assert_eq!(types, [pair("id", "BIGINT"), pair("n", "DECIMAL(10, 2)")]);
        for text in ["id", "id INT; DROP TABLE x", "id INT -- x", "id 'x'"] {
            assert!(column_types(text).is_err(), "{text}");
        }
    }
}
