//! Values there and back.

use super::{Rows, Value, batch_of_values, to_value};
use arrow::array::{ArrayRef, Decimal128Array, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

fn schema(fields: Vec<(&str, DataType)>) -> SchemaRef {
    let fields = fields.into_iter().map(|(name, kind)| Field::new(name, kind, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn back<T: DeserializeOwned>(batch: &RecordBatch) -> Vec<onefold_types::Result<T>> {
    Rows::new(batch, 0..batch.num_rows()).collect()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Colour {
    Red,
    Blue,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Inner {
    a: i32,
    b: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct All {
    flag: bool,
    tiny: i8,
    large: u64,
    single: f32,
    double: f64,
    text: String,
    bytes: Vec<u8>,
    list: Vec<Option<i64>>,
    inner: Inner,
    map: BTreeMap<i64, Inner>,
    colour: Colour,
    time: i64,
    #[serde(with = "rfc_3339")]
    at: chrono::DateTime<chrono::Utc>,
    nothing: Option<i64>,
    pair: (i64, String),
}

/// A time as text, which is what chrono's own feature for serde writes too. That feature would
/// change how every crate of Arrow is built.
mod rfc_3339 {
    use chrono::{DateTime, SecondsFormat, Utc};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(at: &DateTime<Utc>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&at.to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<DateTime<Utc>, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

fn all_schema() -> SchemaRef {
    let inner = || {
        DataType::Struct(
            vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8View, true)]
                .into(),
        )
    };
    let entries = Field::new(
        "entries",
        DataType::Struct(
            vec![Field::new("key", DataType::Int64, false), Field::new("value", inner(), true)]
                .into(),
        ),
        false,
    );
    let pair = vec![
        Field::new("first", DataType::Int64, true),
        Field::new("second", DataType::Utf8, true),
    ];
    schema(vec![
        ("flag", DataType::Boolean),
        ("tiny", DataType::Int8),
        ("large", DataType::UInt64),
        ("single", DataType::Float32),
        ("double", DataType::Float64),
        ("text", DataType::LargeUtf8),
        ("bytes", DataType::Binary),
        ("list", DataType::new_list(DataType::Int64, true)),
        ("inner", inner()),
        ("map", DataType::Map(Arc::new(entries), false)),
        ("colour", DataType::Utf8),
        ("time", DataType::Timestamp(TimeUnit::Millisecond, None)),
        ("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        ("nothing", DataType::Int64),
        ("pair", DataType::Struct(pair.into())),
    ])
}

fn example(double: f64) -> All {
    All {
        flag: true,
        tiny: -5,
        large: u64::MAX,
        single: 0.1,
        double,
        text: "é\u{0}".to_owned(),
        bytes: vec![0, 255],
        list: vec![Some(1), None],
        inner: Inner { a: 1, b: None },
        map: BTreeMap::from([(-1, Inner { a: 2, b: Some("b".to_owned()) })]),
        colour: Colour::Blue,
        time: -1,
        at: chrono::DateTime::from_timestamp(-5, 1_000).unwrap(),
        nothing: None,
        pair: (7, "seven".to_owned()),
    }
}

#[test]
fn values_of_every_kind_come_back_as_they_were() {
    let given = [example(0.1 + 0.2), example(f64::NEG_INFINITY), example(-0.0)];
    let rows = given.iter().map(|row| to_value(row).unwrap()).collect();
    let batch = batch_of_values(&all_schema(), rows, "a row").unwrap();
    let read: Vec<All> = back(&batch).into_iter().map(Result::unwrap).collect();
    assert_eq!(read, given);
    assert!(read[2].double.is_sign_negative());
}

#[test]
fn nan_survives() {
    let batch =
        batch_of_values(&all_schema(), vec![to_value(&example(f64::NAN)).unwrap()], "a row")
            .unwrap();
    assert!(back::<All>(&batch).remove(0).unwrap().double.is_nan());
}

#[test]
fn a_row_of_one_column_is_its_value_too() {
    let one = schema(vec![("n", DataType::Int64)]);
    let rows = vec![to_value(&5).unwrap(), Value::Null, to_value(&(6,)).unwrap()];
    let batch = batch_of_values(&one, rows, "a row").unwrap();
    let read: Vec<Option<i64>> = back(&batch).into_iter().map(Result::unwrap).collect();
    assert_eq!(read, [Some(5), None, Some(6)]);
    let read: Vec<(Option<i64>,)> = back(&batch).into_iter().map(Result::unwrap).collect();
    assert_eq!(read, [(Some(5),), (None,), (Some(6),)]);
    let lists = schema(vec![("l", DataType::new_list(DataType::Int64, true))]);
    let batch = batch_of_values(&lists, vec![to_value(&vec![1, 2]).unwrap()], "a row").unwrap();
    assert_eq!(back::<Vec<i64>>(&batch).remove(0).unwrap(), [1, 2]);
}

#[test]
fn what_does_not_fit_is_an_error_that_does_not_show_it() {
    let tiny = schema(vec![("n", DataType::Int8)]);
    let fails = |value| batch_of_values(&tiny, vec![value], "a row").unwrap_err().to_string();
    assert!(fails(to_value(&300).unwrap()).contains("does not fit the declared type Int8"));
    assert!(
        fails(to_value("secret").unwrap()).contains("text where its schema has a whole number")
    );
    let unknown = to_value(&Inner { a: 1, b: None }).unwrap();
    assert!(fails(unknown).contains("a field a for which its schema has no column"));
    let batch = batch_of_values(&tiny, vec![to_value(&-1).unwrap()], "a row").unwrap();
    assert!(back::<u8>(&batch).remove(0).is_err());
    assert!(back::<String>(&batch).remove(0).is_err());
}

#[test]
fn decimals_are_text_and_times_are_text_where_text_is_wanted() {
    let decimals = schema(vec![("d", DataType::Decimal128(10, 2))]);
    let batch = batch_of_values(&decimals, vec![to_value("1.50").unwrap()], "a row").unwrap();
    assert_eq!(batch.column(0).as_ref(), &{
        let array = Decimal128Array::from(vec![150]);
        array.with_precision_and_scale(10, 2).unwrap()
    });
    assert_eq!(back::<String>(&batch).remove(0).unwrap(), "1.50");
    let time: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![-1]));
    let times = schema(vec![("t", time.data_type().clone())]);
    let batch = RecordBatch::try_new(times, vec![time]).unwrap();
    assert_eq!(back::<String>(&batch).remove(0).unwrap(), "1969-12-31T23:59:59.999999Z");
    assert_eq!(back::<i64>(&batch).remove(0).unwrap(), -1);
}
