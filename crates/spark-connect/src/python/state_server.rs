//! The state of a partition's keys as a processor in Python asks for it.

mod declare;
mod pages;
mod variables;

pub(super) use declare::{Declared, Declaring, Kind};

use super::state_messages as messages;
use super::state_messages::{
    At, KeyRequest, LongResponse, ParseRequest, ProcessorCall, Request, Response, StateRequest,
    TimerInfo, TimerRequest, TimersResponse, key_request, processor_call, timer_request,
    timer_state, timer_value,
};
use super::state_rows::StateRows;
use super::state_socket::StateSocket;
use super::wire::{read_int, write_bytes};
use crate::message;
use onefold_plan::schema::{parse_schema, schema_json};
use onefold_plan::stream::PartitionKeys;
use onefold_types::{Error, ErrorKind, Result};
use pages::Pages;
use prost::Message;
use std::collections::HashMap;
use std::io::{self, BufReader, BufWriter, Read, Write};

/// Largest request, in bytes.
const REQUEST_MAX: usize = 1 << 30;
/// Timers sent at a time.
const TIMERS: usize = 1_000;

/// There is nothing, or nothing more.
const NOTHING: i32 = 2;
/// The call failed.
const FAILED: i32 = 1;

/// Answers requests.
pub(super) trait Answers {
    /// The bytes of the response. An error is told to the processor.
    fn answer(&mut self, request: Request) -> Result<Vec<u8>>;
}

/// Answers the requests of a task until it is over.
///
/// # Errors
/// Only what the processor cannot be told.
pub(super) fn serve(socket: &StateSocket, server: &mut dyn Answers) -> io::Result<()> {
    let Some(stream) = socket.accept()? else { return Ok(()) };
    let mut from = BufReader::with_capacity(1 << 16, stream.try_clone()?);
    let mut to = BufWriter::with_capacity(1 << 16, stream);
    loop {
        let version = match read_int(&mut from) {
            Ok(version) => version,
            // The worker closed it, or the task is over.
            Err(_) => return Ok(()),
        };
        if version == -1 {
            return Ok(());
        }
        let size = usize::try_from(read_int(&mut from)?).ok().filter(|size| *size <= REQUEST_MAX);
        let size = size.ok_or_else(|| io::Error::other("a request for state is too large"))?;
        let mut bytes = Vec::new();
        from.by_ref().take(u64::try_from(size).unwrap_or(0)).read_to_end(&mut bytes)?;
        // The processor is a user's, and what it sends may be nested as deep as it likes.
        let request: StateRequest = message::decode(bytes.into())
            .map_err(|failure| io::Error::other(failure.message().to_owned()))?;
        let request = request.method.ok_or_else(|| io::Error::other("a request asks nothing"))?;
        let last = closes(&request);
        let response = server.answer(request).unwrap_or_else(|error| failed(&error));
        write_bytes(&mut to, &response)?;
        to.flush()?;
        if last {
            return Ok(());
        }
    }
}

fn closes(request: &Request) -> bool {
    let Request::Processor(ProcessorCall { method }) = request else { return false };
    matches!(method, Some(processor_call::Method::SetHandleState(set)) if set.state == messages::CLOSED)
}

/// All responses begin with a status and a text.
fn failed(error: &Error) -> Vec<u8> {
    said(FAILED, &error.to_string())
}

fn said(status_code: i32, text: &str) -> Vec<u8> {
    Response { status_code, error_message: text.to_owned(), value: Vec::new() }.encode_to_vec()
}

/// A response with a value, or with none.
fn done(value: Vec<u8>) -> Vec<u8> {
    Response { status_code: 0, error_message: String::new(), value }.encode_to_vec()
}

fn long(value: i64) -> Vec<u8> {
    LongResponse { status_code: 0, error_message: String::new(), value }.encode_to_vec()
}

fn asks_nothing() -> Error {
    Error::invalid(
        "a request for state asks nothing that this server knows: is the worker's \
                    pyspark of version 4.2?",
    )
}

/// A schema in DDL as JSON.
fn parsed(request: &ParseRequest) -> Result<Vec<u8>> {
    let request = request.parse_string_schema.as_ref().ok_or_else(asks_nothing)?;
    Ok(done(schema_json(parse_schema(&request.schema)?.as_ref()).into_bytes()))
}

/// The state of a partition while a task is at work.
pub(super) struct StateServer<'a, 'k> {
    keys: &'a mut PartitionKeys<'k>,
    declared: &'a Declared,
    /// How keys are pickled.
    key_rows: StateRows,
    /// What the task asked for in `init`, by name; without a place where it was deleted again.
    known: HashMap<String, Option<usize>>,
    /// What iterators of the key at hand have not given yet.
    pages: Pages,
    /// The first failure that is not the processor's fault: the batch fails, whatever the processor
    /// does when it hears of it.
    pub(super) broken: Option<Error>,
}

impl<'a, 'k> StateServer<'a, 'k> {
    pub(super) fn new(keys: &'a mut PartitionKeys<'k>, declared: &'a Declared) -> Self {
        let key_rows = StateRows::new(keys.key_schema());
        let (known, pages) = (HashMap::new(), Pages::default());
        StateServer { keys, declared, key_rows, known, pages, broken: None }
    }
}

impl Answers for StateServer<'_, '_> {
    fn answer(&mut self, request: Request) -> Result<Vec<u8>> {
        let answer = match request {
            Request::Processor(call) => self.processor(call),
            Request::Variable(request) => self.variable(request),
            Request::Key(request) => self.key(request),
            Request::Timer(request) => self.timer(request),
            Request::Parse(request) => parsed(&request),
        };
        if let Err(error) = &answer
            && error.kind() != ErrorKind::Invalid
            && self.broken.is_none()
        {
            let text = format!("the state failed a processor: {error}");
            self.broken = Some(Error::new(error.kind(), text));
        }
        answer
    }
}

impl StateServer<'_, '_> {
    fn key(&mut self, request: KeyRequest) -> Result<Vec<u8>> {
        self.pages.clear();
        match request.method.ok_or_else(asks_nothing)? {
            key_request::Method::Set(key) => {
                let key = self.key_rows.read_columns(&key.row)?;
                self.keys.begin(&key)?;
            }
            key_request::Method::Remove(_) => self.keys.leave(),
        }
        Ok(done(Vec::new()))
    }

    fn processor(&mut self, call: ProcessorCall) -> Result<Vec<u8>> {
        use processor_call::Method;
        match call.method.ok_or_else(asks_nothing)? {
            Method::SetHandleState(_) => {}
            Method::GetValueState(it) => self.know(it.state_name, Kind::is_value)?,
            Method::GetListState(it) => self.know(it.state_name, Kind::is_list)?,
            Method::GetMapState(it) => self.know(it.state_name, Kind::is_map)?,
            Method::DeleteIfExists(it) => drop(self.known.remove(&it.state_name)),
            Method::TimerState(call) => return self.timers(call.method.ok_or_else(asks_nothing)?),
        }
        Ok(done(Vec::new()))
    }

    /// A variable that `init` asks for: one that was declared when the query started, or one that
    /// `init` deletes again.
    fn know(&mut self, name: String, is_kind: fn(&Kind) -> bool) -> Result<()> {
        let place = self.declared.place(&name);
        let kind = place.and_then(|place| self.declared.variable(place));
        if kind.is_some_and(|variable| !is_kind(&variable.kind)) {
            return Err(Error::invalid(format!(
                "the variable {name} is of another kind than when the query started: init must \
                 declare the same each time"
            )));
        }
        self.known.insert(name, place);
        Ok(())
    }

    fn timers(&mut self, call: timer_state::Method) -> Result<Vec<u8>> {
        match call {
            timer_state::Method::Register(At { expiry_timestamp_ms }) => {
                self.keys.context()?.register_timer(expiry_timestamp_ms)?;
            }
            timer_state::Method::Delete(At { expiry_timestamp_ms }) => {
                self.keys.context()?.delete_timer(expiry_timestamp_ms)?;
            }
            timer_state::Method::List(list) => {
                if self.pages.is_over(&list.iterator_id) {
                    return Ok(said(NOTHING, "all timers of the key were given"));
                }
                let times = self.keys.context()?.list_timers()?;
                self.pages.ended(list.iterator_id);
                if times.is_empty() {
                    return Ok(said(NOTHING, "the key has no timer"));
                }
                let timer = |timestamp_ms| TimerInfo { key: None, timestamp_ms };
                return Ok(TimersResponse {
                    timer: times.into_iter().map(timer).collect(),
                    ..TimersResponse::default()
                }
                .encode_to_vec());
            }
        }
        Ok(done(Vec::new()))
    }

    fn timer(&mut self, request: TimerRequest) -> Result<Vec<u8>> {
        match request.method.ok_or_else(asks_nothing)? {
            timer_request::Method::Value(value) => Ok(match value.method {
                Some(timer_value::Method::ProcessingTime(_)) => {
                    long(self.keys.current_processing_time_ms())
                }
                Some(timer_value::Method::Watermark(_)) => long(self.keys.current_watermark_ms()),
                None => return Err(asks_nothing()),
            }),
            timer_request::Method::Expiry(_) => {
                let Some(due) = self.keys.due(TIMERS)? else {
                    return Ok(said(NOTHING, "no timer is due"));
                };
                let mut timer = Vec::with_capacity(due.expiries_ms.len());
                for (row, timestamp_ms) in due.expiries_ms.into_iter().enumerate() {
                    let key = self.key_rows.write_columns(due.keys.columns(), row)?;
                    timer.push(TimerInfo { key: Some(key), timestamp_ms });
                }
                // A further call finds what is due then, or nothing.
                let more = TimersResponse { timer, require_next_fetch: true, ..Default::default() };
                Ok(more.encode_to_vec())
            }
        }
    }
}
