//! What every client of librdkafka tells us: its log lines, and why brokers do not answer.

use super::settings;
use onefold_connector::Options;
use onefold_types::Secret;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::sync::{Mutex, PoisonError};

/// Takes librdkafka's words: lines for the log, without secrets, and the last complaint, which is
/// the reason behind a call that ran out of time.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    secrets: Vec<Secret>,
    complaint: Mutex<Option<String>>,
}

impl Listener {
    /// A listener for a client with these options.
    pub(crate) fn new(options: &Options) -> Listener {
        Listener { secrets: settings::secrets(options), complaint: Mutex::default() }
    }

    /// What librdkafka complained of last, and forgets it.
    pub(crate) fn complaint(&self) -> Option<String> {
        self.complaint.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The text without the secrets of this client.
    pub(crate) fn without_secrets(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| {
            if text.contains(secret.expose()) { text.replace(secret.expose(), "***") } else { text }
        })
    }
}

impl ClientContext for Listener {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        let message = self.without_secrets(message);
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => {
                tracing::error!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Warning => {
                tracing::warn!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Debug => {
                tracing::debug!(target: "librdkafka", facility, "{message}");
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        // The end of a partition is none.
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::PartitionEOF) {
            return;
        }
        let reason = self.without_secrets(reason);
        tracing::warn!(target: "librdkafka", code = ?error.rdkafka_error_code(), "{reason}");
        *self.complaint.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }
}

impl ConsumerContext for Listener {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_a_line_of_the_library_is_blotted_out() {
        let listener = Listener { secrets: vec![Secret::new("hunter2")], ..Listener::default() };
        assert_eq!(listener.without_secrets("login hunter2 failed"), "login *** failed");
        listener.error(KafkaError::Canceled, "SASL: bad password hunter2");
        assert_eq!(listener.complaint().as_deref(), Some("SASL: bad password ***"));
        assert_eq!(listener.complaint(), None);
    }
}
