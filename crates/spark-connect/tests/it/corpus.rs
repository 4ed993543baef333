//! Requests that once harmed a server, or could have.

use crate::server::Server;

const REQUESTS: &str = include_str!("../corpus/requests.txt");

/// The bytes of `HEX*COUNT …`.
fn bytes_of(parts: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts.split_whitespace() {
        let (hex, count) = part.split_once('*').unwrap();
        let unit: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|place| u8::from_str_radix(&hex[place..place + 2], 16).unwrap())
            .collect();
        bytes.extend(unit.repeat(count.parse().unwrap()));
    }
    bytes
}

#[test]
fn requests_of_the_corpus_get_an_answer() {
    let server = Server::new();
    let channel = server.channel();
    for line in REQUESTS.lines().filter(|line| !line.starts_with('#')) {
        let (name, parts) = line.split_once(' ').unwrap();
        assert!(server.call(&channel, name, bytes_of(parts)).is_err(), "{line}");
        server.assert_alive();
    }
}
