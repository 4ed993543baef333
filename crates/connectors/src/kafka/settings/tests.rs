//! What a user may say of clients.

use super::*;
use onefold_types::OptionMap;

static TABLE: &[&[OptionSpec]] = &[CLIENT, CONSUMER, PRODUCER, REFUSED];

fn checked(pairs: &[(&str, &str)]) -> Result<Options> {
    let given: OptionMap = pairs.iter().copied().collect();
    Options::check("source `kafka`", TABLE, given)
}

fn consumer_of(pairs: &[(&str, &str)]) -> Result<ClientConfig> {
    let mut all = vec![("kafka.bootstrap.servers", "127.0.0.1:1")];
    all.extend(pairs);
    consumer(&checked(&all)?)
}

#[test]
fn names_of_java_clients_are_translated() {
    let config = consumer_of(&[
        ("kafka.fetch.max.wait.ms", "7"),
        ("kafka.isolation.level", "READ_COMMITTED"),
        ("kafka.ssl.truststore.certificates", "-----BEGIN"),
        ("kafka.metadata.max.age.ms", "9"),
        ("kafka.security.protocol", "SSL"),
        ("kafka.max.poll.records", "5"),
    ])
    .unwrap();
    assert_eq!(config.get("fetch.wait.max.ms"), Some("7"));
    assert_eq!(config.get("isolation.level"), Some("read_committed"));
    assert_eq!(config.get("ssl.ca.pem"), Some("-----BEGIN"));
    assert_eq!(config.get("topic.metadata.refresh.interval.ms"), Some("9"));
    assert_eq!(config.get("security.protocol"), Some("ssl"));
    assert_eq!(config.get("max.poll.records"), None);
}

#[test]
fn records_of_aborted_transactions_are_read_unless_told_otherwise_as_in_spark() {
    let config = consumer_of(&[]).unwrap();
    assert_eq!(config.get("isolation.level"), Some("read_uncommitted"));
    assert_eq!(config.get("enable.auto.commit"), Some("false"));
}

#[test]
fn every_setting_that_is_taken_is_known_to_librdkafka() {
    for row in CLIENT.iter().chain(CONSUMER).chain(PRODUCER) {
        let Some(name) = native::name(row.name) else { continue };
        let value = match row.kind {
            OptionKind::Count { max, .. } => native::value(row.name, &max.to_string()),
            OptionKind::Choice(words) => native::value(row.name, words[0]),
            OptionKind::Bool => "true".to_owned(),
            // Certificates are read when they are set.
            _ if name.ends_with(".pem") => continue,
            _ => "x".to_owned(),
        };
        let mut config = ClientConfig::new();
        config.set(name, value);
        assert!(config.create_native_config().is_ok(), "{name} of {}", row.name);
    }
}

#[test]
fn every_dangerous_setting_is_refused_with_a_reason() {
    for row in REFUSED {
        let error = checked(&[(row.name, "hunter2")]).unwrap_err().to_string();
        assert!(error.contains(row.name) && error.contains(row.doc), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_setting_that_nobody_knows_is_refused() {
    let error = checked(&[("kafka.ssl.keystor.key", "hunter2")]).unwrap_err().to_string();
    assert!(error.contains("the nearest is `kafka.ssl.keystore.key`"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn a_login_of_a_java_client_is_taken_apart() {
    let jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required \
                username=\"alice\" password=\"hunter2\";";
    let login = [
        ("kafka.security.protocol", "SASL_PLAINTEXT"),
        ("kafka.sasl.mechanism", "scram-sha-512"),
        ("kafka.sasl.jaas.config", jaas),
    ];
    let config = consumer_of(&login).unwrap();
    assert_eq!(config.get("sasl.username"), Some("alice"));
    assert_eq!(config.get("sasl.password"), Some("hunter2"));
    assert_eq!(config.get("sasl.mechanism"), Some("SCRAM-SHA-512"));
    assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
    let secrets = secrets(&checked(&login).unwrap());
    assert!(secrets.iter().any(|secret| secret.expose() == "hunter2"));
}

#[test]
fn a_login_that_does_not_fit_is_named() {
    let plain = "x.PlainLoginModule required username=\"a\" password=\"hunter2\";";
    for (pairs, says) in [
        (vec![("kafka.security.protocol", "SASL_SSL")], "kafka.sasl.mechanism is missing"),
        (
            vec![("kafka.security.protocol", "SASL_SSL"), ("kafka.sasl.mechanism", "PLAIN")],
            "nobody logs in",
        ),
        (
            vec![
                ("kafka.security.protocol", "SASL_SSL"),
                ("kafka.sasl.mechanism", "SCRAM-SHA-256"),
                ("kafka.sasl.jaas.config", plain),
            ],
            "does not fit",
        ),
        (
            vec![("kafka.sasl.username", "b"), ("kafka.sasl.jaas.config", plain)],
            "say both who logs in",
        ),
        (vec![("kafka.sasl.mechanism", "GSSAPI")], "one of PLAIN"),
        (vec![("kafka.ssl.truststore.type", "JKS")], "takes one of PEM"),
    ] {
        let error = consumer_of(&pairs).unwrap_err().chain();
        assert!(error.contains(says), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn brokers_must_be_named() {
    let error = consumer(&checked(&[]).unwrap()).unwrap_err().to_string();
    assert!(error.contains("'kafka.bootstrap.servers' must be specified"), "{error}");
    let short = consumer(&checked(&[("bootstrapServers", "a:1")]).unwrap()).unwrap();
    assert_eq!(short.get("bootstrap.servers"), Some("a:1"));
    assert!(producer(&checked(&[("kafka.bootstrap.servers", " ")]).unwrap()).is_err());
}
