"""Mistakes of a user, and what PySpark raises for each."""

import json

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ParseException,
    StreamingQueryException,
)
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()


def write(batch, number):
    raise RuntimeError("no room in batch")


def fails_in_python():
    rate.writeStream.foreachBatch(write).start().processAllAvailable()


def fails_in_rows():
    query = rate.selectExpr("1 / (value - value) AS x").writeStream.format("noop").start()
    query.processAllAvailable()


mistakes = {
    "column": lambda: spark.range(3).select("nope").collect(),
    "table": lambda: spark.sql("SELECT * FROM nowhere").collect(),
    "syntax": lambda: spark.sql("SELECT FROM WHERE"),
    "division": lambda: spark.range(1).select(F.expr("1 / (id - id)")).collect(),
    "collect": lambda: rate.collect(),
    "mode": lambda: rate.writeStream.format("noop").outputMode("complete").start(),
    "python": fails_in_python,
    "stream": fails_in_rows,
}
seen = {}
for name, mistake in mistakes.items():
    try:
        mistake()
        seen[name] = ["nothing", "", None]
    except (ParseException, StreamingQueryException, ArithmeticException, AnalysisException) as e:
        seen[name] = [type(e).__name__, str(e), e.getCondition()]
    except Exception as e:
        seen[name] = [f"other: {type(e).__name__}", str(e), None]
print(json.dumps(seen))
