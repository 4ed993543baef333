"""A function that takes more memory than its process may have."""

import json

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.config("spark.executor.pyspark.memory", "1g").getOrCreate()


@udf("bigint")
def size(value):
    return len(bytearray(value << 20))


seen = {"small": spark.range(64, 65).select(size("id")).first()[0] >> 20}
try:
    spark.range(4096, 4097).select(size("id")).collect()
except Exception as error:
    seen["large"] = "MemoryError" in str(error)
seen["after"] = spark.range(1, 2).select(size("id")).first()[0] >> 20
print(json.dumps(seen))
