"""Joins and subqueries."""

from pyspark.sql import functions as F


def _people(spark):
    return spark.createDataFrame(
        [(1, "ann", 10), (2, "bob", 20), (3, "cid", None), (4, "dan", 30)],
        "id INT, name STRING, dept INT",
    )


def _departments(spark):
    return spark.createDataFrame(
        [(10, "dev", 100), (20, "ops", 200), (40, "hr", None), (None, "none", 1)],
        "dept INT, title STRING, budget INT",
    )


def _views(spark):
    _people(spark).createOrReplaceTempView("people")
    _departments(spark).createOrReplaceTempView("departments")


def using_columns(spark):
    left, right = _people(spark), _departments(spark)
    kinds = ["inner", "left", "right", "outer", "left_semi", "left_anti"]
    return [left.join(right, "dept", kind) for kind in kinds]


def on_conditions(spark):
    left, right = _people(spark), _departments(spark)
    condition = left.dept == right.dept
    kinds = ["inner", "left_outer", "right_outer", "full_outer", "leftsemi", "leftanti"]
    return [
        *[left.join(right, condition, kind) for kind in kinds],
        lambda: left.join(right, condition).select(left.dept, right.title),
        lambda: left.join(right, condition).drop(right.dept),
        lambda: left.join(right, [condition, right.budget > 100]),
        lambda: left.join(right, left.dept < right.budget, "left"),
        lambda: left.join(right, left.dept.eqNullSafe(right.dept)),
    ]


def crosses_and_selves(spark):
    left, right = _people(spark), _departments(spark)
    return [
        lambda: left.crossJoin(right).count(),
        lambda: left.crossJoin(right.select("title")).where("id = 1"),
        lambda: left.alias("a").join(left.alias("b"), F.col("a.id") == F.col("b.id") + 1).select("a.name", "b.name"),
        lambda: left.alias("a").join(right.alias("b"), F.col("a.dept") == F.col("b.dept")).select("a.*", "b.title"),
        lambda: left.join(right, ["dept"]).join(left.select("id", F.col("name").alias("again")), "id"),
        lambda: left.join(right, on=["dept"], how="left").groupBy("title").count(),
        lambda: left.join(F.broadcast(right), "dept"),
        lambda: left.join(right.withColumnRenamed("dept", "d"), F.expr("dept = d AND budget > 100"), "left"),
    ]


def in_sql(spark):
    _views(spark)
    queries = [
        "SELECT name, title FROM people JOIN departments ON people.dept = departments.dept",
        "SELECT name, title FROM people p LEFT JOIN departments d ON p.dept = d.dept AND d.budget > 100",
        "SELECT * FROM people RIGHT JOIN departments USING (dept)",
        "SELECT * FROM people FULL OUTER JOIN departments USING (dept)",
        "SELECT * FROM people NATURAL JOIN departments",
        "SELECT name FROM people LEFT SEMI JOIN departments ON people.dept = departments.dept",
        "SELECT name FROM people LEFT ANTI JOIN departments ON people.dept = departments.dept",
        "SELECT count(*) FROM people CROSS JOIN departments",
        "SELECT count(*) FROM people, departments",
        "SELECT a.name, b.name FROM people a, people b WHERE a.id = b.id + 1",
        "SELECT name, t.x FROM people, LATERAL (SELECT id * 2 AS x) t",
        "SELECT name, t.title FROM people p, LATERAL (SELECT title FROM departments d WHERE d.dept = p.dept) t",
        "SELECT name, t.title FROM people p LEFT JOIN LATERAL (SELECT title FROM departments d WHERE d.dept = p.dept) t",
        "SELECT /*+ BROADCAST(d) */ name, title FROM people p JOIN departments d ON p.dept = d.dept",
        "SELECT dept, count(*) FROM people JOIN departments USING (dept) GROUP BY dept",
        "SELECT nope FROM people",
        "SELECT dept FROM people JOIN departments ON people.dept = departments.dept",
    ]
    return [lambda query=query: spark.sql(query) for query in queries]


def subqueries(spark):
    _views(spark)
    queries = [
        "SELECT name FROM people WHERE dept IN (SELECT dept FROM departments)",
        "SELECT name FROM people WHERE dept NOT IN (SELECT dept FROM departments WHERE dept IS NOT NULL)",
        "SELECT name FROM people WHERE dept NOT IN (SELECT dept FROM departments)",
        "SELECT name FROM people p WHERE EXISTS (SELECT 1 FROM departments d WHERE d.dept = p.dept)",
        "SELECT name FROM people p WHERE NOT EXISTS (SELECT 1 FROM departments d WHERE d.dept = p.dept)",
        "SELECT name, (SELECT max(budget) FROM departments) AS m FROM people",
        "SELECT name, (SELECT title FROM departments d WHERE d.dept = p.dept) AS t FROM people p",
        "SELECT name FROM people WHERE id > (SELECT avg(id) FROM people)",
        "SELECT name, dept IN (SELECT dept FROM departments WHERE dept < 15) AS i FROM people WHERE dept IS NOT NULL",
        "SELECT * FROM (SELECT name, dept FROM people WHERE id < 3) q WHERE dept = 10",
        "SELECT title, (SELECT count(*) FROM people p WHERE p.dept = d.dept) AS n FROM departments d",
        "SELECT (SELECT dept FROM departments)",
        "SELECT name FROM people WHERE (id, dept) IN (SELECT 1, 10)",
    ]
    return [lambda query=query: spark.sql(query) for query in queries]


def subqueries_over_the_api(spark):
    left, right = _people(spark), _departments(spark)
    return [
        lambda: left.select("name", right.agg(F.max("budget")).scalar().alias("m")),
        lambda: left.where(left.id > left.agg(F.avg("id")).scalar()).select("name"),
        lambda: left.where(right.where(right.dept == F.col("dept").outer()).exists()).select("name"),
        lambda: left.where(left.dept.isin(right.where("dept IS NOT NULL").select("dept"))).select("name"),
        lambda: left.alias("p").lateralJoin(
            right.where(F.col("p.dept").outer() == F.col("dept")).select("title")
        ).select("name", "title"),
    ]


def common_tables(spark):
    _views(spark)
    queries = [
        "WITH q AS (SELECT id, name FROM people WHERE id < 3) SELECT * FROM q",
        "WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a, b",
        "WITH q (i, n) AS (SELECT id, name FROM people) SELECT n FROM q WHERE i = 1",
        "WITH q AS (SELECT dept FROM people) SELECT count(*) FROM q JOIN q r ON q.dept = r.dept",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
        "SELECT * FROM (WITH q AS (SELECT 1 AS x) SELECT x FROM q)",
    ]
    return [lambda query=query: spark.sql(query) for query in queries]
