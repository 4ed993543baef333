"""What counts as one key: NULL, NaN, both zeros, nested values, odd texts."""

from pyspark.sql import functions as F

from pairs.program import Step, program, table

ODD = ("NaN", "-0.0", "0.0", None, "1", "-Infinity")
DOUBLES = (
    table(*({"x": x} for x in ODD)),
    table(*({"x": x} for x in reversed(ODD))),
    table({"x": "NaN"}, {"x": "-0.0"}, {"x": "Infinity"}),
)


def doubles(inputs, kind="DOUBLE", name="in"):
    return inputs.stream("x STRING", name).selectExpr(f"CAST(x AS {kind}) AS x")


@program(*DOUBLES, mode="update")
def groups_of_odd_doubles(spark, inputs):
    return doubles(inputs).groupBy("x").count()


@program(*DOUBLES, mode="complete")
def groups_of_odd_floats(spark, inputs):
    return doubles(inputs, "FLOAT").groupBy("x").count()


@program(*DOUBLES)
def duplicates_of_odd_doubles(spark, inputs):
    return doubles(inputs).dropDuplicates(["x"])


@program(*DOUBLES)
def static_join_of_odd_doubles(spark, inputs):
    rows = ({"y": y, "n": n} for n, y in enumerate(ODD))
    static = inputs.static("y STRING, n INT", *rows).selectExpr("CAST(y AS DOUBLE) AS y", "n")
    stream = doubles(inputs)
    return stream.join(static, stream.x == static.y)


SIDES = (
    Step("left", [{"x": x} for x in ODD]),
    Step("right", [{"x": x} for x in ODD]),
    Step("left", [{"x": x} for x in ODD]),
)


@program(*SIDES)
def join_of_odd_doubles(spark, inputs):
    lefts = doubles(inputs, name="left").withColumnRenamed("x", "l")
    rights = doubles(inputs, name="right").withColumnRenamed("x", "r")
    return lefts.join(rights, F.expr("l = r"))


@program(*SIDES)
def null_safe_join_of_odd_doubles(spark, inputs):
    lefts = doubles(inputs, name="left").withColumnRenamed("x", "l")
    rights = doubles(inputs, name="right").withColumnRenamed("x", "r")
    return lefts.join(rights, F.expr("l <=> r"))


@program(*DOUBLES, mode="update")
def groups_of_structs(spark, inputs):
    key = F.struct(F.col("x"), F.struct(F.col("x").alias("y")).alias("inner"))
    return doubles(inputs).groupBy(key.alias("key")).count()


@program(*DOUBLES, mode="update")
def groups_of_arrays(spark, inputs):
    return doubles(inputs).groupBy(F.array("x", F.lit(1.0)).alias("key")).count()


@program(*DOUBLES)
def duplicates_of_structs_and_arrays(spark, inputs):
    frame = doubles(inputs).select(F.struct("x").alias("s"), F.array("x").alias("a"))
    return frame.dropDuplicates(["s", "a"])


@program(*SIDES)
def join_on_structs(spark, inputs):
    lefts = doubles(inputs, name="left").select(F.struct("x").alias("l"))
    rights = doubles(inputs, name="right").select(F.struct("x").alias("r"))
    return lefts.join(rights, F.expr("l = r"))


TEXTS = ("", " ", "a", "a ", "A", "\u00e9", "e\u0301", "\u0000", "a\u0000", "\U0001f600", "\u00df")
STRINGS = (
    table(*({"t": t} for t in TEXTS)),
    table(*({"t": t} for t in reversed(TEXTS)), {"t": None}, {"t": "\ufffd"}),
)


@program(*STRINGS, mode="update")
def groups_of_odd_texts(spark, inputs):
    return inputs.stream("t STRING").groupBy("t").count()


@program(*STRINGS, mode="complete", ordered=True)
def sorted_odd_texts(spark, inputs):
    return inputs.stream("t STRING").groupBy("t").count().orderBy("t")


@program(*STRINGS)
def duplicates_of_odd_texts(spark, inputs):
    return inputs.stream("t STRING").dropDuplicates(["t"])


TYPED = (
    table(
        {"d": "1.10", "b": True, "day": "1969-12-31", "i": -1, "s": 1, "n": "2026-01-01T00:00:00"},
        {"d": "1.1", "b": True, "day": "1969-12-31", "i": -1, "s": 1, "n": "2026-01-01T00:00:00"},
        {"d": None, "b": False, "day": "0001-01-01", "i": 0},
    ),
    table(
        {"d": "1.10", "b": True, "day": "1969-12-31", "i": -1, "s": 1, "n": "2026-01-01T00:00:00"},
        {"d": None, "b": False, "day": "0001-01-01", "i": 0},
    ),
)


@program(*TYPED, mode="update")
def groups_of_every_type(spark, inputs):
    schema = "d STRING, b BOOLEAN, day DATE, i TINYINT, s SMALLINT, n TIMESTAMP_NTZ"
    stream = inputs.stream(schema).withColumn("d", F.expr("CAST(d AS DECIMAL(30, 3))"))
    stream = stream.withColumn("raw", F.expr("CAST(CAST(i AS STRING) AS BINARY)"))
    return stream.groupBy("d", "b", "day", "i", "s", "n", "raw").count()


@program(*TYPED)
def duplicates_of_every_type(spark, inputs):
    return inputs.stream("d STRING, b BOOLEAN, day DATE, i TINYINT, s SMALLINT").dropDuplicates()


@program(
    table({"m": {"a": 1, "b": 2}}, {"m": {"b": 2, "a": 1}}, {"m": None}),
    table({"m": {"a": 1}}, {"m": {"a": 1, "b": 2}}),
    mode="update",
)
def groups_of_maps(spark, inputs):
    return inputs.stream("m MAP<STRING, INT>").groupBy("m").count()
