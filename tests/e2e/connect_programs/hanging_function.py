"""A registered function that never returns, called in SQL over a view of a stream."""

import json
import os
import signal
import sys

from pyspark.sql import SparkSession

(mark,) = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


def hang(value):
    with open(f"{mark}.{os.getpid()}", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{mark}.{os.getpid()}", f"{mark}.done")
    signal.pause()


spark.udf.register("hang", hang, "bigint")
rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
rate.createOrReplaceTempView("rate")
spark.sql("SELECT hang(value) AS v FROM rate").createOrReplaceTempView("hung")
query = spark.table("hung").writeStream.format("noop").start()
while not os.path.exists(f"{mark}.done"):
    query.awaitTermination(0.05)
query.stop()
print(json.dumps({"active": query.isActive, "exception": query.exception() and "yes"}))
