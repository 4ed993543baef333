"""What teams run: JSON lines with a schema, event time, windows, foreachBatch, a listener."""

import json
import sys
import threading

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

source, out, checkpoint = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


class Heard(StreamingQueryListener):
    def __init__(self):
        self.events = []
        self.ended = threading.Event()

    def onQueryStarted(self, event):
        self.events.append(("started", str(event.id)))

    def onQueryProgress(self, event):
        self.events.append(("progress", event.progress.batchId, event.progress.numInputRows))

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        self.events.append(("terminated", event.exception))
        self.ended.set()


heard = Heard()
spark.streams.addListener(heard)

schema = "id BIGINT, k STRING, ts TIMESTAMP"
events = (
    spark.readStream.format("text")
    .option("maxFilesPerTrigger", 2)
    .load(source)
    .select(F.from_json("value", schema).alias("event"))
    .select("event.*")
)
counts = (
    events.withWatermark("ts", "10 minutes")
    .groupBy(F.window("ts", "5 minutes"), "k")
    .agg(F.count("*").alias("n"), F.sum("id").alias("ids"))
)


def write(batch, number):
    print(f"writing batch {number}")
    batch.createOrReplaceTempView("batch")
    rows = batch.sparkSession.sql(
        f"SELECT {number} AS batch, window.start AS start, k, n, ids FROM batch"
    )
    rows.write.mode("append").parquet(f"{out}/windows")
    rows.groupBy("k").agg(F.sum("n").alias("n")).write.mode("append").json(f"{out}/keys")


query = (
    counts.writeStream.outputMode("update")
    .queryName("teams")
    .foreachBatch(write)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
try:
    query.awaitTermination()
    heard.ended.wait(60)
finally:
    # A listener's thread would keep the program. The client waits for that thread with a lock held
    # that the thread needs for each event, so no event may be on its way.
    spark.streams.removeListener(heard)
last = query.lastProgress

rows = spark.read.parquet(f"{out}/windows")
newest = rows.groupBy("start", "k").agg(F.max_by("n", "batch").alias("n")).orderBy("start", "k")
print(
    json.dumps(
        {
            "name": query.name,
            "exception": query.exception() and str(query.exception()),
            "batches": last["batchId"] + 1,
            "watermark": last["eventTime"].get("watermark"),
            "operators": [it["operatorName"] for it in last["stateOperators"]],
            "windows": [[str(row.start), row.k, row.n] for row in newest.collect()],
            "heard": heard.events,
        }
    )
)
