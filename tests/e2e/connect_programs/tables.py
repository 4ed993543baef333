"""Tables that change under a reader, their partitions, what they take; the catalog; results in chunks."""

import json

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
seen = {}


def rows(frame):
    return [list(row) for row in frame.collect()]


def condition(run):
    try:
        run()
    except Exception as error:
        return error.getCondition() or type(error).__name__
    return None


spark.range(3).write.saveAsTable("kept")
spark.table("kept").selectExpr("id + 10 AS id").write.mode("overwrite").saveAsTable("kept")
seen["of itself"] = sorted(rows(spark.table("kept")))
wrong = spark.table("kept").selectExpr("id / 0 AS id").write.mode("overwrite")
seen["failed"] = condition(lambda: wrong.saveAsTable("kept"))
seen["still"] = sorted(rows(spark.table("kept")))
spark.range(1).write.option("path", "outside").saveAsTable("far")
spark.range(5, 6).write.mode("overwrite").option("path", "outside").saveAsTable("far")
seen["outside"] = rows(spark.table("far"))

spark.sql("CREATE TABLE parts (a INT, p INT, q STRING) USING parquet PARTITIONED BY (p, q)")
spark.sql("INSERT INTO parts PARTITION (p = 1, q = 'x') VALUES (1), (2)")
spark.sql("INSERT INTO parts PARTITION (p = 2, q) VALUES (3, 'y')")
spark.sql("INSERT OVERWRITE parts PARTITION (p = 1, q = 'x') SELECT 9")
seen["partitions"] = rows(spark.sql("SHOW PARTITIONS parts"))
seen["rows"] = rows(spark.sql("SELECT * FROM parts ORDER BY ALL"))
seen["no partition"] = condition(lambda: spark.sql("INSERT INTO parts PARTITION (z = 1) VALUES (1)"))
seen["not taken"] = condition(lambda: spark.sql("INSERT INTO parts VALUES ('x', 1, 'y')"))

spark.range(1).write.saveAsTable("shadowed")
spark.range(2).createOrReplaceTempView("shadowed")
spark.sql("DROP TABLE default.shadowed")
seen["view"] = spark.table("shadowed").count()
spark.sql("DROP VIEW shadowed")
seen["both gone"] = condition(lambda: spark.table("shadowed").count())

twice = spark.sql("SELECT 1 AS a, 2 AS a")
seen["twice"] = [rows(twice), condition(lambda: twice.write.parquet("twice"))]

seen["database"] = [it.name for it in spark.catalog.listDatabases()]
seen["table"] = list(spark.catalog.getTable("parts"))
seen["no table"] = condition(lambda: spark.catalog.getTable("nothing"))
seen["columns"] = [[it.name, it.isPartition] for it in spark.catalog.listColumns("parts")]
seen["function"] = spark.catalog.getFunction("ABS").name
seen["no function"] = condition(lambda: spark.catalog.getFunction("nothing"))

too_large = F.udf(lambda x: 3_000_000_000, "int")
seen["out of range"] = condition(lambda: spark.range(1).select(too_large("id")).collect())

frame = spark.range(0, 2000, 1, 4).selectExpr("id", "CAST(id + 0.5 AS DOUBLE) AS half")
whole = rows(frame)
spark.conf.set("spark.connect.session.resultChunking.maxChunkSize", "1024")
seen["chunks"] = rows(frame) == whole and whole == [[n, n + 0.5] for n in range(2000)]
print(json.dumps(seen))
