"""Windows and the watermark."""

from pyspark.sql import functions as F

from pairs.program import events, program, table, time

LATE = (
    events("0:10 a 1, 0:20 b 2, 1:05 a 3"),
    events("2:30 a 4, 1:50 b 5"),
    events("0:30 a 6, 2:10 b 7, 2:20 c 8, 0:40 a 9, 0:41 b 9"),
    events("5:00 c 10"),
    events("9:00 a 11, 5:10 b 12"),
)


def counted(stream, window, *keys):
    return stream.groupBy(window, *keys).agg(F.count("*").alias("n"), F.sum("v").alias("s"))


@program(*LATE)
def tumbling_append(spark, inputs):
    return counted(inputs.events(), F.window("ts", "1 minute"), "k")


@program(*LATE, mode="update")
def tumbling_update(spark, inputs):
    return counted(inputs.events(), F.window("ts", "1 minute"), "k")


@program(*LATE, mode="complete")
def tumbling_complete(spark, inputs):
    return counted(inputs.events(), F.window("ts", "1 minute"), "k")


@program(*LATE, mode="update", conf={"spark.sql.streaming.noDataMicroBatches.enabled": "false"})
def tumbling_update_without_empty_batches(spark, inputs):
    return counted(inputs.events(), F.window("ts", "1 minute"), "k")


@program(*LATE, conf={"spark.sql.streaming.noDataMicroBatches.enabled": "false"})
def tumbling_append_without_empty_batches(spark, inputs):
    return counted(inputs.events(), F.window("ts", "1 minute"), "k")


@program(*LATE)
def sliding_append(spark, inputs):
    return counted(inputs.events(), F.window("ts", "1 minute", "20 seconds"))


@program(*LATE, mode="update")
def sliding_with_a_start_offset(spark, inputs):
    return counted(inputs.events(), F.window("ts", "1 minute", "30 seconds", "7 seconds"), "k")


@program(
    table({"ts": "1969-12-31T23:59:52Z"}, {"ts": "1969-12-31T23:59:57Z"}),
    table({"ts": "1965-03-04T05:06:07Z"}, {"ts": "1970-01-01T00:00:04.999Z"}),
    mode="complete",
)
def windows_before_1970(spark, inputs):
    stream = inputs.stream("ts TIMESTAMP")
    return stream.groupBy(F.window("ts", "10 seconds", "10 seconds", "5 seconds")).count()


@program(
    table({"ts": "1969-12-31T23:59:52Z"}, {"ts": "1969-12-31T23:00:57Z"}),
    table({"ts": "1970-01-01T00:01:01Z"}),
    table({"ts": "1970-01-01T00:00:01Z"}, {"ts": "1970-01-01T00:09:01Z"}),
)
def what_ends_before_1970_is_late(spark, inputs):
    stream = inputs.stream("ts TIMESTAMP").withWatermark("ts", "30 seconds")
    return stream.groupBy(F.window("ts", "1 minute")).count()


@program(*LATE, mode="update")
def watermark_without_delay(spark, inputs):
    return counted(inputs.events("0 seconds"), F.window("ts", "1 minute"))


@program(
    table({"ts": "2026-01-01T00:00:10Z"}, {"ts": "2026-01-20T00:00:10Z"}),
    table({"ts": "2026-02-02T00:00:10Z"}),
    table({"ts": "2026-03-15T00:00:10Z"}),
)
def watermark_of_a_month(spark, inputs):
    stream = inputs.stream("ts TIMESTAMP").withWatermark("ts", "1 month")
    return stream.groupBy(F.window("ts", "1 day")).count()


@program(
    table({"ts": "2026-01-01T00:00:10.000999Z"}, {"ts": "2026-01-01T00:00:20.0009999Z"}),
    table({"ts": "2026-01-01T00:00:20.000001Z"}, {"ts": "2026-01-01T00:01:10.000001Z"}),
    table({"ts": "2026-01-01T00:01:00.000000Z"}, {"ts": "2026-01-01T00:00:59.999999Z"}),
)
def watermark_counts_in_whole_milliseconds(spark, inputs):
    stream = inputs.stream("ts TIMESTAMP").withWatermark("ts", "0 seconds")
    return stream.groupBy("ts").count()


@program(*LATE)
def group_by_the_event_time_itself(spark, inputs):
    return inputs.events().groupBy("ts").agg(F.max("v").alias("m"))


@program(events("0:10 a 1, - b 2, 0:30 - 3"), events("1:30 a -, - a 5"), events("4:00 a 1"))
def rows_without_a_time(spark, inputs):
    return counted(inputs.events(), F.window("ts", "1 minute"), "k")


@program(*LATE)
def parts_of_a_window(spark, inputs):
    found = counted(inputs.events(), F.window("ts", "1 minute"), "k")
    return found.select("window.start", F.col("window").getField("end").alias("till"), "n")


@program(*LATE)
def time_of_a_window(spark, inputs):
    found = counted(inputs.events(), F.window("ts", "1 minute"), "k")
    return found.select(F.window_time("window").alias("at"), "k", "s")


@program(
    table({"ms": 1767225610000, "k": "a"}, {"ms": 1767225670000, "k": "b"}),
    table({"ms": 1767225900000, "k": "a"}, {"ms": None, "k": "b"}),
    table({"ms": 1767225601000, "k": "a"}),
)
def watermark_of_a_derived_column(spark, inputs):
    stream = inputs.stream("ms BIGINT, k STRING").selectExpr("timestamp_millis(ms) AS at", "k")
    return stream.withWatermark("at", "10 seconds").groupBy(F.window("at", "1 minute"), "k").count()


@program(
    table({"e": {"ts": time("0:10"), "k": "a"}}, {"e": {"ts": time("1:10"), "k": "b"}}),
    table({"e": {"ts": time("3:10"), "k": "a"}}, {"e": None}),
    table({"e": {"ts": time("0:15"), "k": "a"}}, {"e": {"ts": None, "k": "a"}}),
)
def watermark_of_a_field_of_a_struct(spark, inputs):
    stream = inputs.stream("e STRUCT<ts: TIMESTAMP, k: STRING>").select("e.ts", "e.k", "e")
    stream = stream.withWatermark("ts", "10 seconds")
    return stream.groupBy(F.window("ts", "1 minute"), "e.k").count()


@program(*LATE, mode="update")
def filter_above_the_watermark(spark, inputs):
    stream = inputs.events().where("k <> 'c'")
    return counted(stream, F.window("ts", "1 minute"))


@program(*LATE, mode="update")
def filter_below_the_watermark(spark, inputs):
    stream = inputs.stream().where("k <> 'c'").withWatermark("ts", "10 seconds")
    return counted(stream, F.window("ts", "1 minute"))


@program(*LATE)
def watermark_without_state(spark, inputs):
    return inputs.events().where("v > 2").select("k", "v")


@program(
    table({"ts": "2026-01-01T00:00:10"}, {"ts": "2026-01-01T00:01:10"}),
    table({"ts": "2026-01-01T00:05:10"}),
    table({"ts": "2026-01-01T00:00:10"}),
)
def windows_of_times_without_zone(spark, inputs):
    stream = inputs.stream("ts TIMESTAMP_NTZ").withWatermark("ts", "10 seconds")
    return stream.groupBy(F.window("ts", "1 minute")).count()


SESSIONS = (
    events("0:10 a 1, 0:18 a 2, 0:12 b 3, 0:40 a 4"),
    events("0:27 a 5, 1:00 b 6"),
    events("0:15 a 7, 1:20 a 8, 0:32 a 1"),
    events("3:00 c 9, 0:16 b 9"),
    events("6:00 c 9"),
)


@program(*SESSIONS)
def session_append(spark, inputs):
    return counted(inputs.events("30 seconds"), F.session_window("ts", "10 seconds"), "k")


@program(*SESSIONS, mode="complete")
def session_complete(spark, inputs):
    return counted(inputs.events("30 seconds"), F.session_window("ts", "10 seconds"), "k")


@program(*SESSIONS)
def session_with_a_gap_of_the_row(spark, inputs):
    gap = "CASE WHEN k = 'a' THEN '5 seconds' WHEN v = 9 THEN '0 seconds' ELSE '20 seconds' END"
    return counted(inputs.events("30 seconds"), F.session_window("ts", F.expr(gap)), "k")


@program(*SESSIONS)
def session_with_an_average_and_a_list(spark, inputs):
    window = F.session_window("ts", "10 seconds")
    grouped = inputs.events("20 seconds").groupBy("k", window)
    return grouped.agg(F.avg("v").alias("m"), F.array_sort(F.collect_list("v")).alias("all"))


@program(*LATE)
def windows_of_windows(spark, inputs):
    inner = counted(inputs.events(), F.window("ts", "30 seconds"), "k")
    outer = inner.groupBy(F.window("window", "1 minute"))
    return outer.agg(F.sum("n").alias("n"), F.count("*").alias("parts"))


@program(*LATE)
def windows_in_sql(spark, inputs):
    inputs.events().createOrReplaceTempView("events_in_sql")
    return spark.sql(
        "SELECT window.start AS at, sum(v) AS s FROM events_in_sql "
        "WHERE k IS NOT NULL GROUP BY window(ts, '1 minute') HAVING sum(v) > 5"
    )


@program(*LATE, mode="update")
def window_as_a_column_first(spark, inputs):
    stream = inputs.events().select(F.window("ts", "1 minute").alias("w"), "k")
    return stream.groupBy("w", "k").count()


@program(*LATE)
def watermark_of_a_window_column(spark, inputs):
    stream = inputs.stream().select(F.window("ts", "1 minute").alias("w"), "k")
    return stream.withWatermark("w", "10 seconds").groupBy("w", "k").count()


@program(*LATE, mode="update")
def hour_of_the_event_time_bounds_nothing(spark, inputs):
    return inputs.events().groupBy(F.date_trunc("minute", "ts").alias("minute")).count()
