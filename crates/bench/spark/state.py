"""One stateful query under PySpark: `state.py CASE INPUT OUTPUT CHECKPOINT` prints one line of JSON.

Two local threads and as many shuffle partitions, RocksDB as state store with changelogs: the
settings that make Spark fastest on so few cores. Timed is the query alone, from `start` until it
has drained its input; starting the JVM and the session is left out.
"""

import json
import os
import sys
import time
from pathlib import Path

EVENTS = "ts TIMESTAMP, kind STRING, user BIGINT, amount DOUBLE"
IDS = "ts TIMESTAMP, id BIGINT"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def stream(session, schema, folder):
    return session.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(f"file://{folder}")


def tumbling(session, folder):
    """A 10-second window by a key of 16 values."""
    from pyspark.sql import functions as f

    events = stream(session, EVENTS, folder).withWatermark("ts", "10 seconds")
    groups = events.groupBy(f.window("ts", "10 seconds"), "kind")
    return groups.agg(f.count("*").alias("n"), f.sum("amount").alias("total"))


def per_user(session, folder):
    """A 60-second window by each of 200,000 users."""
    from pyspark.sql import functions as f

    events = stream(session, EVENTS, folder).withWatermark("ts", "10 seconds")
    groups = events.groupBy(f.window("ts", "60 seconds"), "user")
    return groups.agg(f.count("*").alias("n"), f.sum("amount").alias("total"))


def dedup(session, folder):
    """Ten million ids, some of them twice; state is never evicted."""
    return stream(session, IDS, folder).dropDuplicates(["id"])


def join(session, folder):
    """Two streams on an id, the right one at most 5 seconds after the left one."""
    from pyspark.sql import functions as f

    left = stream(session, IDS, f"{folder}/left").withWatermark("ts", "10 seconds").alias("l")
    right = stream(session, IDS, f"{folder}/right").withWatermark("ts", "10 seconds").alias("r")
    near = f.expr("l.id = r.id AND r.ts >= l.ts AND r.ts <= l.ts + INTERVAL 5 SECONDS")
    columns = [f.col("l.id").alias("id"), f.col("l.ts").alias("left"), f.col("r.ts").alias("right")]
    return left.join(right, near).select(*columns)


CASES = {"tumbling": tumbling, "per-user": per_user, "dedup": dedup, "join": join}


def main(case, folder, output, checkpoint):
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("onefold-bench")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    frame = CASES[case](session, folder)
    started = time.monotonic()
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", f"file://{checkpoint}")
        .trigger(availableNow=True)
        .start(f"file://{output}")
    )
    query.awaitTermination()
    seconds = time.monotonic() - started
    batches = [batch.json for batch in query.recentProgress]
    peak_kib = jvm_peak_kib(session)
    report = {
        "seconds": seconds,
        "peak_kib": peak_kib,
        "rows": session.read.parquet(f"file://{output}").count(),
        "batch_ms": [json.loads(batch)["batchDuration"] for batch in batches],
        "resident_kib": [],
    }
    session.stop()
    print(json.dumps(report))


def jvm_peak_kib(session):
    """The largest resident memory of the JVM, which does the work; Python only steers it."""
    pid = session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


if __name__ == "__main__":
    main(*sys.argv[1:])
