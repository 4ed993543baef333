use super::*;
use arrow::array::{
    BinaryArray, BinaryBuilder, BinaryViewArray, Int64Array, ListBuilder, StringArray,
    StringBuilder, StringViewArray, StructBuilder,
};
use arrow::datatypes::{Field, Fields};
use std::sync::Arc;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn header_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ])
}

type Header<'a> = (Option<&'a str>, Option<&'a [u8]>);

/// One row a list.
fn headers(rows: &[Option<Vec<Header<'_>>>]) -> ArrayRef {
    let fields: Vec<Box<dyn arrow::array::ArrayBuilder>> =
        vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new())];
    let mut lists = ListBuilder::new(StructBuilder::new(header_fields(), fields));
    for row in rows {
        for (name, value) in row.iter().flatten() {
            let item = lists.values();
            item.field_builder::<StringBuilder>(0).unwrap().append_option(*name);
            item.field_builder::<BinaryBuilder>(1).unwrap().append_option(*value);
            item.append(true);
        }
        lists.append(row.is_some());
    }
    Arc::new(lists.finish())
}

#[test]
fn null_empty_and_given_parts_of_a_record_stay_apart() {
    let batch = batch(vec![
        ("key", Arc::new(StringArray::from(vec![None, Some(""), Some("k")]))),
        ("value", Arc::new(BinaryArray::from(vec![None, Some(&b""[..]), Some(&b"v"[..])]))),
        ("partition", Arc::new(Int32Array::from(vec![None, Some(0), Some(7)]))),
        (
            "headers",
            headers(&[
                None,
                Some(vec![]),
                Some(vec![
                    (Some("h"), None),
                    (Some("h"), Some(&b""[..])),
                    (Some("h"), Some(&b"x"[..])),
                    (Some(""), Some(&b"\0"[..])),
                ]),
            ]),
        ),
    ]);
    let columns = Columns::of(&batch.schema(), Some("t")).unwrap();
    let rows = columns.rows(&batch).unwrap();
    let mut room = Vec::new();
    let first = rows.record(0, &mut room).unwrap();
    assert_eq!((first.key, first.value, first.partition), (None, None, None));
    assert!(first.headers.is_empty());
    let second = rows.record(1, &mut room).unwrap();
    assert_eq!(
        (second.key, second.value, second.partition),
        (Some(&b""[..]), Some(&b""[..]), Some(0))
    );
    let third = rows.record(2, &mut room).unwrap();
    assert_eq!((third.topic, third.partition), ("t", Some(7)));
    let wanted: [(&str, Option<&[u8]>); 4] =
        [("h", None), ("h", Some(b"")), ("h", Some(b"x")), ("", Some(b"\0"))];
    assert_eq!(third.headers, wanted);
}

#[test]
fn option_topic_wins_over_the_column_and_a_null_topic_is_refused() {
    let batch = batch(vec![
        ("topic", Arc::new(StringViewArray::from(vec![Some("Upper.Case"), None]))),
        ("value", Arc::new(BinaryViewArray::from(vec![Some(&b"a"[..]), Some(&b"b"[..])]))),
    ]);
    let mut room = Vec::new();
    let fixed = Columns::of(&batch.schema(), Some("t")).unwrap();
    assert_eq!(fixed.rows(&batch).unwrap().record(1, &mut room).unwrap().topic, "t");
    let by_column = Columns::of(&batch.schema(), None).unwrap();
    let rows = by_column.rows(&batch).unwrap();
    assert_eq!(rows.record(0, &mut room).unwrap().topic, "Upper.Case");
    let error = rows.record(1, &mut room).unwrap_err();
    assert!(error.to_string().starts_with("null topic present in the data"), "{error}");
}

#[test]
fn columns_that_kafka_has_no_use_for_are_refused_in_sparks_words() {
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let refused = |columns: Vec<(&str, ArrayRef)>, topic| {
        Columns::of(&batch(columns).schema(), topic).unwrap_err().to_string()
    };
    let error = refused(vec![("value", Arc::clone(&text))], None);
    assert!(
        error.contains("topic option required when no 'topic' attribute is present"),
        "{error}"
    );
    let error = refused(vec![("id", Arc::clone(&text))], Some("t"));
    assert_eq!(error, "required attribute 'value' not found");
    for name in ["value", "key", "headers", "partition"] {
        let mut columns = vec![(name, Arc::clone(&number))];
        if name != "value" {
            columns.push(("value", Arc::clone(&text)));
        }
        let error = refused(columns, Some("t"));
        assert!(error.contains(&format!("{name} attribute unsupported type bigint")), "{error}");
    }
    let error = refused(vec![("topic", number), ("value", text)], None);
    assert!(error.contains("topic attribute unsupported type bigint"), "{error}");
}

#[test]
fn a_header_without_a_key_is_refused_and_sliced_rows_read_their_own_headers() {
    let all = headers(&[
        Some(vec![(Some("a"), None)]),
        Some(vec![(Some("b"), None), (Some("c"), None)]),
        Some(vec![(None, None)]),
    ]);
    let text: ArrayRef = Arc::new(StringArray::from(vec!["1", "2", "3"]));
    let batch = batch(vec![("value", text), ("headers", all)]).slice(1, 2);
    let columns = Columns::of(&batch.schema(), Some("t")).unwrap();
    let rows = columns.rows(&batch).unwrap();
    let mut room = Vec::new();
    let first = rows.record(0, &mut room).unwrap();
    assert_eq!(first.headers, [("b", None), ("c", None)]);
    let error = rows.record(1, &mut room).unwrap_err();
    assert!(error.to_string().contains("a header has no key"), "{error}");
}
