//! One try of one call.

use super::addresses::Addresses;
use super::resolver::{Judged, NotAllowed};
use super::retry::{Heard, retry_after};
use onefold_types::{CallKey, Error, Reply, Result};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Certificate, Method, Url};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use url::Host;

/// The header by which a receiver knows a call that it had before.
const KEY: &str = "idempotency-key";

/// Headers of replies that may hold secrets of the receiver's: they are not kept.
const NOT_KEPT: [&str; 5] =
    ["set-cookie", "set-cookie2", "www-authenticate", "proxy-authenticate", "authentication-info"];

/// How tries are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientRules {
    /// How long one try may take, from the first byte to the last.
    pub(super) timeout: Duration,
    /// The largest reply that is read, in bytes.
    pub(super) reply_bytes: usize,
    /// Authorities in PEM beside those of the machine.
    pub(super) certificates: Option<String>,
}

/// A call, ready to be made.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) url: Url,
    pub(super) method: Method,
    /// Marked as sensitive where they hold a secret.
    pub(super) headers: HeaderMap,
    pub(super) body: bytes::Bytes,
    pub(super) key: CallKey,
}

/// What came of one try.
#[derive(Debug)]
pub(super) enum Tried {
    /// The receiver answered.
    Answered(Reply, Heard),
    /// Nobody did, for this reason.
    Lost(String),
}

/// Makes tries.
#[derive(Debug, Clone)]
pub(super) struct Client {
    inner: reqwest::Client,
    addresses: Arc<Addresses>,
    reply_bytes: usize,
}

impl Client {
    /// # Errors
    /// Invalid: the certificates are none.
    pub(super) fn new(rules: &ClientRules, addresses: Arc<Addresses>, tls: bool) -> Result<Client> {
        let mut builder = reqwest::Client::builder()
            .timeout(rules.timeout)
            // It could lead elsewhere, with all that was sent.
            .redirect(reqwest::redirect::Policy::none())
            // Through a proxy, nobody could say which address is called.
            .no_proxy()
            .dns_resolver(Arc::new(Judged(Arc::clone(&addresses))))
            .tls_built_in_root_certs(tls);
        if let Some(certificates) = rules.certificates.as_deref().filter(|_| tls) {
            let bundle =
                Certificate::from_pem_bundle(certificates.as_bytes()).map_err(|error| {
                    Error::invalid("the certificates for HTTP calls are not in PEM").because(error)
                })?;
            builder =
                bundle.into_iter().fold(builder, reqwest::ClientBuilder::add_root_certificate);
        }
        let inner = builder.build().map_err(|error| {
            Error::invalid("no HTTP client can be made; check the certificates for HTTP calls")
                .because(error)
        })?;
        Ok(Client { inner, addresses, reply_bytes: rules.reply_bytes })
    }

    /// # Errors
    /// Invalid: the receiver may not be called, or its reply is too long.
    pub(super) async fn once(&self, call: &Call) -> Result<Tried> {
        self.judge_literal(&call.url)?;
        let request = self
            .inner
            .request(call.method.clone(), call.url.clone())
            .headers(call.headers.clone())
            .header(KEY, call.key.to_string())
            .body(call.body.clone());
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => return lost(error),
        };
        let now_ms = now_ms();
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let heard = Heard::Status(
            response.status().as_u16(),
            after.and_then(|text| retry_after(text, now_ms)),
        );
        let (status, headers) = (response.status().as_u16(), kept(response.headers()));
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(part)) if body.len() + part.len() > self.reply_bytes => {
                    return Err(too_long(&call.url, self.reply_bytes));
                }
                Ok(Some(part)) => body.extend_from_slice(&part),
                Ok(None) => break,
                Err(error) => return lost(error),
            }
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(Tried::Answered(Reply { status, headers, body, at_ms: now_ms }, heard))
    }

    /// A host that is an address is not resolved.
    fn judge_literal(&self, url: &Url) -> Result<()> {
        let address: IpAddr = match url.host() {
            Some(Host::Ipv4(address)) => address.into(),
            Some(Host::Ipv6(address)) => address.into(),
            _ => return Ok(()),
        };
        self.addresses.judge(&address.to_string(), address).map_err(Error::invalid)
    }
}

/// The address of a receiver, as texts may show it: without what may be a secret.
pub(super) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

fn too_long(url: &Url, most: usize) -> Error {
    Error::invalid(format!(
        "the reply of {} is longer than {most} bytes; let it be shorter, or set \
         onefold.http.maxReplyBytes",
        shown(url)
    ))
}

/// Nobody answered; or nobody was asked, since one may not.
fn lost(error: reqwest::Error) -> Result<Tried> {
    let error = error.without_url();
    if let Some(NotAllowed(why)) = NotAllowed::within(&error) {
        return Err(Error::invalid(why.clone()));
    }
    if error.is_builder() {
        return Err(Error::invalid("the call cannot be made").because(error));
    }
    Ok(Tried::Lost(Error::unavailable("no answer").because(error).chain()))
}

fn kept(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut kept: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        if NOT_KEPT.contains(&name.as_str()) {
            continue;
        }
        let value = String::from_utf8_lossy(value.as_bytes());
        kept.entry(name.as_str().to_owned())
            .and_modify(|all| {
                all.push_str(", ");
                all.push_str(&value);
            })
            .or_insert_with(|| value.clone().into_owned());
    }
    kept
}

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
