//! Functions on texts that DataFusion lacks or means otherwise.

use super::simple::Simple;
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, Int32Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use regex::Regex;
use std::sync::Arc;

const TEXT: Option<DataType> = Some(DataType::Utf8);
const INT: Option<DataType> = Some(DataType::Int32);

static TEXT_3: [Option<DataType>; 3] = [TEXT, TEXT, TEXT];
static TEXT_2: [Option<DataType>; 2] = [TEXT, TEXT];
static TEXT_TEXT_INT: [Option<DataType>; 3] = [TEXT, TEXT, INT];
static TEXT_INT_TEXT: [Option<DataType>; 3] = [TEXT, INT, TEXT];

pub(super) fn functions() -> Vec<ScalarUDF> {
    let text = DataType::Utf8;
    let pad = |name, body| {
        Simple { name, arguments: &TEXT_INT_TEXT, optional: 1, returns: DataType::Utf8, body }.udf()
    };
    let number = |name, arguments, optional, body| {
        Simple { name, arguments, optional, returns: DataType::Int32, body }.udf()
    };
    let list = DataType::List(Arc::new(Field::new("element", DataType::Utf8, true)));
    vec![
        Simple {
            name: "regexp_replace",
            arguments: &TEXT_3,
            optional: 0,
            returns: text.clone(),
            body: regexp_replace,
        }
        .udf(),
        Simple {
            name: "regexp_extract",
            arguments: &TEXT_TEXT_INT,
            optional: 1,
            returns: text,
            body: regexp_extract,
        }
        .udf(),
        Simple {
            name: "split",
            arguments: &TEXT_TEXT_INT,
            optional: 1,
            returns: list,
            body: split,
        }
        .udf(),
        number("instr", &TEXT_2, 0, |columns| positions(columns, 0, 1)),
        number("locate", &TEXT_TEXT_INT, 1, |columns| positions(columns, 1, 0))
            .with_aliases(["position"]),
        pad("lpad", |columns| padded(columns, true)),
        pad("rpad", |columns| padded(columns, false)),
    ]
}

fn text(columns: &[ArrayRef], place: usize) -> Result<&StringArray> {
    columns
        .get(place)
        .map(|column| column.as_string::<i32>())
        .ok_or_else(|| DataFusionError::Internal("an argument is missing".to_owned()))
}

/// The expression of the row before, since it is the same for all rows as a rule.
#[derive(Default)]
struct Cached {
    known: Option<(String, Regex)>,
}

impl Cached {
    fn of(&mut self, pattern: &str) -> Result<&Regex> {
        if self.known.as_ref().is_none_or(|(known, _)| known != pattern) {
            self.known = None;
        }
        match &mut self.known {
            Some((_, regex)) => Ok(regex),
            empty => {
                let regex = Regex::new(pattern).map_err(|error| {
                    DataFusionError::Execution(format!(
                        "the regular expression `{pattern}` is not valid (look-around and \
                         back-references are not supported): {error}"
                    ))
                })?;
                Ok(&empty.insert((pattern.to_owned(), regex)).1)
            }
        }
    }
}

/// Replaces all matches; `$1` is a group, as in Java.
fn regexp_replace(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, patterns, replacements) = (text(columns, 0)?, text(columns, 1)?, text(columns, 2)?);
    let mut cached = Cached::default();
    let mut results = Vec::with_capacity(texts.len());
    for ((value, pattern), replacement) in texts.iter().zip(patterns).zip(replacements) {
        results.push(match (value, pattern, replacement) {
            (Some(value), Some(pattern), Some(replacement)) => {
                let replacement = java_replacement(replacement);
                let regex = cached.of(pattern)?;
                Some(regex.replace_all(value, replacement.as_str()).into_owned())
            }
            _ => None,
        });
    }
    Ok(Arc::new(StringArray::from(results)))
}

/// Java's `$1x` is group 1 and an `x`; the regex crate wants `${1}x`. `\$` is a plain `$`.
fn java_replacement(replacement: &str) -> String {
    let mut result = String::new();
    let mut chars = replacement.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('$') => result.push_str("$$"),
                Some(other) => result.push(other),
                None => {}
            },
            '$' => {
                let mut group = String::new();
                while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                    group.push(digit);
                }
                match group.is_empty() {
                    true => result.push('$'),
                    false => result.push_str(&format!("${{{group}}}")),
                }
            }
            other => result.push(other),
        }
    }
    result
}

/// The group of the first match (group 1 when not given); an empty text where nothing matches.
fn regexp_extract(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, patterns) = (text(columns, 0)?, text(columns, 1)?);
    let groups = columns.get(2).map(|column| column.as_primitive::<Int32Type>());
    let mut cached = Cached::default();
    let mut results = Vec::with_capacity(texts.len());
    for (row, (value, pattern)) in texts.iter().zip(patterns).enumerate() {
        let group = match groups {
            Some(groups) => groups.is_valid(row).then(|| groups.value(row)),
            None => Some(1),
        };
        results.push(match (value, pattern, group) {
            (Some(value), Some(pattern), Some(group)) => {
                let regex = cached.of(pattern)?;
                let place = usize::try_from(group).unwrap_or(usize::MAX);
                if place >= regex.captures_len() {
                    return Err(DataFusionError::Execution(format!(
                        "[INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX] regexp_extract asks for group {group} of \
                         `{pattern}`, which has {}",
                        regex.captures_len() - 1
                    )));
                }
                let found = regex.captures(value).and_then(|found| found.get(place));
                Some(found.map_or(String::new(), |found| found.as_str().to_owned()))
            }
            _ => None,
        });
    }
    Ok(Arc::new(StringArray::from(results)))
}

/// Splits at a regular expression. With a limit above 0 at most so many parts, the last with the
/// rest.
fn split(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, patterns) = (text(columns, 0)?, text(columns, 1)?);
    let limits = columns.get(2).map(|column| column.as_primitive::<Int32Type>());
    let mut cached = Cached::default();
    let field = Field::new("element", DataType::Utf8, true);
    let mut lists = ListBuilder::new(StringBuilder::new()).with_field(field);
    for (row, (value, pattern)) in texts.iter().zip(patterns).enumerate() {
        let (Some(value), Some(pattern)) = (value, pattern) else {
            lists.append(false);
            continue;
        };
        let limit = limits.filter(|limits| limits.is_valid(row)).map_or(-1, |l| l.value(row));
        for part in parts(cached.of(pattern)?, value, limit) {
            lists.values().append_value(part);
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

fn parts<'t>(regex: &Regex, value: &'t str, limit: i32) -> Vec<&'t str> {
    let most = usize::try_from(limit).ok().filter(|most| *most > 0).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let mut start = 0;
    for found in regex.find_iter(value) {
        if parts.len() + 1 >= most {
            break;
        }
        // An empty match at the beginning gives no empty first part, as in Java.
        if found.end() == 0 || (found.is_empty() && found.start() == value.len()) {
            continue;
        }
        parts.push(value.get(start..found.start()).unwrap_or_default());
        start = found.end();
    }
    parts.push(value.get(start..).unwrap_or_default());
    parts
}

/// The place of a text in another, from 1; 0 where it is not.
fn positions(columns: &[ArrayRef], within: usize, wanted: usize) -> Result<ArrayRef> {
    let (texts, parts) = (text(columns, within)?, text(columns, wanted)?);
    let starts = columns.get(2).map(|column| column.as_primitive::<Int32Type>());
    let mut places = Vec::with_capacity(texts.len());
    for (row, (value, part)) in texts.iter().zip(parts).enumerate() {
        let start = match starts {
            Some(starts) => starts.is_valid(row).then(|| starts.value(row)),
            None => Some(1),
        };
        places.push(match (value, part, start) {
            (Some(value), Some(part), Some(start)) => Some(position(value, part, start)),
            _ => None,
        });
    }
    Ok(Arc::new(Int32Array::from(places)))
}

fn position(value: &str, part: &str, start: i32) -> i32 {
    let Some(skip) = start.checked_sub(1).and_then(|skip| usize::try_from(skip).ok()) else {
        return 0;
    };
    let offset = match skip {
        0 => Some(0),
        _ => value.char_indices().nth(skip).map(|(offset, _)| offset),
    };
    let found = offset.and_then(|offset| {
        value.get(offset..)?.find(part).map(|found| value[..offset + found].chars().count() + 1)
    });
    found.and_then(|place| i32::try_from(place).ok()).unwrap_or(0)
}

/// Longest text that padding makes, in characters.
const PADDED_MAX: usize = 1 << 20;

fn padded(columns: &[ArrayRef], left: bool) -> Result<ArrayRef> {
    let texts = text(columns, 0)?;
    let lengths = columns.get(1).map(|column| column.as_primitive::<Int32Type>().clone());
    let lengths = lengths.unwrap_or_else(|| Int32Array::from(vec![None; texts.len()]));
    let pads = columns.get(2).map(|column| column.as_string::<i32>());
    let mut results = Vec::with_capacity(texts.len());
    for (row, (value, length)) in texts.iter().zip(&lengths).enumerate() {
        let pad = match pads {
            Some(pads) => pads.is_valid(row).then(|| pads.value(row)),
            None => Some(" "),
        };
        let (Some(value), Some(length), Some(pad)) = (value, length, pad) else {
            results.push(None);
            continue;
        };
        let length = usize::try_from(length).unwrap_or(0);
        if length > PADDED_MAX {
            return Err(DataFusionError::Execution(format!(
                "padding to {length} characters is past the limit of {PADDED_MAX}"
            )));
        }
        let own = value.chars().count();
        let fill: String = pad.chars().cycle().take(length.saturating_sub(own)).collect();
        let cut: String = value.chars().take(length).collect();
        results.push(Some(if left { format!("{fill}{cut}") } else { format!("{cut}{fill}") }));
    }
    Ok(Arc::new(StringArray::from(results)))
}
