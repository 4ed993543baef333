//! Spark's error classes that the engine's own errors name, or mean.
//!
//! An error of the engine may begin with its class in brackets: `[CAST_INVALID_INPUT] the value …`.

const ARITHMETIC: &[&str] =
    &["org.apache.spark.SparkArithmeticException", "java.lang.ArithmeticException"];
const ANALYSIS: &[&str] = &["org.apache.spark.sql.AnalysisException", "java.lang.Exception"];
const DATE_TIME: &[&str] =
    &["org.apache.spark.SparkDateTimeException", "java.time.DateTimeException"];
const ILLEGAL: &[&str] =
    &["org.apache.spark.SparkIllegalArgumentException", "java.lang.IllegalArgumentException"];
const INDEX: &[&str] = &[
    "org.apache.spark.SparkArrayIndexOutOfBoundsException",
    "java.lang.ArrayIndexOutOfBoundsException",
];
const NUMBER_FORMAT: &[&str] = &[
    "org.apache.spark.SparkNumberFormatException",
    "java.lang.NumberFormatException",
    "java.lang.IllegalArgumentException",
];
const PARSE: &[&str] = &[
    "org.apache.spark.sql.catalyst.parser.ParseException",
    "org.apache.spark.sql.AnalysisException",
    "java.lang.Exception",
];
const RUNTIME: &[&str] = &["org.apache.spark.SparkRuntimeException", "java.lang.RuntimeException"];

/// An error class of Spark: its name, its SQLSTATE, and the classes of Java that carry it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) sql_state: &'static str,
    pub(super) classes: &'static [&'static str],
}

const fn known(
    name: &'static str,
    sql_state: &'static str,
    classes: &'static [&'static str],
) -> Known {
    Known { name, sql_state, classes }
}

const ALL: [Known; 42] = [
    known("AMBIGUOUS_REFERENCE", "42704", ANALYSIS),
    known("ARITHMETIC_OVERFLOW", "22003", ARITHMETIC),
    known("CANNOT_PARSE_TIMESTAMP", "22007", DATE_TIME),
    known("CAST_INVALID_INPUT", "22018", NUMBER_FORMAT),
    known("CAST_OVERFLOW", "22003", ARITHMETIC),
    known("COMPARATOR_RETURNS_NULL", "22004", RUNTIME),
    known("CONVERSION_INVALID_INPUT", "22018", ILLEGAL),
    known("DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES", "42K09", ANALYSIS),
    known("DATATYPE_MISMATCH.BINARY_OP_WRONG_TYPE", "42K09", ANALYSIS),
    known("DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION", "42K09", ANALYSIS),
    known("DATATYPE_MISMATCH.DATA_DIFF_TYPES", "42K09", ANALYSIS),
    known("DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN", "42K09", ANALYSIS),
    known("DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE", "42K09", ANALYSIS),
    known("DATA_SOURCE_NOT_FOUND", "42K02", ANALYSIS),
    known("DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION", "22023", DATE_TIME),
    known("COLUMN_ALREADY_EXISTS", "42711", ANALYSIS),
    known("DIVIDE_BY_ZERO", "22012", ARITHMETIC),
    known("DUPLICATED_MAP_KEY", "23505", RUNTIME),
    known("INVALID_ARRAY_INDEX", "22003", INDEX),
    known("INVALID_ARRAY_INDEX_IN_ELEMENT_AT", "22003", INDEX),
    known("INVALID_CONF_VALUE.DEFAULT_COLLATION", "22022", ANALYSIS),
    known("INVALID_INDEX_OF_ZERO", "22003", RUNTIME),
    known("INVALID_PARAMETER_VALUE.PATTERN", "22023", RUNTIME),
    known("INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX", "22023", RUNTIME),
    known("INVALID_WHERE_CONDITION", "42903", ANALYSIS),
    known("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", "22023", RUNTIME),
    known("MISSING_AGGREGATION", "42803", ANALYSIS),
    known("NULL_MAP_KEY", "2200E", RUNTIME),
    known("NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "22003", ARITHMETIC),
    known("NUM_COLUMNS_MISMATCH", "42826", ANALYSIS),
    known("PARSE_SYNTAX_ERROR", "42601", PARSE),
    known("PATH_ALREADY_EXISTS", "42K04", ANALYSIS),
    known("PATH_NOT_FOUND", "42K03", ANALYSIS),
    known("REMAINDER_BY_ZERO", "22012", ARITHMETIC),
    known("SCALAR_SUBQUERY_TOO_MANY_ROWS", "21000", RUNTIME),
    known("TABLE_OR_VIEW_NOT_FOUND", "42P01", ANALYSIS),
    known("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703", ANALYSIS),
    known("UNRESOLVED_ROUTINE", "42883", ANALYSIS),
    known("UNSUPPORTED_GENERATOR.MULTI_GENERATOR", "42K0E", ANALYSIS),
    known("UNSUPPORTED_GENERATOR.NESTED_IN_EXPRESSIONS", "42K0E", ANALYSIS),
    known("USER_RAISED_EXCEPTION", "P0001", RUNTIME),
    known("WRONG_NUM_ARGS.WITHOUT_SUGGESTION", "42605", ANALYSIS),
];

/// Words of an error of DataFusion, in lower case, and what Spark calls it.
const MEANT: [(&str, &str); 21] = [
    ("there is no table or view", "TABLE_OR_VIEW_NOT_FOUND"),
    ("no table named", "TABLE_OR_VIEW_NOT_FOUND"),
    ("already exists; use the mode append or overwrite", "PATH_ALREADY_EXISTS"),
    ("does not exist; make the folder or correct the path", "PATH_NOT_FOUND"),
    ("there is no source `", "DATA_SOURCE_NOT_FOUND"),
    ("there is no column", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ("no field named", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ("is ambiguous", "AMBIGUOUS_REFERENCE"),
    ("ambiguous reference", "AMBIGUOUS_REFERENCE"),
    ("invalid function '", "UNRESOLVED_ROUTINE"),
    ("there is no window function named", "UNRESOLVED_ROUTINE"),
    ("subquery returned more than one row", "SCALAR_SUBQUERY_TOO_MANY_ROWS"),
    ("must appear in the group by clause", "MISSING_AGGREGATION"),
    ("cannot coerce arithmetic expression string", "DATATYPE_MISMATCH.BINARY_OP_WRONG_TYPE"),
    ("cannot coerce arithmetic expression", "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES"),
    ("cannot create filter with non-boolean", "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN"),
    ("are not allowed in the where clause", "INVALID_WHERE_CONDITION"),
    ("arguments but received", "WRONG_NUM_ARGS.WITHOUT_SUGGESTION"),
    ("map key must be unique", "DUPLICATED_MAP_KEY"),
    ("map key cannot be null", "NULL_MAP_KEY"),
    ("queries have different number of columns", "NUM_COLUMNS_MISMATCH"),
];

/// The class that the text of an error names or means, and the text without it.
pub(super) fn of(text: &str) -> Option<(Known, String)> {
    let find = |name: &str| ALL.iter().find(|known| known.name == name).copied();
    for (start, _) in text.match_indices('[') {
        let Some((name, rest)) = text.get(start + 1..)?.split_once(']') else { break };
        if let Some(known) = find(name) {
            let before = text.get(..start).unwrap_or_default();
            return Some((suited(known, text), format!("{before}{}", rest.trim_start())));
        }
    }
    let lower = text.to_lowercase();
    let (_, name) = MEANT.iter().find(|(words, _)| lower.contains(words))?;
    Some((find(name)?, text.to_owned()))
}

/// A text that is no date is an error of dates, one that is no truth value one of its own.
fn suited(known: Known, text: &str) -> Known {
    let to = |name: &str| text.contains(&format!("cast to \"{name}"));
    let classes = match known.name {
        "CAST_INVALID_INPUT" if to("DATE") || to("TIMESTAMP") => DATE_TIME,
        "CAST_INVALID_INPUT" if to("BOOLEAN") => RUNTIME,
        _ => known.classes,
    };
    Known { classes, ..known }
}

#[cfg(test)]
mod tests {
    use super::{ALL, MEANT, of};

    #[test]
    fn a_class_in_brackets_is_taken_out_of_the_text_and_others_are_known_by_their_words() {
        let (known, text) = of("row 1: [CAST_INVALID_INPUT] the value 'x'").unwrap();
        assert_eq!((known.name, text.as_str()), ("CAST_INVALID_INPUT", "row 1: the value 'x'"));
        let (known, _) = of("[CAST_INVALID_INPUT] 'x' cannot be cast to \"DATE\"").unwrap();
        assert!(known.classes[0].ends_with("SparkDateTimeException"));
        assert_eq!(of("invalid function 'f'").unwrap().0.name, "UNRESOLVED_ROUTINE");
        assert!(of("array[1] of [x").is_none());
        assert!(MEANT.iter().all(|(_, name)| ALL.iter().any(|known| known.name == *name)));
    }
}
