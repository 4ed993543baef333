"""Copies files of JSON into Parquet. With a process id it kills that process in mid-stream."""

import os
import signal
import sys

from pyspark.sql import SparkSession

source, out, checkpoint, victim = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
events = (
    spark.readStream.schema("id BIGINT, k STRING").option("maxFilesPerTrigger", 1).json(source)
)
writer = events.writeStream.format("parquet").option("checkpointLocation", checkpoint)
if victim == "-":
    query = writer.trigger(availableNow=True).start(out)
    query.awaitTermination()
else:
    query = writer.start(out)
    while (query.lastProgress or {"batchId": 0})["batchId"] < 5:
        query.awaitTermination(0.05)
    os.kill(int(victim), signal.SIGKILL)
    # The client would try for minutes to say goodbye.
    os._exit(0)
