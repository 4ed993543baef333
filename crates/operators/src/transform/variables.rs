//! What a processor declares, and how it lies in the state.

use super::TimeMode;
use super::kinds::{ListState, MapState, ValueState};
use crate::failure;
use crate::grouped::Grouping;
use crate::keys::{RowCodec, plain, state_schema};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use onefold_state::{Access, FamilySpec};
use onefold_types::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Where a processor declares its variables.
#[derive(Debug)]
pub struct Variables {
    /// `None`: what is declared was checked before.
    mode: Option<TimeMode>,
    declared: Vec<Declared>,
    deleted: u64,
}

#[derive(Debug)]
struct Declared {
    name: String,
    kind: Kind,
    value: DataType,
    ttl_ms: Option<i64>,
}

#[derive(Debug)]
enum Kind {
    Value,
    List,
    /// With the type of the user's key.
    Map(DataType),
}

impl Variables {
    pub(super) fn new(mode: TimeMode) -> Self {
        Variables { mode: Some(mode), declared: Vec::new(), deleted: 0 }
    }

    /// For a processor whose declarations were taken before.
    pub(super) fn again() -> Self {
        Variables { mode: None, declared: Vec::new(), deleted: 0 }
    }

    /// Declares one value for each key.
    ///
    /// # Errors
    /// Invalid: the name is taken or empty or begins with `$`, or there is a TTL without
    /// processing time.
    pub fn value<T>(
        &mut self,
        name: &str,
        data_type: DataType,
        ttl: Option<Duration>,
    ) -> Result<ValueState<T>> {
        Ok(ValueState::at(self.declare(name, Kind::Value, data_type, ttl)?))
    }

    /// Declares a list for each key.
    ///
    /// # Errors
    /// As [`Variables::value`].
    pub fn list<T>(
        &mut self,
        name: &str,
        element: DataType,
        ttl: Option<Duration>,
    ) -> Result<ListState<T>> {
        Ok(ListState::at(self.declare(name, Kind::List, element, ttl)?))
    }

    /// Declares a map for each key.
    ///
    /// # Errors
    /// As [`Variables::value`].
    pub fn map<K, T>(
        &mut self,
        name: &str,
        key: DataType,
        value: DataType,
        ttl: Option<Duration>,
    ) -> Result<MapState<K, T>> {
        Ok(MapState::at(self.declare(name, Kind::Map(key), value, ttl)?))
    }

    /// Counts variables that `init` declared and deleted again, for the query's progress.
    pub fn deleted(&mut self, count: u64) {
        self.deleted += count;
    }

    fn declare(
        &mut self,
        name: &str,
        kind: Kind,
        value: DataType,
        ttl: Option<Duration>,
    ) -> Result<usize> {
        if name.is_empty() || name.starts_with('$') || name == "default" {
            return Err(Error::invalid(format!(
                "{name:?} is no name for a variable: it must not be empty, \"default\", or begin with $"
            )));
        }
        if self.declared.iter().any(|declared| declared.name == name) {
            return Err(Error::invalid(format!("the variable {name} is declared twice")));
        }
        if ttl.is_some() && self.mode.is_some_and(|mode| mode != TimeMode::ProcessingTime) {
            return Err(Error::invalid(format!(
                "the variable {name} has a TTL, which needs the time mode ProcessingTime"
            )));
        }
        let ttl_ms = ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
        if ttl_ms == Some(0) {
            return Err(Error::invalid(format!(
                "the TTL of the variable {name} is under a millisecond"
            )));
        }
        self.declared.push(Declared { name: name.to_owned(), kind, value, ttl_ms });
        Ok(self.declared.len() - 1)
    }
}

/// A variable in the state.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) name: String,
    /// Family of its values.
    pub(super) rows: usize,
    /// Family of a list's size.
    pub(super) sizes: Option<usize>,
    /// Family of its expiries.
    pub(super) expiries: Option<usize>,
    pub(super) ttl_ms: Option<i64>,
    pub(super) value: DataType,
    pub(super) codec: RowCodec,
    /// The user's key in a map.
    pub(super) user_key: Option<(DataType, RowCodec)>,
}

/// Families of timers.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimerFamilies {
    pub(super) by_key: usize,
    pub(super) by_time: usize,
}

/// All variables in the state.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) families: Vec<FamilySpec>,
    pub(super) slots: Vec<Slot>,
    pub(super) timers: Option<TimerFamilies>,
    /// Family of the marks that say that the initial state was taken.
    pub(super) begun: Option<usize>,
    /// How many variables of which kind there are, by Spark's names.
    pub(super) counts: BTreeMap<&'static str, u64>,
}

impl Layout {
    pub(super) fn of(
        variables: &Variables,
        grouping: &Grouping,
        mode: TimeMode,
        initial: bool,
    ) -> Result<Self> {
        let (families, slots) = (Vec::new(), Vec::new());
        let counts = counts(variables);
        let mut layout = Layout { families, slots, timers: None, begun: None, counts };
        for declared in &variables.declared {
            let slot = layout.slot(declared, grouping)?;
            layout.slots.push(slot);
        }
        if initial {
            let none = Arc::new(Schema::empty());
            let name = "$initialState".to_owned();
            let place = layout.family(name, Arc::clone(&none), none, Access::Point, false);
            layout.begun = Some(place);
        }
        let prefix = match mode {
            TimeMode::None => return Ok(layout),
            TimeMode::ProcessingTime => "$procTimers",
            TimeMode::EventTime => "$eventTimers",
        };
        let time = || field("expiryTimestampMs", DataType::Int64);
        let by_key = grouping.then([time()]);
        layout.timers = Some(TimerFamilies {
            by_key: layout.index(format!("{prefix}_keyToTimestamp"), by_key),
            by_time: layout
                .index(format!("{prefix}_timestampToKey"), first(time(), &grouping.schema)),
        });
        Ok(layout)
    }

    fn slot(&mut self, declared: &Declared, grouping: &Grouping) -> Result<Slot> {
        let mut value = vec![field("value", declared.value.clone())];
        if declared.ttl_ms.is_some() {
            value.push(field("ttlExpirationMs", DataType::Int64));
        }
        let value = state_schema(value);
        let (key, access) = match &declared.kind {
            Kind::Value => (Arc::clone(&grouping.schema), Access::Point),
            Kind::List => (grouping.then([field("position", DataType::Int64)]), Access::Ordered),
            Kind::Map(kind) => (grouping.then([field("userKey", kind.clone())]), Access::Ordered),
        };
        let counted = !matches!(declared.kind, Kind::List);
        let name = &declared.name;
        let codec = RowCodec::of(&value).map_err(failure::planning)?;
        let rows = self.family(name.clone(), Arc::clone(&key), value, access, counted);
        let sizes = matches!(declared.kind, Kind::List).then(|| {
            let value = ["next", "size"].map(|name| field(name, DataType::Int64));
            let key = Arc::clone(&grouping.schema);
            // As in Spark, a list counts as one row of state.
            let name = format!("$rowCounter_{name}");
            self.family(name, key, state_schema(value), Access::Point, true)
        });
        let expiries = declared.ttl_ms.map(|_| {
            let by_time = first(field("ttlExpirationMs", DataType::Int64), &key);
            self.index(format!("$ttl_{name}"), by_time)
        });
        let user_key = match &declared.kind {
            Kind::Map(kind) => {
                let kind = plain(kind);
                let codec = RowCodec::try_new([kind.clone()]).map_err(failure::planning)?;
                Some((kind, codec))
            }
            Kind::Value | Kind::List => None,
        };
        Ok(Slot {
            name: name.clone(),
            rows,
            sizes,
            expiries,
            ttl_ms: declared.ttl_ms,
            value: plain(&declared.value),
            codec,
            user_key,
        })
    }

    fn index(&mut self, name: String, key: SchemaRef) -> usize {
        self.family(name, key, Arc::new(Schema::empty()), Access::Ordered, false)
    }

    fn family(
        &mut self,
        name: String,
        key: SchemaRef,
        value: SchemaRef,
        access: Access,
        counted: bool,
    ) -> usize {
        self.families.push(FamilySpec { name, key, value, access, counted });
        self.families.len() - 1
    }
}

fn counts(variables: &Variables) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::from([("numDeletedStateVars", variables.deleted)]);
    for declared in &variables.declared {
        let name = match (&declared.kind, declared.ttl_ms) {
            (Kind::Value, None) => "numValueStateVars",
            (Kind::Value, Some(_)) => "numValueStateWithTTLVars",
            (Kind::List, None) => "numListStateVars",
            (Kind::List, Some(_)) => "numListStateWithTTLVars",
            (Kind::Map(_), None) => "numMapStateVars",
            (Kind::Map(_), Some(_)) => "numMapStateWithTTLVars",
        };
        *counts.entry(name).or_default() += 1;
    }
    counts
}

fn first(field: FieldRef, rest: &SchemaRef) -> SchemaRef {
    state_schema([field].into_iter().chain(rest.fields().iter().cloned()))
}

fn field(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}
