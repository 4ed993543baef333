"""Values of several types, frames and their own descendants, rows without a value for their folder."""

import json
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
seen = {}


def rows(frame):
    kinds = [field.dataType.simpleString() for field in frame.schema]
    return kinds + [str(value) for row in frame.collect() for value in row]


one = spark.range(1, 2).select(F.col("id").cast("int").alias("a"))
seen["union"] = rows(one.union(spark.sql("SELECT 2.5D AS a")))
seen["by name"] = rows(one.unionByName(spark.sql("SELECT CAST(2.55 AS DECIMAL(5,2)) AS a")))
seen["sql"] = rows(spark.sql("SELECT 1 AS a UNION ALL SELECT 5000000000"))
two = spark.range(2).repartition(1)
seen["when"] = rows(two.select(F.when(F.col("id") == 0, F.lit(1)).otherwise(F.lit(2.5)).alias("a")))
seen["half"] = rows(two.select(F.when(F.col("id") == 0, 0).otherwise(F.col("id") * 0.5).alias("a")))
seen["unpivot"] = rows(
    spark.sql("SELECT 1 AS id, 2 AS a, 2.5D AS b").unpivot(["id"], ["a", "b"], "n", "v").select("v")
)

a = spark.createDataFrame([(1, "x"), (2, "y"), (3, "z")], "id int, v string")
f = a.filter("id > 1")
seen["derived"] = a.join(f, a.id == f.id).count()
seen["without"] = [row.id for row in a.join(f, a.id == f.id, "left_anti").collect()]
g = a.withColumn("w", F.lit(1))
seen["dropped"] = a.join(g, a["id"] == g["id"]).drop(g.id).count()
try:
    seen["itself"] = a.join(a, a.id == a.id).count()
except Exception as error:
    seen["itself"] = "AMBIGUOUS" in str(error)

for kind, value in [("int", "1"), ("date", "DATE'2026-01-02'"), ("string", "'x y'"), ("boolean", "true")]:
    text = f"SELECT 1 AS id, {value} AS p UNION ALL SELECT 2, CAST(NULL AS {kind})"
    spark.sql(text).write.partitionBy("p").parquet(kind)
    back = spark.read.parquet(kind).orderBy("id")
    folders = sorted(path.name for path in Path(kind).glob("p=*"))
    seen[kind] = [folders, [row.p is None for row in back.collect()]]
print(json.dumps(seen))
