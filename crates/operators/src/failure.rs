//! Onefold's errors in DataFusion's, and back in the operators that meet both.

use datafusion::error::DataFusionError;
use onefold_types::Error;

/// Carries an Onefold error through DataFusion.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A bug in the operators, as DataFusion's error.
pub(crate) fn internal(message: impl Into<String>) -> DataFusionError {
    external(Error::internal(message))
}

/// An error of DataFusion while a query is made ready: Onefold's own where there is one inside.
pub(crate) fn planning(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(own) => *own,
            Err(inner) => Error::invalid(inner.to_string()),
        },
        other => Error::invalid(other.strip_backtrace()),
    }
}
