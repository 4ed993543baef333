"""A processor that never returns: stopping its query ends its process."""

import json
import os
import signal
import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

(mark,) = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


class Hanging(StatefulProcessor):
    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timerValues):
        with open(mark, "w") as file:
            file.write(str(os.getpid()))
        os.rename(mark, f"{mark}.done")
        signal.pause()
        yield from rows

    def close(self):
        pass


rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
groups = rate.groupBy("value").transformWithState(
    statefulProcessor=Hanging(), outputStructType="value BIGINT", outputMode="Append", timeMode="None"
)
query = groups.writeStream.format("noop").start()
while not os.path.exists(f"{mark}.done"):
    query.awaitTermination(0.05)
query.stop()
print(json.dumps({"active": query.isActive, "exception": query.exception() and "yes"}))
