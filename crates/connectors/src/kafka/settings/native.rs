//! What a setting of Kafka's Java clients is for librdkafka.

/// The name in librdkafka of `kafka.NAME`; `None` for a setting that is ours to follow, or that has
/// no meaning where nothing is read by group.
pub(super) fn name(option: &'static str) -> Option<&'static str> {
    let own = option.strip_prefix("kafka.")?;
    Some(match own {
        "fetch.max.wait.ms" => "fetch.wait.max.ms",
        "metadata.max.age.ms" => "topic.metadata.refresh.interval.ms",
        "send.buffer.bytes" => "socket.send.buffer.bytes",
        "receive.buffer.bytes" => "socket.receive.buffer.bytes",
        "ssl.truststore.certificates" => "ssl.ca.pem",
        "ssl.keystore.certificate.chain" => "ssl.certificate.pem",
        "ssl.keystore.key" => "ssl.key.pem",
        "max.request.size" => "message.max.bytes",
        "buffer.memory" => "queue.buffering.max.kbytes",
        "default.api.timeout.ms"
        | "max.block.ms"
        | "sasl.jaas.config"
        | "ssl.truststore.type"
        | "ssl.keystore.type"
        | "max.poll.records"
        | "max.poll.interval.ms"
        | "session.timeout.ms"
        | "heartbeat.interval.ms"
        | "allow.auto.create.topics" => return None,
        other => other,
    })
}

/// The value as librdkafka writes it.
pub(super) fn value(option: &str, value: &str) -> String {
    let value = value.trim();
    match option {
        "kafka.security.protocol" | "kafka.isolation.level" | "kafka.compression.type" => {
            value.to_lowercase()
        }
        "kafka.sasl.mechanism" => value.to_uppercase(),
        // Java's way to say that the name in the certificate is not looked at.
        "kafka.ssl.endpoint.identification.algorithm" if value.is_empty() => "none".to_owned(),
        "kafka.acks" if value.eq_ignore_ascii_case("all") => "-1".to_owned(),
        "kafka.buffer.memory" => kibibytes(value),
        _ => value.to_owned(),
    }
}

fn kibibytes(bytes: &str) -> String {
    let bytes: u64 = bytes.parse().unwrap_or(33_554_432);
    (bytes / 1_024).clamp(1, 2_147_483_647).to_string()
}
