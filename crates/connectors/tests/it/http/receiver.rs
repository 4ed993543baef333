//! A receiver of HTTP calls that counts them by key.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::RETRY_AFTER;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use onefold_connector::conformance::{Faults, Verdict};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The header by which a driver says who it is.
pub(crate) const DRIVER: &str = "x-driver";

/// One call as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) key: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// What is answered.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Status(u16, &'static str),
    /// Not now, with `Retry-After`.
    Later(u16, &'static str),
    /// A redirection there.
    Moved(String),
    /// The connection ends without an answer.
    Nothing,
}

type Judge = dyn Fn(&Arrived, usize) -> Answer + Send + Sync;

struct Inside {
    arrived: Mutex<Vec<Arrived>>,
    faults: Mutex<BTreeMap<String, Arc<Faults>>>,
    judge: Box<Judge>,
    /// Calls under way, and the most of them at any time.
    under_way: Mutex<(usize, usize)>,
}

/// The receiver; it ends with the value.
pub(crate) struct Receiver {
    inside: Arc<Inside>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    /// Says yes to everything.
    pub(crate) fn new() -> Self {
        Receiver::judging(|_, _| Answer::Status(200, "ok"))
    }

    /// Answers as `judge` says, which gets how many calls with this key came before.
    pub(crate) fn judging(
        judge: impl Fn(&Arrived, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let inside = Arc::new(Inside {
            arrived: Mutex::default(),
            faults: Mutex::default(),
            judge: Box::new(judge),
            under_way: Mutex::default(),
        });
        let shared = Arc::clone(&inside);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                let server = hyper::server::conn::http1::Builder::new();
                let connection = server.serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move {
                    let _ = connection.await;
                });
            }
        });
        Receiver { inside, address, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Calls of this driver go wrong as the plan says.
    pub(crate) fn plan(&self, driver: &str, faults: Arc<Faults>) {
        self.inside.faults.lock().unwrap().insert(driver.to_owned(), faults);
    }

    /// All calls, in the order in which they came.
    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.inside.arrived.lock().unwrap().clone()
    }

    pub(crate) fn most_at_once(&self) -> usize {
        self.inside.under_way.lock().unwrap().1
    }

    /// The bodies by key, each as often as it came.
    pub(crate) fn by_key(&self) -> BTreeMap<String, Vec<String>> {
        let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for call in self.arrived() {
            by_key.entry(call.key).or_default().push(call.body);
        }
        by_key
    }

    /// What a receiver that honours keys has done: one body for each key.
    pub(crate) fn done(&self) -> Vec<String> {
        let by_key = self.by_key();
        for (key, bodies) in &by_key {
            assert!(bodies.iter().all(|body| *body == bodies[0]), "{key} came with {bodies:?}");
        }
        by_key.into_values().map(|mut bodies| bodies.remove(0)).collect()
    }
}

async fn answer(
    inside: Arc<Inside>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, io::Error> {
    {
        let mut under_way = inside.under_way.lock().unwrap();
        under_way.0 += 1;
        under_way.1 = under_way.1.max(under_way.0);
    }
    let answered = answer_one(&inside, request).await;
    inside.under_way.lock().unwrap().0 -= 1;
    answered
}

async fn answer_one(
    inside: &Inside,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, io::Error> {
    let call = read(request).await;
    let driver = call.headers.get(DRIVER).cloned().unwrap_or_default();
    let faults = inside.faults.lock().unwrap().get(&driver).cloned();
    let verdict = match faults {
        Some(faults) => faults.pass("call").await,
        None => Verdict::Go,
    };
    let nothing = || io::Error::other("the connection was to end");
    match verdict {
        Verdict::Dead => return Err(nothing()),
        Verdict::Fail => return Ok(response(503, "not now")),
        Verdict::Go | Verdict::LoseReply => {}
    }
    let before = {
        let mut arrived = inside.arrived.lock().unwrap();
        let before = arrived.iter().filter(|other| other.key == call.key).count();
        arrived.push(call.clone());
        before
    };
    if verdict == Verdict::LoseReply {
        return Err(nothing());
    }
    match (inside.judge)(&call, before) {
        Answer::Status(status, body) => Ok(response(status, body)),
        Answer::Later(status, after) => {
            let mut response = response(status, "later");
            response.headers_mut().insert(RETRY_AFTER, after.parse().unwrap());
            Ok(response)
        }
        Answer::Moved(to) => {
            let mut response = response(302, "");
            response.headers_mut().insert("location", to.parse().unwrap());
            Ok(response)
        }
        Answer::Nothing => Err(nothing()),
    }
}

async fn read(request: Request<Incoming>) -> Arrived {
    let (head, body) = request.into_parts();
    let headers: BTreeMap<String, String> = head
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("?").to_owned()))
        .collect();
    // A caller that went away in the middle has sent nothing.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    Arrived {
        key: headers.get("idempotency-key").cloned().unwrap_or_default(),
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

fn response(status: u16, body: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = status.try_into().unwrap();
    response.headers_mut().insert("x-answer", "yes".parse().unwrap());
    response.headers_mut().insert("set-cookie", "secret".parse().unwrap());
    response
}
