//! The records of one partition as they come, many at a time.

use super::SharedConsumer;
use rdkafka::bindings as sys;
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;
use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Records taken from the library at once.
const TAKEN_MAX: usize = 1_024;

/// The queue of one partition, apart from those of other partitions of the same consumer.
pub(crate) struct Queue {
    queue: NonNull<sys::rd_kafka_queue_t>,
    topic: CString,
    partition: i32,
    /// Records that are ours; those before `next` are freed.
    held: Vec<*mut sys::rd_kafka_message_t>,
    next: usize,
    /// Told when something comes; the library has a pointer to it until `drop` takes that back.
    _arrival: Arc<Notify>,
    /// Must outlive all of the above: dropped last, after `drop` has freed them.
    consumer: SharedConsumer,
}

// SAFETY: librdkafka's queues and messages may be used by any thread, by one at a time; there is no
// way here to use them by two, since taking needs `&mut` and records borrow the queue.
unsafe impl Send for Queue {}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("held", &(self.held.len() - self.next))
            .finish_non_exhaustive()
    }
}

impl Queue {
    /// Takes a partition's records out of the consumer's common queue. Done before the partition is
    /// assigned, so that none goes the other way. `None` when the library refuses the name.
    pub(crate) fn new(
        consumer: &SharedConsumer,
        topic: &str,
        partition: i32,
        arrival: &Arc<Notify>,
    ) -> Option<Queue> {
        let topic = CString::new(topic).ok()?;
        let client = consumer.client().native_ptr();
        // SAFETY: the client lives as long as `consumer`, and the name is a C string that is copied.
        let queue = unsafe { sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition) };
        let queue = NonNull::new(queue)?;
        // SAFETY: the queue was just made; a null destination ends forwarding.
        unsafe { sys::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut()) };
        let arrival = Arc::clone(arrival);
        let opaque = Arc::as_ptr(&arrival).cast_mut().cast();
        // SAFETY: what the pointer leads to lives in the queue, whose `drop` takes the call back first.
        unsafe { sys::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(arrived), opaque) };
        let consumer = SharedConsumer::clone(consumer);
        Some(Queue {
            queue,
            topic,
            partition,
            held: Vec::new(),
            next: 0,
            _arrival: arrival,
            consumer,
        })
    }

    /// Gets records, when none is held: those that are there, or with a wait the first that comes in
    /// time. Returns how many are held.
    pub(crate) fn fill(&mut self, wait: Duration) -> usize {
        if self.next == self.held.len() {
            self.held.clear();
            self.next = 0;
            self.take(wait, if wait.is_zero() { TAKEN_MAX } else { 1 });
        }
        self.held.len() - self.next
    }

    /// Gets the records that are there, behind those that are held; false when there may be more
    /// than are held at once.
    pub(crate) fn gather(&mut self) -> bool {
        let held = self.fill(Duration::ZERO);
        if held < TAKEN_MAX {
            self.take(Duration::ZERO, TAKEN_MAX - held);
        }
        self.held.len() - self.next < TAKEN_MAX
    }

    fn take(&mut self, wait: Duration, most: usize) {
        self.held.reserve(most);
        let wait = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        let before = self.held.len();
        // SAFETY: behind its end `held` has room for `most` pointers, of which the call writes as many
        // as it returns; -1 is an error, when it writes none.
        unsafe {
            let taken = sys::rd_kafka_consume_batch_queue(
                self.queue.as_ptr(),
                wait,
                self.held.as_mut_ptr().add(before),
                most,
            );
            self.held.set_len(before + usize::try_from(taken).unwrap_or(0).min(most));
        }
    }

    /// All that is held, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = Record<'_>> {
        let held = self.held.get(self.next..).unwrap_or_default();
        // SAFETY: as for `peek`.
        held.iter().filter_map(|message| unsafe { message.as_ref() }.map(Record))
    }

    /// The next record that is held.
    pub(crate) fn peek(&self) -> Option<Record<'_>> {
        let message = self.held.get(self.next)?;
        // SAFETY: messages from `next` on are not freed, and are freed only through `&mut self`.
        unsafe { message.as_ref() }.map(Record)
    }

    /// Frees the next record.
    pub(crate) fn advance(&mut self) {
        if let Some(message) = self.held.get(self.next) {
            // SAFETY: it is ours and not freed yet; it is never looked at again.
            unsafe { sys::rd_kafka_message_destroy(*message) };
            self.next += 1;
        }
    }

    /// Frees all records that are held.
    pub(crate) fn clear(&mut self) {
        while self.next < self.held.len() {
            self.advance();
        }
    }

    /// The offset after the last record, control records included, that was taken from the queue;
    /// `None` when nothing was since the partition was assigned or sought.
    pub(crate) fn position(&self) -> Option<i64> {
        let client = self.consumer.client().native_ptr();
        // SAFETY: the list is made, filled with one element, asked for and freed here; the element
        // is read while the list lives.
        unsafe {
            let list = sys::rd_kafka_topic_partition_list_new(1);
            let element =
                sys::rd_kafka_topic_partition_list_add(list, self.topic.as_ptr(), self.partition);
            let done = sys::rd_kafka_position(client, list)
                == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
            let offset = (*element).offset;
            sys::rd_kafka_topic_partition_list_destroy(list);
            (done && offset >= 0).then_some(offset)
        }
    }
}

/// Called by a thread of the library when something came into an empty queue.
unsafe extern "C" fn arrived(_: *mut sys::rd_kafka_t, arrival: *mut c_void) {
    // SAFETY: the queue made the pointer, and holds what it leads to for as long as there are calls.
    if let Some(arrival) = unsafe { arrival.cast::<Notify>().as_ref() } {
        arrival.notify_one();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the queue lives; the library makes and takes back calls under the queue's lock, so
        // that none is under way after this.
        unsafe {
            sys::rd_kafka_queue_cb_event_enable(self.queue.as_ptr(), None, ptr::null_mut());
        }
        self.clear();
        // SAFETY: nothing of the queue is used after this; the consumer still lives.
        unsafe { sys::rd_kafka_queue_destroy(self.queue.as_ptr()) };
    }
}

/// What a queue gives: a record, or an event of the partition.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a>(&'a sys::rd_kafka_message_t);

impl<'a> Record<'a> {
    /// What happened, where it is no record. The end of a partition is one of these, with the offset
    /// up to which there is nothing more.
    pub(crate) fn event(&self) -> Option<RDKafkaErrorCode> {
        match RDKafkaErrorCode::from(self.0.err) {
            RDKafkaErrorCode::NoError => None,
            code => Some(code),
        }
    }

    /// What the library says of the event.
    pub(crate) fn event_text(&self) -> String {
        // SAFETY: of an event the text is a C string that lives with the message.
        unsafe {
            let text = sys::rd_kafka_message_errstr(self.0);
            if text.is_null() {
                return String::new();
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }

    /// The epoch of the leader that took the record; `None` of brokers that tell none.
    pub(crate) fn leader_epoch(&self) -> Option<i32> {
        // SAFETY: the message lives while it is borrowed.
        let epoch = unsafe { sys::rd_kafka_message_leader_epoch(self.0) };
        (epoch >= 0).then_some(epoch)
    }

    pub(crate) fn offset(&self) -> i64 {
        self.0.offset
    }

    /// The key; `None` for NULL, which is not an empty one.
    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        // SAFETY: the library gives a pointer to so many bytes, or null.
        unsafe { bytes(self.0.key.cast(), self.0.key_len) }
    }

    /// The value; `None` for NULL, which is not an empty one.
    pub(crate) fn value(&self) -> Option<&'a [u8]> {
        // SAFETY: as above.
        unsafe { bytes(self.0.payload.cast(), self.0.len) }
    }

    /// Milliseconds since 1970, and what they mean as Kafka numbers it: -1 nothing, 0 the time of
    /// the producer, 1 that of the broker.
    pub(crate) fn timestamp(&self) -> (i64, i32) {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message lives, and `kind` is written before it is read.
        let ms = unsafe { sys::rd_kafka_message_timestamp(self.0, &raw mut kind) };
        (ms, kind as i32 - 1)
    }

    /// Calls for each header, in order: name, and value or NULL. False when they cannot be read.
    pub(crate) fn headers(&self, mut each: impl FnMut(&[u8], Option<&[u8]>)) -> bool {
        let mut headers = ptr::null_mut();
        // SAFETY: the headers stay the message's; a message that has none says so.
        let found = unsafe { sys::rd_kafka_message_headers(self.0, &raw mut headers) };
        match RDKafkaErrorCode::from(found) {
            RDKafkaErrorCode::NoError => (),
            RDKafkaErrorCode::NoEnt => return true,
            _ => return false,
        }
        for index in 0.. {
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            // SAFETY: an index past the last is an error and writes nothing; else the name is a C
            // string and the value so many bytes, or null, all living with the message.
            unsafe {
                let found = sys::rd_kafka_header_get_all(
                    headers,
                    index,
                    &raw mut name,
                    &raw mut value,
                    &raw mut size,
                );
                if RDKafkaErrorCode::from(found) != RDKafkaErrorCode::NoError {
                    break;
                }
                each(CStr::from_ptr(name).to_bytes(), bytes(value.cast(), size));
            }
        }
        true
    }
}

/// # Safety
/// `start` is null, or that of `length` bytes that live for `'a`.
unsafe fn bytes<'a>(start: *const u8, length: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller's.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, length) })
}
