//! The messages in which a processor in Python asks for its state (`StateMessage_pb2` of PySpark).
//!
//! Only the messages that 4.2's clients send; names and numbers are the protocol's.

#![allow(missing_docs, reason = "the protocol's own names")]

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct StateRequest {
    #[prost(int32, tag = "1")]
    pub(super) version: i32,
    #[prost(oneof = "Request", tags = "2, 3, 4, 5, 6")]
    pub(super) method: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Request {
    #[prost(message, tag = "2")]
    Processor(ProcessorCall),
    #[prost(message, tag = "3")]
    Variable(VariableRequest),
    #[prost(message, tag = "4")]
    Key(KeyRequest),
    #[prost(message, tag = "5")]
    Timer(TimerRequest),
    #[prost(message, tag = "6")]
    Parse(ParseRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessorCall {
    #[prost(oneof = "processor_call::Method", tags = "1, 2, 3, 4, 5, 6")]
    pub(super) method: Option<processor_call::Method>,
}

pub(super) mod processor_call {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Method {
        #[prost(message, tag = "1")]
        SetHandleState(super::SetHandleState),
        #[prost(message, tag = "2")]
        GetValueState(super::StateDeclaration),
        #[prost(message, tag = "3")]
        GetListState(super::StateDeclaration),
        #[prost(message, tag = "4")]
        GetMapState(super::StateDeclaration),
        #[prost(message, tag = "5")]
        TimerState(super::TimerState),
        #[prost(message, tag = "6")]
        DeleteIfExists(super::StateDeclaration),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SetHandleState {
    #[prost(int32, tag = "1")]
    pub(super) state: i32,
}

/// [`SetHandleState::state`]: the worker is done.
pub(super) const CLOSED: i32 = 5;

#[derive(Clone, PartialEq, Message)]
pub(super) struct StateDeclaration {
    #[prost(string, tag = "1")]
    pub(super) state_name: String,
    #[prost(string, tag = "2")]
    pub(super) schema: String,
    #[prost(string, tag = "3")]
    pub(super) map_state_value_schema: String,
    #[prost(message, optional, tag = "4")]
    pub(super) ttl: Option<Ttl>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Ttl {
    #[prost(int64, tag = "1")]
    pub(super) duration_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TimerState {
    #[prost(oneof = "timer_state::Method", tags = "1, 2, 3")]
    pub(super) method: Option<timer_state::Method>,
}

pub(super) mod timer_state {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Method {
        #[prost(message, tag = "1")]
        Register(super::At),
        #[prost(message, tag = "2")]
        Delete(super::At),
        #[prost(message, tag = "3")]
        List(super::Iterated),
    }
}

/// A time in milliseconds.
#[derive(Clone, PartialEq, Message)]
pub(super) struct At {
    #[prost(int64, tag = "1")]
    pub(super) expiry_timestamp_ms: i64,
}

/// An iterator that a client made.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Iterated {
    #[prost(string, tag = "1")]
    pub(super) iterator_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Empty {}

/// One pickled row.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OneRow {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) row: Vec<u8>,
}

/// Pickled rows.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ManyRows {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) value: Vec<Vec<u8>>,
    #[prost(bool, tag = "2")]
    pub(super) fetch_with_arrow: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct VariableRequest {
    #[prost(oneof = "variable_request::Method", tags = "1, 2, 3")]
    pub(super) method: Option<variable_request::Method>,
}

pub(super) mod variable_request {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Method {
        #[prost(message, tag = "1")]
        Value(super::ValueCall),
        #[prost(message, tag = "2")]
        List(super::ListCall),
        #[prost(message, tag = "3")]
        Map(super::MapCall),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueCall {
    #[prost(string, tag = "1")]
    pub(super) state_name: String,
    #[prost(oneof = "value_call::Method", tags = "2, 3, 4, 5")]
    pub(super) method: Option<value_call::Method>,
}

pub(super) mod value_call {
    use super::Empty;

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Method {
        #[prost(message, tag = "2")]
        Exists(Empty),
        #[prost(message, tag = "3")]
        Get(Empty),
        #[prost(message, tag = "4")]
        Update(super::OneRow),
        #[prost(message, tag = "5")]
        Clear(Empty),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListCall {
    #[prost(string, tag = "1")]
    pub(super) state_name: String,
    #[prost(oneof = "list_call::Method", tags = "2, 3, 4, 5, 6, 7")]
    pub(super) method: Option<list_call::Method>,
}

pub(super) mod list_call {
    use super::Empty;

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Method {
        #[prost(message, tag = "2")]
        Exists(Empty),
        #[prost(message, tag = "3")]
        Get(super::Iterated),
        #[prost(message, tag = "4")]
        Put(super::ManyRows),
        #[prost(message, tag = "5")]
        AppendValue(super::OneRow),
        #[prost(message, tag = "6")]
        AppendList(super::ManyRows),
        #[prost(message, tag = "7")]
        Clear(Empty),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MapCall {
    #[prost(string, tag = "1")]
    pub(super) state_name: String,
    #[prost(oneof = "map_call::Method", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub(super) method: Option<map_call::Method>,
}

pub(super) mod map_call {
    use super::Empty;

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Method {
        #[prost(message, tag = "2")]
        Exists(Empty),
        #[prost(message, tag = "3")]
        GetValue(super::OneRow),
        #[prost(message, tag = "4")]
        ContainsKey(super::OneRow),
        #[prost(message, tag = "5")]
        UpdateValue(super::KeyAndValue),
        #[prost(message, tag = "6")]
        Iterator(super::Iterated),
        #[prost(message, tag = "7")]
        Keys(super::Iterated),
        #[prost(message, tag = "8")]
        Values(super::Iterated),
        #[prost(message, tag = "9")]
        RemoveKey(super::OneRow),
        #[prost(message, tag = "10")]
        Clear(Empty),
    }
}

/// A pickled key and its value: in requests and in responses.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyAndValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyRequest {
    #[prost(oneof = "key_request::Method", tags = "1, 2")]
    pub(super) method: Option<key_request::Method>,
}

pub(super) mod key_request {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Method {
        #[prost(message, tag = "1")]
        Set(super::OneRow),
        #[prost(message, tag = "2")]
        Remove(super::Empty),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TimerRequest {
    #[prost(oneof = "timer_request::Method", tags = "1, 2")]
    pub(super) method: Option<timer_request::Method>,
}

pub(super) mod timer_request {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Method {
        #[prost(message, tag = "1")]
        Value(super::TimerValue),
        #[prost(message, tag = "2")]
        Expiry(super::Expiry),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TimerValue {
    #[prost(oneof = "timer_value::Method", tags = "1, 2")]
    pub(super) method: Option<timer_value::Method>,
}

pub(super) mod timer_value {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Method {
        #[prost(message, tag = "1")]
        ProcessingTime(super::Empty),
        #[prost(message, tag = "2")]
        Watermark(super::Empty),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Expiry {
    #[prost(string, tag = "1")]
    pub(super) iterator_id: String,
    #[prost(int64, tag = "2")]
    pub(super) expiry_timestamp_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ParseRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) parse_string_schema: Option<ParseStringSchema>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ParseStringSchema {
    #[prost(string, tag = "1")]
    pub(super) schema: String,
}

/// The response to most requests.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Response {
    #[prost(int32, tag = "1")]
    pub(super) status_code: i32,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LongResponse {
    #[prost(int32, tag = "1")]
    pub(super) status_code: i32,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
    #[prost(int64, tag = "3")]
    pub(super) value: i64,
}

/// Rows of a list, or keys or values of a map.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RowsResponse {
    #[prost(int32, tag = "1")]
    pub(super) status_code: i32,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(super) value: Vec<Vec<u8>>,
    #[prost(bool, tag = "4")]
    pub(super) require_next_fetch: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EntriesResponse {
    #[prost(int32, tag = "1")]
    pub(super) status_code: i32,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) kv_pair: Vec<KeyAndValue>,
    #[prost(bool, tag = "4")]
    pub(super) require_next_fetch: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TimersResponse {
    #[prost(int32, tag = "1")]
    pub(super) status_code: i32,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) timer: Vec<TimerInfo>,
    #[prost(bool, tag = "4")]
    pub(super) require_next_fetch: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TimerInfo {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(super) key: Option<Vec<u8>>,
    #[prost(int64, tag = "2")]
    pub(super) timestamp_ms: i64,
}
