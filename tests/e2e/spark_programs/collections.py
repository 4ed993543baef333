"""Arrays, maps and structs."""

from pyspark.sql import Row
from pyspark.sql import functions as F

from .frames import each, over


def _holders(spark):
    return spark.createDataFrame(
        [
            Row(id=1, a=[3, 1, None, 2, 3], m={"x": 1, "y": None}, s=Row(p=1, q="one")),
            Row(id=2, a=[], m={}, s=Row(p=2, q=None)),
            Row(id=3, a=None, m=None, s=None),
        ],
        "id INT, a ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<p: INT, q: STRING>",
    )


def arrays_over_columns(spark):
    rows = _holders(spark)
    a = F.col("a")
    return over(
        rows,
        F.size("a"),
        F.array_size("a"),
        F.cardinality("a"),
        F.sort_array("a"),
        F.sort_array("a", asc=False),
        F.array_sort("a"),
        F.array_distinct("a"),
        F.array_max("a"),
        F.array_min("a"),
        F.array_contains("a", 2),
        F.array_contains("a", 9),
        F.array_position("a", 3),
        F.array_remove("a", 3),
        F.array_compact("a"),
        F.array_append("a", F.lit(9)),
        F.array_prepend("a", F.lit(9)),
        F.array_insert("a", 2, F.lit(9)),
        F.array_union("a", F.array(F.lit(1), F.lit(7))),
        F.array_intersect("a", F.array(F.lit(1), F.lit(7))),
        F.array_except("a", F.array(F.lit(1), F.lit(7))),
        F.arrays_overlap("a", F.array(F.lit(1), F.lit(7))),
        F.arrays_zip("a", F.array(F.lit(1), F.lit(7))),
        F.array_join("a", "-"),
        F.array_join("a", "-", "?"),
        F.reverse("a"),
        F.slice("a", 2, 2),
        F.slice("a", -2, 2),
        F.concat("a", F.array(F.lit(0))),
        F.element_at("a", 1),
        F.try_element_at("a", F.lit(99)),
        F.get("a", 0),
        F.get("a", 99),
        a.getItem(1),
        F.array_repeat("id", 2),
        F.flatten(F.array("a", "a")),
        F.sequence(F.lit(1), "id"),
        F.shuffle(F.array(F.lit(1))),
    )


def arrays_in_sql(spark):
    return each(
        spark,
        "array()",
        "array(1, NULL)",
        "array(1, 'a')",
        "array(array(1), array())",
        "element_at(array(1, 2, 3), -1)",
        "element_at(array(1, 2, 3), 4)",
        "element_at(array(1, 2, 3), 0)",
        "array(1, 2)[0]",
        "array(1, 2)[2]",
        "sequence(1, 5)",
        "sequence(5, 1)",
        "sequence(1, 9, 3)",
        "sequence(DATE'2018-01-01', DATE'2018-03-01', INTERVAL 1 MONTH)",
        "sequence(TIMESTAMP'2018-01-01', TIMESTAMP'2018-01-02', INTERVAL 12 HOURS)",
        "array_repeat('x', 3)",
        "flatten(array(array(1, 2), array(3), NULL))",
        "array_position(array(3, 2, 1), 9)",
        "array_insert(array(1, 2, 3), 5, 9)",
        "array_insert(array(1, 2, 3), -1, 9)",
        "arrays_zip(array(1, 2), array('a'))",
        "array_except(array(1, 1, 2, NULL), array(2))",
        "array_contains(array(1, NULL), 2)",
        "arrays_overlap(array(1, NULL), array(2))",
        "size(NULL)",
        "size(array())",
        "array_size(NULL)",
        "array(1, 2) = array(1, 2)",
        "array(1, 2) < array(1, 3)",
        "concat(array(1), array(2, 3))",
        "slice(array(1, 2, 3), 0, 1)",
        "array_agg(a) FROM VALUES (1), (2) AS t(a)",
        "try_element_at(map('a', 1), 'b')",
    )


def maps_over_columns(spark):
    rows = _holders(spark)
    return over(
        rows,
        F.map_keys("m"),
        F.map_values("m"),
        F.map_entries("m"),
        F.map_contains_key("m", "x"),
        F.size("m"),
        F.element_at("m", "x"),
        F.col("m")["y"],
        F.col("m").getItem("x"),
        F.map_concat("m", F.create_map(F.lit("z"), F.lit(9))),
        F.map_from_entries(F.map_entries("m")),
        F.create_map(F.lit("k"), "id"),
        F.map_from_arrays(F.array(F.lit("a")), F.array("id")),
        F.to_json("m"),
    )


def maps_in_sql(spark):
    return each(
        spark,
        "map('a', 1, 'b', 2)",
        "map()",
        "map('a', 1)['a']",
        "map('a', 1)['b']",
        "map('a', 1, 'a', 2)",
        "map(NULL, 1)",
        "element_at(map('a', 1), 'b')",
        "map_from_arrays(array(1, 2), array('x', 'y'))",
        "map_concat(map(1, 'a'), map(2, 'b'))",
        "map_from_entries(array(struct(1, 'a'), struct(2, 'b')))",
        "map_entries(map(1, 'a'))",
        "str_to_map('a:1,b:2', ',', ':')",
        "str_to_map('a')",
        "map_contains_key(map(1, 'a'), 1)",
        "cardinality(map(1, 'a'))",
        "map(1, 'a') = map(1, 'a')",
    )


def structs(spark):
    rows = _holders(spark)
    s = F.col("s")
    return [
        *over(
            rows,
            s.p,
            s["q"],
            s.getField("p"),
            F.struct("id", s.p),
            F.named_struct(F.lit("x"), "id", F.lit("y"), s.q),
            s.withField("r", F.lit(3)),
            s.withField("p", s.p + 1),
            s.dropFields("p"),
            s.withField("t", F.struct(F.lit(1).alias("u"))).withField("t.v", F.lit(2)),
            F.struct(F.lit(1), F.lit("a").alias("b")),
            F.to_json("s"),
        ),
        lambda: rows.select("s.*"),
        lambda: rows.select("id", "s.p", "s.q"),
        lambda: rows.select(F.struct("*")),
        *each(
            spark,
            "struct(1, 'a')",
            "named_struct('a', 1, 'b', named_struct('c', 2)).b.c",
            "struct(1 AS x, 2 AS y)",
            "(1, 'a')",
            "struct(1, 2) = struct(1, 2)",
            "struct(1, 2) < struct(1, 3)",
        ),
    ]


def generators(spark):
    rows = _holders(spark)
    return [
        lambda: rows.select("id", F.explode("a")),
        lambda: rows.select("id", F.explode_outer("a").alias("e")),
        lambda: rows.select("id", F.posexplode("a")),
        lambda: rows.select("id", F.posexplode_outer("a")),
        lambda: rows.select("id", F.explode("m")),
        lambda: rows.select("id", F.explode_outer("m")),
        lambda: rows.select("id", F.explode("m").alias("k", "v")),
        lambda: rows.select(F.inline(F.array(F.struct("id", F.lit("x").alias("y"))))),
        lambda: rows.select("id", F.inline_outer(F.arrays_zip("a"))),
        lambda: rows.select(F.stack(F.lit(2), "id", F.lit(7), F.lit(8), F.lit(9))),
        lambda: rows.withColumn("e", F.explode("a")),
    ]


def generators_in_sql(spark):
    queries = [
        "SELECT explode(array(1, 2))",
        "SELECT explode(map('a', 1, 'b', 2))",
        "SELECT explode(map('a', 1)) AS (k, v)",
        "SELECT posexplode(array('x', 'y'))",
        "SELECT inline(array(struct(1, 'a'), struct(2, 'b')))",
        "SELECT stack(2, 1, 2, 3)",
        "SELECT * FROM explode(array(1, 2))",
        "SELECT * FROM VALUES (1, array(1, 2)), (2, array()) AS t(id, a) LATERAL VIEW explode(a) x AS e",
        "SELECT id, e FROM VALUES (1, array(1, 2)), (2, array()) AS t(id, a) "
        "LATERAL VIEW OUTER explode(a) x AS e",
        "SELECT id, p, e FROM VALUES (1, array(1, 2)) AS t(id, a) LATERAL VIEW posexplode(a) x AS p, e",
        "SELECT id, col FROM VALUES (1, array(1, 2)) AS t(id, a), LATERAL explode(a)",
        "SELECT * FROM range(3)",
        "SELECT * FROM range(1, 10, 4)",
        "SELECT id * 2 AS d FROM range(2, 4) ORDER BY d",
        "SELECT json_tuple('{\"a\": 1, \"b\": \"x\"}', 'a', 'b')",
    ]
    return [lambda query=query: spark.sql(query) for query in queries]


def grouping_of_collections(spark):
    rows = spark.createDataFrame(
        [("a", 1, [1]), ("a", 1, [1]), ("b", 2, [1, 2]), ("b", None, None)],
        "k STRING, v INT, a ARRAY<INT>",
    )
    return [
        lambda: rows.groupBy("k").agg(F.sort_array(F.collect_list("v"))),
        lambda: rows.groupBy("k").agg(F.sort_array(F.collect_set("v"))),
        lambda: rows.groupBy("a").count(),
        lambda: rows.distinct(),
        lambda: rows.groupBy(F.struct("k", "v")).count(),
        lambda: rows.groupBy("k").agg(F.map_from_entries(F.collect_list(F.struct("v", "a")))).where("k = 'z'"),
    ]
