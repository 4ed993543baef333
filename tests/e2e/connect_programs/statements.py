"""Views, statements of SQL beside queries, and what is told of frames."""

import json
from pathlib import Path

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
        return error.getCondition()
    return None


spark.range(3).createGlobalTempView("g")
other = spark.newSession() if hasattr(spark, "newSession") else spark
seen["global"] = other.sql("SELECT count(*) FROM global_temp.g").collect()[0][0]
seen["taken"] = condition(lambda: spark.range(1).createGlobalTempView("g"))
seen["there"] = spark.catalog.tableExists("global_temp.g")
spark.sql("CREATE OR REPLACE GLOBAL TEMP VIEW g (x) AS SELECT 7")
seen["replaced"] = rows(spark.table("global_temp.g"))
seen["gone"] = [spark.catalog.dropGlobalTempView("g"), spark.catalog.tableExists("global_temp.g")]

spark.range(2).write.parquet("numbers")
spark.sql("CREATE TEMP VIEW files USING parquet OPTIONS (path 'numbers')")
spark.sql("CACHE TABLE twice AS SELECT id * 2 AS id FROM files")
seen["cached"] = sorted(row.id for row in spark.table("twice").collect())
seen["views"] = [row.viewName for row in spark.sql("SHOW VIEWS").collect()]
spark.sql("-- a table\nCREATE TABLE t (a INT, b STRING COMMENT 'why') USING parquet PARTITIONED BY (b)")
spark.sql("INSERT INTO t VALUES (1, 'x')")
seen["described"] = rows(spark.sql("DESCRIBE TABLE t"))
seen["more"] = ["Provider", "parquet", ""] in rows(spark.sql("DESCRIBE EXTENDED t"))
seen["of query"] = rows(spark.sql("DESCRIBE QUERY SELECT 1 AS a"))
seen["made by"] = rows(spark.sql("SHOW CREATE TABLE t"))[0][0]
spark.sql("TRUNCATE TABLE t")
seen["emptied"] = spark.table("t").count()
seen["use"] = [condition(lambda: spark.sql("USE default")), condition(lambda: spark.sql("USE other"))]
plan = spark.sql("EXPLAIN EXTENDED SELECT 1").collect()[0][0]
seen["explained"] = [f"== {step} Logical Plan ==" in plan for step in ["Parsed", "Analyzed", "Optimized"]]

frame = spark.read.parquet("numbers")
seen["files"] = [Path(name).name.endswith(".parquet") for name in frame.inputFiles()]
seen["local"] = [spark.createDataFrame([(1,)], "a INT").isLocal(), frame.isLocal()]
held = frame.filter("id > 0").cache()
seen["held"] = [held.is_cached, held.count(), held.unpersist().is_cached, frame.is_cached]
seen["hints"] = [
    frame.hint("broadcast").count(),
    frame.hint("repartition", 2, "id").count(),
    condition(lambda: frame.hint("repartition", "id+1").count()),
]
spark.range(2).writeTo("w").using("json").create()
seen["created"] = condition(lambda: spark.range(1).writeTo("w").create())
spark.range(5, 6).writeTo("w").append()
seen["appended"] = sorted(row.id for row in spark.table("w").collect())
spark.range(9, 10).writeTo("w").overwrite(F.lit(True))
seen["overwritten"] = rows(spark.table("w"))
spark.range(3).filter("id > 5").write.parquet("nothing")
seen["nothing"] = [spark.read.parquet("nothing").schema.simpleString(), spark.read.parquet("nothing").count()]
seen["paths"] = [
    condition(lambda: spark.range(1).write.parquet("nothing")),
    condition(lambda: spark.read.parquet("nowhere").count()),
    condition(lambda: spark.read.format("xyz").load("nothing").count()),
]
spark.sql("SELECT 1 AS id, 'ä' AS p").write.partitionBy("p").option("compression", "gzip").parquet("zipped")
seen["zipped"] = [(path.parent.name, path.name.split(".", 1)[1]) for path in Path("zipped").rglob("part-*")]
spark.sql("SELECT 1 AS a, CAST(NULL AS STRING) AS b").write.option("nullValue", "-").csv("lines", header=True)
seen["lines"] = [path.read_text() for path in Path("lines").glob("part-*")]

Path("na.csv").write_text('id,name\n1,\n2,NA\n3,""\n')
seen["absent"] = rows(spark.read.options(header=True, nullValue="NA").csv("na.csv"))
parts = spark.createDataFrame([(1, "a"), (2, "b")], "id int, k string")
parts.write.partitionBy("k").saveAsTable("parts")
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
spark.createDataFrame([(9, "a")], "id int, k string").write.mode("overwrite").insertInto("parts")
seen["folders"] = sorted(rows(spark.table("parts")))
spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
parts.write.partitionBy("k").parquet("parts2")
parts.limit(1).write.mode("overwrite").partitionBy("k").parquet("parts2")
seen["whole"] = rows(spark.read.parquet("parts2"))
wrong = parts.withColumnRenamed("id", "ident")
seen["names"] = [
    condition(lambda: frame.write.mode("append").saveAsTable("parts"))
    for frame in [wrong, parts.select("id"), parts.withColumn("z", F.lit(1))]
]
seen["tables"] = [[table.name, table.tableType, table.isTemporary] for table in spark.catalog.listTables()]
seen["shown"] = sorted(row.tableName for row in spark.sql("SHOW TABLES").filter("not isTemporary").collect())

wide = spark.range(0, 1 << 40, 1)
seen["wide"] = [row.id for row in wide.limit(2).collect()]
seen["tail"] = [row.id for row in spark.range(5, 0, -2, 3).tail(2)]
seen["lateral"] = rows(
    spark.sql("SELECT id + 1 AS n, n * 2 AS m, x FROM range(2) LATERAL VIEW explode(array('a')) v AS x")
)
seen["decimal"] = rows(spark.range(1).select(F.coalesce(F.lit(None).cast("decimal(4,1)"), F.lit(1e300))))
print(json.dumps(seen))
