//! A function as the client sends it.

use super::calls::Calls;
use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::{conf, types};
use arrow::datatypes::DataType;
use spark_connect_proto::common_inline_user_defined_function::Function;
use spark_connect_proto::{CommonInlineUserDefinedFunction, PythonUdf};

/// How PySpark calls a function: `pyspark.util.PythonEvalType`.
pub(crate) mod eval {
    pub(crate) const PLAIN_ROWS: i32 = 0;
    pub(crate) const PICKLED: i32 = 100;
    pub(crate) const ROW_BY_ROW: i32 = 101;
    pub(crate) const PANDAS: i32 = 200;
    pub(crate) const GROUPED_PANDAS: i32 = 201;
    pub(crate) const GROUPED_AGGREGATE_PANDAS: i32 = 202;
    pub(crate) const PANDAS_ITERATOR: i32 = 204;
    pub(crate) const MAP_IN_PANDAS: i32 = 205;
    pub(crate) const COGROUPED_PANDAS: i32 = 206;
    pub(crate) const MAP_IN_ARROW: i32 = 207;
    pub(crate) const GROUPED_WITH_STATE: i32 = 208;
    pub(crate) const GROUPED_ARROW: i32 = 209;
    pub(crate) const COGROUPED_ARROW: i32 = 210;
    pub(crate) const STATE_PANDAS: i32 = 211;
    pub(crate) const STATE_PANDAS_INITIAL: i32 = 212;
    pub(crate) const STATE_ROWS: i32 = 213;
    pub(crate) const STATE_ROWS_INITIAL: i32 = 214;
    pub(crate) const ARROW: i32 = 250;
    pub(crate) const ARROW_ITERATOR: i32 = 251;
    pub(crate) const GROUPED_AGGREGATE_ARROW: i32 = 252;
}

/// Settings of the session that workers ask for.
const SETTINGS: [&str; 8] = [
    "spark.sql.session.timeZone",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.execution.arrow.maxBytesPerBatch",
    "spark.sql.execution.arrow.useLargeVarTypes",
    "spark.sql.execution.pandas.convertToArrowArraySafely",
    "spark.sql.execution.pyspark.binaryAsBytes",
    "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName",
    "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled",
];

/// A Python function with what a worker must know of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PythonFunction {
    /// Its name, as the user sees it.
    pub(crate) name: String,
    /// How PySpark calls it.
    pub(crate) eval_type: i32,
    /// The pickled function and its return type.
    pub(crate) command: Vec<u8>,
    /// The client's Python version, which must be the worker's.
    pub(crate) version: String,
    /// What it gives.
    pub(crate) output: DataType,
    /// Settings of the session.
    pub(crate) settings: Vec<(String, String)>,
    /// The calls that are under way.
    pub(crate) calls: Calls,
}

impl PythonFunction {
    /// The function in a message, which must be one of Python.
    pub(crate) fn of(
        session: &ClientSession,
        function: &CommonInlineUserDefinedFunction,
    ) -> Outcome<PythonFunction> {
        match &function.function {
            Some(Function::PythonUdf(udf)) => {
                let output = udf.output_type.as_ref();
                let output = output.ok_or_else(|| Failure::missing("output_type"))?;
                let output = types::to_arrow(output)?;
                Ok(PythonFunction::described(session, &function.function_name, udf, output))
            }
            Some(_) => Err(Failure::unsupported(format!(
                "the function `{}` of Scala or Java",
                function.function_name
            ))),
            None => Err(Failure::missing("function")),
        }
    }

    /// The settings of a session that workers ask for.
    pub(crate) fn settings_of(session: &ClientSession) -> Vec<(String, String)> {
        let value = |name: &&str| Some(((*name).to_owned(), conf::value(&session.engine, name)?));
        SETTINGS.iter().filter_map(value).collect()
    }

    /// A setting of the session.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The writer of `foreach`, which gives nothing.
    pub(crate) fn writer(session: &ClientSession, udf: &PythonUdf) -> PythonFunction {
        PythonFunction::described(session, "foreach", udf, DataType::Null)
    }

    fn described(
        session: &ClientSession,
        name: &str,
        udf: &PythonUdf,
        output: DataType,
    ) -> PythonFunction {
        // The pickled form differs only in how rows travel.
        let eval_type =
            if udf.eval_type == eval::PICKLED { eval::ROW_BY_ROW } else { udf.eval_type };
        let settings = PythonFunction::settings_of(session);
        PythonFunction {
            name: name.to_owned(),
            eval_type,
            command: udf.command.to_vec(),
            version: udf.python_ver.clone(),
            output,
            settings,
            calls: Calls::default(),
        }
    }
}
