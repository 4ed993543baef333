//! Errors as Spark's clients know them: a class of Java, an error class, an SQLSTATE.
//!
//! The client picks the Python exception by the names in `classes` of the status details
//! (`google.rpc.ErrorInfo`), and asks for the rest with `FetchErrorDetails`.

mod analysis;
mod classes;
mod columns;
mod server;

pub(crate) use server::{CLONE_CLOSED, CLONE_EXISTS, CLONE_FORMAT};

use onefold_types::{Error, ErrorKind};
use spark_connect_proto::fetch_error_details_response::{Error as Detail, SparkThrowable};
use std::collections::BTreeMap;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

const ANALYSIS: &str = "org.apache.spark.sql.AnalysisException";
const PARSE: &str = "org.apache.spark.sql.catalyst.parser.ParseException";
const RUNTIME: &str = "org.apache.spark.SparkRuntimeException";
const ARITHMETIC: &str = "org.apache.spark.SparkArithmeticException";
const UNSUPPORTED: &str = "org.apache.spark.SparkUnsupportedOperationException";
const SPARK: &str = "org.apache.spark.SparkException";
const SQL: &str = "org.apache.spark.SparkSQLException";
const STREAMING: &str = "org.apache.spark.sql.streaming.StreamingQueryException";
const ILLEGAL: &str = "java.lang.IllegalArgumentException";
const PYTHON: &str = "org.apache.spark.api.python.PythonException";
/// How the error of a function that raised begins.
const PYTHON_RAISED: &str = "An exception was thrown from the Python worker";
const NO_SUCH: &str = "org.apache.spark.SparkNoSuchElementException";

/// Longest text in a status; the whole is told by `FetchErrorDetails`.
const STATUS_TEXT_MAX: usize = 2_048;

/// A failure of a request.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    classes: Vec<&'static str>,
    error_class: Option<&'static str>,
    sql_state: Option<&'static str>,
    parameters: BTreeMap<String, String>,
    message: String,
}

/// The parts of a name, each in backquotes.
pub(crate) fn quoted(name: &str) -> String {
    let parts: Vec<String> = name.split('.').map(|part| format!("`{part}`")).collect();
    parts.join(".")
}

/// Result with [`Failure`].
pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    fn new(classes: &[&'static str], message: impl Into<String>) -> Self {
        Failure {
            classes: classes.to_vec(),
            error_class: None,
            sql_state: None,
            parameters: BTreeMap::new(),
            message: message.into(),
        }
    }

    fn class(mut self, error_class: &'static str, sql_state: &'static str) -> Self {
        self.message = format!("[{error_class}] {} SQLSTATE: {sql_state}", self.message);
        self.error_class = Some(error_class);
        self.sql_state = Some(sql_state);
        self
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.parameters.insert(name.to_owned(), value.into());
        self
    }

    /// The query or a name in it is wrong.
    pub(crate) fn analysis(message: impl Into<String>) -> Self {
        Failure::new(&[ANALYSIS, "java.lang.Exception"], message)
    }

    /// A text of SQL that is not whole.
    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Failure::new(&[PARSE, ANALYSIS, "java.lang.Exception"], message)
            .class("PARSE_SYNTAX_ERROR", "42601")
    }

    /// A table or view that is not there.
    pub(crate) fn no_table(name: &str) -> Self {
        Failure::analysis(format!(
            "The table or view {} cannot be found. Verify the spelling and correctness of the \
             schema and catalog.",
            quoted(name)
        ))
        .class("TABLE_OR_VIEW_NOT_FOUND", "42P01")
        .with("relationName", quoted(name))
    }

    /// A database that is not there.
    pub(crate) fn no_schema(name: &str) -> Self {
        Failure::analysis(format!("The schema `{name}` cannot be found: there is one, `default`."))
            .class("SCHEMA_NOT_FOUND", "42704")
            .with("schemaName", format!("`{name}`"))
    }

    /// A function that is not there.
    pub(crate) fn no_routine(name: &str) -> Self {
        Failure::analysis(format!(
            "The routine {} cannot be found. Verify its spelling; spark.catalog.listFunctions() \
             tells which there are.",
            quoted(name)
        ))
        .class("ROUTINE_NOT_FOUND", "42883")
        .with("routineName", quoted(name))
    }

    /// A view whose name is taken.
    pub(crate) fn view_exists(name: &str) -> Self {
        Failure::analysis(format!(
            "Cannot create the temporary view `{name}` because it already exists. Choose a \
             different name, drop or replace the existing view."
        ))
        .class("TEMP_TABLE_OR_VIEW_ALREADY_EXISTS", "42P07")
        .with("relationName", format!("`{name}`"))
    }

    /// A table whose name is taken.
    pub(crate) fn table_exists(name: &str) -> Self {
        Failure::analysis(format!(
            "Cannot create table or view `{name}` because it already exists. Choose a different \
             name, drop or replace the existing object, or add the IF NOT EXISTS clause to \
             tolerate pre-existing objects."
        ))
        .class("TABLE_OR_VIEW_ALREADY_EXISTS", "42P07")
        .with("relationName", format!("`{name}`"))
    }

    /// Batches without an end, as the trigger of real-time mode asks for.
    pub(crate) fn no_real_time() -> Self {
        Failure::analysis(
            "The input stream is not supported in Real-time Mode: Onefold has no such mode yet; use \
             trigger(processingTime=\"0 seconds\").",
        )
        .class("STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED", "0A000")
    }

    /// A part of Spark that is not there.
    pub(crate) fn unsupported(what: impl std::fmt::Display) -> Self {
        Failure::new(
            &[UNSUPPORTED, "java.lang.UnsupportedOperationException"],
            format!("{what} is not supported by Onefold yet"),
        )
        .class("UNSUPPORTED_FEATURE", "0A000")
    }

    /// A function of Python on a server that runs none.
    pub(crate) fn no_python() -> Self {
        Failure::unsupported(
            "a Python function on a server that other machines can reach; start it with \
             --allow-python to run functions of its clients",
        )
    }

    /// A column that is not there.
    pub(crate) fn no_column(name: &str, known: &str) -> Self {
        Failure::analysis(format!(
            "A column, variable, or function parameter with name `{name}` cannot be resolved. Did \
             you mean one of the following? [{known}]."
        ))
        .class("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")
        .with("objectName", format!("`{name}`"))
        .with("proposal", known)
    }

    /// A name that means two columns.
    pub(crate) fn ambiguous(name: &str) -> Self {
        Failure::analysis(format!("Reference `{name}` is ambiguous."))
            .class("AMBIGUOUS_REFERENCE", "42704")
            .with("name", format!("`{name}`"))
    }

    /// Two sides of a set operation with different numbers of columns.
    pub(crate) fn columns_differ(operator: &str, first: usize, second: usize) -> Self {
        Failure::analysis(format!(
            "{operator} can only be performed on inputs with the same number of columns, but the \
             first input has {first} columns and the second input has {second} columns."
        ))
        .class("NUM_COLUMNS_MISMATCH", "42826")
    }

    /// A request that makes no sense.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Failure::new(&[ILLEGAL], message)
    }

    /// A required field of a message is not there.
    pub(crate) fn missing(field: &str) -> Self {
        Failure::invalid(format!("the request has no `{field}`: the client is of another version"))
    }

    /// A setting that nobody set and that has no default.
    pub(crate) fn no_setting(key: &str) -> Self {
        Failure::new(
            &[NO_SUCH, "java.util.NoSuchElementException"],
            format!(
                "The SQL config \"{key}\" cannot be found. Please verify that the config exists."
            ),
        )
        .class("SQL_CONF_NOT_FOUND", "42K0I")
        .with("sqlConf", format!("\"{key}\""))
    }

    /// A session or operation that is not there (any more).
    pub(crate) fn handle(reason: &'static str, handle: &str) -> Self {
        Failure::new(&[SQL], format!("The handle {handle} is invalid."))
            .class(handle_class(reason), "HY000")
            .with("handle", handle)
    }

    /// A place in an operation's responses where the client cannot go on.
    pub(crate) fn cursor(reason: &'static str, id: Option<&str>) -> Self {
        Failure::new(&[SQL], "The cursor is invalid.")
            .class(cursor_class(reason), "HY109")
            .with("responseId", id.unwrap_or_default())
    }

    /// Someone interrupted the operation.
    pub(crate) fn cancelled() -> Self {
        Failure::new(&[SQL], "Operation has been canceled.").class("OPERATION_CANCELED", "HY008")
    }

    /// A streaming query ended by an error.
    pub(crate) fn stream_failed(id: &str, run_id: &str, message: &str) -> Self {
        Failure::new(
            &[STREAMING, "java.lang.Exception"],
            format!("Query [id = {id}, runId = {run_id}] terminated with exception: {message}"),
        )
        .class("STREAM_FAILED", "XXKST")
        .with("id", id)
        .with("runId", run_id)
        .with("message", message)
    }

    /// The error class of what ended a query.
    pub(crate) fn class_of_exception(message: &str) -> &'static str {
        if message.contains(PYTHON_RAISED) { "PYTHON_EXCEPTION" } else { "STREAM_FAILED" }
    }

    /// A Python worker did not begin.
    pub(crate) fn python_start(error: Error) -> Self {
        Failure::new(
            &[
                "org.apache.spark.api.python.StreamingPythonRunner$\
                 StreamingPythonRunnerInitializationException",
                SPARK,
            ],
            format!("Streaming Runner initialization failed: {}", error.chain()),
        )
        .class("STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE", "XXKST")
        .with("msg", error.chain())
    }

    /// A streaming query that the session does not know.
    pub(crate) fn no_query(id: &str) -> Self {
        Failure::invalid(format!("Streaming query {id} is not found"))
    }

    /// A failure while rows were computed.
    pub(crate) fn execution(error: &Error) -> Self {
        let text = error.chain();
        if text.contains(PYTHON_RAISED) {
            return Failure::new(&[PYTHON, SPARK, "java.lang.Exception"], text)
                .class("PYTHON_EXCEPTION", "38000");
        }
        if let Some(failure) = Failure::known(&text) {
            return failure;
        }
        let lower = text.to_lowercase();
        if lower.contains("divide by zero") || lower.contains("division by zero") {
            return Failure::new(
                &[ARITHMETIC, "java.lang.ArithmeticException"],
                "Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL \
                 instead.",
            )
            .class("DIVIDE_BY_ZERO", "22012");
        }
        // The readers of formats speak of overflows too, where data is damaged.
        if lower.contains("overflow") && !text.contains("[MALFORMED_") {
            return Failure::new(&[ARITHMETIC, "java.lang.ArithmeticException"], text)
                .class("ARITHMETIC_OVERFLOW", "22003");
        }
        match error.kind() {
            ErrorKind::Invalid => Failure::new(&[RUNTIME, "java.lang.RuntimeException"], text),
            _ => Failure::new(&[SPARK, "java.lang.Exception"], text),
        }
    }

    /// A failure whose text names its error class, or means one.
    fn known(text: &str) -> Option<Self> {
        let (known, text) = classes::of(text)?;
        Some(Failure::new(known.classes, text).class(known.name, known.sql_state))
    }

    /// What the error says.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Its error class, if it has one.
    pub(crate) fn error_class(&self) -> Option<&'static str> {
        self.error_class
    }

    /// The status that ends a call; with an id under which the client can ask for details.
    pub(crate) fn into_status(self, error_id: Option<&str>) -> Status {
        let mut metadata = std::collections::HashMap::new();
        let classes = serde_json::to_string(&self.classes).unwrap_or_default();
        metadata.insert("classes".to_owned(), classes);
        if let Some(state) = self.sql_state {
            metadata.insert("sqlState".to_owned(), state.to_owned());
        }
        if let Some(class) = self.error_class {
            let parameters = serde_json::to_string(&self.parameters).unwrap_or_default();
            if parameters.len() <= 1_024 {
                metadata.insert("errorClass".to_owned(), class.to_owned());
                metadata.insert("messageParameters".to_owned(), parameters);
            }
        }
        if let Some(id) = error_id {
            metadata.insert("errorId".to_owned(), id.to_owned());
        }
        let reason = self.classes.first().copied().unwrap_or(SPARK);
        let mut text = self.message;
        if text.len() > STATUS_TEXT_MAX {
            let cut = (0..=STATUS_TEXT_MAX).rev().find(|&place| text.is_char_boundary(place));
            text.truncate(cut.unwrap_or(0));
        }
        let details = ErrorDetails::with_error_info(reason, "org.apache.spark", metadata);
        Status::with_error_details(Code::Internal, text, details)
    }

    /// The same as `FetchErrorDetails` tells it.
    pub(crate) fn details(&self) -> Detail {
        Detail {
            error_type_hierarchy: self.classes.iter().map(|&class| class.to_owned()).collect(),
            message: self.message.clone(),
            stack_trace: Vec::new(),
            cause_idx: None,
            spark_throwable: self.error_class.map(|class| SparkThrowable {
                error_class: Some(class.to_owned()),
                message_parameters: self.parameters.clone().into_iter().collect(),
                query_contexts: Vec::new(),
                sql_state: self.sql_state.map(str::to_owned),
                breaking_change_info: None,
            }),
        }
    }
}

fn handle_class(reason: &str) -> &'static str {
    match reason {
        "OPERATION_NOT_FOUND" => "INVALID_HANDLE.OPERATION_NOT_FOUND",
        "OPERATION_ALREADY_EXISTS" => "INVALID_HANDLE.OPERATION_ALREADY_EXISTS",
        "OPERATION_ABANDONED" => "INVALID_HANDLE.OPERATION_ABANDONED",
        "SESSION_CLOSED" => "INVALID_HANDLE.SESSION_CLOSED",
        "SESSION_CHANGED" => "INVALID_HANDLE.SESSION_CHANGED",
        "FORMAT" => "INVALID_HANDLE.FORMAT",
        _ => "INVALID_HANDLE.SESSION_NOT_FOUND",
    }
}

fn cursor_class(reason: &str) -> &'static str {
    match reason {
        "DISCONNECTED" => "INVALID_CURSOR.DISCONNECTED",
        "NOT_REATTACHABLE" => "INVALID_CURSOR.NOT_REATTACHABLE",
        "POSITION_NOT_AVAILABLE" => "INVALID_CURSOR.POSITION_NOT_AVAILABLE",
        _ => "INVALID_CURSOR.POSITION_NOT_FOUND",
    }
}

impl From<Error> for Failure {
    /// An error of analysis: nothing has run yet.
    fn from(error: Error) -> Self {
        let text = error.chain();
        if text.starts_with("line ") {
            return Failure::new(&[PARSE, ANALYSIS, "java.lang.Exception"], text)
                .class("PARSE_SYNTAX_ERROR", "42601");
        }
        if let Some(failure) = Failure::known(&text) {
            return failure;
        }
        if text.contains("of a watermark should not be negative") {
            return Failure::invalid(text);
        }
        match analysis::class_of(&text) {
            // Old classes of Spark, which its messages do not show.
            Some((class, "")) => {
                return Failure { error_class: Some(class), ..Failure::analysis(text) };
            }
            Some((class, state)) => return Failure::analysis(text).class(class, state),
            None => {}
        }
        match error.kind() {
            ErrorKind::Invalid => Failure::analysis(text),
            _ => Failure::new(&[SPARK, "java.lang.Exception"], text),
        }
    }
}

impl From<datafusion::error::DataFusionError> for Failure {
    fn from(error: datafusion::error::DataFusionError) -> Self {
        Failure::from(onefold_engine::from_datafusion(error))
    }
}
