"""Reads JSON from Kafka, some of which is none, and sends what cannot be processed to files."""

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

bootstrap, topic, folder = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()

stream = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .load()
)
parsed = F.from_json(F.col("value").cast("string"), "id BIGINT", {"mode": "FAILFAST"})
ids = stream.where("value IS NOT NULL").select(parsed.alias("row")).select("row.*")
rows = ids.select(F.expr("6 div id").alias("n"))


def run(name, **options):
    writer = rows.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{folder}/{name}/checkpoint")
    for option, value in options.items():
        writer = writer.option(option, value)
    query = writer.start(f"{folder}/{name}/rows")
    query.awaitTermination()
    return query


dead = {"onefold.deadLetters.path": f"{folder}/dead", "onefold.deadLetters.format": "json"}
query = run("kept", **dead)
letters = spark.read.json(f"{folder}/dead").withColumn(
    "value", F.unbase64("value").cast("string")
)
further = [it for told in query.recentProgress for it in json.loads(told.json).get("furtherSinks", [])]

try:
    run("stopped")
    stopped = "it went on"
except Exception as error:
    stopped = str(error)

print(
    json.dumps(
        {
            "rows": sorted(it.n for it in spark.read.parquet(f"{folder}/kept/rows").collect()),
            "letters": [it.asDict() for it in letters.drop("key", "timestamp").collect()],
            "progress": [[it["name"], it["rows"]] for it in further],
            "stopped": stopped,
        }
    )
)
