"""Texts of SQL: statements, parameters, types of rows."""

import datetime
from decimal import Decimal

from pyspark.sql import Row
from pyspark.sql import functions as F

from .frames import each, in_order


def parameters(spark):
    return [
        lambda: spark.sql("SELECT :a + 1 AS v", args={"a": 1}),
        lambda: spark.sql("SELECT * FROM VALUES (1, 'x'), (2, 'y') AS t(i, s) WHERE s = :s", args={"s": "y"}),
        lambda: spark.sql("SELECT ? AS a, ? AS b", args=[1.5, "it's"]),
        lambda: spark.sql("SELECT :d AS d", args={"d": datetime.date(2020, 1, 2)}),
        lambda: spark.sql("SELECT array_contains(:a, 2) AS v", args={"a": F.array(F.lit(1), F.lit(2))}),
        lambda: spark.sql("SELECT :nope", args={"a": 1}),
        lambda: spark.sql("SELECT :a AS v", args={"a": None}),
        lambda: spark.sql("SELECT :t AS v", args={"t": datetime.datetime(2020, 1, 2, 3, 4, 5)}),
        lambda: spark.sql("SELECT IDENTIFIER(:c) FROM VALUES (1) AS t(x)", args={"c": "x"}),
    ]


def rows_of_values(spark):
    queries = [
        "VALUES (1, 'a'), (2, 'b')",
        "SELECT * FROM VALUES (1, 2), (3, 4)",
        "SELECT * FROM VALUES (1), (NULL), (2.5) AS t(x)",
        "SELECT * FROM VALUES 1, 2, 3 AS t(x)",
        "SELECT x + 1 FROM (VALUES (1), (2)) AS t(x)",
        "SELECT * FROM VALUES ('a', array(1), named_struct('b', 1)) AS t(x, y, z)",
    ]
    return [lambda query=query: spark.sql(query) for query in queries]


def projections(spark):
    spark.createDataFrame([(1, "a", 2), (3, "b", 4)], "x INT, y STRING, z INT").createOrReplaceTempView("t3")
    queries = [
        "SELECT * FROM t3",
        "SELECT t3.* FROM t3",
        "SELECT X, Y FROM T3",
        "SELECT * EXCEPT (y) FROM t3",
        "SELECT x AS a, x + z AS b, y FROM t3 WHERE x + z > 3",
        "SELECT DISTINCT y FROM t3",
        "SELECT x, x AS x FROM t3",
        "SELECT `x` FROM `t3`",
        "SELECT x FROM t3 WHERE y = 'a' OR (x > 1 AND NOT y LIKE 'a%')",
        "SELECT CASE y WHEN 'a' THEN x ELSE z END AS c FROM t3",
        "SELECT x a, z AS `b c` FROM t3",
        "SELECT x + 1 AS a, a + 1 AS b FROM t3",
        "FROM t3 SELECT x",
        "SELECT x FROM t3 LIMIT 1 OFFSET 1",
        "TABLE t3",
        "SELECT -- a comment\n x /* another */ FROM t3",
        "SELECT 'it''s' AS q, \"double\" AS d, 'tab\\t' AS t, r'raw\\n' AS r",
        "SELECT count(*) FROM t3 TABLESAMPLE (100 PERCENT)",
        "SELECT 1 AS a, 1L AS b, 1S AS c, 1Y AS d, 1.0 AS e, 1D AS f, 1F AS g, 1BD AS h, 1e2 AS i",
        "SELECT * FROM t3 |> WHERE x > 1 |> SELECT y",
        "SELECT x FROM nowhere",
        "SELEC 1",
        "SELECT x FROM t3 WHERE nofunction(x) > 1",
        "SELECT sum(x) FROM t3 WHERE sum(x) > 1",
        "SELECT upper(x, y) FROM t3",
        "SELECT x + y FROM t3 WHERE x = 99",
        "SELECT x FROM t3 WHERE x",
        "SELECT 1 + true",
    ]
    return [lambda query=query: spark.sql(query) for query in queries]


def commands(spark):
    return [
        lambda: spark.sql("CREATE OR REPLACE TEMP VIEW v1 AS SELECT 1 AS a, 'x' AS b"),
        lambda: spark.sql("SELECT * FROM v1"),
        lambda: spark.sql("DESCRIBE v1"),
        lambda: spark.sql("DESC TABLE v1"),
        lambda: spark.sql("SHOW COLUMNS IN v1"),
        lambda: spark.sql("CREATE TEMP VIEW v1 AS SELECT 2"),
        lambda: spark.sql("SET spark.sql.shuffle.partitions=7"),
        lambda: spark.sql("SET spark.sql.shuffle.partitions"),
        lambda: spark.conf.get("spark.sql.shuffle.partitions"),
        lambda: spark.sql("DROP VIEW v1"),
        lambda: spark.sql("DROP VIEW v1"),
        lambda: spark.sql("DROP VIEW IF EXISTS v1"),
        lambda: spark.sql("SHOW DATABASES"),
        lambda: spark.sql("SELECT current_database(), current_catalog()"),
        lambda: spark.sql("DESCRIBE QUERY SELECT 1 AS a, 'x' AS b"),
        lambda: spark.sql("SHOW FUNCTIONS LIKE 'upper'"),
        lambda: spark.catalog.currentDatabase(),
        lambda: spark.sql("USE default"),
        lambda: spark.sql("RESET spark.sql.shuffle.partitions"),
        lambda: spark.sql("SHOW VIEWS LIKE 'v9*'"),
        lambda: spark.sql("DECLARE OR REPLACE VARIABLE seven INT DEFAULT 7"),
        lambda: spark.sql("SELECT seven + 1 AS v"),
    ]


def types_of_rows(spark):
    utc = datetime.timezone.utc
    rows = spark.createDataFrame(
        [
            (
                1, 2, 3, 4, 1.5, 2.5, Decimal("3.50"), "t", b"\x00\xff", True, datetime.date(2020, 1, 2),
                datetime.datetime(2020, 1, 2, 3, 4, 5, 6, utc), datetime.datetime(2020, 1, 2, 3, 4, 5),
                datetime.timedelta(days=1, microseconds=5), [1, None], {"a": 1.5}, Row(x=1, y=[Row(z="q")]), None,
            ),
            tuple([None] * 18),
        ],
        "a TINYINT, b SMALLINT, c INT, d BIGINT, e FLOAT, f DOUBLE, g DECIMAL(10,2), h STRING, i BINARY, "
        "j BOOLEAN, k DATE, l TIMESTAMP, m TIMESTAMP_NTZ, n INTERVAL DAY TO SECOND, o ARRAY<INT>, "
        "p MAP<STRING, DOUBLE>, q STRUCT<x: INT, y: ARRAY<STRUCT<z: STRING>>>, r VOID",
    )
    return [rows, lambda: rows.select("g", "q.x", "q.y", F.col("o")[0]), lambda: rows.distinct().count(), lambda: rows.union(rows).count()]


def inferred_types(spark):
    import pandas as pd

    return [
        lambda: spark.createDataFrame([(1, "a", 1.5, True)], ["i", "s", "f", "b"]),
        lambda: spark.createDataFrame([{"a": 1, "b": "x"}, {"a": 2}]),
        lambda: spark.createDataFrame([Row(x=[1, 2], y={"k": 1}, z=Row(q=1))]),
        lambda: spark.createDataFrame([1, 2, 3], "int"),
        lambda: spark.createDataFrame(["a", "b"], "string"),
        lambda: spark.createDataFrame([(1,), (2,)], "a: int"),
        lambda: spark.createDataFrame(pd.DataFrame({"i": [1, 2], "f": [0.5, None], "s": ["a", None]})),
        lambda: spark.createDataFrame([(datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 1, 1, 1))], ["d", "t"]),
        lambda: spark.createDataFrame([(Decimal("1.5"), b"x", datetime.timedelta(1))], ["d", "b", "i"]),
        lambda: spark.createDataFrame([], "a INT, b STRING"),
        lambda: spark.createDataFrame([("x",)], "a INT"),
    ]


def to_pandas_and_arrow(spark):
    rows = spark.createDataFrame(
        [(1, "a", 1.5, [1], datetime.date(2020, 1, 1)), (2, None, None, None, None)],
        "i INT, s STRING, f DOUBLE, a ARRAY<INT>, d DATE",
    )
    frame = rows.orderBy("i").toPandas()
    table = rows.orderBy("i").toArrow()
    return [
        lambda: [str(kind) for kind in frame.dtypes],
        lambda: frame["i"].tolist(),
        lambda: table.column_names,
        lambda: [str(field.type) for field in table.schema],
        lambda: table.column("s").to_pylist(),
    ]


def files(spark):
    import shutil
    import tempfile

    folder = tempfile.mkdtemp()
    rows = spark.createDataFrame([(1, "a", 1.5), (2, None, 2.5)], "i INT, s STRING, d DOUBLE")
    found = []
    try:
        for kind in ["parquet", "json", "csv"]:
            rows.write.format(kind).mode("overwrite").save(f"{folder}/{kind}")
            read = spark.read.schema("i INT, s STRING, d DOUBLE").format(kind).load(f"{folder}/{kind}")
            found.append([tuple(row) for row in read.orderBy("i").collect()])
        rows.write.option("header", True).csv(f"{folder}/header")
        read = spark.read.csv(f"{folder}/header", header=True, inferSchema=True).orderBy("i")
        found.append([read.schema.simpleString(), [tuple(row) for row in read.collect()]])
        rows.select("s").na.drop().write.text(f"{folder}/text")
        found.append([row.value for row in spark.read.text(f"{folder}/text").collect()])
        rows.write.partitionBy("i").parquet(f"{folder}/parts")
        read = spark.read.parquet(f"{folder}/parts").orderBy("i")
        found.append([read.schema.simpleString(), [tuple(row) for row in read.collect()]])
        read = spark.read.json(f"{folder}/json").orderBy("i")
        found.append([read.schema.simpleString(), [tuple(row) for row in read.collect()]])
    finally:
        shutil.rmtree(folder)
    return found


def predicates_of_frames(spark):
    left = spark.createDataFrame([(1, "a")], "x INT, y STRING")
    return [
        lambda: left.sameSemantics(left),
        lambda: left.schema.json(),
        lambda: left.schema["x"].dataType.simpleString(),
        lambda: left.select(F.lit(1).alias("a"), F.lit("b").alias("b")).schema.simpleString(),
        lambda: left.storageLevel.useMemory in (True, False),
        lambda: "x" in left.columns,
        lambda: in_order(left.orderBy("x")),
    ]


def various(spark):
    return each(
        spark,
        "version() LIKE '4.%'",
        "typeof(current_user())",
        "typeof(uuid())",
        "rand(1) < 1",
        "typeof(randn(1))",
        "typeof(monotonically_increasing_id())",
        "spark_partition_id() >= 0",
        "input_file_name()",
        "typeof(current_timestamp())",
        "assert_true(true)",
        "assert_true(false)",
        "raise_error('custom')",
        "bit_length('abc')",
        "aes_decrypt(aes_encrypt('Spark', '0000111122223333'), '0000111122223333') = CAST('Spark' AS BINARY)",
        "typeof(from_json('{}', 'a INT'))",
        "xpath_string('<a><b>b</b></a>', 'a/b')",
        "xpath('<a><b>1</b><b>2</b></a>', 'a/b/text()')",
        "from_xml('<p><a>1</a></p>', 'a INT')",
        "to_xml(named_struct('a', 1))",
        "bitmap_bucket_number(123)",
        "version() IS NOT NULL",
    )
