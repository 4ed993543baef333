//! Topics with their ids, which the wrapper's metadata do not have.

use super::SharedConsumer;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rdkafka::bindings as sys;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use std::ffi::{CStr, CString};
use std::ptr;
use std::time::Duration;

/// A topic as the brokers describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DescribedTopic {
    pub(crate) name: String,
    /// As Kafka's tools show it; `None` of brokers that have no ids.
    pub(crate) id: Option<String>,
    pub(crate) partitions: Vec<i32>,
    /// Why there is no description.
    pub(crate) error: Option<RDKafkaErrorCode>,
}

/// Frees what the library gave, whichever way a call ends.
struct Owned<T>(*mut T, unsafe extern "C" fn(*mut T));

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: made by the library for us, freed once, with the function that belongs to it.
            unsafe { (self.1)(self.0) };
        }
    }
}

/// Asks for topics by name. Each name is answered, a topic that there is not with an error.
pub(crate) fn describe_topics(
    consumer: &SharedConsumer,
    names: &[&str],
    timeout: Duration,
) -> KafkaResult<Vec<DescribedTopic>> {
    let names: Vec<CString> =
        names.iter().map(|name| CString::new(*name)).collect::<Result<_, _>>()?;
    let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    let client = consumer.client().native_ptr();
    let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the client lives as long as `consumer`; names are copied; each thing that is made is
    // freed by its owner, the event last used before that.
    unsafe {
        let topics = Owned(
            sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len()),
            sys::rd_kafka_TopicCollection_destroy,
        );
        let options = Owned(
            sys::rd_kafka_AdminOptions_new(
                client,
                sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            ),
            sys::rd_kafka_AdminOptions_destroy,
        );
        sys::rd_kafka_AdminOptions_set_request_timeout(options.0, timeout, ptr::null_mut(), 0);
        let queue = Owned(sys::rd_kafka_queue_new(client), sys::rd_kafka_queue_destroy);
        sys::rd_kafka_DescribeTopics(client, topics.0, options.0, queue.0);
        let event = Owned(
            sys::rd_kafka_queue_poll(queue.0, timeout.saturating_add(1_000)),
            sys::rd_kafka_event_destroy,
        );
        if event.0.is_null() {
            return Err(KafkaError::MetadataFetch(RDKafkaErrorCode::OperationTimedOut));
        }
        let code = RDKafkaErrorCode::from(sys::rd_kafka_event_error(event.0));
        if code != RDKafkaErrorCode::NoError {
            return Err(KafkaError::MetadataFetch(code));
        }
        let result = sys::rd_kafka_event_DescribeTopics_result(event.0);
        if result.is_null() {
            return Err(KafkaError::MetadataFetch(RDKafkaErrorCode::Fail));
        }
        let mut count = 0;
        let found = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        Ok((0..count).map(|index| described(*found.add(index))).collect())
    }
}

/// # Safety
/// `topic` is a description of a result that lives.
unsafe fn described(topic: *const sys::rd_kafka_TopicDescription_t) -> DescribedTopic {
    // SAFETY: the caller's; lists hold as many elements as they say.
    unsafe {
        let name = CStr::from_ptr(sys::rd_kafka_TopicDescription_name(topic));
        let name = name.to_string_lossy().into_owned();
        let error = sys::rd_kafka_error_code(sys::rd_kafka_TopicDescription_error(topic));
        match RDKafkaErrorCode::from(error) {
            RDKafkaErrorCode::NoError => (),
            code => {
                return DescribedTopic {
                    name,
                    id: None,
                    partitions: Vec::new(),
                    error: Some(code),
                };
            }
        }
        let mut count = 0;
        let listed = sys::rd_kafka_TopicDescription_partitions(topic, &raw mut count);
        let partitions = (0..count)
            .map(|index| sys::rd_kafka_TopicPartitionInfo_partition(*listed.add(index)))
            .collect();
        DescribedTopic {
            name,
            id: id(sys::rd_kafka_TopicDescription_topic_id(topic)),
            partitions,
            error: None,
        }
    }
}

/// # Safety
/// `id` is null or lives.
unsafe fn id(id: *const sys::rd_kafka_Uuid_t) -> Option<String> {
    if id.is_null() {
        return None;
    }
    // SAFETY: the caller's.
    let (most, least) = unsafe {
        (
            sys::rd_kafka_Uuid_most_significant_bits(id),
            sys::rd_kafka_Uuid_least_significant_bits(id),
        )
    };
    if most == 0 && least == 0 {
        return None;
    }
    let bytes = [most.to_be_bytes(), least.to_be_bytes()].concat();
    Some(URL_SAFE_NO_PAD.encode(bytes))
}
