//! A Spark Connect server: unmodified Spark programs run on Onefold.
//!
//! *Why separate:* this is the only crate that knows gRPC and Spark's messages.
//! *What always holds:* a request never kills the server: whatever a client sends gives a result or
//! an error with Spark's error class; every response is kept until the client released it.
//! *What it is not:* it decides nothing about queries; it turns plans of Spark into plans of ours.
//! *Where to start:* [`serve`], then `service`, then `relation`.

mod analyze;
mod apart;
mod arrow_stream;
mod artifacts;
mod catalog;
mod client_session;
mod conf;
mod execute;
mod expression;
mod failure;
mod functions;
mod input_files;
mod limits;
mod listener;
mod message;
mod observe;
mod observed;
mod operation;
mod persisted;
mod python;
mod relation;
mod result_rows;
mod rows;
mod service;
mod sessions;
mod show;
mod sql_command;
mod stack;
mod store_assignment;
mod streaming;
mod tables;
mod text_depth;
mod tls;
mod types;
mod write;
mod write_to;

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

pub use limits::{Limits, is_server_setting};
pub use onefold_engine::THREAD_STACK;
pub use operation::StreamLimits;
pub use tls::TlsFiles;

use generated::spark_connect_service_server::SparkConnectServiceServer;
use onefold_engine::Session;
use onefold_types::{Error, Result};
use sessions::Sessions;
use std::fmt::Write;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::{Router, TcpIncoming};
use uuid::Uuid;

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
    /// The certificate with which connections are encrypted, if they are.
    pub tls: Option<TlsFiles>,
    /// How much clients may ask for.
    pub limits: Limits,
    /// Whether functions of clients may run in Python processes of this machine.
    pub python: bool,
}

impl std::fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerConfig")
            .field("bind", &self.bind)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("tls", &self.tls)
            .field("limits", &self.limits)
            .field("python", &self.python)
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
            tls: None,
            limits: Limits::default(),
            python: bind.ip().is_loopback(),
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
        let user = in_url(user);
        let token = self.token.as_deref().map(in_url);
        let token = token.map(|token| format!(";token={token}")).unwrap_or_default();
        self.python.then(|| format!("sc://{host}:{port}/;user_id={user}{token}"))
    }
}

/// A text as a value in a URL, where it means nothing else.
fn in_url(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            value.push(char::from(byte));
        } else {
            let _ = write!(value, "%{byte:02X}");
        }
    }
    value
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Error::unavailable(format!(
            "cannot listen on {address}; choose another address with --bind"
        ))
        .because(error)
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| Error::internal("a socket has no address").because(error))?;
    Ok((listener, address))
}

/// Listens and serves until `stop` is done, then ends all sessions cleanly. `ready` is told the
/// address that it listens on.
///
/// # Errors
/// Invalid: the address is not loopback and there is no token, or the certificate or its key cannot
/// be used. Unavailable: the address is taken.
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
    let acceptor = config.tls.as_ref().map(tls::acceptor).transpose()?;
    let (listener, address) = listen(config.bind).await?;
    let mut local = LocalAddress { address, token: config.token.clone(), python: config.python };
    let mut local_listener = None;
    if acceptor.is_some() && config.python {
        // Workers of this machine need no certificate, and would trust none that is self-signed.
        let (listener, address) = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let token = format!("{}{}", Uuid::new_v4(), Uuid::new_v4());
        local = LocalAddress { address, token: Some(token), python: true };
        local_listener = Some(listener);
    }
    let local_token = local.token.clone();
    let sessions = Arc::new(Sessions::new(factory, local, config.limits));
    let sweeper = tokio::spawn(Arc::clone(&sessions).sweep());
    let service = Arc::new(service::Service::new(Arc::clone(&sessions)));
    ready(address);
    let (ending, ended) = watch::channel(false);
    tokio::spawn(async move {
        stop.await;
        ending.send_replace(true);
    });
    let until = |mut ended: watch::Receiver<bool>| async move {
        // An error is the end as well: its sender is gone.
        let _ = ended.wait_for(|now| *now).await;
    };
    let served = match acceptor {
        None => {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let router = router(service, config.token);
            router.serve_with_incoming_shutdown(incoming, until(ended)).await
        }
        Some(acceptor) => {
            let inside = local_listener.map(|listener| {
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                let router = router(Arc::clone(&service), local_token);
                tokio::spawn(router.serve_with_incoming_shutdown(incoming, until(ended.clone())))
            });
            let incoming = tls::incoming(listener, acceptor);
            let router = router(service, config.token);
            let served = router.serve_with_incoming_shutdown(incoming, until(ended)).await;
            if let Some(inside) = inside {
                inside.abort();
            }
            served
        }
    };
    sweeper.abort();
    let ended = Arc::clone(&sessions);
    // Stopping queries blocks.
    let _ = tokio::task::spawn_blocking(move || ended.close_all()).await;
    served.map_err(|error| Error::unavailable("the server ended").because(error))
}

/// The service behind its token.
fn router(service: Arc<service::Service>, token: Option<String>) -> Router {
    let server = SparkConnectServiceServer::from_arc(service)
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX);
    let checked = InterceptedService::new(server, service::TokenCheck::new(token));
    Server::builder().add_service(checked)
}
