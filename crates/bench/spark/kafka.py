"""Kafka to Kafka under PySpark: `kafka.py BOOTSTRAP FROM TO CHECKPOINT` prints one line of JSON.

The same query as Onefold's: `from_json`, a filter that keeps half, and the user as key. Two local
threads. Timed is the query alone, from `start` until it has drained the topic; starting the JVM and
the session, and a first small batch query that loads its classes, are left out.
"""

import json
import os
import sys
import time
from pathlib import Path

FIELDS = "id BIGINT, user STRING, kind STRING, amount DOUBLE"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.jars": ",".join(map(str, Path(os.environ["ONEFOLD_BENCH_SPARK_KAFKA"]).glob("*.jar"))),
}


def kept(frame):
    from pyspark.sql import functions as f

    parsed = frame.select("value", f.from_json(f.col("value").cast("string"), FIELDS).alias("it"))
    return parsed.filter("it.amount >= 500.0").selectExpr("it.user AS key", "value")


def main(bootstrap, source, sink, checkpoint):
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("onefold-bench")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")

    def read(reader):
        reader = reader.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        return reader.option("startingOffsets", "earliest")

    few = json.dumps({source: {"0": 1000, "1": 1000}})
    kept(read(session.read).option("subscribe", source).option("endingOffsets", few).load()).count()
    started = time.monotonic()
    query = (
        kept(read(session.readStream).option("subscribe", source).load())
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", sink)
        .option("checkpointLocation", f"file://{checkpoint}")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.monotonic() - started
    report = {
        "seconds": seconds,
        "peak_kib": 0,
        "rows": read(session.read).option("subscribe", sink).load().count(),
        "batch_ms": [],
        "resident_kib": [],
    }
    session.stop()
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
