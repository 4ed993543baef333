"""Tables of a database as with Spark: written, read, and written by a foreachBatch function that fails."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

url, user, password, table = sys.argv[1:5]
spark = SparkSession.builder.getOrCreate()
here = Path.cwd()
login = {"user": user, "password": password, "driver": "org.example.Driver"}
frame = spark.range(10).withColumn("v", col("id") * 2)
frame.write.jdbc(url, table, properties=login)
try:
    frame.write.jdbc(url, table, properties=login)
    exists = ""
except Exception as error:
    exists = str(error)
frame.write.jdbc(url, table, mode="ignore", properties=login)


def ids(frame):
    return sorted(row.id for row in frame.collect())


def reader(**options):
    return spark.read.format("jdbc").options(url=url, user=user, password=password, **options)


first = ids(spark.read.jdbc(url, table, properties=login))
parts = spark.read.jdbc(
    url, table, column="id", lowerBound=0, upperBound=10, numPartitions=3, properties=login
)
counted, parts = parts.count(), ids(parts)
predicates = spark.read.jdbc(url, table, predicates=["id < 2", "id = 7"], properties=login)
predicates = ids(predicates)
query = reader(query=f"SELECT id, v FROM {table} WHERE v > 10").load()
query = ids(query)
overwriting = frame.where("id < 3").write.format("jdbc").mode("overwrite")
overwriting.options(url=url, dbtable=table, user=user, password=password).save()
overwritten = ids(reader(dbtable=table).load())

named = f"{table}_named"
options = f"url '{url}', dbtable '{table}', user '{user}'" + (f", password '{password}'" if password else "")
spark.sql(f"CREATE TABLE {named} USING jdbc OPTIONS ({options})")
spark.sql(f"INSERT INTO {named} VALUES (100, 7), (101, 8)")
spark.sql(f"INSERT INTO {named} (v, id) SELECT 9, 102")
catalog = {
    "rows": ids(spark.sql(f"SELECT id FROM {named} WHERE v < 9")),
    "made_by": spark.sql(f"SHOW CREATE TABLE {named}").first()[0],
    "columns": [column.name for column in spark.catalog.listColumns(named)],
}
frame.where("id = 9").write.mode("append").saveAsTable(named)
catalog["saved"] = ids(spark.table(named))
spark.sql(f"TRUNCATE TABLE {named}")
catalog["emptied"] = spark.table(named).count()
spark.sql(f"INSERT OVERWRITE {named} VALUES (5, 5)")
spark.sql(f"DROP TABLE {named}")
catalog["left"] = ids(reader(dbtable=table).load())
try:
    spark.sql(f"CREATE TABLE {named} (id BIGINT) USING jdbc OPTIONS ({options})")
except Exception as error:
    catalog["own_columns"] = str(error)

for number in range(3):
    lines = [json.dumps({"id": 10 * number + place}) for place in range(4)]
    (here / "input").mkdir(exist_ok=True)
    (here / "input" / f"{number}.json").write_text("\n".join(lines) + "\n")
failures = []


def write(frame, batch):
    options = {"url": url, "user": user, "password": password}
    frame.write.format("jdbc").mode("append").options(dbtable=f"{table}_a", **options).save()
    frame.write.format("jdbc").mode("append").options(dbtable=f"{table}_a", **options).save()
    frame.write.jdbc(url, f"{table}_b{batch}", properties={"user": user, "password": password})
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
    except Exception as error:
        failures.append("behind the writes" in str(error))

print(
    json.dumps(
        {
            "exists": exists,
            "first": first,
            "parts": parts,
            "predicates": predicates,
            "query": query,
            "count": counted,
            "overwritten": overwritten,
            "catalog": catalog,
            "failures": failures,
            "a": ids(reader(dbtable=f"{table}_a").load()),
            "b": [len(ids(reader(dbtable=f"{table}_b{number}").load())) for number in range(3)],
        }
    )
)
