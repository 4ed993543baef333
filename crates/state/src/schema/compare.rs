//! What became of each operator's state between two queries.

use super::plain_type;
use crate::{FamilySpec, OperatorSpec};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

/// What became of an operator's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The operator is new: its state starts empty.
    Added,
    /// The same rows, encoded the same way.
    Unchanged,
    /// Old rows are read as rows of the new operator; what changed, one clause each.
    Compatible(Vec<String>),
    /// Old rows mean nothing to the new operator; why, one clause each.
    Incompatible(Vec<String>),
    /// The operator is gone, and its state with it.
    Removed,
}

/// What became of the state under one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorChange {
    /// The operator's stable name.
    pub label: String,
    /// What became of it.
    pub change: Change,
}

/// Compares the operators that left a state with those that are to go on with it, by label: first
/// the new ones in their order, then those that are gone.
#[must_use]
pub fn compare(old: &[OperatorSpec], new: &[OperatorSpec]) -> Vec<OperatorChange> {
    let find = |specs: &[OperatorSpec], label: &str| {
        specs.iter().find(|spec| spec.label == label).cloned()
    };
    let mut changes: Vec<OperatorChange> = Vec::with_capacity(new.len());
    for spec in new {
        let old = find(old, &spec.label);
        let change = old.map_or(Change::Added, |old| compare_operator(&old, spec));
        changes.push(OperatorChange { label: spec.label.clone(), change });
    }
    for spec in old.iter().filter(|spec| find(new, &spec.label).is_none()) {
        changes.push(OperatorChange { label: spec.label.clone(), change: Change::Removed });
    }
    changes
}

#[derive(Debug, Default)]
struct Findings {
    compatible: Vec<String>,
    incompatible: Vec<String>,
}

fn compare_operator(old: &OperatorSpec, new: &OperatorSpec) -> Change {
    let mut found = Findings::default();
    if old.kind != new.kind {
        found.incompatible.push(format!("it was a {}, now it is a {}", old.kind, new.kind));
    }
    if old.single != new.single {
        let now = if new.single { "one place for all keys" } else { "partitions by key" };
        found.incompatible.push(format!("its state is now kept in {now}"));
    }
    for family in &new.families {
        match old.families.iter().find(|old| old.name == family.name) {
            Some(old) => compare_family(old, family, &mut found),
            None if by_time(family) => found.compatible.push(format!(
                "its rows are let go by time from now on ('{}' is new)",
                family.name
            )),
            None => found.incompatible.push(format!("family '{}' is new", family.name)),
        }
    }
    for family in &old.families {
        if !new.families.iter().any(|new| new.name == family.name) {
            found.incompatible.push(format!("family '{}' is gone", family.name));
        }
    }
    if !found.incompatible.is_empty() {
        Change::Incompatible(found.incompatible)
    } else if !found.compatible.is_empty() {
        Change::Compatible(found.compatible)
    } else {
        Change::Unchanged
    }
}

/// A family that tells when rows of another one are to be let go. Its rows are made as that one's
/// are written.
fn by_time(family: &FamilySpec) -> bool {
    [" by time", " last write"].iter().any(|end| family.name.ends_with(end))
}

fn compare_family(old: &FamilySpec, new: &FamilySpec, found: &mut Findings) {
    let columns = |schema: &Schema| -> Vec<String> {
        let text = |field: &Field| format!("{} {}", field.name(), plain_type(field.data_type()));
        schema.fields().iter().map(|field| text(field)).collect()
    };
    let (before, after) = (columns(&old.key), columns(&new.key));
    if before != after {
        let sorted = |columns: &[String]| {
            let mut columns = columns.to_vec();
            columns.sort();
            columns
        };
        let why = if sorted(&before) == sorted(&after) {
            "stand in another order, and keys are hashed in that order"
        } else {
            "are others"
        };
        let (before, after) = (before.join(", "), after.join(", "));
        let text = format!("key columns of '{}' {why}: ({before}) became ({after})", new.name);
        found.incompatible.push(text);
    }
    compare_values(old, new, found);
}

fn compare_values(old: &FamilySpec, new: &FamilySpec, found: &mut Findings) {
    let name = &new.name;
    for field in new.value.fields() {
        let after = plain_type(field.data_type());
        match old.value.field_with_name(field.name()) {
            Err(_) => {
                let text = format!(
                    "value column '{}' of '{name}' is added: groups that are kept go on with null",
                    field.name()
                );
                found.compatible.push(text);
            }
            Ok(old) => {
                let before = plain_type(old.data_type());
                if before == after {
                    continue;
                }
                let text = format!(
                    "value column '{}' of '{name}' was {before}, now it is {after}",
                    field.name()
                );
                if widens(&before, &after) {
                    found.compatible.push(text);
                } else {
                    found.incompatible.push(text);
                }
            }
        }
    }
    for field in old.value.fields() {
        if new.value.field_with_name(field.name()).is_err() {
            let text = format!("value column '{}' of '{name}' is gone", field.name());
            found.incompatible.push(text);
        }
    }
    let names = |schema: &Schema| -> Vec<String> {
        schema.fields().iter().map(|field| field.name().clone()).collect()
    };
    let kept: Vec<_> =
        names(&new.value).into_iter().filter(|name| old.value.index_of(name).is_ok()).collect();
    let before: Vec<_> = names(&old.value).into_iter().filter(|name| kept.contains(name)).collect();
    if kept != before {
        found.compatible.push(format!("value columns of '{name}' stand in another order"));
    }
}

/// Whether every value of one type is one of the other.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    let rank = |data_type: &DataType| match data_type {
        T::Int8 => Some(1),
        T::Int16 => Some(2),
        T::Int32 => Some(3),
        T::Int64 => Some(4),
        _ => None,
    };
    if let (Some(from), Some(to)) = (rank(from), rank(to)) {
        return from < to;
    }
    match (from, to) {
        (T::Int8 | T::Int16 | T::Int32 | T::Float32, T::Float64) => true,
        (T::Int8 | T::Int16, T::Float32) => true,
        (T::Decimal128(old, scale), T::Decimal128(new, wider)) => {
            // Neither digits before the point nor behind it may be lost.
            wider >= scale
                && i16::from(*new) - i16::from(*wider) >= i16::from(*old) - i16::from(*scale)
        }
        (T::Utf8 | T::LargeUtf8 | T::Utf8View, T::Utf8 | T::LargeUtf8 | T::Utf8View) => true,
        (
            T::Binary | T::LargeBinary | T::BinaryView,
            T::Binary | T::LargeBinary | T::BinaryView,
        ) => true,
        (T::Date32, T::Timestamp(TimeUnit::Microsecond, _)) => true,
        // By name, as Avro does: a field that is new is null, one that is gone is forgotten.
        (T::Struct(old), T::Struct(new)) => new.iter().all(|field| {
            old.find(field.name()).is_none_or(|(_, old)| {
                let (old, new) = (plain_type(old.data_type()), plain_type(field.data_type()));
                old == new || widens(&old, &new)
            })
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, compare};
    use crate::{Access, FamilySpec, OperatorSpec};
    use arrow::datatypes::{DataType, Field, Schema};
    use std::sync::Arc;

    fn schema(columns: &[(&str, DataType)]) -> Arc<Schema> {
        let field = |(name, data_type): &(&str, DataType)| {
            Field::new(*name, data_type.clone(), name.len().is_multiple_of(2))
        };
        Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
    }

    fn operator(label: &str, key: &[(&str, DataType)], value: &[(&str, DataType)]) -> OperatorSpec {
        let family = FamilySpec {
            name: "default".into(),
            key: schema(key),
            value: schema(value),
            access: Access::Point,
            counted: true,
        };
        let (kind, label) = ("dedupe".into(), label.into());
        OperatorSpec { id: 0, kind, label, families: vec![family], single: false }
    }

    fn change(old: &OperatorSpec, new: &OperatorSpec) -> Change {
        compare(std::slice::from_ref(old), std::slice::from_ref(new)).remove(0).change
    }

    use DataType::{Float64, Int32, Int64, Utf8};

    #[test]
    fn each_operator_is_found_by_its_label_wherever_it_stands() {
        let (one, two) = (operator("one", &[("a", Utf8)], &[]), operator("two", &[], &[]));
        let changes = compare(&[one.clone(), two.clone()], &[two, operator("new", &[], &[])]);
        let found: Vec<_> = changes.iter().map(|it| (it.label.as_str(), &it.change)).collect();
        let expected =
            [("two", &Change::Unchanged), ("new", &Change::Added), ("one", &Change::Removed)];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_order_of_key_columns_is_noticed_and_never_taken_by_accident() {
        let old = operator("dedup", &[("c1", Int32), ("c2", Utf8)], &[]);
        let new = operator("dedup", &[("c2", Utf8), ("c1", Int32)], &[]);
        assert_eq!(change(&old, &old), Change::Unchanged);
        let Change::Incompatible(why) = change(&old, &new) else { panic!("taken") };
        assert!(why[0].contains("another order"), "{why:?}");
    }

    #[test]
    fn values_may_gain_columns_widen_and_change_order_but_lose_nothing() {
        let key = &[("k", Utf8)];
        let old = operator("agg", key, &[("n", Int32), ("s", Int64)]);
        let wider = operator("agg", key, &[("s", Int64), ("n", Int64), ("avg", Float64)]);
        let Change::Compatible(what) = change(&old, &wider) else { panic!("refused") };
        assert_eq!(what.len(), 3, "{what:?}");
        assert!(matches!(change(&wider, &old), Change::Incompatible(why) if why.len() == 2));
        let renamed = operator("agg", key, &[("n", Int32), ("t", Int64)]);
        assert!(matches!(change(&old, &renamed), Change::Incompatible(_)));
    }

    #[test]
    fn decimals_widen_only_where_no_digit_can_be_lost() {
        let of = |precision, scale| {
            operator("sum", &[], &[("d", DataType::Decimal128(precision, scale))])
        };
        assert!(matches!(change(&of(10, 2), &of(20, 2)), Change::Compatible(_)));
        assert!(matches!(change(&of(10, 2), &of(12, 4)), Change::Compatible(_)));
        assert!(matches!(change(&of(10, 2), &of(11, 4)), Change::Incompatible(_)));
        assert!(matches!(change(&of(10, 2), &of(10, 1)), Change::Incompatible(_)));
    }

    #[test]
    fn a_users_struct_may_gain_lose_and_widen_fields_but_not_narrow_them() {
        let of = |fields: &[(&str, DataType)]| {
            let fields = fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true));
            operator("tws", &[], &[("value", DataType::Struct(fields.collect()))])
        };
        let (old, new) = (of(&[("a", Int32), ("b", Utf8)]), of(&[("c", Float64), ("a", Int64)]));
        assert!(matches!(change(&old, &new), Change::Compatible(_)));
        assert!(matches!(change(&new, &old), Change::Incompatible(_)));
    }

    #[test]
    fn another_kind_or_another_spread_over_partitions_is_another_operator() {
        let old = operator("x", &[], &[]);
        let single = OperatorSpec { single: true, ..old.clone() };
        let kind = OperatorSpec { kind: "globalLimit".into(), ..old.clone() };
        assert!(matches!(change(&old, &single), Change::Incompatible(_)));
        assert!(matches!(change(&old, &kind), Change::Incompatible(_)));
    }
}
