//! What is sent: the bodies of requests, from rows.

use crate::file_sink::JsonObjects;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use bytes::Bytes;
use onefold_types::{Error, Result};
use std::sync::Arc;

/// How several rows make one body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFormat {
    /// One row as it is; several as a JSON array.
    Json,
    /// A line for each row.
    Ndjson,
}

/// One request's worth of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// The place of its first row in the partition, from 0.
    pub(super) first: u64,
    pub(super) rows: u64,
    pub(super) body: Bytes,
}

/// What a row becomes.
#[derive(Debug)]
enum RowBody {
    /// The whole of it as JSON.
    Object(JsonObjects),
    /// The text or bytes of one column.
    Column(usize),
}

/// Makes bodies of the rows of a schema.
#[derive(Debug)]
pub(super) struct Bodies {
    row: RowBody,
    per_request: u64,
    format: BodyFormat,
}

impl Bodies {
    /// # Errors
    /// Invalid: there is no such column, or its type is no text.
    pub(super) fn new(
        schema: &SchemaRef,
        column: Option<&str>,
        (per_request, format): (u64, BodyFormat),
        time_zone: &str,
    ) -> Result<Bodies> {
        let row = match column {
            None => RowBody::Object(JsonObjects::new(schema, time_zone)?),
            Some(name) => RowBody::Column(body_column(schema, name)?),
        };
        Ok(Bodies { row, per_request, format })
    }

    /// Begins a partition.
    pub(super) fn partition(&self) -> Packer<'_> {
        Packer { bodies: self, next: 0, open: Vec::new(), rows: 0 }
    }

    fn each(
        &self,
        rows: &RecordBatch,
        first: u64,
        act: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let place = match &self.row {
            RowBody::Object(objects) => return objects.each(rows, act),
            RowBody::Column(place) => *place,
        };
        let column = rows.columns().get(place).ok_or_else(|| {
            Error::internal(format!("rows have no column {place}, which their schema has"))
        })?;
        let bytes = as_bytes(column)?;
        let bytes = bytes.as_binary::<i32>();
        for row in 0..bytes.len() {
            if bytes.is_null(row) {
                let row = first.saturating_add(row as u64);
                return Err(Error::invalid(format!(
                    "the body of row {row} is NULL; filter such rows out"
                )));
            }
            act(bytes.value(row))?;
        }
        Ok(())
    }
}

fn as_bytes(column: &ArrayRef) -> Result<ArrayRef> {
    let text = match column.data_type() {
        DataType::Utf8View => arrow::compute::cast(column, &DataType::Utf8),
        _ => Ok(Arc::clone(column)),
    };
    let bytes = text.and_then(|text| arrow::compute::cast(&text, &DataType::Binary));
    bytes.map_err(|error| Error::internal("a body cannot be read as bytes").because(error))
}

fn body_column(schema: &SchemaRef, name: &str) -> Result<usize> {
    let places = schema.fields().iter().enumerate();
    let mut found = places.filter(|(_, field)| field.name().eq_ignore_ascii_case(name));
    let (place, field) = found.next().ok_or_else(|| {
        Error::invalid(format!("there is no column `{name}`, which option bodyColumn names"))
    })?;
    match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(place),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Ok(place),
        other => Err(Error::invalid(format!(
            "column `{name}`, which option bodyColumn names, is of type {other}; it must be a text or \
             binary: use to_json or a cast"
        ))),
    }
}

/// Packs the rows of a partition into groups, whatever pieces they come in.
#[derive(Debug)]
pub(super) struct Packer<'a> {
    bodies: &'a Bodies,
    /// Rows so far.
    next: u64,
    /// The body of the group under way.
    open: Vec<u8>,
    rows: u64,
}

impl Packer<'_> {
    /// The groups that these rows fill.
    ///
    /// # Errors
    /// Invalid: a row has no body.
    pub(super) fn pack(&mut self, rows: &RecordBatch) -> Result<Vec<Group>> {
        let bodies = self.bodies;
        let mut full = Vec::new();
        bodies.each(rows, self.next, &mut |body: &[u8]| {
            self.add(body);
            if self.rows >= bodies.per_request {
                full.extend(self.close());
            }
            Ok(())
        })?;
        Ok(full)
    }

    fn add(&mut self, body: &[u8]) {
        let array = self.bodies.format == BodyFormat::Json && self.bodies.per_request > 1;
        match (array, self.rows) {
            (true, 0) => self.open.push(b'['),
            (true, _) => self.open.push(b','),
            (false, _) => {}
        }
        self.open.extend_from_slice(body);
        if self.bodies.format == BodyFormat::Ndjson {
            self.open.push(b'\n');
        }
        self.rows += 1;
        self.next += 1;
    }

    /// The group under way, if it has any row.
    pub(super) fn close(&mut self) -> Option<Group> {
        if self.rows == 0 {
            return None;
        }
        if self.bodies.format == BodyFormat::Json && self.bodies.per_request > 1 {
            self.open.push(b']');
        }
        let rows = std::mem::take(&mut self.rows);
        let body = Bytes::from(std::mem::take(&mut self.open));
        Some(Group { first: self.next.saturating_sub(rows), rows, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{Field, Schema};

    fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
        let id: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone()));
        let text: ArrayRef =
            Arc::new(StringArray::from_iter(ids.map(|id| (id % 4 != 3).then(|| format!("é{id}")))));
        let schema = Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("t", DataType::Utf8, true),
        ]);
        RecordBatch::try_new(Arc::new(schema), vec![id, text]).unwrap()
    }

    fn packed(
        column: Option<&str>,
        how: (u64, BodyFormat),
        pieces: &[std::ops::Range<i64>],
    ) -> Vec<(u64, u64, String)> {
        let bodies = Bodies::new(&rows(0..0).schema(), column, how, "UTC").unwrap();
        let mut packer = bodies.partition();
        let mut groups = Vec::new();
        for piece in pieces {
            groups.extend(packer.pack(&rows(piece.clone())).unwrap());
        }
        groups.extend(packer.close());
        let text = |body: &Bytes| String::from_utf8(body.to_vec()).unwrap();
        groups.iter().map(|group| (group.first, group.rows, text(&group.body))).collect()
    }

    #[test]
    fn a_row_is_an_object_as_to_json_makes_it() {
        let groups = packed(None, (1, BodyFormat::Json), std::slice::from_ref(&(2..4)));
        assert_eq!(groups[0], (0, 1, r#"{"id":2,"t":"é2"}"#.to_owned()));
        assert_eq!(groups[1], (1, 1, r#"{"id":3}"#.to_owned()));
    }

    #[test]
    fn groups_do_not_depend_on_the_pieces_that_rows_come_in() {
        let whole = packed(None, (4, BodyFormat::Json), std::slice::from_ref(&(0..10)));
        for pieces in
            [vec![0..1, 1..10], vec![0..7, 7..7, 7..10], (0..10).map(|n| n..n + 1).collect()]
        {
            assert_eq!(packed(None, (4, BodyFormat::Json), &pieces), whole);
        }
        let places: Vec<_> = whole.iter().map(|(first, rows, _)| (*first, *rows)).collect();
        assert_eq!(places, [(0, 4), (4, 4), (8, 2)]);
        assert_eq!(whole[2].2, r#"[{"id":8,"t":"é8"},{"id":9,"t":"é9"}]"#);
        let lines = packed(Some("T"), (2, BodyFormat::Ndjson), std::slice::from_ref(&(0..3)));
        assert_eq!(lines[0].2, "é0\né1\n");
        assert_eq!(lines[1].2, "é2\n");
    }

    #[test]
    fn a_body_that_is_null_or_no_text_is_refused_by_name() {
        let schema = rows(0..0).schema();
        let how = (1, BodyFormat::Json);
        let error = Bodies::new(&schema, Some("id"), how, "UTC").unwrap_err().to_string();
        assert!(error.contains("`id`"), "{error}");
        assert!(Bodies::new(&schema, Some("x"), how, "UTC").is_err());
        let bodies = Bodies::new(&schema, Some("t"), how, "UTC").unwrap();
        let mut packer = bodies.partition();
        packer.pack(&rows(0..2)).unwrap();
        let error = packer.pack(&rows(2..5)).unwrap_err().to_string();
        assert!(error.contains("row 3 "), "{error}");
    }
}
