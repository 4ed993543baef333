//! The classes that Spark gives to the mistakes which the engine finds in a query, by its words.

/// A class, its SQLSTATE, and words of the engine's sentence, in small letters, of which all are
/// there.
type Known = (&'static str, &'static str, &'static [&'static str]);

/// The class of whatever a stream cannot have and that has none of its own. Messages do not show
/// it.
pub(super) const STREAMING: &str = "_LEGACY_ERROR_TEMP_3102";

/// The first that fits counts.
const KNOWN: [Known; 13] = [
    ("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION", "42KDE", &[" output mode not supported "]),
    (
        "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
        "42KDE",
        &["not supported with complete output mode"],
    ),
    ("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE", "42KDE", &["sink takes output mode"]),
    ("EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE", "42K09", &["event time must be defined on a window"]),
    ("CANNOT_PARSE_INTERVAL", "22006", &["is not an interval"]),
    (
        "DATATYPE_MISMATCH.PARAMETER_CONSTRAINT_VIOLATION",
        "42K09",
        &["the slide duration of a window"],
    ),
    ("WRITE_STREAM_NOT_ALLOWED", "42601", &["write_stream() can be called only"]),
    ("INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY", "42823", &["a subquery that reads a stream"]),
    ("NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING", "42KDE", &["non-time-based windows"]),
    ("_LEGACY_ERROR_TEMP_1039", "", &["multiple time/session window expressions"]),
    (STREAMING, "", &["streaming dataframe", "not supported"]),
    (STREAMING, "", &["union between streaming and batch"]),
    (STREAMING, "", &["multiple stateful operators are not supported"]),
];

/// The class and SQLSTATE of a mistake; old classes of Spark have no SQLSTATE.
pub(super) fn class_of(sentence: &str) -> Option<(&'static str, &'static str)> {
    let lower = sentence.to_lowercase();
    let fits = |words: &[&str]| words.iter().all(|words| lower.contains(words));
    KNOWN.iter().find(|known| fits(known.2)).map(|(class, state, _)| (*class, *state))
}

#[cfg(test)]
mod tests {
    use super::{STREAMING, class_of};

    #[test]
    fn what_names_an_output_mode_is_not_always_about_it() {
        let class = |sentence: &str| class_of(sentence).map(|(class, _)| class);
        let mode = Some("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION");
        assert_eq!(class("append output mode not supported when there are streaming"), mode);
        let sorted = "sorting is not supported on streaming DataFrames/Datasets, unless it is on \
                      an aggregated DataFrame/Dataset in complete output mode";
        assert_eq!(class(sorted), Some(STREAMING));
        let chained = "multiple stateful operators are not supported in update output mode, only \
                       in append output mode";
        assert_eq!(class(chained), Some(STREAMING));
        assert_eq!(class("something else"), None);
    }
}
