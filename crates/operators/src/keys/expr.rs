//! Expressions over key columns: made normal, or the event time in them.

use crate::event_time::window_part;
use crate::failure;
use crate::keys::normalise::{needs, normalise};
use arrow::datatypes::{DataType, FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What is done to a key's column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// [`normalise`].
    Normal,
    /// A window's start.
    Start,
    /// A window's end.
    End,
}

impl Kind {
    /// The field of a window that it is.
    fn field(self) -> Option<&'static str> {
        match self {
            Kind::Normal => None,
            Kind::Start => Some("start"),
            Kind::End => Some("end"),
        }
    }
}

/// A key's column, changed.
#[derive(Debug)]
struct KeyExpr {
    inner: PhysicalExprRef,
    kind: Kind,
}

/// The expression with its values made normal; itself where its type needs nothing.
pub(crate) fn normal(expr: &PhysicalExprRef, schema: &Schema) -> Result<PhysicalExprRef> {
    if !needs(&expr.data_type(schema)?) {
        return Ok(Arc::clone(expr));
    }
    Ok(Arc::new(KeyExpr { inner: Arc::clone(expr), kind: Kind::Normal }))
}

/// The event time of an expression that is a timestamp or a window.
pub(crate) fn event_time(expr: &PhysicalExprRef, schema: &Schema) -> Result<PhysicalExprRef> {
    match expr.data_type(schema)? {
        DataType::Struct(_) => Ok(Arc::new(KeyExpr { inner: Arc::clone(expr), kind: Kind::End })),
        _ => Ok(Arc::clone(expr)),
    }
}

/// The start of a window.
pub(crate) fn window_start(expr: &PhysicalExprRef) -> PhysicalExprRef {
    Arc::new(KeyExpr { inner: Arc::clone(expr), kind: Kind::Start })
}

impl KeyExpr {
    fn convert(&self, data_type: &DataType) -> DataType {
        match (self.kind.field(), data_type) {
            (None, DataType::Dictionary(_, values)) => values.as_ref().clone(),
            (Some(part), DataType::Struct(fields)) => {
                fields.find(part).map_or(DataType::Null, |(_, field)| field.data_type().clone())
            }
            _ => data_type.clone(),
        }
    }
}

impl PartialEq for KeyExpr {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.inner.eq(&other.inner)
    }
}

impl Eq for KeyExpr {}

impl Hash for KeyExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
        self.inner.hash(state);
    }
}

impl fmt::Display for KeyExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Normal => write!(f, "normal({})", self.inner),
            Kind::Start => write!(f, "{}.start", self.inner),
            Kind::End => write!(f, "{}.end", self.inner),
        }
    }
}

impl PhysicalExpr for KeyExpr {
    fn data_type(&self, input_schema: &Schema) -> Result<DataType> {
        Ok(self.convert(&self.inner.data_type(input_schema)?))
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        match self.kind {
            Kind::Normal => self.inner.nullable(input_schema),
            Kind::Start | Kind::End => Ok(true),
        }
    }

    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        let field = self.inner.return_field(input_schema)?;
        let nullable = self.nullable(input_schema)?;
        let data_type = self.convert(field.data_type());
        Ok(Arc::new(field.as_ref().clone().with_data_type(data_type).with_nullable(nullable)))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let column = self.inner.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(match self.kind.field() {
            None => normalise(&column)?,
            Some(part) => window_part(&column, part)?,
        }))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match <[_; 1]>::try_from(children) {
            Ok([inner]) => Ok(Arc::new(KeyExpr { inner, kind: self.kind })),
            Err(_) => Err(failure::internal("a key's expression has one child")),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)?;
        match self.kind.field() {
            None => Ok(()),
            Some(part) => write!(f, ".{part}"),
        }
    }
}
