//! `df.show()`: rows as a table of text, laid out as Spark does.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::relation;
use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use spark_connect_proto::{HtmlString, ShowString};
use std::fmt::Write;
use std::sync::Arc;

/// Narrowest column, in characters.
const WIDTH_MIN: usize = 3;

struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Whether there were more rows than shown.
    more: bool,
}

/// The result of `show`: one row with one text.
pub(crate) fn show_string(
    session: &ClientSession,
    input: LogicalPlan,
    shown: &ShowString,
) -> Outcome<LogicalPlan> {
    let wanted = usize::try_from(shown.num_rows).unwrap_or(0);
    let truncate = usize::try_from(shown.truncate).unwrap_or(0);
    let table = cells(session, input, wanted, truncate)?;
    let text = if shown.vertical {
        vertical(&table, wanted)
    } else {
        horizontal(&table, truncate, wanted)
    };
    one_text("show_string", text)
}

/// The result of a notebook's view of a frame.
pub(crate) fn html_string(
    session: &ClientSession,
    input: LogicalPlan,
    shown: &HtmlString,
) -> Outcome<LogicalPlan> {
    let wanted = usize::try_from(shown.num_rows).unwrap_or(0);
    let truncate = usize::try_from(shown.truncate).unwrap_or(0);
    let table = cells(session, input, wanted, truncate)?;
    let mut text = String::from("<table border='1'>\n");
    let row = |cells: &[String], tag: &str| {
        let cells: Vec<String> =
            cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{}</tr>\n", cells.concat())
    };
    text.push_str(&row(&table.header, "th"));
    for cells in &table.rows {
        text.push_str(&row(cells, "td"));
    }
    text.push_str("</table>\n");
    if table.more {
        text.push_str(&only_top(wanted));
    }
    one_text("html_string", text)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn one_text(name: &str, text: String) -> Outcome<LogicalPlan> {
    let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8, false)]));
    let column = Arc::new(StringArray::from(vec![text]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column])
        .map_err(|error| Failure::invalid(error.to_string()))?;
    relation::of_batches(schema, vec![batch])
}

fn cells(
    session: &ClientSession,
    input: LogicalPlan,
    wanted: usize,
    truncate: usize,
) -> Outcome<Table> {
    let limited = LogicalPlanBuilder::from(onefold_plan::stream::shown(input)?)
        .limit(0, Some(wanted.saturating_add(1)))
        .and_then(LogicalPlanBuilder::build)?;
    // As in Spark, only values are cut.
    let header = limited.schema().fields().iter().map(|it| cut(it.name(), 0)).collect();
    let batches =
        session.engine.frame(limited).collect().map_err(|error| Failure::execution(&error))?;
    let mut rows = Vec::new();
    let zone = session.engine.conf().get("spark.sql.session.timeZone").unwrap_or_default();
    for batch in &batches {
        let columns = onefold_plan::functions::civil_times(batch.columns(), &zone)?;
        for row in 0..batch.num_rows() {
            let mut cells = Vec::with_capacity(batch.num_columns());
            for column in &columns {
                cells.push(cut(&cell(column.as_ref(), row)?, truncate));
            }
            rows.push(cells);
        }
    }
    let more = rows.len() > wanted;
    rows.truncate(wanted);
    Ok(Table { header, rows, more })
}

fn cut(text: &str, truncate: usize) -> String {
    let text = text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
    if truncate == 0 || text.chars().count() <= truncate {
        return text;
    }
    if truncate < 4 {
        return text.chars().take(truncate).collect();
    }
    let kept: String = text.chars().take(truncate - 3).collect();
    format!("{kept}...")
}

/// A value as Spark's cast to text writes it.
fn cell(array: &dyn Array, row: usize) -> Outcome<String> {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return Ok("NULL".to_owned());
    }
    let wrong = |error: arrow::error::ArrowError| Failure::invalid(error.to_string());
    Ok(match array.data_type() {
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().value(row);
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            format!("[{}]", hex.join(" "))
        }
        DataType::List(_) => {
            let values = array.as_list::<i32>().value(row);
            let mut parts = Vec::with_capacity(values.len());
            for place in 0..values.len() {
                parts.push(cell(values.as_ref(), place)?);
            }
            format!("[{}]", parts.join(", "))
        }
        DataType::Struct(_) => {
            let mut parts = Vec::new();
            for column in array.as_struct().columns() {
                parts.push(cell(column.as_ref(), row)?);
            }
            format!("{{{}}}", parts.join(", "))
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let mut parts = Vec::new();
            if let [keys, values] = entries.columns() {
                for place in 0..entries.len() {
                    let key = cell(keys.as_ref(), place)?;
                    parts.push(format!("{key} -> {}", cell(values.as_ref(), place)?));
                }
            }
            format!("{{{}}}", parts.join(", "))
        }
        DataType::Float64 => {
            number(array.as_primitive::<arrow::datatypes::Float64Type>().value(row))
        }
        DataType::Float32 => {
            let value = array.as_primitive::<arrow::datatypes::Float32Type>().value(row);
            number(value.to_string().parse().unwrap_or(f64::from(value)))
        }
        DataType::Timestamp(..) => {
            let options = FormatOptions::new()
                .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
                .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f"));
            let formatter = ArrayFormatter::try_new(array, &options).map_err(wrong)?;
            let text = formatter.value(row).to_string();
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
        _ => {
            let options = FormatOptions::new();
            let formatter = ArrayFormatter::try_new(array, &options).map_err(wrong)?;
            formatter.value(row).to_string()
        }
    })
}

/// A double as Java writes it.
fn number(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e7).contains(&size) {
        let text = format!("{value:E}");
        return match text.split_once('E') {
            Some((digits, power)) if !digits.contains('.') => format!("{digits}.0E{power}"),
            _ => text,
        };
    }
    let text = value.to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

fn only_top(wanted: usize) -> String {
    let rows = if wanted == 1 { "row" } else { "rows" };
    format!("only showing top {wanted} {rows}")
}

/// How many cells of a terminal a text takes: wide characters of East Asia take two.
fn width(text: &str) -> usize {
    text.chars()
        .map(|c| {
            let wide = matches!(u32::from(c),
                0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff
                | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6);
            if wide { 2 } else { 1 }
        })
        .sum()
}

fn horizontal(table: &Table, truncate: usize, wanted: usize) -> String {
    let mut widths: Vec<usize> =
        table.header.iter().map(|name| width(name).max(WIDTH_MIN)).collect();
    for row in &table.rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(width(cell));
        }
    }
    let line: String = std::iter::once("+".to_owned())
        .chain(widths.iter().map(|it| "-".repeat(*it) + "+"))
        .collect();
    let row = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, widest)| {
            let blank = " ".repeat(widest.saturating_sub(width(cell)));
            if truncate > 0 { format!("{blank}{cell}|") } else { format!("{cell}{blank}|") }
        });
        std::iter::once("|".to_owned()).chain(cells).collect::<String>()
    };
    let mut text = format!("{line}\n{}\n{line}\n", row(&table.header));
    for cells in &table.rows {
        let _ = writeln!(text, "{}", row(cells));
    }
    let _ = writeln!(text, "{line}");
    if table.more {
        text.push_str(&only_top(wanted));
    }
    text
}

fn vertical(table: &Table, wanted: usize) -> String {
    let names = table.header.iter().map(|it| width(it)).max().unwrap_or(0).max(WIDTH_MIN);
    let values = table
        .rows
        .iter()
        .flat_map(|row| row.iter().map(|it| width(it)))
        .max()
        .unwrap_or(0)
        .max(WIDTH_MIN);
    let mut text = String::new();
    for (place, cells) in table.rows.iter().enumerate() {
        let title = format!("-RECORD {place}");
        let _ = writeln!(
            text,
            "{title}{}",
            "-".repeat((names + values + 5).saturating_sub(title.len()))
        );
        for (name, cell) in table.header.iter().zip(cells) {
            let blank = " ".repeat(names.saturating_sub(width(name)));
            let behind = " ".repeat(values.saturating_sub(width(cell)));
            let _ = writeln!(text, " {name}{blank} | {cell}{behind} ");
        }
    }
    if table.rows.is_empty() {
        text.push_str("(0 rows)\n");
    }
    if table.more {
        let _ = writeln!(text, "{}", only_top(wanted));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Table, cut, horizontal, number};

    #[test]
    fn a_table_is_laid_out_as_spark_does() {
        let table = Table {
            header: vec!["id".to_owned(), "name".to_owned()],
            rows: vec![vec!["1".to_owned(), "é".to_owned()]],
            more: true,
        };
        let wanted = "+---+----+\n| id|name|\n+---+----+\n|  1|   é|\n+---+----+\n\
                      only showing top 1 row";
        assert_eq!(horizontal(&table, 20, 1), wanted);
    }

    #[test]
    fn long_values_are_cut_and_doubles_look_like_javas() {
        assert_eq!(cut("abcdefghijklmnopqrstuvwxyz", 20), "abcdefghijklmnopq...");
        assert_eq!(number(1.0), "1.0");
        assert_eq!(number(1e10), "1.0E10");
        assert_eq!(number(0.0001), "1.0E-4");
    }
}
