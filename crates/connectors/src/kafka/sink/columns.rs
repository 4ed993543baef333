//! The columns of a query's result as parts of Kafka records.

use super::cluster::Record;
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Int32Type, Schema};
use onefold_types::{Error, Result};

/// Which columns hold what.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    key: Option<usize>,
    value: usize,
    headers: Option<usize>,
    partition: Option<usize>,
    topic: Topic,
}

#[derive(Debug, Clone)]
enum Topic {
    /// Option `topic`: it wins over a column.
    Fixed(String),
    Column(usize),
}

impl Columns {
    /// Finds the columns of a result.
    ///
    /// # Errors
    /// Invalid, in Spark's words: one is missing or of a type that Kafka has no use for.
    pub(crate) fn of(schema: &Schema, topic: Option<&str>) -> Result<Columns> {
        let topic = match (topic, position(schema, "topic")) {
            (Some(topic), _) => Topic::Fixed(topic.to_owned()),
            (None, Some(at)) => {
                wanted(schema, at, "string", is_text)?;
                Topic::Column(at)
            }
            (None, None) => {
                return Err(Error::invalid(
                    "topic option required when no 'topic' attribute is present; use the topic \
                     option for setting a topic",
                ));
            }
        };
        let value = position(schema, "value")
            .ok_or_else(|| Error::invalid("required attribute 'value' not found"))?;
        wanted(schema, value, "string or binary", is_bytes)?;
        let optional = |name, types, fits: fn(&DataType) -> bool| match position(schema, name) {
            Some(at) => wanted(schema, at, types, fits).map(|()| Some(at)),
            None => Ok(None),
        };
        Ok(Columns {
            key: optional("key", "string or binary", is_bytes)?,
            value,
            headers: optional("headers", "array<struct<key:string,value:binary>>", is_headers)?,
            partition: optional("partition", "int", |it| *it == DataType::Int32)?,
            topic,
        })
    }

    /// For a sink that only looks.
    pub(crate) fn unknown() -> Columns {
        let topic = Topic::Fixed(String::new());
        Columns { key: None, value: 0, headers: None, partition: None, topic }
    }

    /// The rows of a batch of rows.
    ///
    /// # Errors
    /// Internal: the columns are not of the types that were announced.
    pub(crate) fn rows<'a>(&'a self, batch: &'a RecordBatch) -> Result<Rows<'a>> {
        let bytes = |at: usize| Texts::of(batch.column(at));
        Ok(Rows {
            key: self.key.map(bytes).transpose()?,
            value: bytes(self.value)?,
            headers: self.headers.map(|at| Headers::of(batch.column(at))).transpose()?,
            partition: self.partition.map(|at| batch.column(at).as_primitive::<Int32Type>()),
            topic: match &self.topic {
                Topic::Fixed(topic) => RowTopic::Fixed(topic),
                Topic::Column(at) => RowTopic::Column(bytes(*at)?),
            },
        })
    }
}

fn position(schema: &Schema, name: &str) -> Option<usize> {
    // As Spark resolves names: without case.
    schema.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name))
}

fn wanted(schema: &Schema, at: usize, types: &str, fits: fn(&DataType) -> bool) -> Result<()> {
    let field = schema.field(at);
    if fits(field.data_type()) {
        return Ok(());
    }
    let name = field.name();
    Err(Error::invalid(format!(
        "{name} attribute unsupported type {}; it must be {types}: use CAST({name} AS …) or to_json",
        spark_type(field.data_type())
    )))
}

fn is_text(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_bytes(of: &DataType) -> bool {
    is_text(of) || matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

fn is_headers(of: &DataType) -> bool {
    let (DataType::List(item) | DataType::LargeList(item)) = of else { return false };
    let DataType::Struct(fields) = item.data_type() else { return false };
    let [name, value] = fields.as_ref() else { return false };
    name.name().eq_ignore_ascii_case("key")
        && is_text(name.data_type())
        && value.name().eq_ignore_ascii_case("value")
        && is_bytes(value.data_type())
}

/// A type as Spark writes it, as far as a message needs it.
fn spark_type(of: &DataType) -> String {
    match of {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int8 => "tinyint".to_owned(),
        DataType::Int16 => "smallint".to_owned(),
        DataType::Int32 => "int".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(_, Some(_)) => "timestamp".to_owned(),
        DataType::Timestamp(_, None) => "timestamp_ntz".to_owned(),
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        it if is_text(it) => "string".to_owned(),
        it if is_bytes(it) => "binary".to_owned(),
        DataType::List(item) | DataType::LargeList(item) => {
            format!("array<{}>", spark_type(item.data_type()))
        }
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|field| format!("{}:{}", field.name(), spark_type(field.data_type())))
                .collect();
            format!("struct<{}>", fields.join(","))
        }
        DataType::Map(..) => "map".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}

/// The rows of one batch of rows.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    key: Option<Texts<'a>>,
    value: Texts<'a>,
    headers: Option<Headers<'a>>,
    partition: Option<&'a Int32Array>,
    topic: RowTopic<'a>,
}

#[derive(Debug)]
enum RowTopic<'a> {
    Fixed(&'a str),
    Column(Texts<'a>),
}

impl<'a> Rows<'a> {
    /// Row `at` as a record; its headers are put into `room`.
    ///
    /// # Errors
    /// Invalid: it has no topic, a topic or a header's name that is no UTF-8, or a header without
    /// a name.
    pub(crate) fn record<'r>(
        &'r self,
        at: usize,
        room: &'r mut Vec<(&'a str, Option<&'a [u8]>)>,
    ) -> Result<Record<'r>>
    where
        'a: 'r,
    {
        let topic = match &self.topic {
            RowTopic::Fixed(topic) => *topic,
            RowTopic::Column(topics) => text(topics.get(at)).ok_or_else(|| {
                Error::invalid(
                    "null topic present in the data; use the topic option for setting a topic, or \
                     filter with topic IS NOT NULL",
                )
            })?,
        };
        room.clear();
        if let Some(headers) = &self.headers {
            headers.of_row(at, room)?;
        }
        let partition = self.partition.filter(|it| it.is_valid(at)).map(|it| it.value(at));
        if let Some(partition) = partition.filter(|it| *it < 0) {
            return Err(Error::invalid(format!("there is no partition {partition}")));
        }
        Ok(Record {
            topic,
            partition,
            key: self.key.as_ref().and_then(|key| key.get(at)),
            value: self.value.get(at),
            headers: room,
        })
    }
}

fn text(bytes: Option<&[u8]>) -> Option<&str> {
    bytes.and_then(|bytes| std::str::from_utf8(bytes).ok())
}

/// A column of texts or bytes.
#[derive(Debug)]
enum Texts<'a> {
    Binary(&'a arrow::array::BinaryArray),
    LargeBinary(&'a arrow::array::LargeBinaryArray),
    BinaryView(&'a arrow::array::BinaryViewArray),
    Utf8(&'a arrow::array::StringArray),
    LargeUtf8(&'a arrow::array::LargeStringArray),
    Utf8View(&'a arrow::array::StringViewArray),
}

impl<'a> Texts<'a> {
    fn of(column: &'a ArrayRef) -> Result<Texts<'a>> {
        Ok(match column.data_type() {
            DataType::Binary => Texts::Binary(column.as_binary()),
            DataType::LargeBinary => Texts::LargeBinary(column.as_binary()),
            DataType::BinaryView => Texts::BinaryView(column.as_binary_view()),
            DataType::Utf8 => Texts::Utf8(column.as_string()),
            DataType::LargeUtf8 => Texts::LargeUtf8(column.as_string()),
            DataType::Utf8View => Texts::Utf8View(column.as_string_view()),
            other => return Err(Error::internal(format!("a column of Kafka's is {other}"))),
        })
    }

    fn get(&self, at: usize) -> Option<&'a [u8]> {
        match self {
            Texts::Binary(it) => it.is_valid(at).then(|| it.value(at)),
            Texts::LargeBinary(it) => it.is_valid(at).then(|| it.value(at)),
            Texts::BinaryView(it) => it.is_valid(at).then(|| it.value(at)),
            Texts::Utf8(it) => it.is_valid(at).then(|| it.value(at).as_bytes()),
            Texts::LargeUtf8(it) => it.is_valid(at).then(|| it.value(at).as_bytes()),
            Texts::Utf8View(it) => it.is_valid(at).then(|| it.value(at).as_bytes()),
        }
    }
}

/// The column of headers.
#[derive(Debug)]
struct Headers<'a> {
    lists: &'a ArrayRef,
    offsets: Offsets<'a>,
    items: &'a StructArray,
    names: Texts<'a>,
    values: Texts<'a>,
}

#[derive(Debug)]
enum Offsets<'a> {
    Small(&'a OffsetBuffer<i32>),
    Large(&'a OffsetBuffer<i64>),
}

impl<'a> Headers<'a> {
    fn of(column: &'a ArrayRef) -> Result<Headers<'a>> {
        let (offsets, items) = match column.data_type() {
            DataType::List(_) => {
                let list = column.as_list::<i32>();
                (Offsets::Small(list.offsets()), list.values())
            }
            DataType::LargeList(_) => {
                let list = column.as_list::<i64>();
                (Offsets::Large(list.offsets()), list.values())
            }
            other => return Err(Error::internal(format!("headers are {other}"))),
        };
        let items = items.as_struct();
        let [names, values] = items.columns() else {
            return Err(Error::internal("a header has a name and a value"));
        };
        Ok(Headers {
            lists: column,
            offsets,
            items,
            names: Texts::of(names)?,
            values: Texts::of(values)?,
        })
    }

    fn of_row(&self, at: usize, room: &mut Vec<(&'a str, Option<&'a [u8]>)>) -> Result<()> {
        if self.lists.is_null(at) {
            return Ok(());
        }
        let range = match self.offsets {
            Offsets::Small(offsets) => bounds(offsets, at),
            Offsets::Large(offsets) => bounds(offsets, at),
        };
        for item in range {
            let name = Some(item).filter(|it| self.items.is_valid(*it));
            let name = name.and_then(|it| self.names.get(it));
            let name = name.and_then(|name| std::str::from_utf8(name).ok()).ok_or_else(|| {
                Error::invalid("a header has no key; give each a key that is not NULL")
            })?;
            room.push((name, self.values.get(item)));
        }
        Ok(())
    }
}

fn bounds<O: arrow::array::OffsetSizeTrait>(
    offsets: &OffsetBuffer<O>,
    at: usize,
) -> std::ops::Range<usize> {
    let place = |at: usize| offsets.get(at).map_or(0, |it| it.as_usize());
    place(at)..place(at + 1)
}

#[cfg(test)]
mod tests;
