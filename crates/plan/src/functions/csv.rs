//! Rows of text with separators: what `from_csv` reads and `to_csv` writes.

use super::cast::cast_array;
use super::options::Options;
use super::timestamp_text::{calendar, date_text};
use super::zone::Zone;
use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Date32Type, Fields, TimestampMicrosecondType};
use datafusion::error::{DataFusionError, Result};
use std::sync::Arc;

/// The values of a line; one that is empty and not quoted is NULL.
pub(super) fn tokens(line: &str, separator: char) -> Vec<Option<String>> {
    let mut values = Vec::new();
    let (mut value, mut quoted, mut was_quoted) = (String::new(), false, false);
    let mut rest = line.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '\\' if quoted => value.extend(rest.next()),
            '"' if quoted => quoted = false,
            '"' if value.is_empty() && !was_quoted => (quoted, was_quoted) = (true, true),
            next if next == separator && !quoted => {
                let done = std::mem::take(&mut value);
                values.push((was_quoted || !done.is_empty()).then_some(done));
                was_quoted = false;
            }
            next => value.push(next),
        }
    }
    values.push((was_quoted || !value.is_empty()).then_some(value));
    values
}

/// Each text as a row of columns.
pub(super) fn read(
    texts: &StringArray,
    fields: &Fields,
    options: &Options,
    zone: &Zone,
) -> Result<ArrayRef> {
    // One column gets the text of a line that does not fit, and none of its values.
    let told = fields
        .iter()
        .position(|field| field.name() == &options.corrupt && field.data_type() == &DataType::Utf8);
    let wanted = fields.len().saturating_sub(usize::from(told.is_some()));
    let rows: Vec<Vec<Option<String>>> = texts
        .iter()
        .map(|text| text.map_or_else(Vec::new, |text| tokens(text, options.separator)))
        .collect();
    let mut bad: Vec<bool> = rows
        .iter()
        .zip(texts)
        .map(|(row, text)| text.is_some() && (row.len() != wanted || options.too_long(row)))
        .collect();
    let mut columns = Vec::with_capacity(fields.len());
    for (place, field) in fields.iter().enumerate() {
        if told == Some(place) {
            // Filled in below, when all values have been read.
            columns.push(arrow::array::new_null_array(field.data_type(), texts.len()));
            continue;
        }
        let at = place.saturating_sub(usize::from(told.is_some_and(|told| told < place)));
        let column: StringArray =
            rows.iter().map(|row| row.get(at).and_then(Option::as_deref)).collect();
        let made = typed(&column, field.data_type(), options, zone)?;
        for (row, bad) in bad.iter_mut().enumerate() {
            *bad |= column.is_valid(row) && made.is_null(row);
        }
        columns.push(made);
    }
    options.refuse(&bad, texts, "from_csv")?;
    if let Some(column) = told.and_then(|told| columns.get_mut(told)) {
        let kept = texts.iter().zip(&bad).map(|(text, bad)| text.filter(|_| *bad));
        *column = Arc::new(kept.collect::<StringArray>());
    }
    let nulls = NullBuffer::from_iter(texts.iter().map(|text| text.is_some()));
    let rows = StructArray::try_new_with_length(fields.clone(), columns, Some(nulls), texts.len())?;
    Ok(Arc::new(rows))
}

fn typed(column: &StringArray, to: &DataType, options: &Options, zone: &Zone) -> Result<ArrayRef> {
    let utc = Zone::utc();
    Ok(match (to, &options.date, &options.time) {
        (DataType::Date32, Some(pattern), _) => {
            let days = column.iter().map(|text| {
                i32::try_from(pattern.parse(text?, &utc)?.div_euclid(86_400_000_000)).ok()
            });
            Arc::new(days.collect::<Date32Array>())
        }
        (DataType::Timestamp(_, instant), _, Some(pattern)) => {
            let zone = if instant.is_some() { zone } else { &utc };
            let times = column.iter().map(|text| pattern.parse(text?, zone));
            let times = times.collect::<TimestampMicrosecondArray>();
            Arc::new(times.with_timezone_opt(instant.clone()))
        }
        _ => cast_array(&(Arc::new(column.clone()) as ArrayRef), to, true, zone)?,
    })
}

/// Each struct as a line.
pub(super) fn write(column: &ArrayRef, options: &Options, zone: &Zone) -> Result<ArrayRef> {
    let rows = column.as_struct_opt().ok_or_else(|| {
        DataFusionError::Plan(format!(
            "[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] there is no to_csv({})",
            crate::schema::type_name(column.data_type())
        ))
    })?;
    let columns =
        rows.columns().iter().map(|it| written(it, options, zone)).collect::<Result<Vec<_>>>()?;
    let lines = (0..rows.len()).map(|row| {
        rows.is_valid(row).then(|| {
            let values: Vec<String> = columns
                .iter()
                .map(|column| match column.is_valid(row) {
                    true => escaped(column.value(row), options.separator),
                    false => String::new(),
                })
                .collect();
            values.join(&options.separator.to_string())
        })
    });
    Ok(Arc::new(lines.collect::<StringArray>()))
}

fn written(column: &ArrayRef, options: &Options, zone: &Zone) -> Result<StringArray> {
    let utc = Zone::utc();
    let texts: ArrayRef = match (column.data_type(), &options.date) {
        (DataType::Date32, pattern) => {
            let dates = column.as_primitive::<Date32Type>().iter().map(|days| {
                let days = days?;
                let formatted = pattern.as_ref().and_then(|pattern| {
                    calendar(days)?;
                    pattern.format(i64::from(days).checked_mul(86_400_000_000)?, &utc)
                });
                Some(formatted.unwrap_or_else(|| date_text(days)))
            });
            Arc::new(dates.collect::<StringArray>())
        }
        (DataType::Timestamp(_, instant), _) => {
            let instant = instant.is_some();
            let times = column
                .as_primitive::<TimestampMicrosecondType>()
                .iter()
                .map(|micros| micros.map(|micros| options.time_text(micros, instant, zone)));
            Arc::new(times.collect::<StringArray>())
        }
        _ => cast_array(column, &DataType::Utf8, false, zone)?,
    };
    Ok(texts.as_string::<i32>().clone())
}

/// In quotes where it could not be read again without.
fn escaped(value: &str, separator: char) -> String {
    let special = |c: char| c == separator || ['"', '\n', '\r'].contains(&c);
    if value.is_empty() || value.contains(special) {
        let inner = value.replace('\\', "\\\\").replace('"', "\\\"");
        return format!("\"{inner}\"");
    }
    value.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{escaped, tokens};

    #[test]
    fn a_line_is_read_as_it_is_written() {
        let values = ["a", "x,y", "", "say \"no\"", "back\\slash"];
        let line: Vec<String> = values.iter().map(|value| escaped(value, ',')).collect();
        let read = tokens(&line.join(","), ',');
        assert_eq!(read, values.map(|value| Some(value.to_owned())));
        assert_eq!(tokens("1,,\"\"", ','), [Some("1".to_owned()), None, Some(String::new())]);
    }
}
