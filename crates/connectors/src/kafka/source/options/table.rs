//! The rows of the source's own options.

use onefold_connector::{OptionKind, OptionSpec};

const COUNT: OptionKind = OptionKind::Count { min: 1, max: i64::MAX as u64 };
const TEXT: OptionKind = OptionKind::Text;

const fn row(name: &'static str, kind: OptionKind, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, kind, doc)
}

/// The source's own options.
pub(crate) static OPTIONS: &[OptionSpec] = &[
    row("subscribe", TEXT, "topics to read, as clicks,orders"),
    row("subscribePattern", TEXT, "a regular expression for the topics to read, new ones too"),
    row("assign", TEXT, "partitions to read, as {\"clicks\":[0,1]}"),
    row(
        "startingOffsets",
        TEXT,
        "where a new query starts: earliest, latest (a table: earliest), or \
         {\"clicks\":{\"0\":23,\"1\":-2}} (-2 earliest, -1 latest)",
    ),
    row("startingTimestamp", TEXT, "the same by the records' time, milliseconds since 1970"),
    row("startingOffsetsByTimestamp", TEXT, "the same by partition: {\"clicks\":{\"0\":1000}}"),
    row(
        "startingOffsetsByTimestampStrategy",
        OptionKind::Choice(&["error", "latest"]),
        "what is done where a partition has no record of that time or later",
    )
    .default("error"),
    row(
        "endingOffsets",
        TEXT,
        "where a table ends: latest, or offsets as startingOffsets has them",
    ),
    row("endingTimestamp", TEXT, "the same by the records' time, milliseconds since 1970"),
    row("endingOffsetsByTimestamp", TEXT, "the same by partition"),
    row("maxOffsetsPerTrigger", COUNT, "records of a batch, shared among partitions by size"),
    row("minOffsetsPerTrigger", COUNT, "records that must wait before there is a batch"),
    row(
        "maxTriggerDelay",
        OptionKind::Duration,
        "how long minOffsetsPerTrigger may put a batch off",
    )
    .default("15m"),
    row("minPartitions", COUNT, "into how many parts a batch is divided at least"),
    row("maxRecordsPerPartition", COUNT, "records of such a part at most"),
    row(
        "failOnDataLoss",
        TEXT,
        "whether the query stops where records are gone: true, false, or by topic as \
         {\"clicks\":false} (others: true)",
    )
    .default("true"),
    row("includeHeaders", OptionKind::Bool, "add the column headers").default("false"),
    row(
        "kafkaConsumer.pollTimeoutMs",
        OptionKind::Duration,
        "how long a read waits for a record that must be there",
    )
    .default("120000"),
    row(
        "fetchOffset.numRetries",
        OptionKind::Count { min: 0, max: 1_000_000 },
        "how often brokers are asked again for offsets",
    )
    .default("3"),
    row("fetchOffset.retryIntervalMs", OptionKind::Duration, "the pause before that").default("10"),
    row("groupIdPrefix", TEXT, "how the name begins of the group in whose name records are read")
        .default("spark-kafka-source"),
    row("kafka.group.id", TEXT, "that group's whole name; nothing is read by group"),
    row(
        "onefold.kafka.reportGroup",
        TEXT,
        "a group that is told the offsets after each commit, for tools that show lag",
    ),
];
