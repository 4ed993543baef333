"""Duplicates."""

from pyspark.sql import functions as F

from pairs.program import events, program

TWICE = (
    events("0:10 a 1, 0:10 a 1, 0:20 b 2"),
    events("0:10 a 1, 0:25 b 2, 1:00 a 3"),
    events("0:20 b 2, 0:45 d 1, 1:10 a 3"),
    events("3:00 a 1, 1:00 a 3"),
    events("3:00 a 1, 3:05 b 2, 0:05 e 9"),
)


@program(*TWICE)
def duplicates_of_all_columns(spark, inputs):
    return inputs.stream().dropDuplicates()


@program(*TWICE)
def duplicates_by_key(spark, inputs):
    return inputs.stream().dropDuplicates(["k"])


@program(*TWICE)
def duplicates_by_key_and_time(spark, inputs):
    return inputs.events().dropDuplicates(["k", "ts"])


@program(*TWICE)
def duplicates_by_key_under_a_watermark(spark, inputs):
    return inputs.events().dropDuplicates(["k"])


@program(*TWICE)
def duplicates_within_the_watermark(spark, inputs):
    return inputs.events("30 seconds").dropDuplicatesWithinWatermark(["k", "v"])


@program(*TWICE, mode="update")
def duplicates_within_the_watermark_in_update(spark, inputs):
    return inputs.events("30 seconds").dropDuplicatesWithinWatermark(["k"])


@program(*TWICE, mode="update")
def duplicates_in_update(spark, inputs):
    return inputs.events().dropDuplicates(["k", "ts"])


@program(*TWICE)
def distinct_rows(spark, inputs):
    return inputs.stream().select("k", "v").distinct()


@program(*TWICE)
def duplicates_then_windows(spark, inputs):
    return inputs.events().dropDuplicates(["ts", "k"]).groupBy(F.window("ts", "1 minute")).count()


@program(*TWICE, mode="complete")
def duplicates_below_a_complete_aggregation(spark, inputs):
    return inputs.stream().dropDuplicates(["k", "v"]).groupBy("k").count()


@program(*TWICE, conf={"spark.sql.streaming.noDataMicroBatches.enabled": "false"})
def duplicates_without_empty_batches(spark, inputs):
    return inputs.events("30 seconds").dropDuplicatesWithinWatermark(["k"])
