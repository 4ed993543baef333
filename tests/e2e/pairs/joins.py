"""Joins with static tables and of two streams."""

from pyspark.sql import functions as F

from pairs.program import Step, events, left, program, right

NAMES = ({"k": "a", "name": "ann"}, {"k": "b", "name": "bob"}, {"k": "a", "name": "art"})
FEW = (events("0:10 a 1, 0:20 c 2"), events("0:30 b 3, 0:40 - 4"))


@program(*FEW)
def static_inner(spark, inputs):
    return inputs.stream().join(inputs.static("k STRING, name STRING", *NAMES), "k")


@program(*FEW)
def static_left(spark, inputs):
    static = inputs.static("k STRING, name STRING", *NAMES)
    return inputs.stream().join(static, "k", "left")


@program(*FEW)
def static_right_side_is_the_stream(spark, inputs):
    static = inputs.static("k STRING, name STRING", *NAMES)
    return static.join(inputs.stream(), "k", "right")


@program(*FEW)
def static_semi_and_anti(spark, inputs):
    static = inputs.static("k STRING, name STRING", *NAMES)
    found = inputs.stream().join(static, "k", "left_semi")
    return found.join(static.where("name = 'bob'"), "k", "left_anti")


@program(*FEW, mode="update")
def static_then_aggregate(spark, inputs):
    static = inputs.static("k STRING, name STRING", *NAMES)
    return inputs.stream().join(F.broadcast(static), "k").groupBy("name").count()


@program(*FEW)
def static_null_safe(spark, inputs):
    static = inputs.static("sk STRING, name STRING", {"sk": None, "name": "none"}, {"sk": "a"})
    stream = inputs.stream()
    return stream.join(static, stream.k.eqNullSafe(static.sk))


@program(events("0:10 a 1"), Step("static", [{"k": "a", "name": "abe"}]), events("0:20 a 2"))
def static_that_has_got_a_file_since(spark, inputs):
    return inputs.stream().join(inputs.static("k STRING, name STRING", *NAMES), "k")


APART = (
    left("0:10 a 1, 0:12 b 2"),
    right("0:15 a 10, 0:50 b 20"),
    left("0:55 a 3, 0:52 b 4, 0:53 - 5"),
    right("0:58 a 30, 0:51 b 40, 0:57 - 50, 0:11 b 60"),
    left("2:00 c 6"),
    right("2:01 d 60"),
    left("5:00 e 7"),
    right("5:00 e 70"),
    left("0:10 a 1, 5:01 e 8"),
    right("0:10 a 1"),
)
SOON = "lk = rk AND rts >= lts AND rts <= lts + INTERVAL 10 SECONDS"


def sides(inputs, delay=("10 seconds", "10 seconds")):
    lefts = inputs.stream(name="left").selectExpr("ts AS lts", "k AS lk", "v AS lv")
    rights = inputs.stream(name="right").selectExpr("ts AS rts", "k AS rk", "v AS rv")
    if delay[0]:
        lefts = lefts.withWatermark("lts", delay[0])
    if delay[1]:
        rights = rights.withWatermark("rts", delay[1])
    return lefts, rights


def joined(inputs, how, condition=SOON, delay=("10 seconds", "10 seconds")):
    lefts, rights = sides(inputs, delay)
    return lefts.join(rights, F.expr(condition), how)


@program(*APART)
def streams_inner_without_watermark(spark, inputs):
    return joined(inputs, "inner", "lk = rk", (None, None))


@program(*APART)
def streams_inner_within_a_time(spark, inputs):
    return joined(inputs, "inner")


@program(*APART)
def streams_inner_with_one_watermark(spark, inputs):
    return joined(inputs, "inner", delay=("10 seconds", None))


@program(*APART, conf={"spark.sql.streaming.noDataMicroBatches.enabled": "false"})
def streams_inner_without_empty_batches(spark, inputs):
    return joined(inputs, "inner")


@program(*APART)
def streams_left(spark, inputs):
    return joined(inputs, "left")


@program(*APART)
def streams_right(spark, inputs):
    return joined(inputs, "right")


@program(*APART)
def streams_full(spark, inputs):
    return joined(inputs, "full")


@program(*APART)
def streams_semi(spark, inputs):
    return joined(inputs, "left_semi")


@program(*APART)
def streams_left_with_a_condition_of_one_side(spark, inputs):
    return joined(inputs, "left", SOON + " AND lv > 1 AND rv <> 40")


@program(*APART)
def streams_inner_with_different_delays(spark, inputs):
    return joined(inputs, "inner", delay=("5 seconds", "60 seconds"))


@program(*APART, conf={"spark.sql.streaming.multipleWatermarkPolicy": "max"})
def streams_left_by_the_latest_watermark(spark, inputs):
    return joined(inputs, "left", delay=("5 seconds", "60 seconds"))


def windowed(inputs):
    lefts = inputs.events(name="left").select(F.window("ts", "1 minute").alias("w"), "k", "v")
    rights = inputs.events(name="right").select(F.window("ts", "1 minute").alias("w"), "k", "v")
    return lefts, rights.withColumnRenamed("v", "rv")


@program(*APART)
def streams_inner_on_a_window(spark, inputs):
    lefts, rights = windowed(inputs)
    return lefts.join(rights, ["w", "k"])


@program(*APART)
def streams_left_on_a_window(spark, inputs):
    lefts, rights = windowed(inputs)
    return lefts.join(rights, ["w", "k"], "left")


@program(*APART)
def streams_full_on_a_window(spark, inputs):
    lefts, rights = windowed(inputs)
    return lefts.join(rights, ["w", "k"], "full")


@program(*APART)
def windows_of_both_sides_joined(spark, inputs):
    lefts, rights = (
        inputs.events(name=name).groupBy(F.window("ts", "1 minute"), "k").agg(F.sum("v").alias(name))
        for name in ("left", "right")
    )
    return lefts.join(rights, ["window", "k"])


@program(*APART)
def join_then_windows(spark, inputs):
    found = joined(inputs, "inner")
    return found.groupBy(F.window("lts", "1 minute"), "lk").count()


@program(*APART)
def left_join_then_windows(spark, inputs):
    found = joined(inputs, "left")
    return found.groupBy(F.window("lts", "30 seconds")).agg(F.count("*"), F.count("rv"))


@program(*APART, Step("third", [{"ts": "2026-01-01T00:00:12Z", "k": "a", "v": 5}]))
def three_streams(spark, inputs):
    third = inputs.stream(name="third").selectExpr("k AS tk", "v AS tv")
    lefts, rights = sides(inputs, (None, None))
    return lefts.join(rights, F.expr("lk = rk")).join(third, F.expr("lk = tk"))


@program(*APART, ready=10)
def both_sides_in_each_batch(spark, inputs):
    return joined(inputs, "full")


@program(*APART, ready=10)
def semi_of_both_sides_in_each_batch(spark, inputs):
    return joined(inputs, "left_semi")


@program(*APART, mode="update")
def streams_inner_in_update(spark, inputs):
    return joined(inputs, "inner")
