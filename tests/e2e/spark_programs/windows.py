"""Functions over windows of rows."""

from pyspark.sql import Window
from pyspark.sql import functions as F


def _scores(spark):
    return spark.createDataFrame(
        [("a", 1, 10), ("a", 2, 10), ("a", 3, None), ("a", 4, 40), ("b", 1, 5), ("b", 2, 7)],
        "k STRING, n INT, v INT",
    )


def ranks(spark):
    window = Window.partitionBy("k").orderBy("v")
    return _scores(spark).select(
        "k",
        "n",
        F.row_number().over(Window.partitionBy("k").orderBy("n")).alias("rn"),
        F.rank().over(window).alias("r"),
        F.dense_rank().over(window).alias("dr"),
        F.percent_rank().over(window).alias("pr"),
        F.cume_dist().over(window).alias("cd"),
        F.ntile(2).over(Window.partitionBy("k").orderBy("n")).alias("nt"),
    )


def neighbours(spark):
    window = Window.partitionBy("k").orderBy("n")
    return _scores(spark).select(
        "k",
        "n",
        F.lag("v").over(window),
        F.lag("v", 2, -1).over(window),
        F.lead("v").over(window),
        F.lead("v", 1, 0).over(window),
        F.first("v").over(window),
        F.last("v").over(window),
        F.nth_value("v", 2).over(window),
        F.last("v", ignorenulls=True).over(window),
    )


def running(spark):
    window = Window.partitionBy("k").orderBy("n")
    return _scores(spark).select(
        "k",
        "n",
        F.sum("v").over(window),
        F.avg("v").over(window),
        F.count("v").over(window),
        F.min("v").over(window),
        F.max("v").over(window),
        F.sum("v").over(Window.partitionBy("k")),
        F.count("*").over(Window.partitionBy()),
        F.collect_list("v").over(window),
        F.stddev("v").over(window),
    )


def frames(spark):
    window = Window.partitionBy("k").orderBy("n")
    return _scores(spark).select(
        "k",
        "n",
        F.sum("v").over(window.rowsBetween(-1, 0)),
        F.sum("v").over(window.rowsBetween(-1, 1)),
        F.sum("v").over(window.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)),
        F.sum("v").over(window.rowsBetween(1, 2)),
        F.sum("n").over(window.rangeBetween(-1, 0)),
        F.sum("n").over(window.rangeBetween(Window.currentRow, Window.unboundedFollowing)),
        F.count("*").over(window.rowsBetween(-2, -1)),
    )


def in_sql(spark):
    _scores(spark).createOrReplaceTempView("scores")
    queries = [
        "SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n DESC) FROM scores",
        "SELECT k, n, sum(v) OVER (PARTITION BY k ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM scores",
        "SELECT k, n, sum(v) OVER w AS s, avg(v) OVER w AS a FROM scores WINDOW w AS (PARTITION BY k ORDER BY n)",
        "SELECT * FROM (SELECT k, n, rank() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM scores) WHERE r = 1",
        "SELECT k, n FROM scores QUALIFY row_number() OVER (PARTITION BY k ORDER BY n) = 1",
        "SELECT k, sum(v), rank() OVER (ORDER BY sum(v)) FROM scores GROUP BY k",
        "SELECT k, n, lag(v, 1) IGNORE NULLS OVER (PARTITION BY k ORDER BY n) FROM scores",
        "SELECT k, n, first_value(v) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM scores",
        "SELECT k, n, v / sum(v) OVER (PARTITION BY k) AS share FROM scores",
        "SELECT k, n, count(*) OVER (ORDER BY n) FROM scores",
        "SELECT k, n, max(n) OVER () FROM scores",
        "SELECT k, n, ntile(3) OVER (ORDER BY k, n) FROM scores",
        "SELECT k, n, row_number() OVER () FROM scores",
    ]
    return [lambda query=query: spark.sql(query) for query in queries]


def over_times(spark):
    rows = spark.sql(
        "SELECT * FROM VALUES (1, TIMESTAMP'2024-01-01 00:00:00'), (2, TIMESTAMP'2024-01-01 00:30:00'), "
        "(3, TIMESTAMP'2024-01-01 02:00:00') AS t(id, ts)"
    )
    rows.createOrReplaceTempView("clocked")
    return [
        lambda: spark.sql(
            "SELECT id, sum(id) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW) AS s FROM clocked"
        ),
        lambda: rows.select("id", F.sum("id").over(Window.orderBy(F.col("ts").cast("long")).rangeBetween(-3600, 0))),
        lambda: rows.select("id", F.col("ts") - F.lag("ts").over(Window.orderBy("ts"))),
    ]


def top_of_each_group(spark):
    rows = _scores(spark)
    window = Window.partitionBy("k").orderBy(F.col("v").desc_nulls_last(), "n")
    return [
        lambda: rows.withColumn("r", F.row_number().over(window)).where("r <= 2").drop("r"),
        lambda: rows.withColumn("share", F.col("v") / F.sum("v").over(Window.partitionBy("k"))),
        lambda: rows.withColumn("diff", F.col("v") - F.lag("v", 1).over(Window.partitionBy("k").orderBy("n"))),
    ]
