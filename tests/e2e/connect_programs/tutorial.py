"""What a tutorial shows, and nothing else. It ends with what it saw, for the test."""

import json

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("ExactlyOnce").getOrCreate()
stream = spark.readStream.format("rate").load()
query = (
    stream.writeStream.format("parquet").option("checkpointLocation", "checkpoints").start("table")
)
query.awaitTermination(5)
query.stop()

values = sorted(row.value for row in spark.read.parquet("table").collect())
print(json.dumps({"active": query.isActive, "exception": query.exception(), "values": values}))
