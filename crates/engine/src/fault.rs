//! Errors of DataFusion and Arrow in our kinds.

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use onefold_plan::speech::in_sql;
use onefold_types::{Error, ErrorKind};
use std::error::Error as StdError;

/// An error of DataFusion in our kinds. An error of ours that travelled inside keeps its kind.
#[must_use]
pub fn from_datafusion(error: DataFusionError) -> Error {
    if let Some(ours) = ours_within(&error) {
        return Error::new(ours.kind(), ours.chain());
    }
    let kind = kind_of(&error);
    let text = without_context(error).strip_backtrace();
    Error::new(kind, in_sql(text.lines().next().unwrap_or("no text")))
}

/// The error itself, without the names of the steps of planning that it came through.
fn without_context(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Context(_, inner) => without_context(*inner),
        other => other,
    }
}

fn kind_of(error: &DataFusionError) -> ErrorKind {
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
fn ours_within<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn an_error_of_ours_keeps_its_kind_through_datafusion_and_arrow() {
        let ours = Error::corrupt("file x changed").because(Error::invalid("size differs"));
        let arrow = ArrowError::ExternalError(Box::new(ours));
        let wrapped = DataFusionError::Shared(Arc::new(
            DataFusionError::ArrowError(Box::new(arrow), None).context("scan"),
        ));
        let back = from_datafusion(wrapped);
        assert_eq!(back.kind(), ErrorKind::Corrupt);
        assert_eq!(back.to_string(), "file x changed: size differs");
    }

    #[test]
    fn the_step_of_planning_that_met_an_error_is_not_the_error() {
        let error = DataFusionError::Plan("the cause".to_owned());
        let error = from_datafusion(error.context("Optimizer rule 'x' failed"));
        assert_eq!(error.to_string(), "the cause");
    }

    #[test]
    fn a_row_that_cannot_be_computed_is_not_tried_again() {
        let error = DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None);
        assert_eq!(from_datafusion(error).kind(), ErrorKind::Invalid);
    }
}
