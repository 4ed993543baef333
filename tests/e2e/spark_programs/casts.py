"""Casts under ANSI rules, and decimals."""

from decimal import Decimal

from pyspark.sql import functions as F

from .frames import each, over


def texts_to_numbers(spark):
    return each(
        spark,
        "CAST('12' AS INT)",
        "CAST(' 12 ' AS INT)",
        "CAST('12.5' AS INT)",
        "CAST('abc' AS INT)",
        "CAST('' AS INT)",
        "CAST('99999999999' AS INT)",
        "CAST('1e3' AS DOUBLE)",
        "CAST('1.5d' AS DOUBLE)",
        "CAST('Infinity' AS DOUBLE)",
        "CAST('x' AS DOUBLE)",
        "CAST('12.345' AS DECIMAL(5,2))",
        "CAST('12345.6' AS DECIMAL(5,2))",
        "CAST('+5' AS BIGINT)",
        "int('7')",
        "bigint('7')",
        "'5'::INT",
        "'5' + 1",
        "'5' * '2'",
        "'x' + 1",
    )


def numbers_to_numbers(spark):
    return each(
        spark,
        "CAST(300 AS TINYINT)",
        "CAST(3000000000 AS INT)",
        "CAST(1.9D AS INT)",
        "CAST(-1.9D AS INT)",
        "CAST(1e20D AS BIGINT)",
        "CAST(double('NaN') AS INT)",
        "CAST(1.99 AS INT)",
        "CAST(123.456 AS DECIMAL(4,1))",
        "CAST(123.456 AS DECIMAL(3,1))",
        "CAST(1 AS DOUBLE)",
        "CAST(16777217 AS FLOAT)",
        "CAST(true AS INT)",
        "CAST(0 AS BOOLEAN)",
        "CAST(2 AS BOOLEAN)",
        "CAST(1.5 AS STRING)",
        "CAST(1.0D AS STRING)",
        "CAST(1.5F AS STRING)",
        "CAST(100 AS DECIMAL(2,0))",
    )


def lenient_casts(spark):
    return each(
        spark,
        "try_cast('abc' AS INT)",
        "try_cast(300 AS TINYINT)",
        "try_cast('2020-13-01' AS DATE)",
        "try_cast('x' AS BOOLEAN)",
        "try_cast('12.5' AS DECIMAL(2,1))",
        "try_cast(array('1', 'x') AS ARRAY<INT>)",
        "try_cast('1' AS INT)",
        "try_to_binary('zz', 'hex')",
    )


def times(spark):
    return each(
        spark,
        "CAST('2020-01-01' AS DATE)",
        "CAST('2020-1-1' AS DATE)",
        "CAST('2020-01-01 10:00' AS TIMESTAMP)",
        "CAST('2020-01-01T10:00:00Z' AS TIMESTAMP)",
        "CAST('nope' AS TIMESTAMP)",
        "CAST('nope' AS DATE)",
        "CAST(0 AS TIMESTAMP)",
        "CAST(1.5D AS TIMESTAMP)",
        "CAST(TIMESTAMP'1970-01-01 00:00:01.9' AS BIGINT)",
        "CAST(TIMESTAMP'1970-01-01 00:00:01.5' AS DOUBLE)",
        "CAST(DATE'2020-01-01' AS TIMESTAMP)",
        "CAST(DATE'2020-01-01' AS INT)",
        "CAST(1 AS DATE)",
        "CAST('epoch' AS TIMESTAMP)",
    )


def booleans_and_binaries(spark):
    return each(
        spark,
        "CAST('yes' AS BOOLEAN)",
        "CAST('f' AS BOOLEAN)",
        "CAST('maybe' AS BOOLEAN)",
        "CAST(true AS STRING)",
        "CAST('abc' AS BINARY)",
        "CAST(X'616263' AS STRING)",
        "CAST(1 AS BINARY)",
        "to_binary('616263', 'hex')",
        "to_binary('abc', 'utf-8')",
        "boolean('true')",
        "string(1)",
        "binary('a')",
        "X'1F2e'",
    )


def nested(spark):
    return each(
        spark,
        "CAST(array('1', '2') AS ARRAY<INT>)",
        "CAST(array('1', 'x') AS ARRAY<INT>)",
        "CAST(map('a', '1') AS MAP<STRING, INT>)",
        "CAST(named_struct('a', '1') AS STRUCT<b: INT>)",
        "CAST(array(1, NULL) AS STRING)",
        "CAST(map('a', 1) AS STRING)",
        "CAST(named_struct('a', 1, 'b', NULL) AS STRING)",
        "CAST(array(array(1), array()) AS STRING)",
        "CAST(NULL AS ARRAY<INT>)",
        "CAST(1 AS ARRAY<INT>)",
        "CAST('a' AS VARCHAR(3))",
        "CAST('abcd' AS CHAR(3))",
    )


def over_columns(spark):
    rows = spark.createDataFrame(
        [(1, "10", 1.5), (2, None, 2.7), (3, "30", None)], "id INT, t STRING, d DOUBLE"
    )
    return over(
        rows,
        F.col("t").cast("int"),
        F.col("d").cast("int"),
        F.col("d").cast("decimal(10,1)"),
        F.col("id").cast("boolean"),
        F.col("id").cast("timestamp"),
        F.col("id").astype("string"),
        F.col("t").try_cast("date"),
        F.col("t") + F.col("id"),
        F.col("t") > F.col("id"),
        F.col("t") == F.col("id"),
        F.col("t").isin(10, 30),
        F.coalesce("t", "id"),
        F.when(F.col("id") > 1, F.col("d")).otherwise(F.col("id")),
        F.array("id", "d"),
    )


def failing_over_columns(spark):
    rows = spark.createDataFrame([(1, "10"), (0, "x")], "id INT, t STRING")
    return [
        lambda: rows.select(F.col("t").cast("int")),
        lambda: rows.select(F.lit(1) / F.col("id")),
        lambda: rows.select(F.col("t").cast("date")),
        lambda: rows.select(F.expr("element_at(array(1), id + 5)")),
        lambda: rows.select(F.expr("array(1)[id + 5]")),
        lambda: rows.select(F.col("id") + F.lit(2147483647)),
        lambda: rows.select(F.raise_error(F.lit("stop here"))),
        lambda: rows.select(F.assert_true(F.col("id") > 0)),
        lambda: rows.select(F.assert_true(F.col("id") >= 0)),
        lambda: rows.where("t = 1"),
    ]


def decimals(spark):
    return each(
        spark,
        "1.5 + 2.25",
        "1.5 - 2.25",
        "1.5 * 2.25",
        "1.5 / 2.25",
        "CAST(1 AS DECIMAL(10,2)) / 3",
        "CAST(10 AS DECIMAL(38,0)) * CAST(10 AS DECIMAL(38,0))",
        "CAST(1 AS DECIMAL(38,18)) / CAST(3 AS DECIMAL(38,18))",
        "CAST('99999999999999999999999999999999999999' AS DECIMAL(38,0)) + 1",
        "try_add(CAST('99999999999999999999999999999999999999' AS DECIMAL(38,0)), 1)",
        "1.5 + 1",
        "1.5 + 1L",
        "1.5 + 1D",
        "1.5 % 0.4",
        "5.0 DIV 2",
        "-1.50",
        "abs(-1.50)",
        "1.50 = 1.5",
        "1.10BD",
        "round(2.345, 2)",
        "CAST(2.345 AS DECIMAL(10,2))",
        "ceil(2.345)",
        "floor(-2.345)",
        "greatest(1.5, 2.55)",
        "coalesce(1.5, 2)",
        "1.5 > 1",
        "12345678901234567890.12",
        "sum(a) FROM VALUES (1.5), (2.25) AS t(a)",
        "avg(a) FROM VALUES (1.5), (2.25) AS t(a)",
        "sum(a) FROM VALUES (CAST(1.5 AS DECIMAL(30,10))) AS t(a)",
        "CAST(1.5 AS DECIMAL(4,2)) UNION ALL SELECT CAST(2 AS DECIMAL(10,0))",
    )


def decimals_over_columns(spark):
    rows = spark.createDataFrame(
        [(Decimal("1.50"), Decimal("3.000"), 2), (Decimal("-7.25"), None, 3)],
        "a DECIMAL(5,2), b DECIMAL(10,3), i INT",
    )
    return [
        *over(
            rows,
            F.col("a") + F.col("b"),
            F.col("a") - F.col("b"),
            F.col("a") * F.col("b"),
            F.col("a") / F.col("b"),
            F.col("a") % F.col("b"),
            F.col("a") / F.col("i"),
            F.col("a") * F.col("i"),
            F.col("a") + F.lit(1),
            F.col("a") * F.lit(Decimal("2.5")),
            F.round("a", 1),
            F.bround("a"),
            F.ceil("a"),
            F.floor("a"),
            F.abs("a"),
            -F.col("a"),
            F.col("a").cast("string"),
            F.col("a").cast("int"),
            F.col("a").cast("double"),
            F.sqrt("a"),
            F.greatest("a", "b"),
            F.col("a") > F.col("i"),
        ),
        lambda: rows.agg(F.sum("a"), F.avg("a"), F.min("a"), F.max("b"), F.sum("b"), F.avg("b")),
        lambda: rows.groupBy("a").agg(F.count("b")),
    ]
