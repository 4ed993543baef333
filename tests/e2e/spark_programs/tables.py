"""Frames: columns, rows, set operations, missing values, statistics."""

from pyspark.sql import functions as F
from pyspark.sql import Row

from .frames import in_order


def _items(spark):
    return spark.createDataFrame(
        [(1, "a", 1.0), (2, "b", 2.0), (2, "b", 2.0), (3, None, None)], "id INT, t STRING, d DOUBLE"
    )


def columns(spark):
    rows = _items(spark)
    return [
        lambda: rows.withColumn("x", F.col("id") + 1),
        lambda: rows.withColumn("id", F.col("id") * 10),
        lambda: rows.withColumn("ID", F.lit(0)),
        lambda: rows.withColumns({"x": F.lit(1), "y": F.col("d") * 2}),
        lambda: rows.withColumnRenamed("t", "text"),
        lambda: rows.withColumnRenamed("nope", "x"),
        lambda: rows.withColumnsRenamed({"id": "i", "d": "e"}),
        lambda: rows.drop("t"),
        lambda: rows.drop("nope", "d"),
        lambda: rows.drop(F.col("id")),
        lambda: rows.select("*", (F.col("id") * 2).alias("twice")),
        lambda: rows.select(rows["id"], rows.t),
        lambda: rows.select(rows.columns[::-1]),
        lambda: rows.select("ID", "T"),
        lambda: rows.select(F.col("id").alias("x"), F.col("id").alias("x")),
        lambda: rows.selectExpr("id AS i", "upper(t)", "*"),
        lambda: rows.toDF("a", "b", "c"),
        lambda: rows.select(rows.colRegex("`(id|d)`")),
        lambda: rows.transform(lambda frame: frame.where("id = 1")),
        lambda: rows.to(spark.createDataFrame([], "d DOUBLE, id LONG").schema),
        lambda: rows.columns,
        lambda: rows.dtypes,
        lambda: rows.select("nope"),
        lambda: rows.select(F.expr("id + 1 AS plus")),
        lambda: rows.select(F.col("*")),
        lambda: rows.alias("q").select("q.id", "q.*"),
        lambda: rows.withColumn("a b", F.lit(1)).select("`a b`"),
        lambda: rows.withColumn("a.b", F.lit(1)).select("`a.b`"),
    ]


def rows_of(spark):
    rows = _items(spark)
    ordered = rows.orderBy("id", "d")
    return [
        lambda: in_order(ordered.limit(2)),
        lambda: in_order(ordered.offset(2)),
        lambda: in_order(ordered.offset(1).limit(1)),
        lambda: rows.distinct(),
        lambda: rows.dropDuplicates(["id"]),
        lambda: rows.drop_duplicates(),
        lambda: rows.count(),
        lambda: rows.isEmpty(),
        lambda: rows.where("id > 9").isEmpty(),
        lambda: ordered.first(),
        lambda: ordered.head(2),
        lambda: ordered.take(1),
        lambda: ordered.tail(2),
        lambda: rows.where("id > 9").first(),
        lambda: [row.asDict() for row in ordered.collect()],
        lambda: rows.repartition(3).count(),
        lambda: rows.coalesce(1).count(),
        lambda: rows.hint("broadcast").count(),
        lambda: rows.cache().count(),
        lambda: [row.id for row in ordered.toLocalIterator()],
        lambda: rows.sample(1.0).count(),
        lambda: [part.count() for part in rows.randomSplit([1.0], 1)],
        lambda: rows.schema.simpleString(),
        lambda: rows.isStreaming,
        lambda: rows.limit(0),
        lambda: rows.exceptAll(rows),
    ]


def set_operations(spark):
    left = spark.createDataFrame([(1, "a"), (1, "a"), (2, "b"), (None, None)], "x INT, y STRING")
    right = spark.createDataFrame([(1, "a"), (3, "c"), (None, None)], "x INT, y STRING")
    return [
        lambda: left.union(right),
        lambda: left.unionAll(right),
        lambda: left.union(right).distinct(),
        lambda: left.intersect(right),
        lambda: left.intersectAll(left),
        lambda: left.exceptAll(right),
        lambda: left.subtract(right),
        lambda: left.unionByName(right.select("y", "x")),
        lambda: left.unionByName(right.withColumn("z", F.lit(1)), allowMissingColumns=True),
        lambda: left.select("x").union(spark.createDataFrame([(1.5,)], "d DOUBLE")),
        lambda: left.union(right.select("x")),
        lambda: left.unionByName(right.withColumnRenamed("y", "q")),
    ]


def set_operations_in_sql(spark):
    queries = [
        "SELECT 1 AS a UNION SELECT 1 UNION ALL SELECT 2",
        "SELECT * FROM VALUES (1), (2) INTERSECT SELECT 2",
        "SELECT * FROM VALUES (1), (2), (2) EXCEPT SELECT 1",
        "SELECT * FROM VALUES (1), (2), (2) EXCEPT ALL SELECT 2",
        "SELECT * FROM VALUES (1), (2) MINUS SELECT 1",
        "SELECT 1 AS a UNION ALL SELECT 2.5",
        "SELECT 1 AS a UNION ALL SELECT 'x'",
        "SELECT NULL AS a UNION SELECT NULL",
        "(SELECT 1 AS a) UNION ALL (SELECT 2 ORDER BY 1 LIMIT 1)",
        "SELECT 1, 2 UNION SELECT 1",
    ]
    return [lambda query=query: spark.sql(query) for query in queries]


def missing_values(spark):
    rows = spark.createDataFrame(
        [(1, None, "x", True), (None, 2.5, None, None), (None, float("nan"), None, None), (4, 4.0, "y", False)],
        "i INT, d DOUBLE, t STRING, b BOOLEAN",
    )
    return [
        lambda: rows.na.fill(0),
        lambda: rows.na.fill(1.9),
        lambda: rows.na.fill("?"),
        lambda: rows.na.fill(True),
        lambda: rows.na.fill({"i": 7, "t": "?"}),
        lambda: rows.fillna(0, subset=["i"]),
        lambda: rows.na.drop(),
        lambda: rows.na.drop("all"),
        lambda: rows.dropna(thresh=2),
        lambda: rows.na.drop(subset=["t"]),
        lambda: rows.na.replace("x", "z"),
        lambda: rows.na.replace([1, 4], [10, 40]),
        lambda: rows.replace({"x": "1", "y": "2"}, subset="t"),
        lambda: rows.replace(2.5, None),
        lambda: rows.na.replace(True, False),
    ]


def statistics(spark):
    rows = spark.createDataFrame(
        [(1, "a", 1.0), (2, "b", 2.5), (3, "a", 3.0), (4, None, None)], "id INT, t STRING, d DOUBLE"
    )
    return [
        lambda: in_order(rows.describe()),
        lambda: in_order(rows.describe("id", "d")),
        lambda: in_order(rows.summary()),
        lambda: in_order(rows.summary("count", "min", "75%", "max")),
        lambda: rows.stat.crosstab("id", "t"),
        lambda: rows.stat.cov("id", "d"),
        lambda: rows.stat.corr("id", "id"),
        lambda: rows.stat.approxQuantile("id", [0.0, 0.5, 1.0], 0.0),
        lambda: rows.approxQuantile(["id", "d"], [0.5], 0.0),
        lambda: rows.select(F.sort_array(rows.stat.freqItems(["t"], 0.4).schema and F.array("t"))),
        lambda: rows.stat.sampleBy("t", {"a": 1.0}, 0).count(),
    ]


def unpivots(spark):
    rows = spark.createDataFrame([(1, 10, 100), (2, None, 200)], "id INT, a INT, b INT")
    return [
        lambda: rows.unpivot("id", ["a", "b"], "name", "value"),
        lambda: rows.melt("id", None, "name", "value"),
        lambda: rows.unpivot(["id"], ["a"], "n", "v"),
        lambda: rows.transpose(),
        lambda: rows.transpose("id"),
    ]


def observing(spark):
    from pyspark.sql import Observation

    seen = Observation("seen")
    rows = _items(spark).observe(seen, F.count(F.lit(1)).alias("n"), F.max("id").alias("m"))
    return [lambda: rows.count(), lambda: seen.get]


def shown(spark):
    rows = _items(spark)
    return [
        lambda: rows._show_string(20, False, False),
        lambda: rows._show_string(2, 3, False),
        lambda: rows._show_string(2, True, True),
        lambda: spark.sql("SELECT array(1, NULL) a, map('k', 1.5) m, named_struct('x', NULL) s, X'0102' b")._show_string(),
        lambda: spark.sql("SELECT DATE'2020-01-01' d, TIMESTAMP'2020-01-01 01:02:03.4' t, 1e20 f, NULL n")._show_string(),
        lambda: rows.limit(0)._show_string(),
        lambda: spark.sql("SELECT INTERVAL '1' DAY i, true b, '日本' w, 'a\\nb' c")._show_string(),
    ]


def literals(spark):
    import datetime
    from decimal import Decimal

    one = spark.range(1)
    values = [
        1, 2**40, 1.5, "x", True, None, Decimal("1.50"), b"ab", datetime.date(2020, 1, 2),
        datetime.datetime(2020, 1, 2, 3, 4, 5), datetime.timedelta(days=1, seconds=2), [1, 2], ["a"],
        float("nan"), float("inf"), -5, -1.5, "it's", "a\\b", "q\"q",
    ]
    return [lambda value=value: one.select(F.lit(value).alias("v")) for value in values]


def views_of_frames(spark):
    rows = _items(spark)
    rows.createOrReplaceTempView("items")
    rows.where("id = 1").createOrReplaceGlobalTempView("one_item")
    return [
        lambda: spark.table("items"),
        lambda: spark.sql("SELECT count(*) FROM items"),
        lambda: spark.sql("SELECT * FROM global_temp.one_item"),
        lambda: rows.createTempView("items"),
        lambda: spark.catalog.tableExists("items"),
        lambda: spark.catalog.dropTempView("items"),
        lambda: spark.table("items"),
        lambda: spark.sql("SELECT * FROM {rows} WHERE id = {i}", rows=rows, i=2),
        lambda: spark.sql("SELECT {col} FROM {rows}", rows=rows, col=rows.id),
    ]


def ranges(spark):
    return [
        lambda: spark.range(3),
        lambda: spark.range(2, 5),
        lambda: spark.range(0, 10, 4),
        lambda: spark.range(5, 0, -2),
        lambda: spark.range(0),
        lambda: spark.range(100).agg(F.sum("id")),
        lambda: spark.range(10).where("id % 3 = 0"),
        lambda: in_order(spark.range(3).orderBy(F.desc("id"))),
    ]


def _groups_of_rows(spark):
    rows = spark.createDataFrame([Row(k="a", v=1), Row(k="a", v=3), Row(k="b", v=5)])
    other = spark.createDataFrame([Row(k="a", w=10), Row(k="c", w=20)])
    return rows, other


def functions_of_python(spark):
    import pandas as pd

    rows, other = _groups_of_rows(spark)

    @F.udf("int")
    def plus(value):
        return None if value is None else value + 1

    @F.pandas_udf("double")
    def centred(values: pd.Series) -> pd.Series:
        return values - 2.0

    @F.pandas_udf("double")
    def mean_of(values: pd.Series) -> float:
        return float(values.mean())

    def summed(frame):
        return pd.DataFrame({"k": [frame.k.iloc[0]], "s": [int(frame.v.sum())]})

    def both(left, right):
        return pd.DataFrame({"n": [len(left)], "m": [len(right)]})

    return [
        lambda: rows.select(plus("v").alias("p")),
        lambda: rows.select(centred("v").alias("c")),
        lambda: rows.groupBy("k").agg(mean_of("v").alias("m")),
        lambda: rows.agg(mean_of("v").alias("m")),
        lambda: rows.groupBy("k").applyInPandas(summed, "k STRING, s LONG"),
        lambda: rows.groupBy("k").cogroup(other.groupBy("k")).applyInPandas(both, "n INT, m INT"),
        lambda: rows.mapInPandas(lambda parts: (part[part.v > 1] for part in parts), rows.schema),
    ]
