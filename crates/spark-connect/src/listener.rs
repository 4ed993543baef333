//! The stream of events for listeners that live in the client.
//!
//! The first listener of a client opens one long operation; every event of the session's queries is
//! a response of it, until the client removes its last listener. A query's start is told in the
//! answer to `start`, so that the client's listener hears of it before `start` returns.

use crate::client_session::ClientSession;
use crate::failure::{Failure, Outcome};
use crate::operation::Operation;
use onefold_engine::{
    ListenerId, QueryIdle, QueryStarted, QueryTerminated, Session, StreamingQuery,
    StreamingQueryListener, StreamingQueryProgress,
};
use serde_json::json;
use spark_connect_proto::execute_plan_response::ResponseType;
use spark_connect_proto::streaming_query_listener_bus_command::Command;
use spark_connect_proto::{
    StreamingQueryEventType, StreamingQueryListenerBusCommand, StreamingQueryListenerEvent,
    StreamingQueryListenerEventsResult,
};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, watch};

/// Events that may wait for a client that does not read.
const WAITING_MAX: usize = 10_000;

type Started = Arc<Mutex<Vec<(String, String)>>>;

/// The session's open stream of events.
#[derive(Debug)]
pub(crate) struct ListenerStream {
    engine: Session,
    listener: ListenerId,
    started: Started,
    over: watch::Sender<bool>,
}

impl Drop for ListenerStream {
    fn drop(&mut self) {
        self.engine.streams().remove_listener(self.listener);
        self.over.send_replace(true);
    }
}

/// The start events of the queries that are being started.
pub(crate) struct StartedEvents(Option<Started>);

impl StartedEvents {
    /// The event of this query's start, if anyone listens.
    pub(crate) fn take(&self, query: &StreamingQuery) -> Option<String> {
        let run = query.run_id().to_string();
        let mut started = self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let place = started.iter().position(|(known, _)| *known == run)?;
        Some(started.swap_remove(place).1)
    }
}

impl ClientSession {
    /// The start events, to be asked before a query starts.
    pub(crate) fn started_events(&self) -> StartedEvents {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        StartedEvents(listeners.as_ref().map(|stream| Arc::clone(&stream.started)))
    }
}

/// Hears the engine's events and passes them on.
struct Forward {
    events: mpsc::Sender<StreamingQueryListenerEvent>,
    started: Started,
}

impl Forward {
    fn pass(&self, kind: StreamingQueryEventType, event_json: String) {
        let event = StreamingQueryListenerEvent { event_json, event_type: kind as i32 };
        if self.events.try_send(event).is_err() {
            tracing::warn!("a client does not read its listener events: one was dropped");
        }
    }
}

impl StreamingQueryListener for Forward {
    fn on_query_started(&self, event: &QueryStarted) {
        let json = json!({
            "id": event.id.to_string(),
            "runId": event.run_id.to_string(),
            "name": event.name,
            "timestamp": event.timestamp,
            "jobTags": [],
        });
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.push((event.run_id.to_string(), json.to_string()));
    }

    fn on_query_progress(&self, progress: &StreamingQueryProgress) {
        let json = format!("{{\"progress\":{}}}", progress.json());
        self.pass(StreamingQueryEventType::QueryProgressEvent, json);
    }

    fn on_query_idle(&self, event: &QueryIdle) {
        let json = serde_json::to_string(event).unwrap_or_default();
        self.pass(StreamingQueryEventType::QueryIdleEvent, json);
    }

    fn on_query_terminated(&self, event: &QueryTerminated) {
        let json = json!({
            "id": event.id.to_string(),
            "runId": event.run_id.to_string(),
            "exception": event.exception,
            "errorClassOnException": event.exception.as_deref().map(Failure::class_of_exception),
        });
        self.pass(StreamingQueryEventType::QueryTerminatedEvent, json.to_string());
    }
}

/// Opens the stream of events and serves it until it is closed, or closes it.
pub(crate) async fn serve(
    session: &Arc<ClientSession>,
    operation: &Arc<Operation>,
    command: StreamingQueryListenerBusCommand,
) -> Outcome<()> {
    match command.command.ok_or_else(|| Failure::missing("command"))? {
        Command::AddListenerBusListener(_) => {
            operation.set_listener();
            let (mut events, mut over) = open(session)?;
            let added = StreamingQueryListenerEventsResult {
                events: Vec::new(),
                listener_bus_listener_added: Some(true),
            };
            operation.send(ResponseType::StreamingQueryListenerEventsResult(added)).await;
            loop {
                // A client that removed its listener may wait for the end of this stream while it
                // holds the lock that it needs for a further event: there must be none.
                let event = tokio::select! {
                    biased;
                    _ = over.wait_for(|now| *now) => None,
                    event = events.recv() => event,
                };
                let Some(event) = event else { return Ok(()) };
                let result = StreamingQueryListenerEventsResult {
                    events: vec![event],
                    listener_bus_listener_added: None,
                };
                operation.send(ResponseType::StreamingQueryListenerEventsResult(result)).await;
            }
        }
        Command::RemoveListenerBusListener(_) => {
            session.listeners.lock().unwrap_or_else(PoisonError::into_inner).take();
            Ok(())
        }
    }
}

type Opened = (mpsc::Receiver<StreamingQueryListenerEvent>, watch::Receiver<bool>);

fn open(session: &ClientSession) -> Outcome<Opened> {
    let mut listeners = session.listeners.lock().unwrap_or_else(PoisonError::into_inner);
    if listeners.is_some() {
        return Err(Failure::invalid("the session has a stream of listener events already"));
    }
    let (send, receive) = mpsc::channel(WAITING_MAX);
    let started = Started::default();
    let forward = Forward { events: send, started: Arc::clone(&started) };
    let listener = session.engine.streams().add_listener(Arc::new(forward));
    let over = watch::Sender::new(false);
    let watching = over.subscribe();
    *listeners = Some(ListenerStream { engine: session.engine.clone(), listener, started, over });
    Ok((receive, watching))
}
