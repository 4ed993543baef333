//! An S3 server on this machine that keeps objects in memory and answers as wrongly as asked.
//!
//! It speaks the real protocol over a loopback port that the system chooses, checks signatures,
//! and is atomic where S3 is: a conditional put or completion decides under one lock.

mod bucket;

use bucket::{Bucket, Shared};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use onefold_types::OptionMap;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The bucket that the server has.
const BUCKET: &str = "onefold-test";
const ACCESS_KEY: &str = "onefold-access";
/// A secret that tests may look for in places where it must not be.
const SECRET_KEY: &str = "hunter2-of-the-s3-server";

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Put of a whole object, conditional or not.
    Put,
    /// Start of a multipart upload.
    StartUpload,
    /// One part, sent or copied.
    PutPart,
    /// Completion of an upload.
    CompleteUpload,
    /// Abort of an upload.
    AbortUpload,
    /// Get of an object.
    Get,
    /// Facts of an object.
    Head,
    /// A listing.
    List,
    /// A listing of uploads.
    ListUploads,
    /// Removal of objects.
    Delete,
}

/// How an answer goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum S3Fault {
    /// 503, and nothing is done.
    SlowDown,
    /// 409, and nothing is done: another request was in flight.
    Conflict,
    /// 403, and nothing is done.
    Forbidden,
    /// It is done; the answer is 500.
    ErrorAfter,
    /// It is done; the connection is cut instead of an answer.
    CutAfter,
    /// Nothing is done; the connection is cut.
    CutBefore,
    /// It is done; the answer is 403, which a client does not try again.
    ForbiddenAfter,
}

#[derive(Debug, Default)]
struct Faults {
    planned: VecDeque<(Operation, S3Fault)>,
    requests: Vec<Operation>,
    cut: Option<Cutoff>,
}

/// From some request on the server answers nobody, as if the caller had died there.
#[derive(Debug, Clone, Copy)]
struct Cutoff {
    /// Requests that are still served.
    left: usize,
    /// Whether the first request after them is done, though its answer is lost.
    done: bool,
    /// Whether there was a request after them.
    met: bool,
}

impl Faults {
    /// How the next request goes wrong.
    fn next(&mut self, operation: Operation) -> Option<S3Fault> {
        self.requests.push(operation);
        if let Some(cut) = &mut self.cut {
            if cut.left == 0 {
                cut.met = true;
                let done = std::mem::take(&mut cut.done);
                return Some(if done { S3Fault::ForbiddenAfter } else { S3Fault::Forbidden });
            }
            cut.left -= 1;
        }
        let found = self.planned.iter().position(|(planned, _)| *planned == operation);
        found.and_then(|place| self.planned.remove(place)).map(|(_, fault)| fault)
    }
}

/// The server; it stops when dropped.
#[derive(Debug)]
pub struct S3Server {
    address: SocketAddr,
    bucket: Arc<Bucket>,
    faults: Arc<Mutex<Faults>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

fn lock(faults: &Mutex<Faults>) -> MutexGuard<'_, Faults> {
    faults.lock().unwrap_or_else(PoisonError::into_inner)
}

impl S3Server {
    /// Starts a server with one empty bucket, on a thread and a runtime of its own, so that it
    /// serves tests with and without a runtime.
    ///
    /// # Errors
    /// When this machine gives no loopback port or thread.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let bucket = Arc::new(Bucket::new(BUCKET));
        let faults = Arc::new(Mutex::new(Faults::default()));
        let mut builder = S3ServiceBuilder::new(Shared(Arc::clone(&bucket)));
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = builder.build();
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let plan = Arc::clone(&faults);
        let thread = std::thread::Builder::new().name("s3".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    _ = serve(listener, service, plan) => {}
                }
            });
        })?;
        Ok(S3Server { address, bucket, faults, stop: Some(stop), thread: Some(thread) })
    }

    /// The URL of a prefix: `s3://onefold-test/PREFIX`.
    #[must_use]
    pub fn url(&self, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}")
    }

    /// The options that open it.
    #[must_use]
    pub fn options(&self) -> OptionMap {
        OptionMap::new()
            .with("aws_endpoint_url", self.endpoint())
            .with("aws_region", "us-east-1")
            .with("aws_access_key_id", ACCESS_KEY)
            .with("aws_secret_access_key", SECRET_KEY)
    }

    /// The same as environment variables, for a child process.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", self.endpoint()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
        ]
    }

    /// The URL of the server itself.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next request of this kind that no earlier plan takes goes wrong.
    pub fn plan(&self, operation: Operation, fault: S3Fault) {
        lock(&self.faults).planned.push_back((operation, fault));
    }

    /// How many planned faults have not been met.
    #[must_use]
    pub fn unmet(&self) -> usize {
        lock(&self.faults).planned.len()
    }

    /// After `served` more requests all are refused, as a process that dies there would leave the
    /// bucket. With `done`, the first of those refused is carried out all the same.
    pub fn cut_off_after(&self, served: usize, done: bool) {
        lock(&self.faults).cut = Some(Cutoff { left: served, done, met: false });
    }

    /// Serves again; tells whether any request was refused since [`S3Server::cut_off_after`].
    pub fn serve_again(&self) -> bool {
        lock(&self.faults).cut.take().is_some_and(|cut| cut.met)
    }

    /// The bytes of an object.
    #[must_use]
    pub fn object(&self, key: &str) -> Option<Bytes> {
        self.bucket.object(key)
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Operation> {
        lock(&self.faults).requests.clone()
    }

    /// All keys, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.bucket.keys()
    }

    /// How many uploads are neither completed nor aborted.
    #[must_use]
    pub fn open_uploads(&self) -> usize {
        self.bucket.open_uploads()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(
    listener: TcpListener,
    service: S3Service,
    faults: Arc<Mutex<Faults>>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (socket, _) = listener.accept().await?;
        let (service, faults) = (service.clone(), Arc::clone(&faults));
        let answer = service_fn(move |request| answer(request, service.clone(), faults.clone()));
        tokio::spawn(async move {
            let builder = Builder::new(TokioExecutor::new());
            // A cut connection is an error here, and meant to be.
            let _ = builder.serve_connection(TokioIo::new(socket), answer).await;
        });
    }
}

/// A connection is to be cut.
#[derive(Debug)]
struct Cut(String);

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Cut {}

async fn answer(
    request: Request<Incoming>,
    service: S3Service,
    faults: Arc<Mutex<Faults>>,
) -> Result<Response<s3s::Body>, Cut> {
    let operation = operation(&request);
    let fault = lock(&faults).next(operation);
    match fault {
        Some(S3Fault::SlowDown) => return Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, "SlowDown")),
        Some(S3Fault::Conflict) => {
            return Ok(refusal(StatusCode::CONFLICT, "ConditionalRequestConflict"));
        }
        Some(S3Fault::Forbidden) => return Ok(refusal(StatusCode::FORBIDDEN, "AccessDenied")),
        Some(S3Fault::CutBefore) => return Err(Cut("cut before".into())),
        None | Some(S3Fault::ErrorAfter | S3Fault::CutAfter | S3Fault::ForbiddenAfter) => {}
    }
    let response = service
        .call(request.map(s3s::Body::from))
        .await
        .map_err(|error| Cut(format!("{error:?}")))?;
    match fault {
        Some(S3Fault::ErrorAfter) => {
            Ok(refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"))
        }
        Some(S3Fault::CutAfter) => Err(Cut("cut after".into())),
        Some(S3Fault::ForbiddenAfter) => Ok(refusal(StatusCode::FORBIDDEN, "AccessDenied")),
        _ => Ok(response),
    }
}

fn refusal(status: StatusCode, code: &str) -> Response<s3s::Body> {
    let body = format!("<Error><Code>{code}</Code><Message>planned by a test</Message></Error>");
    let mut response = Response::new(s3s::Body::from(body));
    *response.status_mut() = status;
    response
}

fn operation(request: &Request<Incoming>) -> Operation {
    let query = request.uri().query().unwrap_or_default();
    let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
    match *request.method() {
        Method::PUT if has("partNumber") => Operation::PutPart,
        Method::PUT => Operation::Put,
        Method::POST if has("uploads") => Operation::StartUpload,
        Method::POST if has("uploadId") => Operation::CompleteUpload,
        Method::POST => Operation::Delete,
        Method::DELETE if has("uploadId") => Operation::AbortUpload,
        Method::DELETE => Operation::Delete,
        Method::HEAD => Operation::Head,
        _ if has("uploads") => Operation::ListUploads,
        _ if has("list-type") => Operation::List,
        _ => Operation::Get,
    }
}
