//! One execution that a client asked for: it runs by itself, and clients attach to its responses.
//!
//! The client may lose the stream at any time and attach again behind the last response it saw;
//! responses are kept until it releases them. The server ends a stream by itself after some time
//! or bytes; the operation is over only when it said so.

mod log;

use crate::failure::Failure;
use crate::python::Calls;
use crate::result_rows::Chunking;
use futures::Stream;
use log::{ResponseLog, Seek};
use prost::Message;
use spark_connect_proto::ExecutePlanResponse;
use spark_connect_proto::execute_plan_response::{ResponseType, ResultComplete};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tonic::Status;
use uuid::Uuid;

/// What a client receives.
pub(crate) type ResponseStream =
    Pin<Box<dyn Stream<Item = Result<ExecutePlanResponse, Status>> + Send>>;

/// When the server ends a stream of responses by itself.
#[derive(Debug, Clone, Copy)]
pub struct StreamLimits {
    /// After this time.
    pub duration: Duration,
    /// After this many bytes.
    pub bytes: usize,
}

impl Default for StreamLimits {
    /// Spark's own: two minutes or a gigabyte.
    fn default() -> Self {
        StreamLimits { duration: Duration::from_secs(120), bytes: 1 << 30 }
    }
}

/// How far responses may run ahead of the client, in bytes.
const AHEAD_MAX: usize = 64 << 20;
/// Bytes of responses that are kept though they were sent, for a client that lost its stream: there
/// are clients that release all at the end.
const SENT_KEPT: usize = 10 << 20;

/// Who an operation belongs to, as its responses say.
#[derive(Debug, Clone)]
pub(crate) struct OperationIds {
    pub(crate) session: String,
    pub(crate) server_session: String,
    pub(crate) operation: String,
}

/// What a client asks of an execution beside its plan.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) reattachable: bool,
    pub(crate) chunking: Chunking,
    pub(crate) batch_function: Option<String>,
    pub(crate) tags: Vec<String>,
}

/// An execution with its responses.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) ids: OperationIds,
    pub(crate) reattachable: bool,
    pub(crate) tags: Vec<String>,
    /// Whether the client takes batches in chunks.
    pub(crate) chunking: Chunking,
    /// The `foreachBatch` function that asks for it.
    pub(crate) batch_function: Option<String>,
    /// The calls of functions in Python that it waits for.
    pub(crate) calls: Calls,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    cancelled: watch::Sender<bool>,
    listener: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    log: ResponseLog,
    end: Option<Result<(), Status>>,
    /// The newest attachment; older ones end when there is a newer one.
    attachment: u64,
    /// Since when no client is attached.
    detached: Option<Instant>,
}

impl Operation {
    pub(crate) fn new(ids: OperationIds, asked: Asked) -> Arc<Self> {
        let Asked { reattachable, chunking, batch_function, tags } = asked;
        Arc::new(Operation {
            ids,
            reattachable,
            tags,
            chunking,
            batch_function,
            calls: Calls::default(),
            state: Mutex::default(),
            changed: watch::Sender::new(0),
            cancelled: watch::Sender::new(false),
            listener: AtomicBool::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn response(&self) -> ExecutePlanResponse {
        ExecutePlanResponse {
            session_id: self.ids.session.clone(),
            server_side_session_id: self.ids.server_session.clone(),
            operation_id: self.ids.operation.clone(),
            response_id: Uuid::new_v4().to_string(),
            ..ExecutePlanResponse::default()
        }
    }

    /// Adds a response; waits while the client is far behind.
    pub(crate) async fn send(&self, response: ResponseType) {
        let response = ExecutePlanResponse { response_type: Some(response), ..self.response() };
        self.send_whole(response).await;
    }

    /// As [`Operation::send`], for responses with more than a result.
    pub(crate) async fn send_whole(&self, response: ExecutePlanResponse) {
        let size = response.encoded_len();
        let mut changed = self.changed.subscribe();
        loop {
            {
                let mut state = self.state();
                let held = state.log.bytes();
                if held == 0 || held.saturating_add(size) <= AHEAD_MAX {
                    state.log.push(response, size);
                    break;
                }
            }
            // The sender lives in `self`.
            let _ = changed.changed().await;
        }
        self.touch();
    }

    /// A response without a result yet, to be filled.
    pub(crate) fn blank(&self) -> ExecutePlanResponse {
        self.response()
    }

    /// Ends the operation: well, or with what went wrong.
    pub(crate) fn finish(&self, result: Result<(), Status>) {
        {
            let mut state = self.state();
            if state.end.is_some() {
                return;
            }
            if result.is_ok() && self.reattachable {
                let complete = ResponseType::ResultComplete(ResultComplete {});
                let response =
                    ExecutePlanResponse { response_type: Some(complete), ..self.response() };
                let size = response.encoded_len();
                state.log.push(response, size);
            }
            state.end = Some(result);
        }
        self.touch();
    }

    /// Whether it has ended, and how.
    pub(crate) fn ended(&self) -> Option<Result<(), Status>> {
        self.state().end.clone()
    }

    /// Says that this one tells events, and is not to be interrupted.
    pub(crate) fn set_listener(&self) {
        self.listener.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_listener(&self) -> bool {
        self.listener.load(Ordering::Relaxed)
    }

    /// Asks the execution to stop.
    pub(crate) fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    /// Waits until someone asks to stop.
    pub(crate) async fn until_cancelled(&self) {
        let mut cancelled = self.cancelled.subscribe();
        // The sender lives in `self`.
        let _ = cancelled.wait_for(|now| *now).await;
    }

    /// Notes that an attached client went away. One that cannot attach again wants nothing more.
    fn detach(&self, attachment: u64) {
        let runs = {
            let mut state = self.state();
            if state.attachment != attachment {
                return;
            }
            state.detached = Some(Instant::now());
            state.end.is_none()
        };
        if runs && !self.reattachable {
            self.cancel();
        }
    }

    /// Whether a client is attached.
    pub(crate) fn is_attached(&self) -> bool {
        self.state().detached.is_none()
    }

    /// Whether nobody can ask for anything more of it: its client is gone, and cannot come back or
    /// did not for so long.
    pub(crate) fn is_forgotten(&self, now: Instant, limit: Duration) -> bool {
        self.state()
            .detached
            .is_some_and(|since| !self.reattachable || now.saturating_duration_since(since) > limit)
    }

    /// Lets go of responses that the client has.
    pub(crate) fn release_until(&self, id: &str) {
        self.state().log.release_until(id);
        self.touch();
    }

    /// Sends responses behind the one with this id. A client that attached before is sent away.
    ///
    /// # Errors
    /// When no response has this id, or what comes behind it is released.
    pub(crate) fn attach(
        self: &Arc<Self>,
        after: Option<&str>,
        limits: StreamLimits,
    ) -> Result<ResponseStream, Failure> {
        let (next, attachment) = {
            let mut state = self.state();
            let next = match state.log.seek(after) {
                Seek::Found(next) => next,
                Seek::Unknown => return Err(Failure::cursor("POSITION_NOT_FOUND", after)),
                Seek::Released => return Err(Failure::cursor("POSITION_NOT_AVAILABLE", after)),
            };
            state.attachment += 1;
            state.detached = None;
            (next, state.attachment)
        };
        self.touch();
        let cursor = Cursor {
            operation: Arc::clone(self),
            changed: self.changed.subscribe(),
            next,
            attachment,
            sent: 0,
            limits,
            deadline: tokio::time::Instant::now() + limits.duration,
            over: false,
        };
        Ok(Box::pin(futures::stream::unfold(cursor, Cursor::step)))
    }
}

/// One client's place in the responses.
struct Cursor {
    operation: Arc<Operation>,
    changed: watch::Receiver<u64>,
    next: u64,
    attachment: u64,
    sent: usize,
    limits: StreamLimits,
    deadline: tokio::time::Instant,
    over: bool,
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.operation.detach(self.attachment);
    }
}

/// What the cursor found.
enum Look {
    Response(Box<ExecutePlanResponse>),
    End(Option<Status>),
    Wait,
}

impl Cursor {
    async fn step(mut self) -> Option<(Result<ExecutePlanResponse, Status>, Self)> {
        loop {
            if self.over {
                return None;
            }
            match self.look() {
                Look::Response(response) => {
                    self.next += 1;
                    self.sent = self.sent.saturating_add(response.encoded_len());
                    self.let_go();
                    return Some((Ok(*response), self));
                }
                Look::End(None) => return None,
                Look::End(Some(status)) => {
                    self.over = true;
                    return Some((Err(status), self));
                }
                Look::Wait => {
                    let changed = self.changed.changed();
                    if self.operation.reattachable {
                        let late = tokio::time::timeout_at(self.deadline, changed).await.is_err();
                        if late {
                            return None;
                        }
                    } else {
                        // The sender lives in the operation.
                        let _ = changed.await;
                    }
                }
            }
        }
    }

    fn look(&mut self) -> Look {
        self.changed.mark_unchanged();
        let state = self.operation.state();
        if state.attachment != self.attachment {
            return Look::End(Some(Failure::cursor("DISCONNECTED", None).into_status(None)));
        }
        if self.operation.reattachable
            && (self.sent >= self.limits.bytes || tokio::time::Instant::now() >= self.deadline)
        {
            return Look::End(None);
        }
        if let Some(response) = state.log.get(self.next) {
            return Look::Response(Box::new(response.clone()));
        }
        match &state.end {
            Some(end) => Look::End(end.clone().err()),
            None => Look::Wait,
        }
    }

    /// A client that cannot attach again needs nothing kept, another one not everything.
    fn let_go(&self) {
        let kept = if self.operation.reattachable { SENT_KEPT } else { 0 };
        self.operation.state().log.release_sent(self.next, kept);
        self.operation.touch();
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Operation, OperationIds, StreamLimits};
    use futures::{FutureExt, StreamExt};
    use spark_connect_proto::execute_plan_response::{ArrowBatch, ResponseType};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    fn operation(reattachable: bool) -> Arc<Operation> {
        let ids = OperationIds {
            session: "s".to_owned(),
            server_session: "t".to_owned(),
            operation: "o".to_owned(),
        };
        Operation::new(ids, Asked { reattachable, ..Asked::default() })
    }

    fn rows() -> ResponseType {
        let data = vec![0; 30 << 20].into();
        ResponseType::ArrowBatch(ArrowBatch { data, ..ArrowBatch::default() })
    }

    #[test]
    fn rows_wait_for_a_client_that_reads_slowly_and_releases_nothing() {
        for reattachable in [false, true] {
            let operation = operation(reattachable);
            let mut stream = operation.attach(None, StreamLimits::default()).unwrap();
            let sent = || operation.send(rows()).now_or_never().is_some();
            assert!(sent() && sent());
            for _ in 0..4 {
                assert!(!sent(), "more than 64 MiB ahead");
                assert!(stream.next().now_or_never().flatten().is_some());
                assert!(sent());
            }
        }
    }

    #[test]
    fn an_operation_without_a_client_is_forgotten_in_time() {
        let (now, limit) = (Instant::now(), Duration::from_secs(60));
        for reattachable in [false, true] {
            let operation = operation(reattachable);
            let stream = operation.attach(None, StreamLimits::default()).unwrap();
            assert!(operation.is_attached() && !operation.is_forgotten(now, limit));
            drop(stream);
            assert_eq!(operation.is_forgotten(now, limit), !reattachable);
            assert!(operation.is_forgotten(now + limit * 2, limit));
            let again = operation.attach(None, StreamLimits::default()).unwrap();
            assert!(!operation.is_forgotten(now + limit * 2, limit));
            drop(again);
        }
    }
}
