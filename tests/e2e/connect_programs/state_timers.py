"""A processor of pandas with an initial state and timers by event time; and one over rows that are
no stream. Prints what came out."""

import json
import sys

import pandas as pd
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

source, checkpoint = sys.argv[1:]


class Sums(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.sum = handle.getValueState("sum", "n BIGINT, last TIMESTAMP")

    def handleInitialState(self, key, initialState, timerValues):
        self.sum.update((int(initialState["n"].sum()), None))

    def handleInputRows(self, key, rows, timerValues):
        total, last = self.sum.get() if self.sum.exists() else (0, None)
        for rows_of_key in rows:
            total += int(rows_of_key["n"].sum())
            last = rows_of_key["ts"].max().to_pydatetime()
        self.sum.update((total, last))
        self.handle.registerTimer(int(last.timestamp() * 1000))
        return iter([])

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        if not self.sum.exists():
            return
        total, last = self.sum.get()
        self.sum.clear()
        yield pd.DataFrame({"k": [key[0]], "total": [total], "last": [str(last)]})

    def close(self):
        pass


class Count(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "n INT")

    def handleInputRows(self, key, rows, timerValues):
        self.count.update((len(list(rows)),))
        yield Row(k=key[0], n=self.count.get()[0])

    def close(self):
        pass


spark = SparkSession.builder.getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "UTC")
spark.conf.set("spark.sql.shuffle.partitions", "3")
initial = spark.createDataFrame([("a", 1000), ("z", 5)], "k STRING, n BIGINT").groupBy("k")
events = (
    spark.readStream.schema("k STRING, n BIGINT, ts TIMESTAMP")
    .option("maxFilesPerTrigger", 1)
    .json(source)
    .withWatermark("ts", "0 seconds")
)
sums = events.groupBy("k").transformWithStateInPandas(
    Sums(), "k STRING, total BIGINT, last STRING", "Append", "EventTime", initial
)
query = (
    sums.writeStream.format("memory")
    .queryName("sums")
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
seen = {"sums": sorted(tuple(row) for row in spark.table("sums").collect())}
rows = spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "k STRING, v INT")
counts = rows.groupBy("k").transformWithState(Count(), "k STRING, n INT", "Update", "None")
seen["counts"] = sorted(tuple(row) for row in counts.collect())
print(json.dumps(seen))
