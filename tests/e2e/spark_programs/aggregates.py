"""Groups and aggregates."""

from pyspark.sql import functions as F

from .frames import each, in_order


def _sales(spark):
    return spark.createDataFrame(
        [
            ("north", "a", 2023, 10, 1.5),
            ("north", "b", 2023, 20, 2.5),
            ("north", "a", 2024, 30, None),
            ("south", "a", 2023, None, 4.0),
            ("south", "b", 2024, 50, 5.0),
            (None, "b", 2024, 60, 6.0),
        ],
        "region STRING, item STRING, year INT, amount INT, price DOUBLE",
    )


def simple(spark):
    rows = _sales(spark)
    return [
        lambda: rows.groupBy("region").count(),
        lambda: rows.groupBy("region").sum("amount"),
        lambda: rows.groupBy("region").avg("amount", "price"),
        lambda: rows.groupBy("region").max(),
        lambda: rows.groupBy("region", "item").agg({"amount": "sum", "price": "max"}),
        lambda: rows.groupBy().sum(),
        lambda: rows.agg(F.count("*"), F.count("amount"), F.count_distinct("item")),
        lambda: rows.agg(F.min("amount"), F.max("amount"), F.mean("amount")),
        lambda: rows.groupBy(F.col("year") % 2).agg(F.sum("amount").alias("s")),
        lambda: rows.groupBy("item").agg(F.sum(F.col("amount") * F.col("price"))),
        lambda: rows.groupBy("region").agg(F.sum("amount") / F.count("*")),
        lambda: rows.groupBy(F.upper("region").alias("r")).agg(F.min("item")),
        lambda: rows.where("amount > 1000").agg(F.sum("amount"), F.count("*"), F.avg("price")),
        lambda: rows.where("amount > 1000").groupBy("item").count(),
        lambda: rows.count(),
    ]


def statistics(spark):
    rows = _sales(spark)
    return [
        lambda: rows.agg(F.stddev("price"), F.stddev_pop("price"), F.variance("price"), F.var_pop("price")),
        lambda: rows.agg(F.corr("amount", "price"), F.covar_pop("amount", "price"), F.covar_samp("amount", "price")),
        lambda: rows.agg(F.skewness("price"), F.kurtosis("price")),
        lambda: rows.agg(F.median("amount"), F.mode("item")),
        lambda: rows.agg(F.percentile("amount", 0.25), F.percentile("amount", [0.5, 0.75])),
        lambda: rows.agg(F.percentile_approx("amount", 0.5)),
        lambda: rows.agg(F.percentile_approx("amount", [0.25, 0.5], 100)),
        lambda: rows.agg(F.approx_count_distinct("item")),
        lambda: rows.agg(F.sum_distinct("year"), F.product("year")),
        lambda: rows.agg(F.regr_slope("amount", "price"), F.regr_intercept("amount", "price"), F.regr_r2("amount", "price")),
        lambda: rows.agg(F.regr_count("amount", "price"), F.regr_avgx("amount", "price"), F.regr_avgy("amount", "price")),
        lambda: rows.agg(F.regr_sxx("amount", "price"), F.regr_sxy("amount", "price"), F.regr_syy("amount", "price")),
        lambda: rows.where("amount = 10").agg(F.stddev("price"), F.variance("price"), F.skewness("price")),
    ]


def choosing_rows(spark):
    rows = _sales(spark)
    return [
        lambda: rows.agg(F.max_by("item", "amount"), F.min_by("item", "amount")),
        lambda: rows.groupBy("region").agg(F.max_by("item", "amount")),
        lambda: rows.orderBy("year", "item", "region").coalesce(1).agg(F.first("amount"), F.last("region", ignorenulls=True)),
        lambda: rows.agg(F.any_value("year") > 2000),
        lambda: rows.groupBy("item").agg(F.sort_array(F.collect_set("region")), F.sort_array(F.collect_list("amount"))),
        lambda: rows.agg(F.bool_and(F.col("year") > 2000), F.bool_or(F.col("amount") > 55), F.every(F.col("year") > 2023)),
        lambda: rows.agg(F.some(F.col("year") > 2023), F.count_if(F.col("amount") > 15)),
        lambda: rows.agg(F.bit_and("year"), F.bit_or("year"), F.bit_xor("year")),
        lambda: rows.groupBy("region").agg(F.listagg("item", ",").alias("l")).where("region IS NULL"),
        lambda: rows.agg(F.array_sort(F.array_agg("amount"))),
        lambda: rows.agg(F.histogram_numeric("amount", F.lit(3))),
    ]


def several_levels(spark):
    rows = _sales(spark)
    return [
        lambda: rows.rollup("region", "item").agg(F.sum("amount").alias("s")),
        lambda: rows.cube("region", "item").agg(F.count("*").alias("n")),
        lambda: rows.rollup("region").agg(F.grouping("region"), F.grouping_id(), F.sum("amount")),
        lambda: rows.cube("region", "year").agg(F.grouping_id().alias("g"), F.max("price")),
        lambda: rows.groupingSets([["region"], ["item"], []], "region", "item").agg(F.sum("amount").alias("s")),
        lambda: rows.rollup(F.col("year") % 10).count(),
    ]


def several_levels_in_sql(spark):
    _sales(spark).createOrReplaceTempView("sales")
    queries = [
        "SELECT region, item, sum(amount) FROM sales GROUP BY region, item WITH ROLLUP",
        "SELECT region, item, sum(amount) FROM sales GROUP BY CUBE (region, item)",
        "SELECT region, item, sum(amount), grouping(region), grouping_id() FROM sales GROUP BY ROLLUP (region, item)",
        "SELECT region, item, count(*) FROM sales GROUP BY GROUPING SETS ((region), (item), ())",
        "SELECT region, sum(amount) FROM sales GROUP BY region HAVING sum(amount) > 50",
        "SELECT region, sum(amount) AS s FROM sales GROUP BY 1 HAVING s > 50",
        "SELECT upper(region) AS r, count(*) FROM sales GROUP BY r",
        "SELECT item, sum(amount) FILTER (WHERE year = 2023) AS s FROM sales GROUP BY item",
        "SELECT item, count(DISTINCT region, year) FROM sales GROUP BY item",
        "SELECT region, item FROM sales GROUP BY ALL",
        "SELECT region, sum(amount) FROM sales GROUP BY ALL",
        "SELECT sum(amount), sum(DISTINCT year), avg(DISTINCT year) FROM sales",
        "SELECT max(struct(amount, item)) FROM sales",
        "SELECT item, amount FROM sales GROUP BY item",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM sales",
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY amount) FROM sales",
        "SELECT listagg(item, ',') WITHIN GROUP (ORDER BY item) FROM sales",
        "SELECT string_agg(DISTINCT item) FROM sales WHERE item = 'a'",
    ]
    return [lambda query=query: spark.sql(query) for query in queries]


def pivots(spark):
    rows = _sales(spark)
    return [
        lambda: rows.groupBy("region").pivot("item").sum("amount"),
        lambda: rows.groupBy("region").pivot("item", ["a", "b"]).agg(F.sum("amount").alias("s"), F.max("price").alias("m")),
        lambda: rows.groupBy("region").pivot("year", [2023, 2024]).agg(F.sum("amount")),
        lambda: rows.groupBy("region").pivot("year").count(),
        lambda: rows.groupBy("item").pivot("region", ["north"]).agg(F.avg("price")),
    ]


def pivots_in_sql(spark):
    _sales(spark).createOrReplaceTempView("sales")
    queries = [
        "SELECT * FROM (SELECT region, item, amount FROM sales) PIVOT (sum(amount) FOR item IN ('a', 'b'))",
        "SELECT * FROM (SELECT region, year, amount FROM sales) PIVOT (sum(amount) AS s FOR year IN (2023 AS y3, 2024 AS y4))",
        "SELECT * FROM (SELECT region, amount, year FROM sales) UNPIVOT (v FOR n IN (amount, year))",
        "SELECT * FROM (SELECT region, amount, year FROM sales) UNPIVOT INCLUDE NULLS (v FOR n IN (amount AS a, year AS y))",
    ]
    return [lambda query=query: spark.sql(query) for query in queries]


def of_literals(spark):
    return each(
        spark,
        "count(*) FROM VALUES (1), (NULL) AS t(a)",
        "count(a) FROM VALUES (1), (NULL) AS t(a)",
        "count(a, b) FROM VALUES (1, 2), (NULL, 3) AS t(a, b)",
        "sum(a) FROM VALUES (NULL), (NULL) AS t(a)",
        "avg(a) FROM VALUES (1), (2), (NULL) AS t(a)",
        "mean(a) FROM VALUES (1), (2) AS t(a)",
        "first(a, true) FROM VALUES (NULL), (2) AS t(a)",
        "collect_list(a) FROM VALUES (1), (NULL), (1) AS t(a)",
        "collect_set(a) FROM VALUES (1), (NULL), (1) AS t(a)",
        "std(a) FROM VALUES (1), (3) AS t(a)",
        "max(a) FROM VALUES ('a'), ('B') AS t(a)",
        "max(a) FROM VALUES (array(1, 2)), (array(1, 3)) AS t(a)",
        "min(a) FROM VALUES (true), (false) AS t(a)",
        "mode(a) FROM VALUES (1), (1), (2) AS t(a)",
        "median(a) FROM VALUES (1), (2), (4), (9) AS t(a)",
        "percentile(a, 0.3) FROM VALUES (0), (10) AS t(a)",
        "approx_percentile(a, 0.5, 100) FROM VALUES (0), (1), (2), (10) AS t(a)",
        "count_min_sketch(a, 0.5D, 0.5D, 1) IS NOT NULL FROM VALUES (1) AS t(a)",
        "hll_sketch_estimate(hll_sketch_agg(a)) FROM VALUES (1), (1), (2) AS t(a)",
        "bitmap_count(bitmap_construct_agg(bitmap_bit_position(a))) FROM VALUES (1), (2) AS t(a)",
        "bool_and(a), bool_or(a) FROM VALUES (true), (NULL) AS t(a)",
        "max_by(a, b) FROM VALUES ('a', 10), ('b', 50), ('c', 20) AS t(a, b)",
        "sum(a) FROM VALUES (1.5F), (2.5F) AS t(a)",
        "sum(a) FROM VALUES ('1'), ('2') AS t(a)",
        "any(a), some(a), every(a) FROM VALUES (true), (false) AS t(a)",
        "array_sort(array_agg(DISTINCT a)) FROM VALUES (2), (1), (2) AS t(a)",
        "min_by(a, b) FROM VALUES ('a', NULL), ('b', 50) AS t(a, b)",
        "try_sum(a) FROM VALUES (1), (2) AS t(a)",
    )


def ordered_groups(spark):
    rows = _sales(spark)
    return [
        lambda: in_order(rows.groupBy("item").agg(F.sum("amount").alias("s")).orderBy("s")),
        lambda: in_order(rows.groupBy("item").count().orderBy(F.desc("count"), "item")),
        lambda: in_order(rows.groupBy("year").agg(F.avg("amount")).orderBy("year").limit(1)),
        lambda: in_order(rows.groupBy("region").count().where("count > 1").orderBy("region")),
    ]
