//! What `http_call` calls with: the session's settings and the options of the call.

use super::addresses::Addresses;
use super::caller::{CallRules, Caller, Ended};
use super::client::{Call, ClientRules, shown};
use super::options::{authorization, header, http_url, statuses};
use super::retry::RetryRules;
use async_trait::async_trait;
use bytes::Bytes;
use onefold_connector::options::{parse_bytes, parse_duration_ms};
use onefold_connector::{CallContent, OutsideCaller, OutsideCalls, Settings};
use onefold_types::{CallKey, Error, Reply, Result, Secret};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use uuid::Uuid;

const PREFIX: &str = "onefold.http.";

/// Makes what calls for a session with these settings.
#[must_use]
pub fn calls(settings: Settings) -> Arc<dyn OutsideCalls> {
    Arc::new(Calls { settings, last: Mutex::default() })
}

struct Calls {
    settings: Settings,
    /// What called last, with the rules and addresses that it has: limits are shared by all calls of a
    /// session, as long as these stay as they are.
    last: Mutex<Option<(CallRules, Addresses, Arc<Caller>)>>,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

impl Calls {
    fn setting(&self, name: &str) -> Option<String> {
        let text = (self.settings)(&format!("{PREFIX}{name}"))?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn rules(&self) -> Result<CallRules> {
        let number = |name: &str| self.setting(name).and_then(|text| text.parse::<u64>().ok());
        let span = |name: &str, seconds: u64| {
            let ms = self.setting(name).and_then(|text| parse_duration_ms(&text));
            ms.map_or(Duration::from_secs(seconds), |ms| Duration::from_millis(ms.max(1)))
        };
        let small = |name: &str, default: u32| {
            number(name).map_or(default, |count| u32::try_from(count).unwrap_or(u32::MAX))
        };
        let most = self.setting("maxReplyBytes").and_then(|text| parse_bytes(&text));
        Ok(CallRules {
            client: ClientRules {
                timeout: span("timeout", 30),
                reply_bytes: most.map_or(1 << 20, |it| usize::try_from(it).unwrap_or(usize::MAX)),
                certificates: self.setting("tls.certificates"),
            },
            retry: RetryRules {
                retries: small("maxRetries", 5),
                on: statuses(
                    "onefold.http.retryOn",
                    &self.setting("retryOn").unwrap_or_else(|| super::options::RETRY_ON.to_owned()),
                )?,
            },
            at_once: usize::try_from(number("maxInFlight").unwrap_or(32)).unwrap_or(1).max(1),
            per_second: number("requestsPerSecond"),
            failures: small("failureThreshold", 20),
            cool_down: span("coolDown", 10),
        })
    }

    fn shared(&self) -> Result<Arc<Caller>> {
        let rules = self.rules()?;
        let addresses = Addresses::of(|name| (self.settings)(name))?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, of, caller)) = last.as_ref()
            && *known == rules
            && *of == addresses
        {
            return Ok(Arc::clone(caller));
        }
        let caller = Arc::new(Caller::new(rules.clone(), addresses.clone()));
        *last = Some((rules, addresses, Arc::clone(&caller)));
        Ok(caller)
    }

    /// What the settings say of a receiver by its name.
    ///
    /// # Errors
    /// Invalid: there is none of this name.
    fn credentials(&self, name: &str) -> Result<Credentials> {
        let setting = |what: &str| self.setting(&format!("{name}.{what}"));
        let Some(url) = setting("url") else {
            return Err(Error::invalid(format!(
                "option auth of http_call is `{name}`, but there is no setting onefold.http.{name}.url, \
                 which says where its credentials may go"
            )));
        };
        let below = http_url(&url)
            .map_err(|why| Error::invalid(format!("setting onefold.http.{name}.url {why}")))?;
        let mut headers = HeaderMap::new();
        let user = setting("user").zip(setting("password").map(Secret::new));
        if let Some(value) = authorization(setting("bearer").map(Secret::new), user)? {
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(line) = setting("header") {
            let given = format!("onefold.http.{name}.header");
            let (name, text) = line.split_once(':').ok_or_else(|| {
                Error::invalid(format!("setting {given} is a header such as `X-Key: value`"))
            })?;
            let (name, value) = header(&given, name, text)?;
            headers.insert(name, value);
        }
        Ok(Credentials { name: name.to_owned(), below, headers })
    }
}

impl OutsideCalls for Calls {
    fn caller(&self, options: &BTreeMap<String, String>) -> Result<Arc<dyn OutsideCaller>> {
        let mut wanted = Wanted {
            caller: self.shared()?,
            method: None,
            content_type: "application/json".to_owned(),
            credentials: None,
            null_if_none: false,
        };
        for (name, value) in options {
            match name.to_lowercase().as_str() {
                "method" => wanted.method = Some(method(value)?),
                "contenttype" => wanted.content_type.clone_from(value),
                "auth" => wanted.credentials = Some(self.credentials(value.trim())?),
                "onfailure" => wanted.null_if_none = on_failure(value)?,
                _ => {
                    return Err(Error::invalid(format!(
                        "http_call has no option {name}; there are method, contentType, auth and \
                         onFailure, and the settings under onefold.http"
                    )));
                }
            }
        }
        Ok(Arc::new(wanted))
    }
}

fn method(text: &str) -> Result<Method> {
    let upper = text.trim().to_uppercase();
    match upper.as_str() {
        "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" => {
            Method::from_bytes(upper.as_bytes())
                .map_err(|error| Error::internal("a known method is none").because(error))
        }
        _ => Err(Error::invalid(format!(
            "option method of http_call is `{text}`, but takes GET, POST, PUT, PATCH, DELETE or HEAD"
        ))),
    }
}

fn on_failure(text: &str) -> Result<bool> {
    match text.trim().to_lowercase().as_str() {
        "fail" => Ok(false),
        "null" => Ok(true),
        _ => Err(Error::invalid(format!(
            "option onFailure of http_call is `{text}`, but takes fail or null"
        ))),
    }
}

/// Secrets, and the only place where they go.
#[derive(Debug)]
struct Credentials {
    name: String,
    below: Url,
    headers: HeaderMap,
}

impl Credentials {
    fn go_to(&self, url: &Url) -> bool {
        let folder = self.below.path().trim_end_matches('/');
        let rest = url.path().strip_prefix(folder);
        self.below.origin() == url.origin()
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Calls with some options.
#[derive(Debug)]
struct Wanted {
    caller: Arc<Caller>,
    /// By default POST with a body, GET without.
    method: Option<Method>,
    content_type: String,
    credentials: Option<Credentials>,
    null_if_none: bool,
}

impl Wanted {
    fn method(&self, body: Option<&str>) -> Method {
        let usual = if body.is_some() { Method::POST } else { Method::GET };
        self.method.clone().unwrap_or(usual)
    }

    fn request(&self, url: &str, body: Option<&str>, key: Option<CallKey>) -> Result<Call> {
        let url = http_url(url)
            .map_err(|why| Error::invalid(format!("an address given to http_call {why}")))?;
        let mut headers = HeaderMap::new();
        if let Some(credentials) = &self.credentials {
            if !credentials.go_to(&url) {
                return Err(Error::invalid(format!(
                    "http_call is to call {} with the credentials of onefold.http.{name}, which go to {} \
                     only; correct onefold.http.{name}.url or option auth",
                    shown(&url),
                    shown(&credentials.below),
                    name = credentials.name,
                )));
            }
            headers.extend(credentials.headers.clone());
        }
        if body.is_some() {
            let kind = HeaderValue::from_str(&self.content_type).map_err(|_| {
                Error::invalid("option contentType of http_call cannot stand in a header")
            })?;
            headers.insert(CONTENT_TYPE, kind);
        }
        Ok(Call {
            url,
            method: self.method(body),
            headers,
            body: body.map(|body| Bytes::copy_from_slice(body.as_bytes())).unwrap_or_default(),
            key: key.unwrap_or_else(|| CallKey(Uuid::new_v4().as_u128())),
        })
    }
}

#[async_trait]
impl OutsideCaller for Wanted {
    fn content(&self, url: &str, body: Option<&str>) -> CallContent {
        let name = self.credentials.as_ref().map_or("", |it| it.name.as_str());
        // A call with an empty body is not one without.
        let kind: &[u8] = if body.is_some() { b"body" } else { b"" };
        CallContent::of(&[
            b"http_call",
            self.method(body).as_str().as_bytes(),
            url.as_bytes(),
            self.content_type.as_bytes(),
            name.as_bytes(),
            kind,
            body.unwrap_or_default().as_bytes(),
        ])
    }

    async fn call(
        &self,
        url: &str,
        body: Option<&str>,
        key: Option<CallKey>,
    ) -> Result<Option<Reply>> {
        match self.caller.call(&self.request(url, body, key)?).await? {
            Ended::Done(reply) | Ended::Refused(reply) => Ok(Some(reply)),
            Ended::GaveUp(reply, _) if self.null_if_none => Ok(reply),
            Ended::GaveUp(_, error) => Err(error),
        }
    }

    fn at_once(&self) -> usize {
        self.caller.rules().at_once
    }
}
