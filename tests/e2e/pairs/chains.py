"""Several operators in a chain, limits, sorting, unions, and several watermarks."""

from pyspark.sql import functions as F

from pairs.program import events, left, program, right

FLOW = (
    events("0:10 a 1, 0:20 b 2, 1:05 a 3"),
    events("1:30 a 4, 2:40 b 5, 0:50 c 1"),
    events("4:00 c 10, 3:59 c 11"),
    events("9:00 a 11"),
)


@program(*FLOW)
def windows_then_windows(spark, inputs):
    inner = inputs.events().groupBy(F.window("ts", "30 seconds"), "k").count()
    return inner.groupBy(F.window(F.window_time("window"), "2 minutes")).agg(F.sum("count"))


@program(*FLOW)
def windows_then_duplicates(spark, inputs):
    inner = inputs.events().groupBy(F.window("ts", "1 minute"), "k").count()
    return inner.select("window", "count").dropDuplicates()


@program(*FLOW)
def sessions_then_windows(spark, inputs):
    inner = inputs.events().groupBy(F.session_window("ts", "20 seconds"), "k").count()
    return inner.groupBy(F.window(F.window_time("session_window"), "2 minutes")).count()


@program(*FLOW)
def limit_of_all_batches(spark, inputs):
    return inputs.stream().select("v").where("v > 1").limit(3)


@program(*FLOW)
def limit_of_nothing(spark, inputs):
    return inputs.stream().limit(0)


@program(*FLOW)
def duplicates_then_limit(spark, inputs):
    return inputs.stream().select("k").dropDuplicates().limit(2)


@program(*FLOW, mode="complete")
def limit_below_an_aggregation(spark, inputs):
    return inputs.stream().limit(4).agg(F.count("*").alias("n"))


@program(*FLOW, mode="complete", ordered=True)
def sorted_result(spark, inputs):
    found = inputs.stream().groupBy("k").agg(F.sum("v").alias("s"))
    return found.orderBy(F.desc("s"), "k")


@program(*FLOW, mode="complete", ordered=True)
def best_of_a_sorted_result(spark, inputs):
    found = inputs.stream().groupBy("k").agg(F.sum("v").alias("s"))
    return found.orderBy(F.col("s").asc_nulls_last(), "k").limit(2)


BOTH = (
    left("0:10 a 1, 1:10 a 1"),
    right("0:30 b 2, 0:40 a 2"),
    left("3:10 a 3"),
    right("2:10 b 4"),
    left("6:00 a 5, 1:00 b 5"),
    right("9:00 a 6"),
)


@program(*BOTH)
def union_without_state(spark, inputs):
    return inputs.stream(name="left").union(inputs.stream(name="right")).select("k", "v")


@program(*BOTH)
def union_under_two_watermarks(spark, inputs):
    both = inputs.events("10 seconds", "left").union(inputs.events("60 seconds", "right"))
    return both.groupBy(F.window("ts", "1 minute"), "k").count()


@program(*BOTH, conf={"spark.sql.streaming.multipleWatermarkPolicy": "max"})
def union_by_the_latest_watermark(spark, inputs):
    both = inputs.events("10 seconds", "left").union(inputs.events("60 seconds", "right"))
    return both.groupBy(F.window("ts", "1 minute"), "k").count()


@program(*BOTH, mode="update")
def union_under_one_watermark(spark, inputs):
    both = inputs.stream(name="left").union(inputs.stream(name="right"))
    return both.withWatermark("ts", "10 seconds").groupBy(F.window("ts", "1 minute")).count()


@program(*BOTH)
def union_by_name_of_different_columns(spark, inputs):
    lefts = inputs.stream(name="left").select("k", "v")
    rights = inputs.stream(name="right").select("v", "ts")
    return lefts.unionByName(rights, allowMissingColumns=True)


# Both readers of the stream list the folder, which nothing changes between.
@program(*FLOW, mode="update", trigger={"availableNow": True}, sink="foreachBatch", restarts=True)
def one_stream_twice(spark, inputs):
    stream = inputs.events()
    return stream.union(stream).groupBy("k").agg(F.sum("v").alias("s"))


@program(*FLOW)
def exploded_rows(spark, inputs):
    stream = inputs.events().select("ts", F.explode(F.split(F.lit("x,y"), ",")).alias("k"), "v")
    return stream.groupBy(F.window("ts", "1 minute"), "k").agg(F.sum("v").alias("s"))
