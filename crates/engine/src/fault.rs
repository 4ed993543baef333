//! Errors of DataFusion and Arrow in our kinds.

use datafusion::error::DataFusionError;
use onefold_operators::fault::{kind_of, ours_within};
use onefold_plan::speech::in_sql;
use onefold_types::Error;

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

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::error::ArrowError;
    use onefold_types::ErrorKind;
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
