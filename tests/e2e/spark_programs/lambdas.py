"""Functions that take functions."""

from pyspark.sql import functions as F

from .frames import each, over


def _rows_of(spark):
    return spark.createDataFrame(
        [(1, [1, 2, 3], {"a": 1, "b": 2}), (2, [None, 5], {}), (3, None, None)],
        "id INT, a ARRAY<INT>, m MAP<STRING, INT>",
    )


def transforming(spark):
    rows = _rows_of(spark)
    return over(
        rows,
        F.transform("a", lambda x: x + 1),
        F.transform("a", lambda x, i: x * i),
        F.transform("a", lambda x: x + F.col("id")),
        F.transform("a", lambda x: F.struct(x.alias("v"), F.lit("k").alias("w"))),
        F.transform("a", lambda x: F.when(x.isNull(), 0).otherwise(x)),
        F.transform("a", lambda x: x.cast("string")),
    )


def filtering(spark):
    rows = _rows_of(spark)
    return over(
        rows,
        F.filter("a", lambda x: x > 1),
        F.filter("a", lambda x, i: i > 0),
        F.filter("a", lambda x: x > F.col("id")),
        F.exists("a", lambda x: x > 2),
        F.exists("a", lambda x: x > 9),
        F.forall("a", lambda x: x > 0),
        F.forall("a", lambda x: x > 1),
    )


def folding(spark):
    rows = _rows_of(spark)
    return over(
        rows,
        F.aggregate("a", F.lit(0), lambda acc, x: acc + F.coalesce(x, F.lit(0))),
        F.aggregate("a", F.lit(0), lambda acc, x: acc + x),
        F.reduce("a", F.lit(1), lambda acc, x: acc * F.coalesce(x, F.lit(1)), lambda acc: acc * 10),
        F.aggregate("a", F.lit(""), lambda acc, x: F.concat(acc, x.cast("string"))),
        F.aggregate(
            "a",
            F.struct(F.lit(0).alias("n"), F.lit(0).alias("s")),
            lambda acc, x: F.struct((acc.n + 1).alias("n"), (acc.s + F.coalesce(x, F.lit(0))).alias("s")),
            lambda acc: acc.s / acc.n,
        ),
    )


def zipping(spark):
    rows = _rows_of(spark)
    return over(
        rows,
        F.zip_with("a", F.array(F.lit(10), F.lit(20)), lambda x, y: x + y),
        F.zip_with("a", F.array(F.lit(10)), lambda x, y: F.coalesce(x, y)),
        F.map_zip_with("m", F.create_map(F.lit("a"), F.lit(5)), lambda k, x, y: F.coalesce(x, F.lit(0)) + F.coalesce(y, F.lit(0))),
    )


def maps(spark):
    rows = _rows_of(spark)
    return over(
        rows,
        F.map_filter("m", lambda k, v: v > 1),
        F.map_filter("m", lambda k, v: k == "a"),
        F.transform_keys("m", lambda k, v: F.concat(k, v.cast("string"))),
        F.transform_values("m", lambda k, v: v * 10),
        F.transform_values("m", lambda k, v: F.concat(k, F.lit("!"))),
    )


def sorting(spark):
    return [
        *over(
            _rows_of(spark),
            F.array_sort("a"),
            F.array_sort(
                F.array(F.lit("bbb"), F.lit("a"), F.lit("cc")),
                lambda x, y: F.length(x) - F.length(y),
            ),
        ),
        *each(
            spark,
            "array_sort(array(5, 6, 1), (l, r) -> CASE WHEN l < r THEN -1 WHEN l > r THEN 1 ELSE 0 END)",
            "array_sort(array('bc', 'ab', 'dc'), (l, r) -> CASE WHEN l < r THEN 1 WHEN l > r THEN -1 ELSE 0 END)",
            "array_sort(array('b', NULL, 'c', 'a'))",
        ),
    ]


def in_sql(spark):
    return each(
        spark,
        "transform(array(1, 2, 3), x -> x + 1)",
        "transform(array(1, 2, 3), (x, i) -> x + i)",
        "filter(array(1, 2, 3), x -> x % 2 == 1)",
        "filter(array(0, 2, 3), (x, i) -> x > i)",
        "exists(array(1, 2, 3), x -> x % 2 == 0)",
        "exists(array(1, NULL, 3), x -> x % 2 == 0)",
        "forall(array(1, 2, 3), x -> x % 2 == 0)",
        "forall(array(2, NULL, 8), x -> x % 2 == 0)",
        "aggregate(array(1, 2, 3), 0, (acc, x) -> acc + x)",
        "aggregate(array(1, 2, 3), 0, (acc, x) -> acc + x, acc -> acc * 10)",
        "reduce(array(1, 2, 3), 0, (acc, x) -> acc + x)",
        "zip_with(array(1, 2, 3), array('a', 'b', 'c'), (x, y) -> (y, x))",
        "zip_with(array(1, 2), array(3, 4), (x, y) -> x + y)",
        "map_filter(map(1, 0, 2, 2, 3, -1), (k, v) -> k > v)",
        "transform_keys(map(1, 1, 2, 2), (k, v) -> k + v)",
        "transform_values(map(1, 1, 2, 2), (k, v) -> v + 1)",
        "map_zip_with(map(1, 'a', 2, 'b'), map(1, 'x', 2, 'y'), (k, v1, v2) -> concat(v1, v2))",
        "transform(array(array(1, 2), array(3)), x -> transform(x, y -> y * 2))",
        "transform(array(array(1, 2), array(3)), x -> aggregate(x, 0, (a, b) -> a + b))",
        "transform(filter(array(1, 2, 3), x -> x > 1), x -> named_struct('n', x))",
        "filter(array('a', 'bb', NULL), x -> x IS NOT NULL)",
        "transform(array(1.5, 2.5), x -> CAST(x AS INT))",
        "array_max(transform(sequence(1, 3), x -> x * x))",
        "transform(array(1), x -> y)",
    )


def over_grouped_rows(spark):
    rows = _rows_of(spark)
    return [
        lambda: rows.groupBy().agg(F.transform(F.array_sort(F.collect_list("id")), lambda x: x * 2)),
        lambda: rows.select("id", F.explode(F.transform("a", lambda x: x + 1))),
        lambda: rows.where(F.exists("a", lambda x: x == 5)).select("id"),
        lambda: rows.selectExpr("id", "transform(a, x -> x + id) AS b"),
    ]
