"""Sinks, triggers, restarts, batch boundaries, and state of the program's own."""

from typing import Iterator

import pandas
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from pairs.program import events, program

FLOW = (
    events("0:10 a 1, 0:20 b 2, 1:05 a 3"),
    events("1:30 a 4, 2:40 b 5, 0:50 c 1"),
    events("0:15 a 1, 4:00 c 10, 3:59 c 11"),
    events("9:00 a 11, 0:16 b 2"),
)


def minutes(stream):
    return stream.groupBy(F.window("ts", "1 minute"), "k").agg(F.sum("v").alias("s"))


@program(*FLOW, sink="parquet")
def windows_to_parquet(spark, inputs):
    return minutes(inputs.events())


@program(*FLOW, sink="foreachBatch", mode="update")
def windows_to_a_function(spark, inputs):
    return minutes(inputs.events())


@program(*FLOW, sink="foreachBatch", mode="complete")
def complete_result_to_a_function(spark, inputs):
    return inputs.stream().groupBy("k").agg(F.max("v").alias("most"))


@program(*FLOW, *FLOW, ready=8)
def two_files_a_batch(spark, inputs):
    return minutes(inputs.stream(maxFilesPerTrigger=2).withWatermark("ts", "10 seconds"))


@program(*FLOW, ready=4, mode="update")
def all_files_in_one_batch(spark, inputs):
    return minutes(inputs.stream(maxFilesPerTrigger=100).withWatermark("ts", "10 seconds"))


@program(*FLOW, ready=4, trigger={"availableNow": True}, sink="parquet")
def all_that_is_available(spark, inputs):
    return minutes(inputs.events())


@program(*FLOW, ready=1, trigger={"availableNow": True}, sink="parquet", restarts=True)
def all_that_is_available_again(spark, inputs):
    return minutes(inputs.events())


@program(*FLOW, ready=3, trigger={"once": True}, sink="parquet", restarts=True)
def one_batch_a_start(spark, inputs):
    return minutes(inputs.stream().withWatermark("ts", "10 seconds"))


@program(*FLOW, sink="parquet", restarts=True)
def restart_before_each_file(spark, inputs):
    return minutes(inputs.events())


@program(*FLOW, sink="foreachBatch", mode="update", restarts=True)
def restart_with_duplicates(spark, inputs):
    return inputs.events("30 seconds").dropDuplicatesWithinWatermark(["k"])


@program(*FLOW, ready=4)
def newest_files_first(spark, inputs):
    return inputs.stream(latestFirst=True).select("k", "v")


def running_total(inputs, mode, timeout):
    def step(key: tuple, frames: Iterator[pandas.DataFrame], state: GroupState):
        (name,) = key
        if state.hasTimedOut:
            (total,) = state.get
            state.remove()
            yield pandas.DataFrame({"k": [name], "total": [total], "over": [True]})
            return
        total = state.get[0] if state.exists else 0
        for frame in frames:
            total += int(frame["v"].sum())
        state.update((total,))
        if timeout == GroupStateTimeout.EventTimeTimeout:
            state.setTimeoutTimestamp(max(state.getCurrentWatermarkMs(), 1767225600000) + 60_000)
        yield pandas.DataFrame({"k": [name], "total": [total], "over": [False]})

    grouped = inputs.events().groupBy("k")
    schema = "k STRING, total BIGINT, over BOOLEAN"
    return grouped.applyInPandasWithState(step, schema, "total BIGINT", mode, timeout)


@program(*FLOW, mode="update")
def own_state_in_update(spark, inputs):
    return running_total(inputs, "update", GroupStateTimeout.NoTimeout)


@program(*FLOW, mode="append")
def own_state_in_append(spark, inputs):
    return running_total(inputs, "append", GroupStateTimeout.NoTimeout)


@program(*FLOW, mode="update")
def own_state_with_a_timeout(spark, inputs):
    return running_total(inputs, "update", GroupStateTimeout.EventTimeTimeout)
