"""Calls over HTTP from PySpark: http_call in a frame and in a stream, and the sink. Prints JSON."""

import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import call_function, col, expr, lit

url, folder = sys.argv[1:]
os.makedirs(f"{folder}/in")
with open(f"{folder}/in/a.json", "w") as file:
    file.write("".join(json.dumps({"id": n, "q": f"s{n}"}) + "\n" for n in (1, 2, 3)))

spark = SparkSession.builder.getOrCreate()

frame = spark.createDataFrame([(1, "one"), (2, "two")], "id INT, q STRING")
called = frame.withColumn("r", call_function("http_call", lit(f"{url}/ask"), col("q")))
rows = called.select("id", "r.status", "r.body", expr("r.headers['content-type'] AS t")).collect()
null = spark.sql("SELECT http_call(CAST(NULL AS STRING), 'x') AS r").collect()[0].r

stream = spark.readStream.schema("id INT, q STRING").json(f"{folder}/in")
asked = stream.select("id", expr(f"http_call('{url}/ask', q, map('method', 'PUT'))").alias("r"))
query = (
    asked.select("id", "r.body")
    .writeStream.format("parquet")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
    .start(f"{folder}/out")
)
query.awaitTermination()
streamed = spark.read.parquet(f"{folder}/out").collect()

sent = (
    stream.writeStream.format("http")
    .option("url", f"{url}/send")
    .option("checkpointLocation", f"{folder}/sent")
    .trigger(availableNow=True)
    .start()
)
sent.awaitTermination()

try:
    spark.conf.set("onefold.http.privateNetworks", "allowed")
    sealed = "it was set"
except Exception as error:
    sealed = str(error)

print(
    json.dumps(
        {
            "batch": sorted([r.id, r.status, r.body] for r in rows),
            "type": rows[0].t,
            "schema": called.schema["r"].dataType.simpleString(),
            "null": null,
            "stream": [[r.id, r.body] for r in streamed],
            "sealed": sealed,
        }
    )
)
