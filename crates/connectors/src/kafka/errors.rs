//! librdkafka's errors as ours: what a caller should do about them.

use onefold_types::{Error, ErrorKind};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// The error of a call that changes nothing, so that it may be made again.
pub(crate) fn reading(what: impl Into<String>, error: KafkaError) -> Error {
    told(kind(&error).unwrap_or(ErrorKind::Unavailable), what.into(), error)
}

/// The error of a call that writes: what is not known to have failed may have happened.
pub(crate) fn writing(what: impl Into<String>, error: KafkaError) -> Error {
    told(kind(&error).unwrap_or(ErrorKind::Unknown), what.into(), error)
}

/// As [`reading`], for a call that gives a bare code.
pub(crate) fn reading_code(what: impl Into<String>, code: Code) -> Error {
    reading(what, KafkaError::Global(code))
}

/// What to do about an error, where its code says it; `None` where the broker or the way to it is
/// the trouble.
pub(crate) fn kind_of_code(code: Code) -> Option<ErrorKind> {
    Some(match code {
        Code::InvalidArgument
        | Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState
        | Code::SecurityDisabled
        | Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::InvalidTopic
        | Code::InvalidGroupId
        | Code::MessageSizeTooLarge
        | Code::MessageBatchTooLarge
        | Code::InvalidRequiredAcks
        | Code::InvalidTransactionTimeout
        | Code::InvalidConfig
        | Code::InvalidTimestamp
        | Code::InvalidRecord
        | Code::InvalidPartitions
        | Code::InvalidReplicationFactor
        | Code::PolicyViolation
        | Code::UnsupportedVersion
        | Code::UnsupportedFeature
        | Code::UnsupportedCompressionType
        | Code::UnsupportedForMessageFormat
        | Code::NotImplemented => ErrorKind::Invalid,
        Code::BadMessage
        | Code::BadCompression
        | Code::InvalidMessage
        | Code::InvalidMessageSize
        | Code::OffsetOutOfRange
        | Code::AutoOffsetReset
        | Code::LogTruncation => ErrorKind::Corrupt,
        Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch => ErrorKind::Fenced,
        _ => return None,
    })
}

/// What to do about an error, as [`kind_of_code`].
pub(crate) fn kind_of(error: &KafkaError) -> Option<ErrorKind> {
    kind(error)
}

fn kind(error: &KafkaError) -> Option<ErrorKind> {
    match error {
        KafkaError::ClientConfig(..)
        | KafkaError::ClientCreation(_)
        | KafkaError::AdminOpCreation(_)
        | KafkaError::Nul(_)
        | KafkaError::Subscription(_) => Some(ErrorKind::Invalid),
        other => other.rdkafka_error_code().and_then(kind_of_code),
    }
}

/// A configuration error of librdkafka holds the value, which may be a secret: only its name and
/// the reason are told.
fn told(kind: ErrorKind, what: String, error: KafkaError) -> Error {
    match error {
        KafkaError::ClientConfig(_, _, name, _) => Error::new(
            kind,
            format!("{what}: librdkafka does not take the value of its setting {name}"),
        ),
        other => Error::new(kind, what).because(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::ClientConfig;

    #[test]
    fn what_may_have_happened_is_unknown_for_a_writer_only() {
        let late = || KafkaError::MessageProduction(Code::OperationTimedOut);
        assert_eq!(reading("asked", late()).kind(), ErrorKind::Unavailable);
        assert_eq!(writing("sent", late()).kind(), ErrorKind::Unknown);
        let fenced = KafkaError::MessageProduction(Code::ProducerFenced);
        assert_eq!(writing("sent", fenced).kind(), ErrorKind::Fenced);
    }

    #[test]
    fn the_value_of_a_setting_stays_out_of_the_error() {
        let mut config = ClientConfig::new();
        config.set("security.protocol", "hunter2");
        let error = config.create_native_config().err().unwrap();
        let error = reading("the client could not be made", error);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(!error.chain().contains("hunter2"), "{error:?}");
        assert!(error.chain().contains("security.protocol"), "{error:?}");
    }
}
