//! A value between serde and Arrow.

use arrow::datatypes::TimeUnit;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, IntoDeserializer, Visitor};
use serde::ser::{self, Serialize};
use std::borrow::Cow;
use std::fmt;

/// A value of any type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    /// A timestamp, in a unit.
    Time(i64, TimeUnit),
    List(Vec<Value<'a>>),
    /// A struct: names and values, in order.
    Fields(Vec<(Cow<'a, str>, Value<'a>)>),
    Map(Vec<(Value<'a>, Value<'a>)>),
}

impl Value<'_> {
    /// The same value, borrowing nothing.
    pub(crate) fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Int(value) => Value::Int(value),
            Value::Float(value) => Value::Float(value),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Value::Time(ticks, unit) => Value::Time(ticks, unit),
            Value::List(list) => Value::List(list.into_iter().map(Value::into_owned).collect()),
            Value::Fields(fields) => {
                let fields = fields.into_iter();
                let owned = |(name, value): (Cow<'_, str>, Value<'_>)| {
                    (Cow::Owned(name.into_owned()), value.into_owned())
                };
                Value::Fields(fields.map(owned).collect())
            }
            Value::Map(pairs) => {
                let pairs = pairs.into_iter();
                Value::Map(
                    pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect(),
                )
            }
        }
    }
}

/// Why a value could not be read or written.
#[derive(Debug)]
pub(crate) struct ValueError(pub(crate) String);

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ValueError {}

impl de::Error for ValueError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        ValueError(message.to_string())
    }
}

impl ser::Error for ValueError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        ValueError(message.to_string())
    }
}

impl<'de> IntoDeserializer<'de, ValueError> for Value<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Value<'de> {
    /// The value of a row with one column, where a bare value is asked for.
    fn bare(self) -> Self {
        match self {
            Value::Fields(mut fields) if fields.len() == 1 => match fields.pop() {
                Some((_, value)) => value,
                None => Value::Null,
            },
            other => other,
        }
    }

    fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Int(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => visitor.visit_i64(value),
                (_, Ok(value)) => visitor.visit_u64(value),
                _ => visitor.visit_i128(value),
            },
            Value::Float(value) => visitor.visit_f64(value),
            Value::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Value::Text(Cow::Owned(text)) => visitor.visit_string(text),
            Value::Bytes(Cow::Borrowed(bytes)) => visitor.visit_borrowed_bytes(bytes),
            Value::Bytes(Cow::Owned(bytes)) => visitor.visit_byte_buf(bytes),
            Value::Time(ticks, _) => visitor.visit_i64(ticks),
            Value::List(list) => visitor.visit_seq(SeqDeserializer::new(list.into_iter())),
            Value::Fields(fields) => {
                visitor.visit_map(MapDeserializer::new(fields.into_iter().map(named)))
            }
            Value::Map(pairs) => visitor.visit_map(MapDeserializer::new(pairs.into_iter())),
        }
    }
}

fn named<'a>((name, value): (Cow<'a, str>, Value<'a>)) -> (Value<'a>, Value<'a>) {
    (Value::Text(name), value)
}

macro_rules! bare {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
            self.bare().visit(visitor)
        }
    )*};
}

macro_rules! elements {
    ($($method:ident($($argument:ident: $kind:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(
            self, $($argument: $kind,)* visitor: V,
        ) -> Result<V::Value, ValueError> {
            $(let _ = $argument;)*
            self.visit_elements(visitor)
        }
    )*};
}

impl<'de> Value<'de> {
    fn visit_elements<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self {
            Value::Fields(fields)
                if matches!(fields.as_slice(), [(_, Value::List(_) | Value::Bytes(_))]) =>
            {
                Value::Fields(fields).bare().visit_elements(visitor)
            }
            Value::Fields(fields) => {
                let values = fields.into_iter().map(|(_, value)| value);
                visitor.visit_seq(SeqDeserializer::new(values))
            }
            Value::Bytes(bytes) => {
                let bytes = bytes.into_owned().into_iter();
                visitor.visit_seq(SeqDeserializer::new(bytes))
            }
            other => other.visit(visitor),
        }
    }
}

impl<'de> de::Deserializer<'de> for Value<'de> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.visit(visitor)
    }

    bare! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_u128 deserialize_f32 deserialize_f64 deserialize_bytes deserialize_byte_buf
        deserialize_unit
    }

    elements! {
        deserialize_seq()
        deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self.bare() {
            Value::Time(ticks, unit) => visitor.visit_string(super::read::instant(ticks, unit)?),
            other => other.visit(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self {
            Value::Null => visitor.visit_none(),
            Value::Fields(fields) if matches!(fields.as_slice(), [(_, Value::Null)]) => {
                visitor.visit_none()
            }
            other => visitor.visit_some(other),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        self.bare().visit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self {
            Value::Fields(fields) if matches!(fields.as_slice(), [(_, Value::Map(_))]) => {
                Value::Fields(fields).bare().visit(visitor)
            }
            other => other.visit(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        match &self {
            // A row whose only column is itself the struct.
            Value::Fields(own) => match own.as_slice() {
                [(name, Value::Fields(_))] if !fields.contains(&name.as_ref()) => {
                    self.bare().visit(visitor)
                }
                _ => self.visit(visitor),
            },
            _ => self.visit(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        match self.bare() {
            Value::Text(text) => visitor.visit_enum(text.into_owned().into_deserializer()),
            _ => {
                Err(ValueError(format!("{name} is read from the name of a variant without fields")))
            }
        }
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.visit(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_unit()
    }
}

/// Takes a value of a type that serde knows.
pub(crate) fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value<'static>, ValueError> {
    value.serialize(Writer)
}

struct Writer;

macro_rules! whole {
    ($($method:ident($kind:ty))*) => {$(
        fn $method(self, value: $kind) -> Result<Self::Ok, ValueError> {
            Ok(Value::Int(i128::from(value)))
        }
    )*};
}

impl ser::Serializer for Writer {
    type Ok = Value<'static>;
    type Error = ValueError;
    type SerializeSeq = Elements;
    type SerializeTuple = Elements;
    type SerializeTupleStruct = Elements;
    type SerializeTupleVariant = ser::Impossible<Self::Ok, ValueError>;
    type SerializeMap = Pairs;
    type SerializeStruct = Named;
    type SerializeStructVariant = ser::Impossible<Self::Ok, ValueError>;

    whole! {
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_i128(i128) serialize_u8(u8) serialize_u16(u16) serialize_u32(u32)
        serialize_u64(u64)
    }

    fn serialize_bool(self, value: bool) -> Result<Self::Ok, ValueError> {
        Ok(Value::Bool(value))
    }

    fn serialize_f32(self, value: f32) -> Result<Self::Ok, ValueError> {
        Ok(Value::Float(f64::from(value)))
    }

    fn serialize_f64(self, value: f64) -> Result<Self::Ok, ValueError> {
        Ok(Value::Float(value))
    }

    fn serialize_char(self, value: char) -> Result<Self::Ok, ValueError> {
        Ok(Value::Text(Cow::Owned(value.to_string())))
    }

    fn serialize_str(self, value: &str) -> Result<Self::Ok, ValueError> {
        Ok(Value::Text(Cow::Owned(value.to_owned())))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Self::Ok, ValueError> {
        Ok(Value::Bytes(Cow::Owned(value.to_vec())))
    }

    fn serialize_none(self) -> Result<Self::Ok, ValueError> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Self::Ok, ValueError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Self::Ok, ValueError> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<Self::Ok, ValueError> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<Self::Ok, ValueError> {
        Ok(Value::Text(Cow::Borrowed(variant)))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<Self::Ok, ValueError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _index: u32,
        variant: &'static str,
        _value: &T,
    ) -> Result<Self::Ok, ValueError> {
        Err(no_variants(name, variant))
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Elements, ValueError> {
        Ok(Elements(Vec::with_capacity(len.unwrap_or(0).min(1_024))))
    }

    fn serialize_tuple(self, len: usize) -> Result<Elements, ValueError> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        len: usize,
    ) -> Result<Elements, ValueError> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant, ValueError> {
        Err(no_variants(name, variant))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Pairs, ValueError> {
        Ok(Pairs { pairs: Vec::new(), key: Value::Null })
    }

    fn serialize_struct(self, _name: &'static str, len: usize) -> Result<Named, ValueError> {
        Ok(Named(Vec::with_capacity(len)))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant, ValueError> {
        Err(no_variants(name, variant))
    }
}

fn no_variants(name: &str, variant: &str) -> ValueError {
    ValueError(format!("{name}::{variant} has fields, for which Arrow has no type: use a struct"))
}

pub(crate) struct Elements(Vec<Value<'static>>);

impl ser::SerializeSeq for Elements {
    type Ok = Value<'static>;
    type Error = ValueError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ValueError> {
        self.0.push(value.serialize(Writer)?);
        Ok(())
    }

    fn end(self) -> Result<Self::Ok, ValueError> {
        Ok(Value::List(self.0))
    }
}

impl ser::SerializeTuple for Elements {
    type Ok = Value<'static>;
    type Error = ValueError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ValueError> {
        ser::SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<Self::Ok, ValueError> {
        Ok(Value::List(self.0))
    }
}

impl ser::SerializeTupleStruct for Elements {
    type Ok = Value<'static>;
    type Error = ValueError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ValueError> {
        ser::SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<Self::Ok, ValueError> {
        Ok(Value::List(self.0))
    }
}

pub(crate) struct Pairs {
    pairs: Vec<(Value<'static>, Value<'static>)>,
    key: Value<'static>,
}

impl ser::SerializeMap for Pairs {
    type Ok = Value<'static>;
    type Error = ValueError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), ValueError> {
        self.key = key.serialize(Writer)?;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ValueError> {
        let key = std::mem::replace(&mut self.key, Value::Null);
        self.pairs.push((key, value.serialize(Writer)?));
        Ok(())
    }

    fn end(self) -> Result<Self::Ok, ValueError> {
        Ok(Value::Map(self.pairs))
    }
}

pub(crate) struct Named(Vec<(Cow<'static, str>, Value<'static>)>);

impl ser::SerializeStruct for Named {
    type Ok = Value<'static>;
    type Error = ValueError;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), ValueError> {
        self.0.push((Cow::Borrowed(name), value.serialize(Writer)?));
        Ok(())
    }

    fn end(self) -> Result<Self::Ok, ValueError> {
        Ok(Value::Fields(self.0))
    }
}
