//! Operators for tests.

use arrow::datatypes::{DataType, Field, Schema};
use onefold_state::{Access, FamilySpec, OperatorSpec};
use std::sync::Arc;

/// A family with a binary key and value.
pub fn family(name: &str, access: Access) -> FamilySpec {
    let schema = |name: &str| Arc::new(Schema::new(vec![Field::new(name, DataType::Binary, true)]));
    FamilySpec { name: name.into(), key: schema("k"), value: schema("v"), access, counted: true }
}

/// An operator with a point and an ordered family, and one that lives in a single partition.
pub fn operators() -> Vec<OperatorSpec> {
    let spec = |id, label: &str, families, single| OperatorSpec {
        id,
        kind: "stateStoreSave".into(),
        label: label.into(),
        families,
        single,
    };
    let both = vec![family("points", Access::Point), family("times", Access::Ordered)];
    vec![
        spec(0, "aggregate", both, false),
        spec(1, "limit", vec![family("count", Access::Point)], true),
    ]
}
