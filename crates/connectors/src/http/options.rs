//! The options of the sink, read.

use super::addresses::Addresses;
use super::caller::CallRules;
use super::client::ClientRules;
use super::retry::RetryRules;
use super::rows::BodyFormat;
use onefold_connector::{OptionKind, OptionSpec, Options};
use onefold_types::{Error, Result, Secret};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use std::time::Duration;

/// Statuses after which a call is made again: the receiver is busy, asks for patience, is broken for now, or
/// still works on an earlier try of the same call.
pub(super) const RETRY_ON: &str = "408,409,425,429,500,502,503,504";

/// Options of the sink.
pub(super) static SINK: &[OptionSpec] = &[
    OptionSpec::new("url", OptionKind::Text, "where each request goes"),
    OptionSpec::new(
        "method",
        OptionKind::Choice(&["POST", "PUT", "PATCH"]),
        "what is asked of the receiver",
    )
    .default("POST"),
    OptionSpec::new(
        "bodyColumn",
        OptionKind::Text,
        "the column that is sent, a text or binary; by default the whole row as JSON",
    ),
    OptionSpec::new(
        "rowsPerRequest",
        OptionKind::Count { min: 1, max: 100_000 },
        "rows of one partition that are sent together",
    )
    .default("1"),
    OptionSpec::new(
        "bodyFormat",
        OptionKind::Choice(&["json", "ndjson"]),
        "several rows as a JSON array, or a line each",
    )
    .default("json"),
    OptionSpec::new("contentType", OptionKind::Text, "the header Content-Type; by default bodyFormat's"),
    OptionSpec::new("headers.NAME", OptionKind::Secret, "a header of each request"),
    OptionSpec::new("auth.bearer", OptionKind::Secret, "token in the header Authorization"),
    OptionSpec::new("auth.user", OptionKind::Text, "user, in place of a token"),
    OptionSpec::new("auth.password", OptionKind::Secret, "that user's password"),
    OptionSpec::new("timeout", OptionKind::Duration, "how long one try may take").default("30s"),
    OptionSpec::new(
        "maxInFlight",
        OptionKind::Count { min: 1, max: 10_000 },
        "requests at the same time",
    )
    .default("32"),
    OptionSpec::new(
        "requestsPerSecond",
        OptionKind::Count { min: 1, max: 1_000_000 },
        "requests a second at most, tries counted; no limit if not given",
    ),
    OptionSpec::new(
        "maxRetries",
        OptionKind::Count { min: 0, max: 1_000 },
        "tries after the first, before the batch fails and is tried again as a whole",
    )
    .default("5"),
    OptionSpec::new("retryOn", OptionKind::Text, "statuses after which a request is sent again")
        .default(RETRY_ON),
    OptionSpec::new(
        "failureThreshold",
        OptionKind::Count { min: 0, max: 1_000_000 },
        "failures in a row after which the receiver is left alone for coolDown; 0 is never",
    )
    .default("20"),
    OptionSpec::new(
        "coolDown",
        OptionKind::Duration,
        "how long that lasts, until one request tries again",
    )
    .default("10s"),
    OptionSpec::new(
        "onRefusal",
        OptionKind::Choice(&["fail", "skip-and-record"]),
        "what a final refusal does: it stops the query, or is noted in the checkpoint",
    )
    .default("fail"),
    OptionSpec::new(
        "idempotentReceiver",
        OptionKind::Bool,
        "says that the receiver does a request with the same Idempotency-Key once: then the query is \
         exactly-once",
    )
    .default("false"),
    OptionSpec::new(
        "tls.certificates",
        OptionKind::Text,
        "certificates in PEM that vouch for the receiver, beside those of the machine",
    ),
];

/// The largest reply that the sink reads, in bytes: nobody looks at it but in messages.
const REPLY_BYTES: usize = 1 << 20;

/// The options of one sink.
#[derive(Debug)]
pub(super) struct SinkOptions {
    pub(super) url: Url,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) body_column: Option<String>,
    pub(super) grouping: (u64, BodyFormat),
    pub(super) rules: CallRules,
    pub(super) skip_refused: bool,
    pub(super) idempotent: bool,
}

impl SinkOptions {
    /// # Errors
    /// Invalid, with the option.
    pub(super) fn read(options: &Options) -> Result<SinkOptions> {
        let url = options.text("url").unwrap_or_default();
        let url = http_url(url)
            .map_err(|why| Error::invalid(format!("option `url` of the http sink {why}")))?;
        let format = match options.choice("bodyFormat").as_deref() {
            Some("ndjson") => BodyFormat::Ndjson,
            _ => BodyFormat::Json,
        };
        let method = options.text("method").unwrap_or("POST").to_uppercase();
        let method = Method::from_bytes(method.as_bytes())
            .map_err(|error| Error::internal("a method of the table is none").because(error))?;
        Ok(SinkOptions {
            url,
            method,
            headers: headers(options, format)?,
            body_column: options.text("bodyColumn").map(str::to_owned),
            grouping: (options.count("rowsPerRequest").unwrap_or(1), format),
            rules: rules(options)?,
            skip_refused: options.choice("onRefusal").as_deref() == Some("skip-and-record"),
            idempotent: options.flag("idempotentReceiver"),
        })
    }
}

fn rules(options: &Options) -> Result<CallRules> {
    let span = |name: &str| Duration::from_millis(options.duration_ms(name).unwrap_or(1).max(1));
    let number = |name: &str| options.count(name).unwrap_or_default();
    let small = |name: &str| u32::try_from(number(name)).unwrap_or(u32::MAX);
    Ok(CallRules {
        client: ClientRules {
            timeout: span("timeout"),
            reply_bytes: REPLY_BYTES,
            certificates: options.text("tls.certificates").map(str::to_owned),
        },
        retry: RetryRules {
            retries: small("maxRetries"),
            on: statuses("option `retryOn`", options.text("retryOn").unwrap_or(RETRY_ON))?,
        },
        at_once: usize::try_from(number("maxInFlight")).unwrap_or(1).max(1),
        per_second: options.count("requestsPerSecond"),
        failures: small("failureThreshold"),
        cool_down: span("coolDown"),
    })
}

fn headers(options: &Options, format: BodyFormat) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    let own = match format {
        BodyFormat::Json => "application/json",
        BodyFormat::Ndjson => "application/x-ndjson",
    };
    let kind = options.text("contentType").unwrap_or(own);
    headers.insert(CONTENT_TYPE, value("contentType", kind, false)?);
    for (name, text) in options.below("headers.") {
        let (name, value) = header(&format!("headers.{name}"), name, text)?;
        headers.insert(name, value);
    }
    let secret = |name: &str| options.secret(name);
    let user = options.text("auth.user").map(str::to_owned);
    if let Some(value) = authorization(secret("auth.bearer"), user.zip(secret("auth.password")))? {
        headers.insert(AUTHORIZATION, value);
    } else if options.given("auth.user") || options.given("auth.password") {
        return Err(Error::invalid("options auth.user and auth.password are given together"));
    }
    Ok(headers)
}

/// The value of the header Authorization, if there is a token or a password.
///
/// # Errors
/// Invalid: both are given, or one cannot stand in a header.
pub(super) fn authorization(
    bearer: Option<Secret>,
    user: Option<(String, Secret)>,
) -> Result<Option<HeaderValue>> {
    use base64::Engine;
    let text = match (bearer, user) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid("give a token or a password for HTTP calls, not both"));
        }
        (Some(token), None) => format!("Bearer {}", token.expose()),
        (None, Some((user, password))) => {
            let pair = format!("{user}:{}", password.expose());
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
        }
        (None, None) => return Ok(None),
    };
    value("auth", &text, true).map(Some)
}

/// A header that a user gives.
///
/// # Errors
/// Invalid: it is none, or one that is ours to make. The value is not told.
pub(super) fn header(given: &str, name: &str, text: &str) -> Result<(HeaderName, HeaderValue)> {
    let known = HeaderName::from_bytes(name.trim().to_lowercase().as_bytes())
        .map_err(|_| Error::invalid(format!("`{given}` names no header of HTTP")))?;
    let ours = ["idempotency-key", "content-length", "host", "connection", "transfer-encoding"];
    if ours.contains(&known.as_str()) {
        return Err(Error::invalid(format!("`{given}`: this header is made for each request")));
    }
    Ok((known, value(given, text, true)?))
}

fn value(given: &str, text: &str, secret: bool) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text.trim()).map_err(|_| {
        Error::invalid(format!("the value of `{given}` has characters that no header may have"))
    })?;
    value.set_sensitive(secret);
    Ok(value)
}

/// A URL that can be called.
///
/// # Errors
/// Why it cannot. It does not tell the URL, which may hold a secret.
pub(super) fn http_url(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text.trim()).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or("is no address such as https://host/path")?;
    match url.username().is_empty() && url.password().is_none() {
        true => Ok(url),
        false => {
            Err("holds a password, which belongs into an option or setting that is never shown")
        }
    }
}

/// Statuses with commas between.
///
/// # Errors
/// Invalid: one is none.
pub(super) fn statuses(what: &str, text: &str) -> Result<Vec<u16>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let statuses = parts.map(|part| {
        let status = part.parse().ok().filter(|status| (300..600).contains(status));
        status.ok_or_else(|| {
            Error::invalid(format!("{what} has `{part}`, but takes statuses such as 429,503"))
        })
    });
    statuses.collect()
}

/// Which receivers the session may call.
///
/// # Errors
/// Invalid: a setting is no list of hosts.
pub(super) fn addresses(conf: &std::collections::BTreeMap<String, String>) -> Result<Addresses> {
    Addresses::of(|name| {
        let found = conf.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone())
    })
}
