"""NULL, conditions, and order."""

from pyspark.sql import functions as F

from .frames import each, in_order, over


def _gaps(spark):
    return spark.createDataFrame(
        [(1, None, "x"), (2, 1.5, None), (3, float("nan"), "a"), (None, -1.0, "b")],
        "id INT, d DOUBLE, t STRING",
    )


def three_valued_logic(spark):
    return each(
        spark,
        "NULL AND false",
        "NULL AND true",
        "NULL OR true",
        "NULL OR false",
        "NOT NULL",
        "NULL = NULL",
        "NULL <=> NULL",
        "1 <=> NULL",
        "NULL <> 1",
        "NULL IN (1, 2)",
        "1 IN (2, NULL)",
        "1 IN (1, NULL)",
        "1 NOT IN (2, NULL)",
        "NULL BETWEEN 1 AND 2",
        "true AND NOT false",
        "true IS NOT FALSE",
        "NULL IS UNKNOWN",
        "1 IS DISTINCT FROM NULL",
        "true <> false",
    )


def choosing(spark):
    return each(
        spark,
        "coalesce(NULL, NULL, 3)",
        "coalesce(NULL, 'a')",
        "ifnull(NULL, 1)",
        "nvl(NULL, 1)",
        "nvl2(NULL, 1, 2)",
        "nvl2(1, 'a', 'b')",
        "nullif(1, 1)",
        "nullif(1, 2)",
        "if(NULL, 1, 2)",
        "CASE 1 WHEN 1 THEN 'a' ELSE 'b' END",
        "CASE WHEN 1 > 2 THEN 'a' END",
        "CASE WHEN NULL THEN 1 ELSE 2.5 END",
        "decode(2, 1, 'a', 2, 'b', 'c')",
        "decode(9, 1, 'a')",
        "elt(1, 'a', 'b')",
        "elt(3, 'a', 'b')",
        "isnull(NULL), isnotnull(1)",
        "CASE WHEN true THEN 1 ELSE 'a' END",
    )


def over_columns(spark):
    rows = _gaps(spark)
    return over(
        rows,
        F.coalesce("d", "id"),
        F.nvl("t", F.lit("z")),
        F.nvl2("t", "id", F.lit(0)),
        F.isnan("d"),
        F.isnull("d"),
        F.nanvl("d", F.lit(0.0)),
        F.ifnull("id", F.lit(9)),
        F.when(F.col("id") == 1, "one").when(F.col("id") == 2, "two"),
        F.when(F.col("d").isNull(), 0).otherwise(F.col("d")),
        F.col("id").eqNullSafe(F.col("d")),
        F.col("id") > 1,
        (F.col("id") > 1) & F.col("t").isNotNull(),
        (F.col("id") > 1) | F.col("t").isNull(),
        F.col("id").isin([1, None]),
        F.greatest("id", "d"),
        F.equal_null("id", F.lit(None)),
    )


def sorting(spark):
    rows = _gaps(spark)
    return [
        lambda: in_order(rows.orderBy("id")),
        lambda: in_order(rows.orderBy(F.col("id").desc())),
        lambda: in_order(rows.orderBy(F.col("id").asc_nulls_last())),
        lambda: in_order(rows.orderBy(F.desc_nulls_first("id"))),
        lambda: in_order(rows.orderBy("d")),
        lambda: in_order(rows.orderBy(F.desc("d"))),
        lambda: in_order(rows.sort("t", ascending=False)),
        lambda: in_order(rows.orderBy(["t", "id"], ascending=[True, False])),
        lambda: in_order(rows.orderBy(F.length("t"), "id")),
        lambda: in_order(rows.orderBy(F.lit(1), F.col("id") * -1)),
        lambda: in_order(rows.sortWithinPartitions("id").coalesce(1).orderBy("id")),
    ]


def sorting_in_sql(spark):
    _gaps(spark).createOrReplaceTempView("gaps")
    queries = [
        "SELECT id FROM gaps ORDER BY id",
        "SELECT id FROM gaps ORDER BY id DESC",
        "SELECT id FROM gaps ORDER BY id NULLS LAST",
        "SELECT id, t FROM gaps ORDER BY 2 DESC, 1",
        "SELECT id AS x FROM gaps ORDER BY x",
        "SELECT t FROM gaps ORDER BY id + 1",
        "SELECT id FROM gaps ORDER BY id LIMIT 2",
        "SELECT id FROM gaps ORDER BY id LIMIT 2 OFFSET 1",
        "SELECT id, d, t FROM gaps ORDER BY ALL",
        "SELECT count(*) c, t FROM gaps GROUP BY t ORDER BY c DESC, t",
    ]
    return [lambda query=query: in_order(spark.sql(query)) for query in queries]


def filters(spark):
    rows = _gaps(spark)
    return [
        lambda: rows.where("d > 0"),
        lambda: rows.where(F.col("d") > 0),
        lambda: rows.filter("t IS NULL OR id = 3"),
        lambda: rows.where("id IN (1, 2)"),
        lambda: rows.where("NOT id IN (1, 2)"),
        lambda: rows.where(F.col("t").isin("a", "b") & ~F.col("id").isNull()),
        lambda: rows.where("d = double('NaN')"),
        lambda: rows.where(F.lit(True)),
        lambda: rows.where("id <=> NULL"),
        lambda: rows.where("t LIKE '%'"),
    ]
