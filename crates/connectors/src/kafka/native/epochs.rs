//! Positions with the epoch of the leader that took the record before them: the library asks the
//! brokers whether that record is still in their log, before it reads on.

use rdkafka::TopicPartitionList;
use rdkafka::bindings as sys;
use std::ffi::CString;

/// Says the epoch of a partition that is in the list.
pub(crate) fn set_leader_epoch(list: &TopicPartitionList, topic: &str, partition: i32, epoch: i32) {
    let Ok(topic) = CString::new(topic) else { return };
    // SAFETY: the list lives while it is borrowed, and the element that is found in it is its own.
    unsafe {
        let found = sys::rd_kafka_topic_partition_list_find(list.ptr(), topic.as_ptr(), partition);
        if !found.is_null() {
            sys::rd_kafka_topic_partition_set_leader_epoch(found, epoch);
        }
    }
}
