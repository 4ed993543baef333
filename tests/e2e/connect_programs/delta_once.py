"""A foreachBatch function that fails behind its writes: what it wrote into tables and files is there once."""

import json
from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
here = Path.cwd()
for number in range(3):
    lines = [json.dumps({"id": 10 * number + place}) for place in range(4)]
    (here / "input").mkdir(exist_ok=True)
    (here / "input" / f"{number}.json").write_text("\n".join(lines) + "\n")
spark.sql("CREATE TABLE sums (k BIGINT, n BIGINT) USING delta")
spark.sql("CREATE TABLE log (id BIGINT) USING delta")
failures = []


def write(frame, batch):
    own = frame.sparkSession
    frame.write.format("delta").mode("append").save(str(here / "rows"))
    # It finds nothing, unless it is done again behind the write that follows.
    own.sql(f"DELETE FROM log WHERE id >= {10 * batch}")
    frame.write.format("delta").mode("append").saveAsTable("log")
    frame.createOrReplaceTempView("updates")
    own.sql(
        "MERGE INTO sums s USING (SELECT id % 2 AS k, count(*) AS n FROM updates GROUP BY id % 2) u "
        "ON s.k = u.k WHEN MATCHED THEN UPDATE SET n = s.n + u.n WHEN NOT MATCHED THEN INSERT *"
    )
    frame.write.format("delta").mode("append").save(str(here / "rows") + "/")
    frame.write.mode("append").json(str(here / "lines"))
    frame.repartition(2).write.parquet(str(here / f"files-{batch}"))
    failed = here / f"failed-{batch}"
    if not failed.exists():
        failed.touch()
        raise ValueError("behind the writes")


for attempt in range(10):
    stream = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1).json(str(here / "input"))
    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(here / "checkpoint"))
    try:
        writer.trigger(availableNow=True).start().awaitTermination()
        break
    except Exception:
        failures.append(attempt)

# Writes of a program of its own are no batch's.
spark.range(1).write.format("delta").mode("append").save(str(here / "plain"))
spark.range(1).write.format("delta").mode("append").save(str(here / "plain"))


def ids(frame):
    return sorted(row.id for row in frame.collect())


print(
    json.dumps(
        {
            "failures": failures,
            "rows": ids(spark.read.format("delta").load(str(here / "rows"))),
            "log": ids(spark.table("log")),
            "sums": sorted([row.k, row.n] for row in spark.table("sums").collect()),
            "lines": ids(spark.read.json(str(here / "lines"))),
            "files": ids(spark.read.parquet(*[str(here / f"files-{number}") for number in range(3)])),
            "plain": ids(spark.read.format("delta").load(str(here / "plain"))),
        }
    )
)
