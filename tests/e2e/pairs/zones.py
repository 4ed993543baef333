"""Session time zones other than UTC."""

from pyspark.sql import functions as F

from pairs.program import program, table

# The clock of New York goes forward in the first of these nights, and back in the second.
NIGHTS = (
    table({"ts": "2026-03-08T04:30:00Z", "v": 1}, {"ts": "2026-03-08T06:59:59Z", "v": 2}),
    table({"ts": "2026-03-08T07:00:00Z", "v": 3}, {"ts": "2026-03-09T03:59:59.123Z", "v": 4}),
    table({"ts": "2026-11-01T05:30:00Z", "v": 5}, {"ts": "2026-11-01T06:30:00Z", "v": 6}),
    table({"ts": "1883-11-18T16:00:00Z", "v": 7}, {"ts": "2026-12-01T18:45:00Z", "v": 8}),
)
YORK = {"spark.sql.session.timeZone": "America/New_York"}
KOLKATA = {"spark.sql.session.timeZone": "Asia/Kolkata"}
NAMED = (
    "CAST(ts AS STRING) AS text",
    "CAST(CAST(ts AS DATE) AS STRING) AS day",
    "hour(ts) AS h",
    "date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS') AS formatted",
    "CAST(date_trunc('day', ts) AS STRING) AS midnight",
    "CAST(ts AS TIMESTAMP_NTZ) AS wall",
    "dayofmonth(ts) AS dom",
    "minute(ts) AS m",
    "unix_timestamp(ts) AS seconds",
    "to_date(ts) AS date",
)


def rows(inputs):
    return inputs.stream("ts TIMESTAMP, v BIGINT")


@program(*NIGHTS, conf=YORK)
def texts_of_times_in_new_york(spark, inputs):
    return rows(inputs).selectExpr(*NAMED)


@program(*NIGHTS, conf=KOLKATA)
def texts_of_times_in_kolkata(spark, inputs):
    return rows(inputs).selectExpr(*NAMED)


@program(*NIGHTS[:3], conf=YORK, mode="complete")
def windows_of_a_day_in_new_york(spark, inputs):
    found = rows(inputs).groupBy(F.window("ts", "1 day")).agg(F.sum("v").alias("s"))
    return found.selectExpr("CAST(window.start AS STRING) AS a", "window.end AS b", "s")


@program(*NIGHTS[:3], conf=KOLKATA)
def windows_of_a_day_in_kolkata(spark, inputs):
    stream = rows(inputs).withWatermark("ts", "1 hour")
    found = stream.groupBy(F.window("ts", "1 day")).agg(F.sum("v").alias("s"))
    return found.selectExpr("CAST(window.start AS STRING) AS a", "window.end AS b", "s")


@program(*NIGHTS[:3], conf=YORK, mode="update")
def groups_by_day_and_hour_in_new_york(spark, inputs):
    return rows(inputs).groupBy(F.to_date("ts").alias("day"), F.hour("ts").alias("h")).count()


TEXTS = (
    table({"t": "2026-03-08 01:30:00"}, {"t": "2026-03-08 02:30:00"}, {"t": "2026-11-01 01:30:00"}),
    table({"t": "2026-07-01T12:00:00+02:00"}, {"t": "2026-07-01"}, {"t": None}),
)


@program(*TEXTS, conf=YORK)
def times_of_texts_in_new_york(spark, inputs):
    return inputs.stream("t STRING").selectExpr(
        "CAST(t AS TIMESTAMP) AS ts",
        "to_timestamp(t) AS parsed",
        "CAST(CAST(substring(t, 1, 10) AS DATE) AS TIMESTAMP) AS midnight",
    )


@program(*TEXTS, conf=KOLKATA)
def times_of_texts_in_kolkata(spark, inputs):
    return inputs.stream("t STRING").selectExpr("CAST(t AS TIMESTAMP) AS ts", "t")


@program(
    table({"ts": "2026-03-08 01:59:00"}, {"ts": "2026-03-08 03:01:00"}),
    table({"ts": "2026-03-08T12:00:00Z"}),
    conf=YORK,
)
def files_with_times_of_new_york(spark, inputs):
    stream = inputs.stream("ts TIMESTAMP").withWatermark("ts", "1 minute")
    return stream.groupBy(F.window("ts", "1 hour")).count()
