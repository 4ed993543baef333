//! DataFusion's errors as Onefold's.

use datafusion::error::DataFusionError;
use onefold_types::{Error, ErrorKind};

/// An error of planning: Onefold's own error where a source raised one, else Invalid with
/// DataFusion's sentence.
pub(crate) fn planning(error: DataFusionError) -> Error {
    match own(error) {
        Ok(error) => error,
        Err(error) => {
            let kind = match error.find_root() {
                DataFusionError::Internal(_) => ErrorKind::Internal,
                DataFusionError::ResourcesExhausted(_)
                | DataFusionError::IoError(_)
                | DataFusionError::ObjectStore(_) => ErrorKind::Unavailable,
                _ => ErrorKind::Invalid,
            };
            Error::new(kind, sentence(&error))
        }
    }
}

/// The sentence of the innermost error in the user's words, without DataFusion's category and
/// backtrace.
pub(crate) fn sentence(error: &DataFusionError) -> String {
    let text = match error.find_root() {
        DataFusionError::Plan(text)
        | DataFusionError::Execution(text)
        | DataFusionError::NotImplemented(text) => text.clone(),
        DataFusionError::SchemaError(error, _) => error.to_string(),
        DataFusionError::SQL(error, _) => error.to_string(),
        other => other.to_string(),
    };
    let text = text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default();
    let text = crate::speech::sentence(text.trim());
    let text = text.trim_end_matches('.');
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        // An acronym or a name stays as it is.
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

fn own(error: DataFusionError) -> Result<Error, DataFusionError> {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(error) => Ok(*error),
            Err(inner) => Err(DataFusionError::External(inner)),
        },
        DataFusionError::Context(text, inner) => match own(*inner) {
            Ok(error) => Ok(error),
            Err(inner) => Err(DataFusionError::Context(text, Box::new(inner))),
        },
        other => Err(other),
    }
}

/// Carries an Onefold error through DataFusion.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
