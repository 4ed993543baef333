"""Writes records of all sorts to Kafka, and what Kafka cannot take."""

import json
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

bootstrap, first, second = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


def to_kafka(writer, **options):
    writer = writer.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    for name, value in options.items():
        writer = writer.option(name, value)
    return writer


def streamed(rows, schema, select, **options):
    """Writes rows as a stream of one file."""
    folder = tempfile.mkdtemp()
    spark.createDataFrame(rows, schema).coalesce(1).write.mode("overwrite").parquet(f"{folder}/in")
    stream = spark.readStream.schema(schema).parquet(f"{folder}/in").selectExpr(*select)
    options = {"checkpointLocation": f"{folder}/checkpoint"} | options
    query = to_kafka(stream.writeStream, **options).trigger(availableNow=True).start()
    query.awaitTermination()


def refused(act):
    try:
        act()
    except Exception as error:
        return str(error)
    return "it was taken"


HEADERS = "headers array<struct<key:string,value:binary>>"
PARTS = f"topic string, partition int, key string, value string, {HEADERS}"
headers = [("h", None), ("h", b""), ("h", b"x")]
streamed(
    [
        (first, 1, "a", "1", headers),
        (first, 1, None, "", None),
        (first, 1, "", None, []),
        (second, None, "k", "other", None),
    ],
    PARTS,
    ["*"],
)
whole = spark.range(3).selectExpr("concat('w', id) AS value", "0 AS partition")
to_kafka(whole.write, topic=first).save()

text = "value string"
print(
    json.dumps(
        {
            "no topic": refused(lambda: streamed([("a",)], text, ["value"])),
            "no value": refused(lambda: streamed([("a",)], text, ["value AS v"], topic=first)),
            "number": refused(
                lambda: streamed([("1",)], text, ["CAST(value AS BIGINT) AS value"], topic=first)
            ),
            "null topic": refused(
                lambda: streamed([("a",)], text, ["value", "CAST(NULL AS STRING) AS topic"])
            ),
            "large": refused(
                lambda: streamed([("a",)], text, ["repeat(value, 2000000) AS value"], topic=first)
            ),
            "missing topic": refused(
                lambda: streamed([("a",)], text, ["value"], topic="there.is.no.such.topic")
            ),
            "overwrite": refused(
                lambda: to_kafka(whole.write.mode("overwrite"), topic=first).save()
            ),
        }
    )
)
