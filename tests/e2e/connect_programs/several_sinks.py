"""Counts words into a memory table and, with the same batches, into files."""

import json
import sys

from pyspark.sql import SparkSession

folder = sys.argv[1]
spark = SparkSession.builder.getOrCreate()

spark.createDataFrame([("a",), ("b",), ("a",)], "word string").write.json(f"{folder}/in")
words = spark.readStream.schema("word string").json(f"{folder}/in")
query = (
    words.groupBy("word")
    .count()
    .writeStream.format("memory")
    .queryName("counts")
    .outputMode("complete")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .option("onefold.sinks.archive.format", "delta")
    .option("onefold.sinks.archive.path", f"{folder}/archive")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
further = json.loads(query.lastProgress.json)["furtherSinks"]

print(
    json.dumps(
        {
            "memory": sorted([it.word, it["count"]] for it in spark.table("counts").collect()),
            "archive": sorted(
                [it.word, it["count"]]
                for it in spark.read.format("delta").load(f"{folder}/archive").collect()
            ),
            "progress": [[it["name"], it["rows"]] for it in further],
        }
    )
)
