//! One question to a registry, and again where the way to it was the trouble.

use super::ABSENT;
use onefold_types::{Error, ErrorKind, Result, Secret};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Certificate, Client, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Requests for one question, and the first pause between them.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);
/// The largest answer that is read, in bytes.
const BYTES_MAX: usize = 16 << 20;
const JSON: &str = "application/vnd.schemaregistry.v1+json";

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask<'a> {
    Get,
    Post(&'a str),
}

/// A registry, and how to come in.
#[derive(Debug)]
pub(super) struct Door {
    address: String,
    url: Url,
    user: Option<Secret>,
    token: Option<Secret>,
    certificates: Option<String>,
}

/// What came back, once it is known to be final.
enum Answer {
    Body(Vec<u8>),
    Absent,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    error_code: i64,
    #[serde(default)]
    message: String,
}

impl Door {
    /// # Errors
    /// Invalid: the address is no URL of HTTP, or holds a password.
    pub(super) fn new(
        address: String,
        user: Option<Secret>,
        token: Option<Secret>,
        certificates: Option<String>,
    ) -> Result<Door> {
        let url = Url::parse(&address)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                Error::invalid(
                    "the address of a schema registry is a URL such as https://host:8081",
                )
            })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::invalid(
                "the address of a schema registry holds a password; set \
                 onefold.schemaRegistry.basic.auth.user.info in its place",
            ));
        }
        Ok(Door { address, url, user, token, certificates })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn nonsense(&self, what: &str) -> Error {
        Error::invalid(format!(
            "what answers at {} is no schema registry: it gives {what}; correct the address",
            self.address
        ))
    }

    /// As [`Door::ask`], for what changes nothing.
    pub(super) fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        format: Option<&str>,
    ) -> Result<Option<T>> {
        self.ask(Ask::Get, path, format)
    }

    /// The answer to a question; `None` when there is no such thing.
    ///
    /// # Errors
    /// Invalid: it does not let us ask. Unavailable: no answer, after some tries.
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        ask: Ask<'_>,
        path: &[&str],
        format: Option<&str>,
    ) -> Result<Option<T>> {
        let answer = std::thread::scope(|scope| {
            // A thread of its own, since callers may be on one of an async runtime.
            let asked = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime
                    .map_err(|e| Error::unavailable("no runtime can be started").because(e))?;
                runtime.block_on(self.persistently(ask, path, format))
            });
            asked.join().unwrap_or_else(|_| Err(Error::internal("asking a registry stopped")))
        });
        match answer? {
            Answer::Absent => Ok(None),
            Answer::Body(body) => match serde_json::from_slice(&body) {
                Ok(found) => Ok(Some(found)),
                Err(_) => Err(self.nonsense("an answer of another form")),
            },
        }
    }

    async fn persistently(
        &self,
        ask: Ask<'_>,
        path: &[&str],
        format: Option<&str>,
    ) -> Result<Answer> {
        let client = self.client()?;
        let mut url = self.url.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => {
                segments.pop_if_empty().extend(path);
            }
            Err(()) => return Err(self.nonsense("no paths")),
        }
        if let Some(format) = format {
            url.query_pairs_mut().append_pair("format", format);
        }
        let mut tries = 1;
        loop {
            match self.once(&client, ask, &url).await {
                Err(error) if error.kind() == ErrorKind::Unavailable && tries < TRIES => {
                    tokio::time::sleep(PAUSE * 2_u32.pow(tries - 1)).await;
                    tries += 1;
                }
                done => return done,
            }
        }
    }

    fn client(&self) -> Result<Client> {
        let plain = self.url.scheme() == "http";
        let mut builder = Client::builder()
            .timeout(PATIENCE)
            // A redirection could lead credentials elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            .tls_built_in_root_certs(!plain);
        if let Some(certificates) = self.certificates.as_deref().filter(|_| !plain) {
            let bundle = Certificate::from_pem_bundle(certificates.as_bytes());
            for certificate in bundle.map_err(|e| {
                Error::invalid(
                    "onefold.schemaRegistry.ssl.truststore.certificates holds no certificates in PEM",
                )
                .because(e)
            })? {
                builder = builder.add_root_certificate(certificate);
            }
        }
        builder.build().map_err(|e| Error::internal("no HTTP client can be made").because(e))
    }

    async fn once(&self, client: &Client, ask: Ask<'_>, url: &Url) -> Result<Answer> {
        let mut request = match ask {
            Ask::Get => client.get(url.clone()),
            Ask::Post(body) => {
                client.post(url.clone()).header(CONTENT_TYPE, JSON).body(body.to_owned())
            }
        };
        request = request.header(ACCEPT, format!("{JSON}, application/json"));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        } else if let Some(user) = &self.user {
            let (name, password) = user.expose().split_once(':').unwrap_or((user.expose(), ""));
            request = request.basic_auth(name, Some(password));
        }
        let away = |error: reqwest::Error| {
            Error::unavailable(format!("the schema registry at {} does not answer", self.address))
                .because(error.without_url())
        };
        let mut response = request.send().await.map_err(away)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(away)? {
            body.extend_from_slice(&part);
            if body.len() > BYTES_MAX {
                return Err(self.nonsense("more than 16 MiB"));
            }
        }
        if status.is_success() {
            return Ok(Answer::Body(body));
        }
        self.refused(status, &body)
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Result<Answer> {
        let refusal = serde_json::from_slice(body)
            .unwrap_or(Refusal { error_code: 0, message: String::new() });
        let why: String = refusal.message.chars().take(300).collect();
        let said = format!("the schema registry at {} answers {status}: {why}", self.address);
        match status {
            StatusCode::NOT_FOUND if ABSENT.contains(&refusal.error_code) => Ok(Answer::Absent),
            StatusCode::NOT_FOUND => Err(self.nonsense("404 without a reason")),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let sent = self.user.is_some() || self.token.is_some();
                let todo = match sent {
                    true => {
                        "the credentials in onefold.schemaRegistry.basic.auth.user.info or \
                         .bearer.auth.token may not do this"
                    }
                    false => {
                        "set onefold.schemaRegistry.url to this address, with \
                         onefold.schemaRegistry.basic.auth.user.info or .bearer.auth.token: \
                         credentials go to that address only"
                    }
                };
                Err(Error::invalid(format!("{said}; {todo}")))
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Err(Error::unavailable(said))
            }
            status if status.is_server_error() => Err(Error::unavailable(said)),
            _ => Err(Error::invalid(said)),
        }
    }
}
