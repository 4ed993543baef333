"""One figure of `onefold serve`, as PySpark's own client sees it: the milliseconds of each try, as JSON."""

import json
import sys
import tempfile
import time

# What a program imports anyway is no part of a session's start.
import pandas  # noqa: F401
import pyarrow
from pyspark.sql import SparkSession
from pyspark.sql.connect import session as _loaded  # noqa: F401


def fresh(remote):
    return SparkSession.builder.remote(remote).create()


def start(remote, _):
    """From nothing to the first rows, a new session each time; the first, with the first connection, is left out."""
    times = []
    for _ in range(21):
        began = time.perf_counter()
        spark = fresh(remote)
        assert len(spark.range(10).collect()) == 10
        times.append((time.perf_counter() - began) * 1e3)
        spark.stop()
    return times[1:], 10


def progress(remote, _):
    """`lastProgress` of a query that runs."""
    spark = fresh(remote)
    query = spark.readStream.format("rate").load().writeStream.format("noop").trigger(processingTime="1 second")
    with tempfile.TemporaryDirectory() as checkpoint:
        query = query.option("checkpointLocation", checkpoint).start()
        while query.lastProgress is None:
            assert query.isActive, query.exception()
        times = []
        for _ in range(200):
            began = time.perf_counter()
            query.lastProgress
            times.append((time.perf_counter() - began) * 1e3)
        query.stop()
    spark.stop()
    return times, 1


def collect(remote, folder):
    """All rows of a folder of Parquet files, as Arrow."""
    spark = fresh(remote)
    rows, times = 0, []
    for _ in range(4):
        began = time.perf_counter()
        rows = spark.read.parquet(folder).toArrow().num_rows
        times.append((time.perf_counter() - began) * 1e3)
    spark.stop()
    return times[1:], rows


def batches(remote, kind):
    """200 batches, each of a fixed number of rows, into a function that does nothing or into nothing."""
    spark = fresh(remote)
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    writer = stream.writeStream
    writer = writer.foreachBatch(lambda frame, number: None) if kind == "function" else writer.format("noop")
    with tempfile.TemporaryDirectory() as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).start()
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "300")
        while query.lastProgress is None or query.lastProgress["batchId"] < 200:
            assert query.isActive, query.exception()
        query.stop()
        times = [update["durationMs"]["triggerExecution"] for update in query.recentProgress]
    spark.stop()
    return [float(ms) for ms in times[10:]], 10


def main(kind, remote, argument):
    times, rows = {"start": start, "progress": progress, "collect": collect, "batches": batches}[kind](remote, argument)
    report = {"seconds": sum(times) / 1e3, "peak_kib": 0, "rows": rows, "batch_ms": times, "resident_kib": []}
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
