//! What the planner says, in the user's words: SQL's types in the place of Arrow's, and no name that
//! stands in for something the user wrote otherwise.

use crate::schema::type_name;
use arrow::datatypes::DataType;
use regex::{Captures, Regex};
use std::sync::LazyLock;

/// Categories of DataFusion's and Arrow's errors, which say nothing to a user.
const CATEGORIES: [&str; 9] = [
    "Error during planning: ",
    "Execution error: ",
    "Internal error: ",
    "External error: ",
    "Schema error: ",
    "Arrow error: ",
    "Compute error: ",
    "Cast error: ",
    "Invalid argument error: ",
];

/// Arrow's names of types. Those that are words of English as well stand for a type only with
/// brackets behind them.
static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"\b(?:Null|Boolean|U?Int(?:8|16|32|64)|Float(?:16|32|64)|Utf8View|LargeUtf8|Utf8|LargeBinary|BinaryView|FixedSizeBinary|Binary|Date32|Date64|Time32|Time64|Timestamp|Duration|Interval|Decimal(?:32|64|128|256)|LargeListView|ListView|LargeList|FixedSizeList|List|Struct|Map|Dictionary)\b",
    )
    .ok()
});

static STAND_IN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\b(?:__onefold_(stream|watermark|window|whole)_(\d+)|onefold_frame)(\.)?").ok()
});

static NUMERIC: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\b(Numeric|String|Any|Comparable)\(\d+\)").ok());

/// An error of planning as one sentence about the user's query.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.split("\nThis issue was likely caused by").collect::<Vec<_>>();
    let mut whole = text.first().copied().unwrap_or_default().to_owned();
    for rest in text.iter().skip(1) {
        // Behind that plea the text goes on.
        whole.push_str(rest.split_once("/issues").map_or("", |(_, rest)| rest));
    }
    let whole = whole.replace("While expanding wildcard, ", "");
    let whole = whole.split_whitespace().collect::<Vec<_>>().join(" ");
    in_sql(&signature(&whole))
}

/// A text with stand-ins and Arrow's names of types put into the user's words.
#[must_use]
pub fn in_sql(text: &str) -> String {
    types(&stand_ins(&without_categories(text)))
}

/// A plan with its stand-ins put into the user's words.
#[must_use]
pub fn plan_in_sql(text: &str) -> String {
    types(&stand_ins(text))
}

/// Categories stand at the beginning of a text, and behind the colon of another.
fn without_categories(text: &str) -> String {
    let mut rest = text;
    let mut whole = String::with_capacity(text.len());
    loop {
        while let Some(plain) = CATEGORIES.iter().find_map(|category| rest.strip_prefix(category)) {
            rest = plain;
        }
        match rest.split_once(": ") {
            Some((before, after)) => {
                whole.push_str(before);
                whole.push_str(": ");
                rest = after;
            }
            None => {
                whole.push_str(rest);
                return whole;
            }
        }
    }
}

fn stand_ins(text: &str) -> String {
    let Some(pattern) = STAND_IN.as_ref() else { return text.to_owned() };
    let replaced = pattern.replace_all(text, |found: &Captures<'_>| {
        let (kind, number) = (found.get(1), found.get(2));
        let dot = found.get(3).is_some();
        match kind.map(|kind| kind.as_str()) {
            // A column.
            Some("window") => format!("window{}", if dot { "." } else { "" }),
            _ if dot => String::new(),
            Some(kind) => format!("{kind}_{}", number.map_or("", |number| number.as_str())),
            None => "the frame".to_owned(),
        }
    });
    replaced.into_owned()
}

/// `No function matches …` with its candidates, shorter.
fn signature(text: &str) -> String {
    let Some((before, rest)) =
        text.split_once("No function matches the given name and argument types '")
    else {
        return text.to_owned();
    };
    let Some((call, rest)) = rest.split_once("'. You might need to add explicit type casts.")
    else {
        return text.to_owned();
    };
    let mut reason = before.trim().trim_end_matches('.');
    let vague = ["failed to match any signature", "to the signature"];
    if vague.iter().any(|it| reason.contains(it)) {
        reason = "";
    }
    if let Some((_, cause)) = reason.rsplit_once("failed with: ") {
        reason = cause;
    }
    let candidates = rest.trim().strip_prefix("Candidate functions:").unwrap_or_default().trim();
    let candidates = match NUMERIC.as_ref() {
        Some(pattern) => pattern.replace_all(candidates, "$1").into_owned(),
        None => candidates.to_owned(),
    };
    let mut text = match reason {
        "" => format!("there is no {call}"),
        reason => format!("{reason}, in {call}"),
    };
    text.push_str("; cast what it is given");
    if !(candidates.is_empty() || candidates.contains("UserDefined")) {
        text.push_str(", so that it fits: ");
        text.push_str(&candidates.replace(") ", "), "));
    }
    text
}

fn types(text: &str) -> String {
    let Some(pattern) = WORD.as_ref() else { return text.to_owned() };
    let mut whole = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = pattern.find_at(text, at) {
        whole.push_str(text.get(at..found.start()).unwrap_or_default());
        let rest = text.get(found.start()..).unwrap_or_default();
        let after = text.get(found.end()..).unwrap_or_default();
        let before = text.get(..found.start()).unwrap_or_default();
        // A value of the user's that is called like a type.
        let quoted = before.ends_with('\'') && after.starts_with('\'');
        let (name, length) = if quoted { None } else { named(rest, found.len()) }
            .unwrap_or_else(|| (found.as_str().to_owned(), found.len()));
        whole.push_str(&name);
        at = found.start() + length;
    }
    whole.push_str(text.get(at..).unwrap_or_default());
    whole
}

/// The type or value that a text begins with, in SQL, and how much of the text it is.
fn named(text: &str, word: usize) -> Option<(String, usize)> {
    let head = text.get(..word)?;
    let Some(inside) = bracket(text.get(word..)?) else {
        let plain = !matches!(head, "Null");
        let data_type: DataType = head.parse().ok().filter(|_| plain)?;
        return Some((type_name(&data_type), word));
    };
    let length = word + inside.len() + 2;
    if let Ok(data_type) = text.get(..length)?.parse::<DataType>() {
        return Some((type_name(&data_type), length));
    }
    Some((value(head, inside)?, length))
}

/// What stands between a bracket at the beginning and its partner.
fn bracket(text: &str) -> Option<&str> {
    if !text.starts_with('(') {
        return None;
    }
    let mut depth = 0_usize;
    for (place, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.get(1..place);
        }
    }
    None
}

/// A value as DataFusion writes it, `Int64(1)` or `Utf8("a")`, as SQL does.
fn value(head: &str, inside: &str) -> Option<String> {
    if inside == "NULL" {
        return Some(inside.to_owned());
    }
    let quoted = inside.strip_prefix('"').and_then(|inside| inside.strip_suffix('"'));
    match head {
        "Utf8" | "LargeUtf8" | "Utf8View" => Some(format!("'{}'", quoted?)),
        "Date32" | "Date64" => Some(format!("DATE '{}'", quoted.unwrap_or(inside))),
        "Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" => decimal(inside),
        "Boolean" => Some(inside.to_owned()),
        _ if head.contains("Int") || head.starts_with("Float") => Some(inside.to_owned()),
        "Map" | "Struct" => Some(head.to_uppercase()),
        _ => None,
    }
}

/// `Some(15),2,1` is 1.5.
fn decimal(inside: &str) -> Option<String> {
    let (units, rest) = inside.strip_prefix("Some(")?.split_once("),")?;
    let scale: usize = rest.split_once(',')?.1.trim().parse().ok()?;
    let (sign, digits) = match units.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", units),
    };
    if scale == 0 {
        return Some(units.to_owned());
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at_checked(digits.len() - scale)?;
    Some(format!("{sign}{whole}.{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::{in_sql, sentence};

    #[test]
    fn types_are_named_as_sql_names_them() {
        for (text, wanted) in [
            ("cannot coerce Int64 + Utf8View", "cannot coerce BIGINT + STRING"),
            ("Int64 = Timestamp(µs, \"UTC\")", "BIGINT = TIMESTAMP"),
            ("Timestamp(µs) or Date32", "TIMESTAMP_NTZ or DATE"),
            (
                "type List(Int32, field: 'element') is not Struct, Map, or Null",
                "type ARRAY<INT> is not Struct, Map, or Null",
            ),
            ("[Int64, Utf8, Decimal128(10, 2)]", "[BIGINT, STRING, DECIMAL(10,2)]"),
            ("Struct(\"f\": Int32)", "STRUCT<f: INT>"),
            ("count(Int64(1)) = Utf8(\"a\")", "count(1) = 'a'"),
            ("Decimal128(Some(-15),3,2) Float64(1.5)", "-0.15 1.5"),
            ("Boolean(true) Utf8(NULL)", "true NULL"),
            ("to value of Int64 type", "to value of BIGINT type"),
            ("the value 'Int64' is none", "the value 'Int64' is none"),
            ("MyInt64 Int64s Interval", "MyInt64 Int64s Interval"),
            ("Int64(", "BIGINT("),
        ] {
            assert_eq!(in_sql(text), wanted, "{text}");
        }
    }

    #[test]
    fn stand_ins_are_not_shown() {
        for (text, wanted) in [
            ("'__onefold_stream_0.name' or __onefold_stream_12.x", "'name' or x"),
            ("TableScan: __onefold_stream_0", "TableScan: stream_0"),
            ("__onefold_watermark_1.ts = __onefold_whole_0.ts", "ts = ts"),
            ("__onefold_window_1.start, __onefold_window_2", "window.start, window"),
            ("sum(onefold_frame.x)", "sum(x)"),
        ] {
            assert_eq!(in_sql(text), wanted, "{text}");
        }
    }

    #[test]
    fn categories_are_left_out_wherever_they_stand() {
        let text = "rows failed: Arrow error: Compute error: Execution error: too big: x";
        assert_eq!(in_sql(text), "rows failed: too big: x");
        assert_eq!(in_sql("Execution error: [X] bad"), "[X] bad");
    }

    #[test]
    fn a_call_that_fits_no_function_is_said_in_one_sentence() {
        let none = "No function matches the given name and argument types";
        let casts = "You might need to add explicit type casts.";
        let text = format!(
            "Function 'abs' expects Numeric but received String. {none} 'abs(Utf8)'. {casts}\n\t\
             Candidate functions:\n\tabs(Numeric(1))"
        );
        assert_eq!(
            sentence(&text),
            "Function 'abs' expects Numeric but received String, in abs(STRING); cast what it is \
             given, so that it fits: abs(Numeric)"
        );
        let text = format!(
            "Internal error: Function 'substring' failed to match any signature, errors: Error \
             during planning: x.\nThis issue was likely caused by a bug in DataFusion's code. \
             Please help us to resolve this by filing a bug report in our issue tracker: \
             https://github.com/apache/datafusion/issues. {none} 'substring(Int64, Date32)'. \
             {casts}\n\tCandidate functions:\n\tsubstring(str: String, pos: Int64)\n\t\
             substring(str: Binary, pos: Int64)"
        );
        assert_eq!(
            sentence(&text),
            "there is no substring(BIGINT, DATE); cast what it is given, so that it fits: \
             substring(str: String, pos: BIGINT), substring(str: BINARY, pos: BIGINT)"
        );
        let text = format!(
            "Execution error: Function 'concat' user-defined coercion failed with: Error during \
             planning: concat takes texts or arrays, not both. {none} 'concat(Int64)'. {casts}\n\t\
             Candidate functions:\n\tconcat(UserDefined)"
        );
        assert_eq!(
            sentence(&text),
            "concat takes texts or arrays, not both, in concat(BIGINT); cast what it is given"
        );
    }

    #[test]
    fn a_sentence_stands_in_one_line() {
        let text = "no field named nope. Did you mean '__onefold_stream_0.name'?\nValid fields are \
                    __onefold_stream_0.id, __onefold_stream_0.name";
        assert_eq!(
            sentence(text),
            "no field named nope. Did you mean 'name'? Valid fields are id, name"
        );
    }
}
