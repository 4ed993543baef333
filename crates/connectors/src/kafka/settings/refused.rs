//! The settings that are refused by name, each with the reason.

use onefold_connector::OptionSpec;

const LOADS: &str = "it loads a library into the server; leave it out";
const RUNS: &str = "it runs a command on the server; leave it out";
const CALLS: &str = "it calls an address of the user's choosing; log in with PLAIN or SCRAM";
const JAVA: &str = "it names a Java class, and there is no JVM; leave it out";
const READS: &str = "it reads a file of the server; give the text itself: \
    kafka.ssl.truststore.certificates, kafka.ssl.keystore.certificate.chain and \
    kafka.ssl.keystore.key take PEM";
const STORE: &str = "Java key stores are not read, nor any other file of the server; export PEM with \
    keytool and give kafka.ssl.truststore.certificates, kafka.ssl.keystore.certificate.chain and \
    kafka.ssl.keystore.key";
const KERBEROS: &str = "Kerberos is not built in; log in with PLAIN or SCRAM";
const OAUTH: &str = "OAUTHBEARER is not built in; log in with PLAIN or SCRAM";
const TLS: &str = "TLS 1.2 or newer is agreed on by itself; leave it out";
const ANYONE: &str = "it would trust any server; give the signer's certificate as \
    kafka.ssl.truststore.certificates";
const TYPES: &str = "keys and values are bytes; take them apart with CAST, from_json or from_avro";
const TALKS: &str =
    "it would write to the log what must not be there; set RUST_LOG=librdkafka=debug";

const fn no(name: &'static str, why: &'static str) -> OptionSpec {
    OptionSpec::refused(name, why)
}

/// Settings that are refused by name.
pub(crate) static REFUSED: &[OptionSpec] = &[
    no("kafka.plugin.library.paths", LOADS),
    no("kafka.ssl.engine.location", LOADS),
    no("kafka.ssl.engine.id", LOADS),
    no("kafka.ssl.providers", LOADS),
    no("kafka.sasl.kerberos.kinit.cmd", RUNS),
    no("kafka.sasl.kerberos.keytab", KERBEROS),
    no("kafka.sasl.kerberos.principal", KERBEROS),
    no("kafka.sasl.kerberos.service.name", KERBEROS),
    no("kafka.ssl.ca.location", READS),
    no("kafka.ssl.certificate.location", READS),
    no("kafka.ssl.key.location", READS),
    no("kafka.ssl.crl.location", READS),
    no("kafka.https.ca.location", READS),
    no("kafka.offset.store.path", "offsets are kept in the checkpoint; leave it out"),
    no("kafka.ssl.truststore.location", STORE),
    no("kafka.ssl.truststore.password", STORE),
    no("kafka.ssl.keystore.location", STORE),
    no("kafka.ssl.keystore.password", STORE),
    no("kafka.ssl.ca.pem", "give it as kafka.ssl.truststore.certificates, as Java clients do"),
    no(
        "kafka.ssl.certificate.pem",
        "give it as kafka.ssl.keystore.certificate.chain, as Java clients do",
    ),
    no("kafka.ssl.key.pem", "give it as kafka.ssl.keystore.key, as Java clients do"),
    no("kafka.enable.ssl.certificate.verification", ANYONE),
    no("kafka.ssl.protocol", TLS),
    no("kafka.ssl.enabled.protocols", TLS),
    no("kafka.ssl.provider", TLS),
    no("kafka.sasl.oauthbearer.token.endpoint.url", CALLS),
    no("kafka.sasl.oauthbearer.jwks.endpoint.url", CALLS),
    no("kafka.sasl.oauthbearer.assertion.file", READS),
    no("kafka.sasl.oauthbearer.assertion.private.key.file", READS),
    no("kafka.sasl.oauthbearer.assertion.jwt.template.file", READS),
    no("kafka.sasl.oauthbearer.config", OAUTH),
    no("kafka.sasl.oauthbearer.method", OAUTH),
    no("kafka.sasl.oauthbearer.client.id", OAUTH),
    no("kafka.sasl.oauthbearer.client.secret", OAUTH),
    no("kafka.sasl.oauthbearer.scope", OAUTH),
    no("kafka.sasl.login.class", JAVA),
    no("kafka.sasl.login.callback.handler.class", JAVA),
    no("kafka.sasl.client.callback.handler.class", JAVA),
    no("kafka.security.providers", JAVA),
    no("kafka.ssl.engine.factory.class", JAVA),
    no("kafka.metric.reporters", JAVA),
    no("kafka.interceptor.classes", JAVA),
    no("kafka.partitioner.class", JAVA),
    no("kafka.partition.assignment.strategy", "partitions are shared out here; leave it out"),
    no("kafka.key.deserializer", TYPES),
    no("kafka.value.deserializer", TYPES),
    no("kafka.key.serializer", TYPES),
    no("kafka.value.serializer", TYPES),
    no(
        "kafka.auto.offset.reset",
        "where a query starts is said by startingOffsets, and later by its checkpoint",
    ),
    no("kafka.enable.auto.commit", "offsets are kept in the checkpoint; leave it out"),
    no(
        "kafka.auto.commit.interval.ms",
        "offsets are kept in the checkpoint; onefold.kafka.reportGroup tells them to a group",
    ),
    no("kafka.metadata.broker.list", "brokers are named by kafka.bootstrap.servers"),
    no("kafka.debug", TALKS),
    no("kafka.log_level", TALKS),
];
