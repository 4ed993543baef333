"""A function that never returns holds a collect, which another thread interrupts."""

import json
import os
import signal
import sys
import threading
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

(mark,) = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


@udf("bigint")
def hang(value):
    with open(f"{mark}.{os.getpid()}", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{mark}.{os.getpid()}", f"{mark}.done")
    signal.pause()


def interrupt():
    while not os.path.exists(f"{mark}.done"):
        time.sleep(0.05)
    spark.interruptAll()


thread = threading.Thread(target=interrupt)
thread.start()
active = True
try:
    spark.range(1).select(hang("id")).collect()
except Exception as error:
    active = "OPERATION_CANCELED" not in str(error) and str(error)
thread.join()
print(json.dumps({"active": active, "exception": None}))
