//! Over a server on loopback that answers as told.

use super::*;
use onefold_types::ErrorKind;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// Answers each request with the next of some replies; the last one stays.
struct Server {
    address: String,
    /// First line, `authorization` and body of each request.
    heard: Arc<Mutex<Vec<(String, String, String)>>>,
}

impl Server {
    fn start(replies: &[(u16, &str)]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&heard);
        let mut replies: VecDeque<(u16, String)> =
            replies.iter().map(|(status, body)| (*status, (*body).to_owned())).collect();
        // Ends with the process of the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (status, body) = match replies.len() {
                    1 => replies[0].clone(),
                    _ => replies.pop_front().unwrap(),
                };
                let request = answer(stream.unwrap(), status, &body);
                to.lock().unwrap().push(request);
            }
        });
        Server { address, heard }
    }

    fn lines(&self) -> Vec<String> {
        self.heard.lock().unwrap().iter().map(|(line, ..)| line.clone()).collect()
    }
}

fn answer(stream: TcpStream, status: u16, body: &str) -> (String, String, String) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut authorization, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim().split_once(": ") {
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                authorization = value.to_owned();
            }
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap();
            }
            Some(_) => {}
        }
    }
    let mut sent = vec![0; length];
    reader.read_exact(&mut sent).unwrap();
    let mut stream = reader.into_inner();
    write!(
        stream,
        "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nlocation: http://127.0.0.1:9/\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    (first.trim().to_owned(), authorization, String::from_utf8(sent).unwrap())
}

fn registry(settings: &[(&str, &str)]) -> Arc<dyn SchemaRegistry> {
    let settings: HashMap<String, String> =
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    open(Arc::new(move |name| settings.get(name).cloned()))
}

const LONG: &str = r#"{"subject":"t","version":3,"id":7,"schema":"\"long\""}"#;
const NO_SUBJECT: &str = r#"{"error_code":40401,"message":"Subject not found"}"#;
const NO_SCHEMA: &str = r#"{"error_code":40403,"message":"Schema not found"}"#;

#[test]
fn what_an_id_stands_for_is_asked_once_and_the_newest_each_time() {
    let server = Server::start(&[(200, r#"{"schema":"\"int\""}"#), (200, LONG)]);
    let registry = registry(&[(URL, &format!("{}/", server.address))]);
    for _ in 0..2 {
        let found = registry.by_id(None, 4).unwrap().unwrap();
        assert_eq!((found.id, &found.content), (4, &SchemaContent::Avro("\"int\"".to_owned())));
    }
    for _ in 0..2 {
        assert_eq!(registry.newest(Some(&server.address), "a/b c").unwrap().id, 7);
    }
    assert_eq!(registry.by_id(None, 7).unwrap().unwrap().id, 7);
    let newest = "GET /subjects/a%2Fb%20c/versions/latest HTTP/1.1";
    assert_eq!(server.lines(), ["GET /schemas/ids/4 HTTP/1.1", newest, newest]);
}

#[test]
fn credentials_go_to_the_address_of_the_setting_alone() {
    let (own, other) = (Server::start(&[(200, LONG)]), Server::start(&[(401, "{}")]));
    let registry = registry(&[(URL, &own.address), (USER, "me:hunter2")]);
    registry.newest(None, "t").unwrap();
    // `me:hunter2` in base 64.
    assert_eq!(own.heard.lock().unwrap()[0].1, "Basic bWU6aHVudGVyMg==");
    let error = registry.newest(Some(&other.address), "t").unwrap_err();
    assert_eq!(other.heard.lock().unwrap()[0].1, "");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.chain().contains("set onefold.schemaRegistry.url to this address"), "{error:?}");
    assert!(!format!("{error:?} {registry:?}").contains("hunter2"));
}

#[test]
fn a_registry_that_falters_is_asked_again_and_one_that_is_away_says_so() {
    let server = Server::start(&[(503, "{}"), (429, "{}"), (200, LONG)]);
    let registry = registry(&[(URL, &server.address), (TOKEN, "hunter2")]);
    assert_eq!(registry.newest(None, "t").unwrap().id, 7);
    assert_eq!(server.lines().len(), 3);
    let error = registry.newest(Some("http://127.0.0.1:1"), "t").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.chain().contains("http://127.0.0.1:1 does not answer"), "{error:?}");
}

#[test]
fn what_is_not_there_is_told_apart_from_what_is_no_registry() {
    let server = Server::start(&[(404, NO_SCHEMA), (404, NO_SUBJECT), (404, "<html>")]);
    let registry = registry(&[(URL, &server.address)]);
    assert_eq!(registry.by_id(None, 4).unwrap(), None);
    let error = registry.newest(None, "t").unwrap_err();
    assert!(error.to_string().contains("has no subject t"), "{error}");
    let error = registry.by_id(None, 4).unwrap_err();
    assert!(error.to_string().contains("no schema registry"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn no_redirection_is_followed() {
    let server = Server::start(&[(302, "{}")]);
    let error = registry(&[(URL, &server.address)]).by_id(None, 4).unwrap_err();
    assert!(error.to_string().contains("302"), "{error}");
}

#[test]
fn a_schema_is_put_into_a_subject_only_when_asked() {
    let server = Server::start(&[(404, NO_SCHEMA), (404, NO_SCHEMA), (200, r#"{"id":9}"#)]);
    let registry = registry(&[(URL, &server.address)]);
    assert_eq!(registry.id_of(None, "t", "\"long\"", false).unwrap(), None);
    assert_eq!(registry.id_of(None, "t", "\"long\"", true).unwrap(), Some(9));
    let lines = server.lines();
    assert_eq!(lines[1..], ["POST /subjects/t HTTP/1.1", "POST /subjects/t/versions HTTP/1.1"]);
    assert_eq!(server.heard.lock().unwrap()[2].2, r#"{"schema":"\"long\""}"#);
}

#[test]
fn what_a_schema_refers_to_is_brought_in_any_kind() {
    let avro = r#"{"schema":"{\"type\":\"record\",\"name\":\"r\",\"fields\":[{\"name\":\"k\",\"type\":\"Kind\"}]}",
        "references":[{"name":"Kind","subject":"kinds","version":2}]}"#;
    let kind = r#"{"id":3,"schema":"{\"type\":\"enum\",\"name\":\"Kind\",\"symbols\":[\"A\"]}"}"#;
    let server = Server::start(&[(200, avro), (200, kind)]);
    let found = registry(&[(URL, &server.address)]).by_id(None, 4).unwrap().unwrap();
    let SchemaContent::Avro(text) = &found.content else { panic!("{found:?}") };
    assert!(text.contains("symbols"), "{text}");
    assert_eq!(server.lines()[1], "GET /subjects/kinds/versions/2 HTTP/1.1");

    // `package p; message M {}`: package and the message's name.
    let file = STANDARD_FILE;
    let text = format!(r#"{{"id":5,"schemaType":"PROTOBUF","schema":"{file}"}}"#);
    let server = Server::start(&[(200, &text)]);
    let found = registry(&[(URL, &server.address)]).newest(None, "t").unwrap();
    let SchemaContent::Protobuf { first, .. } = &found.content else { panic!("{found:?}") };
    assert_eq!(first, "p.M");
    assert_eq!(server.lines()[1], "GET /schemas/ids/5?format=serialized HTTP/1.1");
}

/// In base 64: field 2, `p`; field 4, a message whose field 1 is `M`.
const STANDARD_FILE: &str = "EgFwIgMKAU0=";

#[test]
fn an_address_that_is_none_is_refused_without_its_password() {
    for address in ["ftp://host", "host:8081", "http://me:hunter2@host", ""] {
        let error = registry(&[]).by_id(Some(address), 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{address}");
        assert!(!error.chain().contains("hunter2"), "{error:?}");
    }
}
