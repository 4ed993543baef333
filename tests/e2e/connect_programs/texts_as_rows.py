"""Texts that are read as JSON and CSV, and what columns say of themselves."""

import json

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

spark = SparkSession.builder.getOrCreate()
seen = {}


def texts(*values):
    return spark.createDataFrame([(value,) for value in values], "value STRING")


def rows(frame):
    return [frame.schema.simpleString()] + [list(row) for row in frame.collect()]


good = texts('{"b": 1, "a": "x"}', " ", '[{"b": 2.5}, {"b": 3}]')
seen["json"] = rows(spark.read.json(good))
seen["typed"] = rows(spark.read.json(good, schema="b DOUBLE"))
bad = texts('{"a": 1}', "no json", '{"a": "y"}')
seen["corrupt"] = rows(spark.read.json(bad))
seen["told"] = rows(spark.read.json(bad, schema="a INT, _corrupt_record STRING"))
seen["dropped"] = rows(spark.read.json(bad, schema="a INT", mode="DROPMALFORMED"))
try:
    spark.read.json(bad, schema="a INT", mode="FAILFAST").collect()
except Exception as error:
    seen["failed"] = "MALFORMED_RECORD" in str(error)
lines = texts("id;day", "1;2026-01-31", "2;")
seen["csv"] = rows(spark.read.csv(texts("a,1", "b,2")))
seen["header"] = rows(spark.read.csv(lines, header=True, inferSchema=True, sep=";"))
seen["few"] = rows(spark.read.csv(texts("1,x", "2"), schema="a INT, b STRING, _corrupt_record STRING"))

said = StructType([StructField("a", IntegerType(), True, {"unit": "cent", "bounds": [0, 9]})])
frame = spark.createDataFrame([(1,)], said)
seen["given"] = frame.schema["a"].metadata
seen["kept"] = frame.select("a").where("a > 0").schema["a"].metadata
seen["added"] = frame.withMetadata("a", {"x": 1}).schema["a"].metadata
seen["taken back"] = frame.select(F.col("a").alias("a", metadata={})).schema["a"].metadata
seen["rows"] = [row.a for row in frame.withMetadata("a", {"x": 1}).collect()]

wanted = StructType([StructField("b", StringType()), StructField("A", StringType())])
seen["fitted"] = rows(frame.to(wanted))
for name, schema in [
    ("nullable", StructType([StructField("a", IntegerType(), False)])),
    ("type", StructType([StructField("a", StructType([]))])),
]:
    try:
        frame.to(schema).collect()
    except Exception as error:
        seen[name] = error.getCondition()
print(json.dumps(seen, default=str))
