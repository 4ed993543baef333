//! Kafka's own settings: which `kafka.*` options a user may give, and what they are for librdkafka.
//!
//! An option is taken only when it stands in a table here. Settings of librdkafka that load a
//! library, run a command, read a file or call an address of the user's choosing are refused by
//! name, since whoever writes a query need not be whoever runs the process. Names are those of
//! Kafka's Java clients, as programs for Spark give them; where librdkafka spells a setting
//! differently it is translated here.

mod jaas;
mod native;
mod refused;
mod table;

pub(crate) use refused::REFUSED;
pub(crate) use table::{CLIENT, CONSUMER, PRODUCER};

use onefold_connector::{OptionKind, OptionSpec, Options};
use onefold_types::{Error, Result, Secret};
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use std::time::Duration;

/// What every client gets, unless the user says otherwise.
const FIXED: &[(&str, &str)] = &[
    ("client.id", "onefold"),
    // A connection that was idle and is closed is no event.
    ("log.connection.close", "false"),
    ("enable.metrics.push", "false"),
    ("allow.auto.create.topics", "false"),
    // Java's default; librdkafka takes twice as long.
    ("socket.timeout.ms", "30000"),
];

/// A consumer is told what to read; it belongs to its group in name only.
const FIXED_CONSUMER: &[(&str, &str)] = &[
    ("auto.offset.reset", "error"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("enable.partition.eof", "true"),
    ("check.crcs", "true"),
    // A second, otherwise: longer than it takes to read what is held.
    ("fetch.queue.backoff.ms", "10"),
    // Spark's and Java's default, which is not librdkafka's.
    ("isolation.level", "read_uncommitted"),
];

/// The configuration of a consumer. The caller sets `group.id`.
///
/// # Errors
/// Invalid: no brokers are named, or a setting does not fit others.
pub(crate) fn consumer(options: &Options) -> Result<ClientConfig> {
    config(options, CONSUMER, FIXED_CONSUMER, "consumer")
}

/// The configuration of a producer. The caller sets `transactional.id`.
///
/// # Errors
/// As [`consumer`].
pub(crate) fn producer(options: &Options) -> Result<ClientConfig> {
    config(options, PRODUCER, &[], "producer")
}

/// The longest that a call to the brokers may take: `kafka.default.api.timeout.ms`, or
/// `kafka.max.block.ms` of a producer.
pub(crate) fn call_timeout(options: &Options) -> Duration {
    let given = ["kafka.default.api.timeout.ms", "kafka.max.block.ms"]
        .into_iter()
        .find(|name| options.given(name))
        .unwrap_or("kafka.default.api.timeout.ms");
    Duration::from_millis(options.count(given).unwrap_or(60_000))
}

/// The values of all secret settings that were given, so that they can be kept out of texts of
/// others.
pub(crate) fn secrets(options: &Options) -> Vec<Secret> {
    let rows = CLIENT.iter().filter(|row| row.kind == OptionKind::Secret);
    let mut secrets: Vec<Secret> = rows.filter_map(|row| options.secret(row.name)).collect();
    if let Some(Ok(login)) = jaas_login(options) {
        secrets.push(login.password);
    }
    secrets.retain(|secret| !secret.expose().is_empty());
    secrets
}

fn jaas_login(options: &Options) -> Option<Result<jaas::Login>> {
    let text = options.secret("kafka.sasl.jaas.config")?;
    Some(jaas::parse(text.expose()))
}

/// The brokers to ask first, as the user lists them.
pub(super) fn servers(options: &Options) -> Option<&str> {
    let said = options.text("kafka.bootstrap.servers").or(options.text("bootstrapServers"));
    said.map(str::trim).filter(|servers| !servers.is_empty())
}

/// As Java's clients have it: librdkafka would take any number for a port, and none.
fn check_address(address: &str) -> Result<()> {
    let address = address.trim();
    let port = address.rsplit_once(':').filter(|(host, _)| !host.trim().is_empty());
    match port.and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0) {
        Some(_) => Ok(()),
        None => Err(Error::invalid(format!(
            "`{}` is no address of a broker: write kafka.bootstrap.servers as host:port,host:port",
            address.escape_debug()
        ))),
    }
}

/// Whether two such lists have an address in common, and so are of one cluster. Where they have none
/// that is not known: a cluster has many addresses.
pub(super) fn share_an_address(left: &str, right: &str) -> bool {
    let parts = |list: &str| -> Vec<String> {
        list.split(',').map(|it| it.trim().to_lowercase()).filter(|it| !it.is_empty()).collect()
    };
    let right = parts(right);
    parts(left).iter().any(|it| right.contains(it))
}

fn config(
    options: &Options,
    own: &'static [OptionSpec],
    fixed: &[(&str, &str)],
    kind: &str,
) -> Result<ClientConfig> {
    let Some(servers) = servers(options) else {
        return Err(Error::invalid(format!(
            "option 'kafka.bootstrap.servers' must be specified for configuring Kafka {kind}"
        )));
    };
    servers.split(',').try_for_each(check_address)?;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    config.set_log_level(RDKafkaLogLevel::Info);
    for (name, value) in FIXED.iter().chain(fixed) {
        config.set(*name, *value);
    }
    for row in CLIENT.iter().chain(own).filter(|row| options.given(row.name)) {
        if let (Some(name), Some(value)) = (native::name(row.name), options.text(row.name)) {
            config.set(name, native::value(row.name, value));
        }
    }
    login(options, &mut config)?;
    Ok(config)
}

/// Who logs in, and how: the pieces must fit one another, which librdkafka says late and unclearly.
fn login(options: &Options, config: &mut ClientConfig) -> Result<()> {
    if let Some(login) = jaas_login(options) {
        let login = login?;
        if options.given("kafka.sasl.username") || options.given("kafka.sasl.password") {
            return Err(Error::invalid(
                "kafka.sasl.jaas.config and kafka.sasl.username say both who logs in; give one",
            ));
        }
        let mechanism = config.get("sasl.mechanism").unwrap_or("PLAIN").to_owned();
        if login.scram != mechanism.starts_with("SCRAM") {
            return Err(Error::invalid(format!(
                "the login module of kafka.sasl.jaas.config does not fit \
                 kafka.sasl.mechanism={mechanism}; use PlainLoginModule with PLAIN and \
                 ScramLoginModule with SCRAM-SHA-256 or SCRAM-SHA-512"
            )));
        }
        config.set("sasl.username", login.username).set("sasl.password", login.password.expose());
    }
    let protocol = config.get("security.protocol").unwrap_or("plaintext").to_owned();
    if !protocol.starts_with("sasl") {
        // Given in vain, as in Java; librdkafka would warn of each.
        for name in ["sasl.mechanism", "sasl.username", "sasl.password"] {
            config.remove(name);
        }
        return Ok(());
    }
    if config.get("sasl.mechanism").is_none() {
        return Err(Error::invalid(
            "kafka.security.protocol asks for SASL, but kafka.sasl.mechanism is missing; give PLAIN, \
             SCRAM-SHA-256 or SCRAM-SHA-512",
        ));
    }
    if config.get("sasl.username").is_none() || config.get("sasl.password").is_none() {
        return Err(Error::invalid(
            "kafka.security.protocol asks for SASL, but nobody logs in; give kafka.sasl.username and \
             kafka.sasl.password, or kafka.sasl.jaas.config",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
