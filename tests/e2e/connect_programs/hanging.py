"""A function that never returns: stopping its query ends its process."""

import json
import os
import signal
import sys

from pyspark.sql import SparkSession

(mark,) = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


def write(batch, number):
    with open(mark, "w") as file:
        file.write(str(os.getpid()))
    os.rename(mark, f"{mark}.done")
    signal.pause()


rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
query = rate.writeStream.foreachBatch(write).start()
while not os.path.exists(f"{mark}.done"):
    query.awaitTermination(0.05)
query.stop()
print(json.dumps({"active": query.isActive, "exception": query.exception() and "yes"}))
