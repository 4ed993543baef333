//! Functions of the user in the planner of their session.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::python::function::eval;
use crate::python::{PythonFunction, Shape, scalar};
use datafusion::execution::FunctionRegistry;
use spark_connect_proto::CommonInlineUserDefinedFunction;
use spark_connect_proto::common_inline_user_defined_function::Function;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Makes a function that came with an expression known; the name under which it is. The same
/// function has the same name, however often it comes.
pub(crate) fn inline(
    session: &ClientSession,
    message: &CommonInlineUserDefinedFunction,
    names: Vec<Option<String>>,
) -> Outcome<String> {
    let function = PythonFunction::of(session, message)?;
    check(&function)?;
    known(session, function, Shape::Values { names })
}

/// Whether a function that came with an expression aggregates the rows of a group.
pub(crate) fn aggregates(message: &CommonInlineUserDefinedFunction) -> bool {
    let Some(Function::PythonUdf(udf)) = &message.function else { return false };
    [eval::GROUPED_AGGREGATE_PANDAS, eval::GROUPED_AGGREGATE_ARROW].contains(&udf.eval_type)
}

/// Makes such a function known: the name under which it takes a list of rows of arguments.
pub(crate) fn inline_aggregate(
    session: &ClientSession,
    message: &CommonInlineUserDefinedFunction,
) -> Outcome<String> {
    known(session, PythonFunction::of(session, message)?, Shape::Aggregates)
}

/// The same for a function of whole rows.
pub(crate) fn known(
    session: &ClientSession,
    function: PythonFunction,
    shape: Shape,
) -> Outcome<String> {
    let mut hasher = DefaultHasher::new();
    (&function, &shape).hash(&mut hasher);
    let name = format!("{}#{:016x}", function.name, hasher.finish());
    register(session, name.clone(), function, shape)?;
    Ok(name)
}

/// `spark.udf.register`: for texts of SQL, too.
pub(crate) fn register_named(
    session: &ClientSession,
    message: &CommonInlineUserDefinedFunction,
) -> Outcome<()> {
    let function = PythonFunction::of(session, message)?;
    check(&function)?;
    let name = function.name.to_lowercase();
    // How many arguments there are is known when it is called.
    register(session, name, function, Shape::Values { names: vec![None; ARGUMENTS_MAX] })
}

/// Most arguments of a function that is called by its name.
const ARGUMENTS_MAX: usize = 64;

fn register(
    session: &ClientSession,
    name: String,
    function: PythonFunction,
    shape: Shape,
) -> Outcome<()> {
    let udf = Arc::new(scalar(name, Arc::new(function), shape, session.python()?));
    let state = session.engine.context().state_ref();
    state.write().register_udf(udf)?;
    Ok(())
}

fn check(function: &PythonFunction) -> Outcome<()> {
    let fits =
        [eval::ROW_BY_ROW, eval::PANDAS, eval::PANDAS_ITERATOR, eval::ARROW, eval::ARROW_ITERATOR];
    if fits.contains(&function.eval_type) {
        return Ok(());
    }
    Err(Failure::unsupported(format!(
        "the function `{}`, which is none of single rows (kind {})",
        function.name, function.eval_type
    )))
}
