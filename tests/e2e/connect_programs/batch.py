"""Frames, SQL and what is shown of them, as a program of a user has it."""

import json
from pathlib import Path

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
seen = {"version": spark.version}
seen["range"] = [row.id for row in spark.range(10).collect()]

orders = spark.createDataFrame(
    [Row(id=1, customer="ann", amount=2.5), Row(id=2, customer="bob", amount=4.0)]
)
orders.createOrReplaceTempView("orders")
seen["shown"] = orders._show_string()
seen["sql"] = [row.asDict() for row in spark.sql("SELECT sum(amount) AS s FROM orders").collect()]
bound = spark.sql("SELECT id FROM orders WHERE customer = :who", args={"who": "bob"})
seen["bound"] = [row.id for row in bound.collect()]

joined = orders.alias("a").join(orders.alias("b"), F.col("a.id") == F.col("b.id"))
seen["joined"] = joined.count()
grouped = orders.groupBy("customer").agg(F.max("amount").alias("most")).orderBy("customer")
seen["grouped"] = [tuple(row) for row in grouped.collect()]

orders.write.partitionBy("customer").parquet("orders")
back = spark.read.parquet("orders").where("customer = 'ann'")
seen["back"] = [row.asDict() for row in back.collect()]
orders.write.mode("overwrite").json("orders-json")
seen["json"] = [f"{f.name} {f.dataType.simpleString()}" for f in spark.read.json("orders-json").schema]

files = spark.sql("SELECT customer, amount FROM parquet.`orders` ORDER BY amount")
seen["files"] = [tuple(row) for row in files.collect()]
union = spark.range(500).union(spark.range(500, 1000))
seen["order"] = [row.id for row in union.collect()] == list(range(1000))
seen["first"] = [row.id for row in union.limit(3).collect()]

many = spark.range(1000)
for name, spread in [("three", many.repartition(3)), ("one", many.coalesce(1)), ("by", many.repartition(4, "id"))]:
    spread.write.parquet(name)
    files = len(list(Path(name).glob("*.parquet")))
    seen[name] = [files, spark.read.parquet(name).distinct().count()]

orders.write.saveAsTable("kept")
spark.sql("INSERT INTO kept VALUES (3, 'cid', 1.0)")
seen["table"] = spark.table("kept").count()
spark.sql("DROP TABLE kept")
seen["gone"] = spark.catalog.tableExists("kept")
print(json.dumps(seen))
