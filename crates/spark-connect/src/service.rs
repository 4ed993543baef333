//! The calls of the service, each to the part that answers it.

use crate::analyze;
use crate::artifacts::Upload;
use crate::client_session::ClientSession;
use crate::conf;
use crate::execute;
use crate::failure::{Failure, Outcome};
use crate::generated::spark_connect_service_server::SparkConnectService;
use crate::operation::{Asked, ResponseStream};
use crate::python::foreach_batch;
use crate::sessions::Sessions;
use spark_connect_proto::execute_plan_request::request_option::RequestOption;
use spark_connect_proto::interrupt_request::{Interrupt, InterruptType};
use spark_connect_proto::release_execute_request::Release;
use spark_connect_proto::{
    AddArtifactsRequest, AddArtifactsResponse, AnalyzePlanRequest, AnalyzePlanResponse,
    ArtifactStatusesRequest, ArtifactStatusesResponse, CloneSessionRequest, CloneSessionResponse,
    ConfigRequest, ConfigResponse, ExecutePlanRequest, FetchErrorDetailsRequest,
    FetchErrorDetailsResponse, GetStatusRequest, GetStatusResponse, InterruptRequest,
    InterruptResponse, ReattachExecuteRequest, ReleaseExecuteRequest, ReleaseExecuteResponse,
    ReleaseSessionRequest, ReleaseSessionResponse, UserContext, artifact_statuses_response,
    get_status_response,
};
use std::sync::Arc;
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

/// Lets calls through that carry the server's token.
#[derive(Clone)]
pub(crate) struct TokenCheck {
    token: Option<Arc<str>>,
}

impl TokenCheck {
    pub(crate) fn new(token: Option<String>) -> Self {
        TokenCheck { token: token.map(Arc::from) }
    }
}

impl tonic::service::Interceptor for TokenCheck {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some(token) = &self.token else { return Ok(request) };
        let sent = request.metadata().get("authorization").map(|value| value.as_bytes());
        let wanted = format!("Bearer {token}");
        if sent.is_some_and(|sent| same_bytes(sent, wanted.as_bytes())) {
            return Ok(request);
        }
        Err(Status::unauthenticated("the token is missing or wrong; connect with ;token=…"))
    }
}

/// Compares in a time that does not depend on where the texts differ.
fn same_bytes(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).fold(0_u8, |seen, (left, right)| seen | (left ^ right)) == 0
}

/// The service over all sessions.
pub(crate) struct Service {
    sessions: Arc<Sessions>,
}

impl Service {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        Service { sessions }
    }

    /// The session of a request. Making one blocks (threads are started).
    async fn session(
        &self,
        user: Option<&UserContext>,
        id: &str,
        observed: Option<&str>,
    ) -> Result<Arc<ClientSession>, Status> {
        let user = user_id(user);
        if let Some(known) = self.sessions.known(&user, id, observed) {
            return Ok(known);
        }
        let sessions = Arc::clone(&self.sessions);
        let (id, observed) = (id.to_owned(), observed.map(str::to_owned));
        let found =
            tokio::task::spawn_blocking(move || sessions.get(&user, &id, observed.as_deref()));
        joined(found.await).map_err(|failure| failure.into_status(None))
    }
}

fn user_id(user: Option<&UserContext>) -> String {
    user.map(|user| user.user_id.clone()).unwrap_or_default()
}

/// The result of a blocking task; a panic is an internal error of this request alone.
fn joined<T>(result: Result<Outcome<T>, tokio::task::JoinError>) -> Outcome<T> {
    result.unwrap_or_else(|error| {
        tracing::error!(%error, "a request panicked");
        Err(Failure::from(onefold_types::Error::internal(
            "the request met a bug in Onefold; please report it with the query",
        )))
    })
}

/// A failure as a status, with its details kept for the client.
pub(crate) fn status_of(session: &ClientSession, failure: Failure) -> Status {
    let id = session.keep_details(&failure);
    failure.into_status(Some(&id))
}

#[tonic::async_trait]
impl SparkConnectService for Service {
    type ExecutePlanStream = ResponseStream;
    type ReattachExecuteStream = ResponseStream;

    async fn execute_plan(
        &self,
        request: Request<ExecutePlanRequest>,
    ) -> Result<Response<ResponseStream>, Status> {
        let batch_function = request.metadata().get(foreach_batch::HEADER);
        let batch_function = batch_function.and_then(|it| it.to_str().ok()).map(str::to_owned);
        let request = request.into_inner();
        let session = self
            .session(
                request.user_context.as_ref(),
                &request.session_id,
                request.client_observed_server_side_session_id.as_deref(),
            )
            .await?;
        let mut asked = Asked { tags: request.tags, batch_function, ..Asked::default() };
        for option in request.request_options {
            match option.request_option {
                Some(RequestOption::ReattachOptions(it)) => asked.reattachable = it.reattachable,
                Some(RequestOption::ResultChunkingOptions(it)) => asked.chunking = Some(it),
                _ => {}
            }
        }
        let operation = session
            .begin(request.operation_id, asked)
            .map_err(|failure| status_of(&session, failure))?;
        let stream = operation
            .attach(None, self.sessions.limits.stream)
            .map_err(|failure| status_of(&session, failure))?;
        tokio::spawn(execute::run(session, operation, request.plan));
        Ok(Response::new(stream))
    }

    async fn analyze_plan(
        &self,
        request: Request<AnalyzePlanRequest>,
    ) -> Result<Response<AnalyzePlanResponse>, Status> {
        let request = request.into_inner();
        let session = self
            .session(
                request.user_context.as_ref(),
                &request.session_id,
                request.client_observed_server_side_session_id.as_deref(),
            )
            .await?;
        let worker = Arc::clone(&session);
        let result = tokio::task::spawn_blocking(move || {
            let analyze = request.analyze.ok_or_else(|| Failure::missing("analyze"))?;
            analyze::analyze(&worker, analyze)
        });
        let result = joined(result.await).map_err(|failure| status_of(&session, failure))?;
        Ok(Response::new(AnalyzePlanResponse {
            session_id: session.id.clone(),
            server_side_session_id: session.server_id.clone(),
            result: Some(result),
        }))
    }

    async fn config(
        &self,
        request: Request<ConfigRequest>,
    ) -> Result<Response<ConfigResponse>, Status> {
        let request = request.into_inner();
        let session = self
            .session(
                request.user_context.as_ref(),
                &request.session_id,
                request.client_observed_server_side_session_id.as_deref(),
            )
            .await?;
        let operation = request.operation.and_then(|operation| operation.op_type);
        let result = operation
            .ok_or_else(|| Failure::missing("operation"))
            .and_then(|operation| conf::answer(&session.engine, operation));
        let (pairs, warnings) = result.map_err(|failure| status_of(&session, failure))?;
        Ok(Response::new(ConfigResponse {
            session_id: session.id.clone(),
            server_side_session_id: session.server_id.clone(),
            pairs,
            warnings,
        }))
    }

    async fn add_artifacts(
        &self,
        request: Request<Streaming<AddArtifactsRequest>>,
    ) -> Result<Response<AddArtifactsResponse>, Status> {
        let mut stream = request.into_inner();
        let mut session = None;
        let mut upload = Upload::default();
        while let Some(message) = stream.message().await? {
            let known = match &session {
                Some(known) => Arc::clone(known),
                None => {
                    self.session(
                        message.user_context.as_ref(),
                        &message.session_id,
                        message.client_observed_server_side_session_id.as_deref(),
                    )
                    .await?
                }
            };
            session = Some(Arc::clone(&known));
            let Some(payload) = message.payload else { continue };
            let keeper = Arc::clone(&known);
            let kept = tokio::task::spawn_blocking(move || {
                upload.take(&keeper.artifacts, payload).map(|()| upload)
            });
            upload = joined(kept.await).map_err(|failure| status_of(&known, failure))?;
        }
        let Some(session) = session else {
            return Err(Failure::missing("payload").into_status(None));
        };
        Ok(Response::new(AddArtifactsResponse {
            session_id: session.id.clone(),
            server_side_session_id: session.server_id.clone(),
            artifacts: upload.summaries(),
        }))
    }

    async fn artifact_status(
        &self,
        request: Request<ArtifactStatusesRequest>,
    ) -> Result<Response<ArtifactStatusesResponse>, Status> {
        let request = request.into_inner();
        let session = self
            .session(
                request.user_context.as_ref(),
                &request.session_id,
                request.client_observed_server_side_session_id.as_deref(),
            )
            .await?;
        let statuses = request
            .names
            .into_iter()
            .map(|name| {
                let exists = session.artifacts.get(&name).is_some();
                (name, artifact_statuses_response::ArtifactStatus { exists })
            })
            .collect();
        Ok(Response::new(ArtifactStatusesResponse {
            session_id: session.id.clone(),
            server_side_session_id: session.server_id.clone(),
            statuses,
        }))
    }

    async fn interrupt(
        &self,
        request: Request<InterruptRequest>,
    ) -> Result<Response<InterruptResponse>, Status> {
        let request = request.into_inner();
        let session = self
            .session(
                request.user_context.as_ref(),
                &request.session_id,
                request.client_observed_server_side_session_id.as_deref(),
            )
            .await?;
        let all = request.interrupt_type == InterruptType::All as i32;
        let mut interrupted_ids = Vec::new();
        if all {
            // Spark's queries end with the jobs that they run.
            let stopping = Arc::clone(&session);
            let stopped = tokio::task::spawn_blocking(move || stopping.stop_queries());
            joined(stopped.await).map_err(|failure| status_of(&session, failure))?;
        }
        for operation in session.operations() {
            // Listeners hear of the end of what is interrupted.
            if operation.is_listener() {
                continue;
            }
            let meant = match &request.interrupt {
                Some(Interrupt::OperationTag(tag)) => operation.tags.contains(tag),
                Some(Interrupt::OperationId(id)) => operation.ids.operation == *id,
                None => all,
            };
            if meant && operation.ended().is_none() {
                operation.cancel();
                interrupted_ids.push(operation.ids.operation.clone());
            }
        }
        Ok(Response::new(InterruptResponse {
            session_id: session.id.clone(),
            server_side_session_id: session.server_id.clone(),
            interrupted_ids,
        }))
    }

    async fn reattach_execute(
        &self,
        request: Request<ReattachExecuteRequest>,
    ) -> Result<Response<ResponseStream>, Status> {
        let request = request.into_inner();
        let user = user_id(request.user_context.as_ref());
        let session = self
            .sessions
            .existing(&user, &request.session_id)
            .map_err(|failure| failure.into_status(None))?;
        let attached = session.operation(&request.operation_id).and_then(|operation| {
            if !operation.reattachable {
                return Err(Failure::cursor("NOT_REATTACHABLE", None));
            }
            operation.attach(request.last_response_id.as_deref(), self.sessions.limits.stream)
        });
        attached.map(Response::new).map_err(|failure| status_of(&session, failure))
    }

    async fn release_execute(
        &self,
        request: Request<ReleaseExecuteRequest>,
    ) -> Result<Response<ReleaseExecuteResponse>, Status> {
        let request = request.into_inner();
        let user = user_id(request.user_context.as_ref());
        let session = self
            .sessions
            .existing(&user, &request.session_id)
            .map_err(|failure| failure.into_status(None))?;
        let known = session.operation(&request.operation_id).ok();
        if let Some(operation) = &known {
            match &request.release {
                Some(Release::ReleaseUntil(until)) => operation.release_until(&until.response_id),
                _ => session.release(&request.operation_id),
            }
        }
        Ok(Response::new(ReleaseExecuteResponse {
            session_id: session.id.clone(),
            server_side_session_id: session.server_id.clone(),
            operation_id: known.map(|operation| operation.ids.operation.clone()),
        }))
    }

    async fn release_session(
        &self,
        request: Request<ReleaseSessionRequest>,
    ) -> Result<Response<ReleaseSessionResponse>, Status> {
        let request = request.into_inner();
        let user = user_id(request.user_context.as_ref());
        let gone = self.sessions.remove(&user, &request.session_id, request.allow_reconnect);
        let mut server_side_session_id = String::new();
        if let Some(session) = gone {
            server_side_session_id.clone_from(&session.server_id);
            let _ = tokio::task::spawn_blocking(move || session.close()).await;
        }
        Ok(Response::new(ReleaseSessionResponse {
            session_id: request.session_id,
            server_side_session_id,
        }))
    }

    async fn fetch_error_details(
        &self,
        request: Request<FetchErrorDetailsRequest>,
    ) -> Result<Response<FetchErrorDetailsResponse>, Status> {
        let request = request.into_inner();
        let user = user_id(request.user_context.as_ref());
        let session = self
            .sessions
            .existing(&user, &request.session_id)
            .map_err(|failure| failure.into_status(None))?;
        let detail = session.take_details(&request.error_id);
        Ok(Response::new(FetchErrorDetailsResponse {
            session_id: session.id.clone(),
            server_side_session_id: session.server_id.clone(),
            root_error_idx: detail.as_ref().map(|_| 0),
            errors: detail.into_iter().collect(),
        }))
    }

    async fn clone_session(
        &self,
        request: Request<CloneSessionRequest>,
    ) -> Result<Response<CloneSessionResponse>, Status> {
        let request = request.into_inner();
        let user = user_id(request.user_context.as_ref());
        let observed = request.client_observed_server_side_session_id.unwrap_or_default();
        let original = self
            .sessions
            .existing(&user, &request.session_id)
            .map_err(|failure| failure.into_status(None))?;
        if !observed.is_empty() && observed != original.server_id {
            let changed = Failure::handle("SESSION_CHANGED", &request.session_id);
            return Err(status_of(&original, changed));
        }
        let id = request.new_session_id.filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| Uuid::new_v4().to_string());
        let (sessions, source) = (Arc::clone(&self.sessions), Arc::clone(&original));
        let cloned =
            tokio::task::spawn_blocking(move || sessions.clone_of(&user, &source, &id)).await;
        let cloned = joined(cloned).map_err(|failure| status_of(&original, failure))?;
        Ok(Response::new(CloneSessionResponse {
            session_id: original.id.clone(),
            server_side_session_id: original.server_id.clone(),
            new_session_id: cloned.id.clone(),
            new_server_side_session_id: cloned.server_id.clone(),
        }))
    }

    async fn get_status(
        &self,
        request: Request<GetStatusRequest>,
    ) -> Result<Response<GetStatusResponse>, Status> {
        use get_status_response::operation_status::OperationState;
        let request = request.into_inner();
        let session = self
            .session(
                request.user_context.as_ref(),
                &request.session_id,
                request.client_observed_server_side_session_id.as_deref(),
            )
            .await?;
        let wanted = request.operation_status.map(|asked| asked.operation_ids);
        let ids = match wanted {
            Some(ids) if !ids.is_empty() => ids,
            Some(_) => session.operations().iter().map(|it| it.ids.operation.clone()).collect(),
            None => Vec::new(),
        };
        let operation_statuses = ids
            .into_iter()
            .map(|operation_id| {
                let state = match session.operation(&operation_id) {
                    Err(_) => OperationState::Unknown,
                    Ok(operation) => match operation.ended() {
                        None => OperationState::Running,
                        Some(Ok(())) => OperationState::Succeeded,
                        Some(Err(_)) => OperationState::Failed,
                    },
                };
                get_status_response::OperationStatus {
                    operation_id,
                    state: state as i32,
                    extensions: Vec::new(),
                }
            })
            .collect();
        Ok(Response::new(GetStatusResponse {
            session_id: session.id.clone(),
            server_side_session_id: session.server_id.clone(),
            operation_statuses,
            extensions: Vec::new(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::same_bytes;

    #[test]
    fn tokens_compare_whole() {
        assert!(same_bytes(b"Bearer a", b"Bearer a"));
        assert!(!same_bytes(b"Bearer a", b"Bearer b"));
        assert!(!same_bytes(b"Bearer a", b"Bearer ab"));
    }
}
