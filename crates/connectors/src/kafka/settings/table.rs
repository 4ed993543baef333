//! The settings that are taken.

use onefold_connector::{OptionKind, OptionSpec};

const MS: OptionKind = OptionKind::Count { min: 1, max: 2_147_483_647 };
const MS_OR_NEVER: OptionKind = OptionKind::Count { min: 0, max: 2_147_483_647 };
const BYTES: OptionKind = OptionKind::Count { min: 0, max: 2_147_483_135 };
const TEXT: OptionKind = OptionKind::Text;
const SECRET: OptionKind = OptionKind::Secret;

const fn row(name: &'static str, kind: OptionKind, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, kind, doc)
}

/// Settings of every client.
pub(crate) static CLIENT: &[OptionSpec] = &[
    row("kafka.bootstrap.servers", TEXT, "brokers to ask first, as host:port,host:port; required"),
    row("bootstrapServers", TEXT, "the same, as SQL's read_kafka names it"),
    row("kafka.client.id", TEXT, "the name under which brokers log requests"),
    row("kafka.client.rack", TEXT, "where this client is, to read from a near replica"),
    row(
        "kafka.client.dns.lookup",
        OptionKind::Choice(&["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]),
        "how names of brokers are looked up",
    ),
    row(
        "kafka.security.protocol",
        OptionKind::Choice(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
        "how brokers are spoken to",
    ),
    row(
        "kafka.sasl.mechanism",
        OptionKind::Choice(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
        "how a password is shown to a broker",
    ),
    row("kafka.sasl.username", TEXT, "who logs in"),
    row("kafka.sasl.password", SECRET, "the password of who logs in"),
    row("kafka.sasl.jaas.config", SECRET, "who logs in, as Java clients are told it"),
    row(
        "kafka.ssl.truststore.certificates",
        TEXT,
        "certificates of those who sign the brokers' certificates, as PEM text",
    ),
    row("kafka.ssl.truststore.type", OptionKind::Choice(&["PEM"]), "how these are written"),
    row(
        "kafka.ssl.keystore.certificate.chain",
        TEXT,
        "this client's certificate and those above it, as PEM text",
    ),
    row("kafka.ssl.keystore.key", SECRET, "this client's private key, as PEM text"),
    row("kafka.ssl.keystore.type", OptionKind::Choice(&["PEM"]), "how these are written"),
    row("kafka.ssl.key.password", SECRET, "the password of the private key"),
    row(
        "kafka.ssl.endpoint.identification.algorithm",
        OptionKind::Choice(&["https", "none", ""]),
        "whether a certificate must name the broker",
    ),
    row(
        "kafka.default.api.timeout.ms",
        OptionKind::Count { min: 1_000, max: 2_147_483_647 },
        "the longest that a call to the brokers may take",
    )
    .default("60000"),
    row(
        "kafka.metadata.max.age.ms",
        OptionKind::Count { min: 1, max: 3_600_000 },
        "how often a client looks where leaders are",
    ),
    row("kafka.connections.max.idle.ms", MS_OR_NEVER, "when an unused connection is closed"),
    row(
        "kafka.socket.connection.setup.timeout.ms",
        OptionKind::Count { min: 1_000, max: 2_147_483_647 },
        "the longest that a connection may take to come about",
    ),
    row(
        "kafka.reconnect.backoff.ms",
        OptionKind::Count { min: 0, max: 3_600_000 },
        "the first wait before a lost connection is made again",
    ),
    row(
        "kafka.reconnect.backoff.max.ms",
        OptionKind::Count { min: 0, max: 3_600_000 },
        "the longest such wait",
    ),
    row(
        "kafka.retry.backoff.ms",
        OptionKind::Count { min: 1, max: 300_000 },
        "the first wait before a request is sent again",
    ),
    row(
        "kafka.retry.backoff.max.ms",
        OptionKind::Count { min: 1, max: 300_000 },
        "the longest such wait",
    ),
    row(
        "kafka.send.buffer.bytes",
        OptionKind::Count { min: 0, max: 100_000_000 },
        "the size of a socket's send buffer",
    ),
    row(
        "kafka.receive.buffer.bytes",
        OptionKind::Count { min: 0, max: 100_000_000 },
        "the size of a socket's receive buffer",
    ),
    row("kafka.broker.address.family", OptionKind::Choice(&["any", "v4", "v6"]), "IP, which"),
];

/// Settings of a consumer.
pub(crate) static CONSUMER: &[OptionSpec] = &[
    row(
        "kafka.isolation.level",
        OptionKind::Choice(&["read_uncommitted", "read_committed"]),
        "whether records of open and aborted transactions are read",
    )
    .default("read_uncommitted"),
    row(
        "kafka.fetch.min.bytes",
        OptionKind::Count { min: 1, max: 100_000_000 },
        "bytes worth a reply",
    ),
    row("kafka.fetch.max.bytes", BYTES, "bytes of a reply at most"),
    row(
        "kafka.fetch.max.wait.ms",
        OptionKind::Count { min: 0, max: 300_000 },
        "how long a broker waits for new records",
    ),
    row(
        "kafka.max.partition.fetch.bytes",
        OptionKind::Count { min: 1, max: 1_000_000_000 },
        "bytes of one partition in a reply",
    ),
    row("kafka.check.crcs", OptionKind::Bool, "whether checksums of records are checked"),
    row(
        "kafka.queued.min.messages",
        OptionKind::Count { min: 1, max: 10_000_000 },
        "records of a partition held ready",
    ),
    row(
        "kafka.queued.max.messages.kbytes",
        OptionKind::Count { min: 1, max: 2_097_151 },
        "KiB of a partition held ready at most",
    ),
    row("kafka.max.poll.records", MS, "taken, and of no effect here"),
    row("kafka.max.poll.interval.ms", MS, "taken, and of no effect where nothing is read by group"),
    row("kafka.session.timeout.ms", MS, "taken, and of no effect where nothing is read by group"),
    row(
        "kafka.heartbeat.interval.ms",
        MS,
        "taken, and of no effect where nothing is read by group",
    ),
    row("kafka.allow.auto.create.topics", OptionKind::Bool, "taken; a reader never makes a topic"),
];

/// Settings of a producer.
pub(crate) static PRODUCER: &[OptionSpec] = &[
    row("kafka.acks", OptionKind::Choice(&["all", "-1", "0", "1"]), "who confirms a record"),
    row("kafka.linger.ms", OptionKind::Count { min: 0, max: 900_000 }, "wait for a fuller request"),
    row("kafka.batch.size", MS, "bytes of a set of records"),
    row(
        "kafka.compression.type",
        OptionKind::Choice(&["none", "gzip", "snappy", "lz4", "zstd"]),
        "how sets of records are packed",
    ),
    row(
        "kafka.max.request.size",
        OptionKind::Count { min: 1_000, max: 1_000_000_000 },
        "bytes of a request at most",
    ),
    row("kafka.buffer.memory", BYTES, "bytes that wait to be sent at most"),
    row("kafka.delivery.timeout.ms", MS_OR_NEVER, "how long a record may take to be confirmed"),
    row(
        "kafka.request.timeout.ms",
        OptionKind::Count { min: 1, max: 900_000 },
        "how long a broker may wait for its replicas",
    ),
    row("kafka.max.block.ms", MS, "the longest that a call to the brokers may take"),
    row("kafka.retries", MS_OR_NEVER, "how often a record is sent again"),
    row(
        "kafka.max.in.flight.requests.per.connection",
        OptionKind::Count { min: 1, max: 1_000_000 },
        "requests to a broker at once",
    ),
    row("kafka.enable.idempotence", OptionKind::Bool, "whether a record sent again is told apart"),
    row(
        "kafka.transaction.timeout.ms",
        OptionKind::Count { min: 1_000, max: 2_147_483_647 },
        "how long brokers wait for the end of a transaction",
    ),
];
