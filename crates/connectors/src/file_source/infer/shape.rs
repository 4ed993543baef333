//! The type of JSON values, joined over many of them by Spark's rules.

use super::super::json_scan::{Kind, Scanner, Slot, unescape};
use super::Inference;
use arrow::datatypes::{DataType, Field};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of a value's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// Nothing but nulls so far.
    Null,
    Bool,
    Long,
    /// A whole number of so many digits that is no `BIGINT`.
    Decimal(u8),
    Double,
    Text,
    List(Box<Shape>),
    /// Fields by name, which is Spark's order of them.
    Object(BTreeMap<String, Shape>),
}

impl Shape {
    /// The shape of one value.
    pub(super) fn of(text: &str, slot: Slot, inference: Inference) -> Shape {
        let raw = text.get(slot.start..slot.end).unwrap_or_default();
        match slot.kind {
            Kind::Null => Shape::Null,
            Kind::Object => {
                let mut fields: BTreeMap<String, Shape> = BTreeMap::new();
                let mut scanner = Scanner::new(text, slot.start, inference.leniency);
                let scanned = scanner.object(0, |name, value| {
                    let raw = text.get(name.start..name.end).unwrap_or_default();
                    let mut plain = raw.to_owned();
                    if matches!(name.kind, Kind::Text { escaped: true }) {
                        unescape(raw, &mut plain);
                    }
                    let shape = Shape::of(text, value, inference);
                    fields.entry(plain).or_insert(Shape::Null).join(shape);
                });
                if scanned.is_ok() { Shape::Object(fields) } else { Shape::Null }
            }
            Kind::Array => {
                let mut element = Shape::Null;
                let mut scanner = Scanner::new(text, slot.start, inference.leniency);
                let scanned =
                    scanner.array(0, |value| element.join(Shape::of(text, value, inference)));
                if scanned.is_ok() { Shape::List(Box::new(element)) } else { Shape::Null }
            }
            _ if inference.strings => Shape::Text,
            Kind::Text { .. } => Shape::Text,
            Kind::True | Kind::False => Shape::Bool,
            Kind::Int if raw.parse::<i64>().is_ok() => Shape::Long,
            Kind::Int => match u8::try_from(raw.trim_start_matches('-').len()) {
                Ok(digits) if digits <= 38 => Shape::Decimal(digits),
                _ => Shape::Double,
            },
            Kind::Float | Kind::NonNumber => Shape::Double,
        }
    }

    /// Takes in one more value.
    pub(super) fn join(&mut self, other: Shape) {
        *self = match (std::mem::replace(self, Shape::Null), other) {
            (Shape::Null, other) | (other, Shape::Null) => other,
            (Shape::Object(mut fields), Shape::Object(more)) => {
                for (name, shape) in more {
                    fields.entry(name).or_insert(Shape::Null).join(shape);
                }
                Shape::Object(fields)
            }
            (Shape::List(mut element), Shape::List(other)) => {
                element.join(*other);
                Shape::List(element)
            }
            (one, other) if one == other => one,
            (Shape::Decimal(a), Shape::Decimal(b)) => Shape::Decimal(a.max(b)),
            (Shape::Long, Shape::Decimal(digits)) | (Shape::Decimal(digits), Shape::Long) => {
                Shape::Decimal(digits.max(20))
            }
            (
                Shape::Long | Shape::Decimal(_) | Shape::Double,
                Shape::Long | Shape::Decimal(_) | Shape::Double,
            ) => Shape::Double,
            _ => Shape::Text,
        };
    }

    /// The columns of an object; a field that was always null is a string, and an object without
    /// fields is no column.
    pub(super) fn columns(&self) -> Vec<Field> {
        let Shape::Object(fields) = self else { return Vec::new() };
        fields
            .iter()
            .filter_map(|(name, shape)| Some(Field::new(name, shape.data_type()?, true)))
            .collect()
    }

    fn data_type(&self) -> Option<DataType> {
        Some(match self {
            Shape::Null | Shape::Text => DataType::Utf8,
            Shape::Bool => DataType::Boolean,
            Shape::Long => DataType::Int64,
            Shape::Decimal(digits) => DataType::Decimal128(*digits, 0),
            Shape::Double => DataType::Float64,
            Shape::List(element) => {
                DataType::List(Arc::new(Field::new("element", element.data_type()?, true)))
            }
            Shape::Object(_) => {
                let fields = self.columns();
                if fields.is_empty() {
                    return None;
                }
                DataType::Struct(fields.into())
            }
        })
    }
}
