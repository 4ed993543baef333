//! What kind of trouble an error of DataFusion or Arrow is.

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use onefold_types::{Error, ErrorKind};
use std::error::Error as StdError;

/// The kind of an error that a running plan met: that of our own error where one travelled inside.
#[must_use]
pub fn kind_of(error: &DataFusionError) -> ErrorKind {
    if let Some(ours) = ours_within(error) {
        return ours.kind();
    }
    match error.find_root() {
        DataFusionError::IoError(_)
        | DataFusionError::ResourcesExhausted(_)
        | DataFusionError::ObjectStore(_) => ErrorKind::Unavailable,
        DataFusionError::ArrowError(arrow, _) if matches!(**arrow, ArrowError::IoError(..)) => {
            ErrorKind::Unavailable
        }
        DataFusionError::Internal(_) | DataFusionError::ExecutionJoin(_) => ErrorKind::Internal,
        // A plan that cannot be made or a row that cannot be computed: the same again next time.
        _ => ErrorKind::Invalid,
    }
}

/// The nearest error of ours in the chain of causes.
#[must_use]
pub fn ours_within<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    if let Some(ours) = error.downcast_ref::<Error>() {
        return Some(ours);
    }
    // These two hold causes that their own `source` does not show.
    if let Some(DataFusionError::Shared(inner)) = error.downcast_ref::<DataFusionError>() {
        return ours_within(inner.as_ref());
    }
    if let Some(DataFusionError::External(inner)) = error.downcast_ref::<DataFusionError>() {
        return ours_within(inner.as_ref());
    }
    if let Some(ArrowError::ExternalError(inner)) = error.downcast_ref::<ArrowError>() {
        return ours_within(inner.as_ref());
    }
    ours_within(error.source()?)
}
