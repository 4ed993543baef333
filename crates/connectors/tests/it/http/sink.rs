//! What the sink sends, and what it makes of answers.

use super::receiver::{Answer, Receiver};
use crate::sink::rig::{Gate, ManualClock, query, rows, schema, stream};
use arrow::array::RecordBatch;
use onefold_connector::{
    Attempt, Options, OutputMode, Sink, SinkContext, SinkDefinition, SinkEffects, SinkRequest,
    StagedOutput,
};
use onefold_connectors::http::SINK;
use onefold_types::{BatchId, ErrorKind, Generation, OptionMap, Result, RunId};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

fn definition(given: OptionMap) -> Result<Arc<dyn SinkDefinition>> {
    let options = Options::check("sink `http`", SINK.options, given)?;
    let request = SinkRequest {
        options,
        path: None,
        partition_by: Vec::new(),
        query_name: None,
        output_mode: OutputMode::Append,
    };
    (SINK.define)(request)
}

fn context(conf: &[(&str, &str)]) -> SinkContext {
    let conf = conf.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    SinkContext {
        query: query(),
        run: RunId(query().0),
        generation: Generation(1),
        last_commit: None,
        last_intent: None,
        follows: false,
        schema: schema(),
        clock: Arc::new(ManualClock(AtomicI64::new(0))),
        effects: SinkEffects::forgotten(query()),
        conf: conf.collect(),
    }
}

fn options(receiver: &Receiver) -> OptionMap {
    OptionMap::new().with("url", receiver.url("/in?token=abc"))
}

async fn open(given: OptionMap) -> Arc<dyn Sink> {
    definition(given).unwrap().open(context(&[])).await.unwrap()
}

async fn stage(sink: &dyn Sink, batches: Vec<RecordBatch>) -> Result<StagedOutput> {
    let attempt = Attempt { query: query(), batch: BatchId(4), generation: Generation(1) };
    sink.stage(&attempt, 2, stream(batches)).await
}

#[tokio::test]
async fn each_row_is_a_request_with_a_key_and_what_the_options_say() {
    let receiver = Receiver::new();
    let given = options(&receiver)
        .with("headers.X-Team", "blue")
        .with("auth.bearer", "hunter2")
        .with("method", "put");
    let sink = open(given).await;
    let staged = stage(sink.as_ref(), vec![rows(&[1, 2]), rows(&[3])]).await.unwrap();
    assert_eq!(staged.totals.rows, 3);
    let mut arrived = receiver.arrived();
    arrived.sort_by(|a, b| a.body.cmp(&b.body));
    let bodies: Vec<&str> = arrived.iter().map(|call| call.body.as_str()).collect();
    assert_eq!(bodies[0], r#"{"id":1,"k":"k 1/x"}"#);
    assert_eq!(bodies.len(), 3);
    let first = &arrived[0];
    assert_eq!((first.method.as_str(), first.path.as_str()), ("PUT", "/in?token=abc"));
    let header = |name: &str| first.headers.get(name).map(String::as_str);
    assert_eq!(header("authorization"), Some("Bearer hunter2"));
    assert_eq!(header("x-team"), Some("blue"));
    assert_eq!(header("content-type"), Some("application/json"));
    assert_eq!(first.key.len(), 32);
    assert_eq!(receiver.by_key().len(), 3);
}

#[tokio::test]
async fn the_same_rows_have_the_same_keys_and_totals_in_a_replay_whatever_the_order() {
    let receiver = Receiver::new();
    let first = stage(open(options(&receiver)).await.as_ref(), vec![rows(&[1, 2, 2, 3])]).await;
    let again = open(options(&receiver)).await;
    let again = stage(again.as_ref(), vec![rows(&[2, 3]), rows(&[1, 2])]).await;
    assert_eq!(first.unwrap().totals, again.unwrap().totals);
    assert_eq!(receiver.done().len(), 4);
    assert!(receiver.by_key().values().all(|bodies| bodies.len() == 2));
}

#[tokio::test]
async fn rows_go_together_as_an_array_or_as_lines() {
    for (format, body) in [
        ("json", r#"[{"id":1,"k":"k 1/x"},{"id":2,"k":"k 2/x"}]"#),
        ("ndjson", "{\"id\":1,\"k\":\"k 1/x\"}\n{\"id\":2,\"k\":\"k 2/x\"}\n"),
    ] {
        let receiver = Receiver::new();
        let given = options(&receiver).with("rowsPerRequest", "2").with("bodyFormat", format);
        stage(open(given).await.as_ref(), vec![rows(&[1]), rows(&[2, 3])]).await.unwrap();
        let bodies: Vec<String> = receiver.done();
        assert_eq!(bodies.len(), 2);
        assert!(bodies.iter().any(|sent| sent == body), "{bodies:?}");
    }
}

#[tokio::test]
async fn a_busy_receiver_is_asked_again_with_the_same_key() {
    let receiver = Receiver::judging(|_, before| match before {
        0 => Answer::Later(503, "0"),
        1 => Answer::Nothing,
        _ => Answer::Status(201, ""),
    });
    stage(open(options(&receiver)).await.as_ref(), vec![rows(&[7])]).await.unwrap();
    let by_key = receiver.by_key();
    assert_eq!(by_key.len(), 1);
    assert!(by_key.values().all(|bodies| bodies.len() == 3), "{by_key:?}");
}

#[tokio::test]
async fn a_receiver_that_stays_busy_fails_the_batch_for_now() {
    let receiver = Receiver::judging(|_, _| Answer::Status(503, "down for lunch"));
    let sink = open(options(&receiver).with("maxRetries", "1")).await;
    let error = stage(sink.as_ref(), vec![rows(&[7])]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = error.chain();
    for part in ["row 0 of partition 2 of batch 4", "after 2 tries", "503", "down for lunch"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("abc"), "the query of an address may be a secret: {text}");
    assert_eq!(receiver.arrived().len(), 2);
}

#[tokio::test]
async fn a_refusal_stops_the_query_and_names_the_row() {
    let receiver = Receiver::judging(|call, _| match call.body.contains("\"id\":2") {
        true => Answer::Status(422, "id 2 is taken"),
        false => Answer::Status(200, ""),
    });
    let sink = open(options(&receiver)).await;
    let error = stage(sink.as_ref(), vec![rows(&[1, 2, 3])]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = error.chain();
    for part in ["row 1 of partition 2 of batch 4", "422", "id 2 is taken", "onRefusal"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(receiver.by_key().len(), receiver.arrived().len(), "a refusal is final");
}

#[tokio::test]
async fn a_refusal_is_noted_where_that_is_asked_for() {
    let receiver = Receiver::judging(|call, _| match call.body.contains("\"id\":2") {
        true => Answer::Status(422, "taken"),
        false => Answer::Status(200, ""),
    });
    let sink = open(options(&receiver).with("onRefusal", "skip-and-record")).await;
    let staged = stage(sink.as_ref(), vec![rows(&[1, 2, 3])]).await.unwrap();
    assert_eq!(staged.totals.rows, 3);
    let refused = &staged.detail["refused"];
    assert_eq!(refused.as_array().unwrap().len(), 1, "{refused}");
    assert_eq!(refused[0]["status"], 422);
    assert_eq!(refused[0]["row"], 1);
    assert_eq!(refused[0]["body"], r#"{"id":2,"k":"k 2/x"}"#);
    let attempt = Attempt { query: query(), batch: BatchId(4), generation: Generation(1) };
    sink.publish(&attempt, vec![staged], &Gate::default()).await.unwrap();
}

#[tokio::test]
async fn a_redirection_is_not_followed() {
    let other = Receiver::new();
    let to = other.url("/elsewhere");
    let receiver = Receiver::judging(move |_, _| Answer::Moved(to.clone()));
    let error = stage(open(options(&receiver)).await.as_ref(), vec![rows(&[1])]).await.unwrap_err();
    assert!(error.chain().contains("302"), "{error:?}");
    assert!(other.arrived().is_empty());
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_allowed() {
    let receiver = Receiver::new();
    let sink = open(options(&receiver).with("maxInFlight", "3")).await;
    let ids: Vec<i64> = (0..200).collect();
    stage(sink.as_ref(), vec![rows(&ids)]).await.unwrap();
    assert_eq!(receiver.by_key().len(), 200);
    assert!(receiver.most_at_once() <= 3, "{}", receiver.most_at_once());
}

#[tokio::test]
async fn where_private_networks_are_refused_nobody_on_this_machine_is_called() {
    let receiver = Receiver::new();
    let shared = [("onefold.http.privateNetworks", "refused")];
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"] {
        let url = format!("http://{host}:{}/", receiver.port());
        let sink = definition(OptionMap::new().with("url", url)).unwrap();
        let sink = sink.open(context(&shared)).await.unwrap();
        let error = stage(sink.as_ref(), vec![rows(&[1])]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{host}: {error:?}");
        assert!(error.chain().contains("private network"), "{host}: {error:?}");
    }
    assert!(receiver.arrived().is_empty());
    // The same name may be called where it is named.
    let named = [shared[0], ("onefold.http.allow", "localhost")];
    let url = format!("http://localhost:{}/", receiver.port());
    let sink = definition(OptionMap::new().with("url", url)).unwrap();
    let sink = sink.open(context(&named)).await.unwrap();
    stage(sink.as_ref(), vec![rows(&[1])]).await.unwrap();
    assert_eq!(receiver.arrived().len(), 1);
}

#[tokio::test]
async fn options_that_do_not_fit_are_refused_and_no_secret_is_told() {
    let url = "http://127.0.0.1:9/";
    for (name, value, said) in [
        ("url", "ftp://x/", "`url`"),
        ("url", "http://user:hunter2@x/", "password"),
        ("retryOn", "429,soon", "`soon`"),
        ("headers.Idempotency-Key", "hunter2", "made for each request"),
        ("headers.a b", "hunter2", "names no header"),
        ("headers.X-A", "hunter2\n", ""),
        ("auth.password", "hunter2", "together"),
        ("bodyFormat", "xml", "bodyFormat"),
        ("rowPerRequest", "1", "`rowsPerRequest`"),
    ] {
        let given = OptionMap::new().with("url", url).with(name, value);
        let made = definition(given);
        if said.is_empty() {
            assert!(made.is_ok(), "{name}: a newline at the end is cut off");
            continue;
        }
        let error = made.unwrap_err().chain();
        assert!(error.contains(said), "{name}: {error}");
        assert!(!error.contains("hunter2"), "{name}: {error}");
    }
    let secrets = OptionMap::new()
        .with("url", "http://x/?token=hunter2")
        .with("auth.bearer", "hunter2")
        .with("headers.X-Key", "hunter2");
    let sink = definition(secrets).unwrap();
    let shown = format!("{} {sink:?} {:?}", sink.description(), sink.delivery());
    assert!(!sink.description().contains("hunter2") && !shown.contains("Bearer"), "{shown}");
}

#[tokio::test]
async fn nothing_is_sent_through_a_partition_column() {
    let request = SinkRequest {
        options: Options::check("http", SINK.options, OptionMap::new()).unwrap(),
        path: None,
        partition_by: vec!["k".to_owned()],
        query_name: None,
        output_mode: OutputMode::Append,
    };
    assert!((SINK.define)(request).is_err());
}
