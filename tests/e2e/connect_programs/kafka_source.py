"""Reads a topic as a stream and as a table. It ends with what it saw, for the test."""

import json
import sys

from pyspark.sql import SparkSession

servers, topic = sys.argv[1:]
spark = SparkSession.builder.appName("FromKafka").getOrCreate()
stream = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("includeHeaders", "true")
    .load()
)
query = (
    stream.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value", "offset")
    .writeStream.format("parquet")
    .option("checkpointLocation", "checkpoints")
    .trigger(availableNow=True)
    .start("table")
)
query.awaitTermination()
source = query.lastProgress["sources"][0]

table = (
    spark.read.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("subscribe", topic)
    .option("includeHeaders", "true")
    .load()
)
rows = table.orderBy("partition", "offset").collect()
headers = [[[pair.key, pair.value and pair.value.decode()] for pair in row.headers or []] for row in rows]

try:
    spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).load().schema
    refused = None
except Exception as error:  # whatever class it is, its text is what is looked at
    refused = str(error)

written = spark.read.parquet("table").orderBy("offset")
print(
    json.dumps(
        {
            "schema": [f"{field.name} {field.dataType.simpleString()}" for field in stream.schema],
            "written": [list(row) for row in written.collect()],
            "description": source["description"],
            "end": source["endOffset"],
            "behind": source["metrics"]["maxOffsetsBehindLatest"],
            "table": [[row.key and row.key.decode(), row.value and row.value.decode()] for row in rows],
            "count": table.count(),
            "headers": headers,
            "refused": refused,
        }
    )
)
