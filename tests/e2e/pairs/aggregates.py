"""Every aggregate, over groups that come again in later batches."""

from pyspark.sql import functions as F

from pairs.program import events, program, table

NUMBERS = (
    events("0:01 a 4, 0:02 a 1, 0:03 b 7, 0:04 b -"),
    events("0:05 a 9, 0:06 c -, 0:07 a 1"),
    events("0:08 b 2, 0:09 c 3, 0:10 - 5, 0:11 - 5"),
)


def grouped(inputs, *aggregates):
    return inputs.stream().groupBy("k").agg(*aggregates)


@program(*NUMBERS, mode="update")
def count_sum_avg_min_max(spark, inputs):
    return grouped(
        inputs,
        F.count("*").alias("n"),
        F.count("v").alias("nv"),
        F.sum("v").alias("s"),
        F.avg("v").alias("m"),
        F.min("v").alias("least"),
        F.max("v").alias("most"),
        F.max("ts").alias("last"),
        F.min("k").alias("key"),
    )


@program(*NUMBERS, mode="update")
def first_and_last(spark, inputs):
    return grouped(
        inputs,
        F.first("v").alias("first"),
        F.last("v").alias("last"),
        F.first("v", ignorenulls=True).alias("first_known"),
        F.last("v", ignorenulls=True).alias("last_known"),
        F.any_value("v", F.lit(True)).alias("some"),
    )


@program(*NUMBERS, mode="update")
def approximate_count_of_distinct(spark, inputs):
    return grouped(inputs, F.approx_count_distinct("v").alias("n"))


@program(*NUMBERS, mode="complete")
def lists_and_sets(spark, inputs):
    return grouped(
        inputs,
        F.collect_list("v").alias("all"),
        F.array_sort(F.collect_set("v")).alias("different"),
    )


@program(*NUMBERS, mode="update")
def deviations_and_variances(spark, inputs):
    return grouped(
        inputs,
        F.stddev("v").alias("sd"),
        F.stddev_pop("v").alias("sdp"),
        F.variance("v").alias("var"),
        F.var_pop("v").alias("varp"),
    )


@program(*NUMBERS, mode="complete")
def correlations(spark, inputs):
    stream = inputs.stream().selectExpr("k", "v * 1.0D AS x", "second(ts) * 1.0D AS y")
    return stream.groupBy().agg(
        F.corr("x", "y").alias("corr"),
        F.covar_samp("x", "y").alias("cov"),
        F.covar_pop("x", "y").alias("covp"),
    )


@program(*NUMBERS, mode="update")
def percentiles(spark, inputs):
    return grouped(
        inputs,
        F.percentile_approx("v", 0.5).alias("half"),
        F.percentile_approx("v", [0.0, 0.25, 1.0], 100).alias("several"),
    )


@program(*NUMBERS, mode="update")
def any_and_every(spark, inputs):
    return grouped(
        inputs,
        F.bool_or(F.col("v") > 5).alias("some"),
        F.bool_and(F.col("v") > 1).alias("all"),
        F.expr("any(v > 8)").alias("any"),
        F.expr("every(v > 0)").alias("every"),
        F.count_if(F.col("v") > 3).alias("counted"),
    )


@program(*NUMBERS, mode="update")
def min_by_and_max_by(spark, inputs):
    return grouped(
        inputs,
        F.min_by("ts", "v").alias("at_least"),
        F.max_by("ts", "v").alias("at_most"),
        F.max_by("v", "ts").alias("newest"),
    )


@program(*NUMBERS, mode="complete")
def bits(spark, inputs):
    return grouped(
        inputs,
        F.bit_and("v").alias("and"),
        F.bit_or("v").alias("or"),
        F.bit_xor("v").alias("xor"),
    )


@program(*NUMBERS, mode="update")
def aggregates_of_a_part_of_the_rows(spark, inputs):
    inputs.stream().createOrReplaceTempView("part_of_rows")
    return spark.sql(
        "SELECT k, count(*) FILTER (WHERE v > 3) AS n, sum(v) FILTER (WHERE v < 9) AS s, "
        "max(v) FILTER (WHERE false) AS none FROM part_of_rows GROUP BY k"
    )


@program(*NUMBERS, mode="update")
def groups_that_have_something(spark, inputs):
    inputs.stream().createOrReplaceTempView("having_rows")
    return spark.sql(
        "SELECT k, count(*) AS n FROM having_rows GROUP BY k HAVING sum(v) >= 9 OR k IS NULL"
    )


@program(*NUMBERS, mode="update")
def rollup_of_two_keys(spark, inputs):
    return inputs.stream().where("v IS NULL OR v < 9").rollup("k", "v").count()


@program(*NUMBERS, mode="complete")
def cube_of_two_keys(spark, inputs):
    return inputs.stream().where("v IS NULL OR v < 9").cube("k", "v").count()


@program(*NUMBERS, mode="complete")
def one_group_in_complete(spark, inputs):
    return inputs.stream().agg(F.count("*").alias("n"), F.sum("v").alias("s"))


@program(*NUMBERS, mode="update")
def one_group_in_update(spark, inputs):
    return inputs.stream().where("k = 'c'").agg(F.count("*").alias("n"), F.sum("v").alias("s"))


@program(*NUMBERS, mode="complete")
def one_group_of_nothing(spark, inputs):
    return inputs.stream().where("v > 100").agg(F.count("*").alias("n"), F.max("v").alias("m"))


@program(*NUMBERS, mode="update")
def expressions_around_aggregates(spark, inputs):
    key = F.concat(F.coalesce("k", F.lit("?")), F.lit("!")).alias("key")
    return inputs.stream().groupBy(key).agg(
        (F.sum("v") * 2 + F.count("*")).alias("x"), F.expr("max(v) - min(v)").alias("span")
    )


@program(*NUMBERS, mode="update")
def aggregates_of_structs(spark, inputs):
    return grouped(
        inputs,
        F.max(F.struct("v", "ts")).alias("greatest"),
        F.min(F.struct("ts", "v")).alias("earliest"),
        F.collect_list(F.struct("v")).alias("all"),
    )


HUGE = "99999999999999999999999999999999999.5"
DECIMALS = (
    table({"k": "a", "d": "1.25"}, {"k": "b", "d": HUGE}, {"k": "a", "d": None}),
    table({"k": "a", "d": "2.50"}, {"k": "b", "d": "7.1"}),
    table({"k": "b", "d": "-7.1"}, {"k": "a", "d": "0.01"}),
)


@program(*DECIMALS, mode="update")
def sums_of_decimals(spark, inputs):
    stream = inputs.stream("k STRING, d STRING").selectExpr("k", "CAST(d AS DECIMAL(38, 2)) AS d")
    stream = stream.where("k = 'a'").selectExpr("k", "CAST(d AS DECIMAL(10, 2)) AS d")
    return stream.groupBy("k").agg(F.sum("d").alias("s"), F.avg("d").alias("m"), F.max("d"))


FULL = "9" * 37 + ".5"
OVER = (
    table({"k": "a", "d": FULL}, {"k": "b", "d": "1"}),
    table({"k": "a", "d": FULL}, {"k": "b", "d": "1"}),
    table({"k": "a", "d": "-" + FULL}, {"k": "b", "d": "1"}),
)


def wide(inputs):
    stream = inputs.stream("k STRING, d STRING").selectExpr("k", "CAST(d AS DECIMAL(38, 1)) AS d")
    return stream.groupBy("k").agg(F.sum("d").alias("s"))


@program(*OVER, *OVER, mode="update", conf={"spark.sql.ansi.enabled": "false"})
def sum_of_decimals_over_its_width(spark, inputs):
    return wide(inputs)


@program(*OVER, *OVER, mode="update")
def sum_of_decimals_over_its_width_in_ansi(spark, inputs):
    return wide(inputs)


MOST = 9223372036854775807
FULL_NUMBERS = (
    table({"k": "a", "v": MOST}, {"k": "b", "v": 1}),
    table({"k": "a", "v": 2}, {"k": "b", "v": 1}),
)


@program(*FULL_NUMBERS, mode="update", conf={"spark.sql.ansi.enabled": "false"})
def sum_over_its_width(spark, inputs):
    return inputs.stream("k STRING, v BIGINT").groupBy("k").agg(F.sum("v").alias("s"))


@program(*FULL_NUMBERS, mode="update")
def sum_over_its_width_in_ansi(spark, inputs):
    return inputs.stream("k STRING, v BIGINT").groupBy("k").agg(F.sum("v").alias("s"))


@program(
    table({"x": "NaN"}, {"x": "1.5"}, {"x": "-0.0"}),
    table({"x": "Infinity"}, {"x": None}),
    table({"x": "-Infinity"}),
    mode="complete",
)
def aggregates_of_odd_doubles(spark, inputs):
    stream = inputs.stream("x STRING").selectExpr("CAST(x AS DOUBLE) AS x")
    return stream.agg(
        F.min("x").alias("least"),
        F.max("x").alias("most"),
        F.sum("x").alias("s"),
        F.array_sort(F.collect_set("x")).alias("set"),
    )


@program(
    table({"x": "NaN"}, {"x": "1.5"}, {"x": "-0.0"}),
    table({"x": "0.0"}, {"x": None}),
    mode="complete",
)
def approximate_count_of_distinct_doubles(spark, inputs):
    stream = inputs.stream("x STRING").selectExpr("CAST(x AS DOUBLE) AS x")
    return stream.agg(F.approx_count_distinct("x").alias("n"))


@program(
    table({"i": 1, "f": 0.5, "t": "b", "b": True, "d": "2026-01-02"}),
    table({"i": 3, "f": 0.25, "t": "a", "b": False, "d": "2025-12-31"}, {"i": None}),
    mode="complete",
)
def aggregates_of_every_type(spark, inputs):
    stream = inputs.stream("i INT, f FLOAT, t STRING, b BOOLEAN, d DATE")
    return stream.agg(
        *(F.min(name).alias(f"min_{name}") for name in "iftbd"),
        *(F.max(name).alias(f"max_{name}") for name in "iftbd"),
        F.sum("i").alias("sum_i"),
        F.sum("f").alias("sum_f"),
        F.avg("f").alias("avg_f"),
        F.avg("i").alias("avg_i"),
    )
