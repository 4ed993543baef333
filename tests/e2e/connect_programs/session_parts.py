"""Clones of a session, observed metrics of batches, and modules and files of the program in its functions."""

import json
import os
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
seen = {}

# A clone has what its original had, and goes its own way.
spark.conf.set("spark.sql.shuffle.partitions", "7")
spark.range(3).createOrReplaceTempView("three")
spark.udf.register("plus_one", lambda value: value + 1, "long")
cloned = spark.cloneSession()
spark.sql("DROP VIEW three")
spark.conf.set("spark.sql.shuffle.partitions", "8")
seen["clone"] = [
    cloned.conf.get("spark.sql.shuffle.partitions"),
    [row[0] for row in cloned.sql("SELECT plus_one(id) FROM three ORDER BY 1").collect()],
]
seen["gone"] = spark.catalog.tableExists("three")

# Metrics of a collect and of a write.
observation = Observation("counts")
frame = spark.range(10).observe(
    observation, F.count(F.lit(1)).alias("rows"), F.max("id").alias("most"), F.avg("id").alias("mean")
)
frame.filter("id > 4").collect()
seen["observed"] = observation.get
written = Observation()
spark.range(4).observe(written, F.sum("id").alias("sum")).write.mode("overwrite").parquet("observed")
seen["written"] = written.get

# Modules and files.
with tempfile.TemporaryDirectory() as folder:
    module = Path(folder, "plain_module.py")
    module.write_text("def twice(value):\n    return value * 2\n")
    archive = Path(folder, "packed.zip")
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("packed_module.py", "def thrice(value):\n    return value * 3\n")
    data = Path(folder, "data.txt")
    data.write_text("40")
    spark.addArtifacts(str(module), str(archive), pyfile=True)
    spark.addArtifacts(str(data), file=True)


@F.udf("long")
def with_modules(value):
    import packed_module
    import plain_module
    from pyspark import SparkFiles

    return plain_module.twice(value) + packed_module.thrice(value) + int(open(SparkFiles.get("data.txt")).read())


seen["functions"] = [row[0] for row in spark.range(3).select(with_modules("id")).collect()]


def each(frame, number):
    import packed_module
    import plain_module

    total = packed_module.thrice(plain_module.twice(frame.count()))
    Path("each.txt").write_text(str(total))


query = (
    spark.readStream.format("rate-micro-batch")
    .option("rowsPerBatch", 5)
    .load()
    .writeStream.foreachBatch(each)
    .option("checkpointLocation", "checkpoint")
    .start()
)
while not Path("each.txt").exists() or not Path("each.txt").read_text():
    assert query.isActive, query.exception()
query.stop()
seen["each"] = int(Path("each.txt").read_text())

# What runs under a tag ends when it is interrupted.
spark.addTag("slow")


@F.udf("long")
def slow(value):
    import time

    time.sleep(600)
    return value


def interrupt():
    while not spark.interruptTag("slow"):
        pass


threading.Thread(target=interrupt, daemon=True).start()
try:
    spark.range(1).select(slow("id")).collect()
    seen["interrupted"] = "no"
except Exception as error:
    seen["interrupted"] = str(error)
spark.clearTags()

print(json.dumps(seen))
sys.stdout.flush()
# The function that was interrupted may still sleep in its process.
os._exit(0)
