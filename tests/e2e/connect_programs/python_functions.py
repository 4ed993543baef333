"""Functions of the user in Python, over frames and over streams."""

import json
import sys

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

(folder,) = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
seen = {}


@F.udf("string")
def shout(text):
    return None if text is None else text.upper() + "!"


@F.pandas_udf("double")
def half(values: pd.Series) -> pd.Series:
    return values / 2


frame = spark.createDataFrame([(1, "a"), (2, None)], "id BIGINT, name STRING")
seen["udf"] = [row[0] for row in frame.select(shout("name")).collect()]
seen["name"] = frame.select(shout("name")).columns
seen["pandas"] = [row[0] for row in frame.select(half("id")).collect()]
spark.udf.register("twice", lambda value: value * 2, "bigint")
spark.range(3).createOrReplaceTempView("numbers")
seen["sql"] = [row[0] for row in spark.sql("SELECT twice(id) FROM numbers").collect()]


def doubled(parts):
    for part in parts:
        yield pd.concat([part, part])


seen["map"] = sorted(row.id for row in frame.mapInPandas(doubled, frame.schema).collect())
grouped = frame.groupBy("id").applyInPandas(
    lambda part: pd.DataFrame({"id": part.id, "n": [len(part)]}), "id BIGINT, n BIGINT"
)
seen["grouped"] = sorted(tuple(row) for row in grouped.collect())

rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()


class Writer:
    def open(self, partition, epoch):
        self.file = open(f"{folder}/{epoch}-{partition}", "w")
        return True

    def process(self, row):
        self.file.write(f"{row.value}\n")

    def close(self, error):
        self.file.close()


query = (
    rate.select(shout(F.col("value").cast("string")).alias("value"))
    .writeStream.foreach(Writer())
    .start()
)
while (query.lastProgress or {"batchId": 0})["batchId"] < 2:
    query.awaitTermination(0.05)
query.stop()
seen["exception"] = query.exception() and str(query.exception())
print(json.dumps(seen))
