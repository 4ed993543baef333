//! What a processor declares in `init`.

use super::{Answers, NOTHING, asks_nothing, done, long, parsed, said};
use crate::python::state_messages::{
    ProcessorCall, Request, StateDeclaration, key_request, processor_call, timer_request,
};
use crate::python::state_rows::StateRows;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use onefold_plan::schema::parse_schema;
use onefold_plan::stream::Variables;
use onefold_types::{Error, Result};
use std::time::Duration;

/// The kind of a variable.
#[derive(Debug, Clone)]
pub(in crate::python) enum Kind {
    Value,
    List,
    /// With its user's key.
    Map(StateRows),
}

impl Kind {
    pub(super) fn is_value(&self) -> bool {
        matches!(self, Kind::Value)
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self, Kind::List)
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self, Kind::Map(_))
    }
}

/// A variable.
#[derive(Debug, Clone)]
pub(in crate::python) struct Variable {
    pub(in crate::python) name: String,
    pub(in crate::python) kind: Kind,
    /// Its value, element, or value of an entry.
    pub(in crate::python) rows: StateRows,
    ttl_ms: Option<i64>,
}

/// All variables of a processor.
#[derive(Debug, Clone, Default)]
pub(in crate::python) struct Declared {
    variables: Vec<Variable>,
    deleted: u64,
}

impl Declared {
    pub(in crate::python) fn place(&self, name: &str) -> Option<usize> {
        self.variables.iter().position(|variable| variable.name == name)
    }

    pub(in crate::python) fn variable(&self, place: usize) -> Option<&Variable> {
        self.variables.get(place)
    }

    /// Declares them to the state.
    pub(in crate::python) fn declare(&self, to: &mut Variables) -> Result<()> {
        to.deleted(self.deleted);
        for variable in &self.variables {
            let ttl = variable.ttl_ms;
            let ttl = ttl.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
            let (name, stored) = (variable.name.as_str(), variable.rows.stored());
            match &variable.kind {
                Kind::Value => drop(to.value::<()>(name, stored, ttl)?),
                Kind::List => drop(to.list::<()>(name, stored, ttl)?),
                Kind::Map(key) => drop(to.map::<(), ()>(name, key.stored(), stored, ttl)?),
            }
        }
        Ok(())
    }
}

/// Answers `init` of a processor that has no rows and no timers yet, and notes what it declares.
#[derive(Debug, Default)]
pub(in crate::python) struct Declaring {
    pub(in crate::python) declared: Declared,
    /// Whether all columns must take NULL, as Avro wants it.
    pub(in crate::python) nullable: bool,
    pub(in crate::python) failure: Option<Error>,
}

impl Answers for Declaring {
    fn answer(&mut self, request: Request) -> Result<Vec<u8>> {
        let answer = self.said(request);
        if let Err(error) = &answer
            && self.failure.is_none()
        {
            self.failure = Some(Error::new(error.kind(), error.to_string()));
        }
        answer
    }
}

impl Declaring {
    fn said(&mut self, request: Request) -> Result<Vec<u8>> {
        match request {
            Request::Processor(call) => self.call(call),
            Request::Parse(request) => parsed(&request),
            Request::Key(request) => match request.method {
                Some(key_request::Method::Remove(_)) => Ok(done(Vec::new())),
                _ => Err(outside()),
            },
            Request::Timer(request) => match request.method.ok_or_else(asks_nothing)? {
                timer_request::Method::Value(_) => Ok(long(0)),
                timer_request::Method::Expiry(_) => Ok(said(NOTHING, "no timer is due")),
            },
            Request::Variable(_) => Err(outside()),
        }
    }

    fn call(&mut self, call: ProcessorCall) -> Result<Vec<u8>> {
        use processor_call::Method;
        match call.method.ok_or_else(asks_nothing)? {
            Method::SetHandleState(_) => {}
            Method::GetValueState(it) => {
                let schema = parse_schema(&it.schema)?;
                self.add(it, Kind::Value, &schema)?;
            }
            Method::GetListState(it) => {
                let schema = parse_schema(&it.schema)?;
                self.add(it, Kind::List, &schema)?;
            }
            Method::GetMapState(it) => {
                let key = parse_schema(&it.schema)?;
                let value = parse_schema(&it.map_state_value_schema)?;
                self.check(&it.state_name, &key)?;
                self.add(it, Kind::Map(StateRows::new(&key)), &value)?;
            }
            Method::DeleteIfExists(it) => {
                let before = self.declared.variables.len();
                self.declared.variables.retain(|variable| variable.name != it.state_name);
                let gone = before - self.declared.variables.len();
                self.declared.deleted += u64::try_from(gone).unwrap_or(0);
            }
            Method::TimerState(_) => return Err(outside()),
        }
        Ok(done(Vec::new()))
    }

    fn add(&mut self, declaration: StateDeclaration, kind: Kind, schema: &SchemaRef) -> Result<()> {
        let name = declaration.state_name;
        self.check(&name, schema)?;
        if self.declared.place(&name).is_some() {
            return Err(Error::invalid(format!(
                "[STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED] State variable with name \
                 {name} has already been defined in the StatefulProcessor."
            )));
        }
        let ttl_ms = declaration.ttl.map(|ttl| ttl.duration_ms);
        if ttl_ms.is_some_and(|ms| ms <= 0) {
            return Err(Error::invalid(format!(
                "[STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE] The TTL of the state variable \
                 {name} must be greater than zero."
            )));
        }
        let rows = StateRows::new(schema);
        self.declared.variables.push(Variable { name, kind, rows, ttl_ms });
        Ok(())
    }

    fn check(&self, name: &str, schema: &Schema) -> Result<()> {
        if self.nullable && !schema.fields().iter().all(|field| takes_null(field)) {
            return Err(Error::invalid(format!(
                "[TRANSFORM_WITH_STATE_SCHEMA_MUST_BE_NULLABLE] With Avro all fields in the schema \
                 for column family {name} must be nullable: declare them so, or set \
                 spark.sql.streaming.stateStore.encodingFormat to UnsafeRow"
            )));
        }
        Ok(())
    }
}

fn takes_null(field: &arrow::datatypes::Field) -> bool {
    field.is_nullable()
        && match field.data_type() {
            DataType::Struct(fields) => fields.iter().all(|field| takes_null(field)),
            _ => true,
        }
}

fn outside() -> Error {
    Error::invalid("init declares variables only: state and timers are those of a key")
}
