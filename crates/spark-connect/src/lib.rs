//! A Spark Connect server: unmodified Spark programs run on Onefold.
//!
//! *Why separate:* this is the only crate that knows gRPC and Spark's messages.
//! *What always holds:* a request never kills the server: whatever a client sends gives a result or
//! an error with Spark's error class; every response is kept until the client released it.
//! *What it is not:* it decides nothing about queries; it turns plans of Spark into plans of ours.
//! *Where to start:* [`serve`], then `service`, then `relation`.

mod analyze;
mod catalog;
mod client_session;
mod conf;
mod execute;
mod expression;
mod failure;
mod functions;
mod listener;
mod observe;
mod operation;
mod python;
mod relation;
mod rows;
mod service;
mod sessions;
mod show;
mod sql_command;
mod streaming;
mod tables;
mod types;
mod write;

/// The server side that the build makes.
#[allow(
    missing_docs,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/spark.connect.SparkConnectService.rs"));
}

pub use operation::StreamLimits;

use generated::spark_connect_service_server::SparkConnectServiceServer;
use onefold_engine::Session;
use onefold_types::{Error, Result};
use sessions::Sessions;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Makes a session for a client.
pub type SessionFactory = Arc<dyn Fn() -> Result<Session> + Send + Sync>;

/// The version of Spark whose protocol and behaviour are served.
pub const SPARK_VERSION: &str = "4.2.0";

/// Largest message in either direction, in bytes: the client's own limit.
const MESSAGE_MAX: usize = 128 << 20;

/// How the server runs.
#[derive(Clone)]
pub struct ServerConfig {
    /// Where it listens. Anything but loopback needs a token.
    pub bind: SocketAddr,
    /// The token that clients must send, if any. Never shown.
    pub token: Option<String>,
    /// When a stream of responses is ended by the server.
    pub limits: StreamLimits,
    /// Whether functions of clients may run in Python processes of this machine.
    pub python: bool,
    /// After what time without a request a session without queries is closed.
    pub idle: Duration,
}

impl std::fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerConfig")
            .field("bind", &self.bind)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("limits", &self.limits)
            .field("python", &self.python)
            .field("idle", &self.idle)
            .finish()
    }
}

impl ServerConfig {
    /// A server for this machine alone.
    #[must_use]
    pub fn new(bind: SocketAddr) -> Self {
        ServerConfig {
            bind,
            token: None,
            limits: StreamLimits::default(),
            python: bind.ip().is_loopback(),
            idle: Duration::from_secs(3_600),
        }
    }
}

/// Where the server's own Python workers reach it.
#[derive(Clone)]
pub(crate) struct LocalAddress {
    address: SocketAddr,
    token: Option<String>,
    python: bool,
}

impl LocalAddress {
    /// The URL for a user, unless Python is not allowed.
    pub(crate) fn url(&self, user: &str) -> Option<String> {
        let (address, port) = (self.address.ip(), self.address.port());
        // PySpark sends a token in plain text to this name only.
        let host = match address.is_unspecified() || address.is_loopback() {
            true => "localhost".to_owned(),
            false => address.to_string(),
        };
        let token = self.token.as_ref().map(|token| format!(";token={token}")).unwrap_or_default();
        self.python.then(|| format!("sc://{host}:{port}/;user_id={user}{token}"))
    }
}

/// Listens and serves until `stop` is done, then ends all sessions cleanly. `ready` is told the
/// address that it listens on.
///
/// # Errors
/// Invalid: the address is not loopback and there is no token. Unavailable: the address is taken.
pub async fn serve(
    config: ServerConfig,
    factory: SessionFactory,
    ready: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    if !config.bind.ip().is_loopback() && config.token.is_none() {
        return Err(Error::invalid(format!(
            "{} can be reached from other machines: set a token that clients must send, or listen \
             on 127.0.0.1",
            config.bind
        )));
    }
    let listener = TcpListener::bind(config.bind).await.map_err(|error| {
        Error::unavailable(format!(
            "cannot listen on {}; choose another address with --bind",
            config.bind
        ))
        .because(error)
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| Error::internal("a socket has no address").because(error))?;
    let local = LocalAddress { address, token: config.token.clone(), python: config.python };
    let sessions = Arc::new(Sessions::new(factory, local, config.limits, config.idle));
    let sweeper = tokio::spawn(Arc::clone(&sessions).sweep());
    let service = service::Service::new(Arc::clone(&sessions));
    let server = SparkConnectServiceServer::new(service)
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX);
    let server = tonic::service::interceptor::InterceptedService::new(
        server,
        service::TokenCheck::new(config.token),
    );
    ready(address);
    let incoming = tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
    let served = tonic::transport::Server::builder()
        .add_service(server)
        .serve_with_incoming_shutdown(incoming, stop)
        .await;
    sweeper.abort();
    let ended = Arc::clone(&sessions);
    // Stopping queries blocks.
    let _ = tokio::task::spawn_blocking(move || ended.close_all()).await;
    served.map_err(|error| Error::unavailable("the server ended").because(error))
}
