//! What `http_call` calls with.

use super::receiver::{Answer, Receiver};
use onefold_connector::OutsideCalls;
use onefold_connectors::http::calls;
use onefold_types::{CallKey, ErrorKind, Reply, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

fn session(settings: &[(&str, &str)]) -> Arc<dyn OutsideCalls> {
    let settings: BTreeMap<String, String> =
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    calls(Arc::new(move |name| settings.get(name).cloned()))
}

async fn call(
    session: &Arc<dyn OutsideCalls>,
    options: &[(&str, &str)],
    url: &str,
    body: Option<&str>,
) -> Result<Option<Reply>> {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    session.caller(&options.collect())?.call(url, body, Some(CallKey(7))).await
}

#[tokio::test]
async fn a_reply_has_status_body_and_headers_without_secrets() {
    let receiver = Receiver::judging(|_, _| Answer::Status(404, "nobody"));
    let reply = call(&session(&[]), &[], &receiver.url("/a"), Some("{}")).await.unwrap().unwrap();
    assert_eq!((reply.status, reply.body.as_str()), (404, "nobody"));
    assert_eq!(reply.headers.get("x-answer").map(String::as_str), Some("yes"));
    assert!(!reply.headers.contains_key("set-cookie"));
    let arrived = receiver.arrived();
    assert_eq!(arrived[0].method, "POST");
    assert_eq!(arrived[0].key, CallKey(7).to_string());
    call(&session(&[]), &[], &receiver.url("/a"), None).await.unwrap();
    assert_eq!(receiver.arrived()[1].method, "GET");
}

#[tokio::test]
async fn credentials_go_to_their_receiver_and_to_no_other_one() {
    let (receiver, stranger) = (Receiver::new(), Receiver::new());
    let session = session(&[
        ("onefold.http.partner.url", &receiver.url("/api")),
        ("onefold.http.partner.bearer", "hunter2"),
        ("onefold.http.partner.header", "X-Key: hunter3"),
    ]);
    let auth = [("auth", "partner")];
    call(&session, &auth, &receiver.url("/api/charge"), Some("1")).await.unwrap();
    let headers = &receiver.arrived()[0].headers;
    assert_eq!(headers.get("authorization").map(String::as_str), Some("Bearer hunter2"));
    assert_eq!(headers.get("x-key").map(String::as_str), Some("hunter3"));
    for elsewhere in [
        stranger.url("/api/charge"),
        receiver.url("/apis"),
        receiver.url("/api/../secret"),
        receiver.url("/api/%2e%2e/secret"),
        receiver.url("/"),
    ] {
        let error = call(&session, &auth, &elsewhere, Some("1")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{elsewhere}");
        assert!(!error.chain().contains("hunter"), "{error:?}");
    }
    assert!(stranger.arrived().is_empty());
    assert_eq!(receiver.arrived().len(), 1);
    let error = call(&session, &[("auth", "nobody")], &receiver.url("/"), None).await.unwrap_err();
    assert!(error.chain().contains("onefold.http.nobody.url"), "{error:?}");
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_is_an_error_or_null() {
    let receiver = Receiver::judging(|_, _| Answer::Nothing);
    let session = session(&[("onefold.http.maxRetries", "1")]);
    let error = call(&session, &[], &receiver.url("/"), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let null = call(&session, &[("onFailure", "null")], &receiver.url("/"), None).await;
    assert_eq!(null.unwrap(), None);
    assert_eq!(receiver.arrived().len(), 4);
}

#[tokio::test]
async fn a_receiver_that_fails_again_and_again_is_left_alone_for_a_while() {
    let receiver = Receiver::judging(|_, before| match before {
        0..4 => Answer::Status(500, ""),
        _ => Answer::Status(200, ""),
    });
    let session = session(&[
        ("onefold.http.failureThreshold", "2"),
        ("onefold.http.coolDown", "50ms"),
        ("onefold.http.maxRetries", "9"),
    ]);
    let reply = call(&session, &[], &receiver.url("/"), None).await.unwrap().unwrap();
    assert_eq!(reply.status, 200);
    assert_eq!(receiver.arrived().len(), 5);
}

#[tokio::test]
async fn what_cannot_be_called_is_refused_with_a_reason() {
    let receiver = Receiver::new();
    let denied = session(&[("onefold.http.deny", "127.0.0.0/8")]);
    for (session, options, url, said) in [
        (&session(&[]), vec![], "file:///etc/passwd", "address"),
        (&session(&[]), vec![], "http://a:b@c/", "password"),
        (&session(&[]), vec![("method", "BREW")], "http://c/", "BREW"),
        (&session(&[]), vec![("metod", "GET")], "http://c/", "metod"),
        (&denied, vec![], receiver.url("/").as_str(), "onefold.http.deny"),
    ] {
        let error = call(session, &options, url, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error:?}");
        assert!(error.chain().contains(said), "{url}: {error:?}");
    }
    assert!(receiver.arrived().is_empty());
}

#[tokio::test]
async fn a_reply_that_is_too_long_is_an_error() {
    let receiver = Receiver::judging(|_, _| Answer::Status(200, "0123456789"));
    let session = session(&[("onefold.http.maxReplyBytes", "9")]);
    let error = call(&session, &[], &receiver.url("/"), None).await.unwrap_err();
    assert!(error.chain().contains("onefold.http.maxReplyBytes"), "{error:?}");
}
