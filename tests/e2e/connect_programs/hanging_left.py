"""A function that never returns, of a server that is killed meanwhile."""

import json
import os
import select
import signal
import sys

from pyspark.sql import SparkSession

mark, server = sys.argv[1:]
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
process = os.pidfd_open(int(open(f"{mark}.done").read()))
os.kill(int(server), signal.SIGKILL)
print(json.dumps({"process": bool(select.select([process], [], [], 60)[0])}))
sys.stdout.flush()
# The session cannot be closed any more.
os._exit(0)
