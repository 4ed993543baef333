"""Files into a table by key under PySpark: `databases.py URL TABLE INPUT CHECKPOINT` prints one line of
JSON.

Spark's JDBC writer adds rows only. So the program is what its users write: in `foreachBatch` the rows go
to a staging table with `DataFrame.write.jdbc`, and one `INSERT … ON CONFLICT` moves them. Into the table
`tuned` it goes with the settings that make the writer quick, else as it comes. Two local threads. Timed
is the query alone, from `start` until the files are read; starting the JVM and the session, and a
first small write that loads its classes, are left out.
"""

import json
import os
import sys
import time
from pathlib import Path

SCHEMA = "id BIGINT, customer STRING, amount DOUBLE, quantity INT, at TIMESTAMP"
COLUMNS = "id, customer, amount, quantity, at"

JARS = sorted(map(str, Path(os.environ["ONEFOLD_BENCH_SPARK_POSTGRES"]).glob("*.jar")))
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraClassPath": ":".join(JARS),
}


def resident(field, pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def main(url, table, source, checkpoint):
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("onefold-bench")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    options = {"driver": "org.postgresql.Driver"}
    if table == "tuned":
        options["batchsize"] = "10000"
        url += "&reWriteBatchedInserts=true"
    jvm = session.sparkContext._jvm
    jvm.java.lang.Class.forName("org.postgresql.Driver")
    connection = jvm.java.sql.DriverManager.getConnection(url)
    sets = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS.split(", ")[1:])
    statement = (
        f"INSERT INTO {table} ({COLUMNS}) SELECT {COLUMNS} FROM staging_{table} "
        f"ON CONFLICT (id) DO UPDATE SET {sets}"
    )

    def stage(frame):
        writer = frame.write.mode("overwrite").option("truncate", "true")
        writer.jdbc(url, f"staging_{table}", properties=options)

    def merge(frame, number):
        stage(frame)
        doing = connection.createStatement()
        doing.executeUpdate(statement)
        doing.close()

    stage(session.read.schema(SCHEMA).csv(source).limit(1000))
    started = time.monotonic()
    query = (
        session.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", "1")
        .csv(source)
        .writeStream.foreachBatch(merge)
        .option("checkpointLocation", f"file://{checkpoint}")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.monotonic() - started
    java = jvm.java.lang.ProcessHandle.current().pid()
    report = {
        "seconds": seconds,
        "peak_kib": resident("VmHWM", java) + resident("VmHWM", "self"),
        "rows": 0,
        "batch_ms": [],
        "resident_kib": [],
    }
    connection.close()
    session.stop()
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
