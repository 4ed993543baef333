"""Delta tables, as a program of a user writes and reads them."""

import json

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
seen = {}


def ids(frame) -> list:
    return sorted(row.id for row in frame.select("id").collect())


def fails(act) -> str:
    try:
        act()
    except Exception as error:
        return str(error)
    return ""


first = spark.createDataFrame([Row(id=1, k="a b"), Row(id=2, k="c/d")])
first.write.format("delta").partitionBy("k").save("t")
seen["exists"] = fails(lambda: first.write.format("delta").save("t"))
first.write.format("delta").mode("ignore").save("t")
first.withColumn("id", F.col("id") + 10).write.format("delta").mode("append").save("t")
seen["all"] = ids(spark.read.format("delta").load("t"))
seen["filtered"] = ids(spark.read.format("delta").load("t").where("k = 'a b' AND id > 5"))
seen["first"] = ids(spark.read.format("delta").option("versionAsOf", 0).load("t"))
seen["sql"] = spark.sql("SELECT count(*) AS n FROM delta.`t`").first().n
seen["columns"] = spark.read.format("delta").load("t").dtypes

wider = first.withColumn("more", F.lit(1.5))
seen["unknown"] = fails(lambda: wider.write.format("delta").mode("append").save("t"))
wider.write.format("delta").mode("append").option("mergeSchema", "true").save("t")
seen["merged"] = [row.more for row in spark.read.format("delta").load("t").orderBy("id").collect()]
first.limit(1).write.format("delta").mode("overwrite").save("t")
seen["overwritten"] = ids(spark.read.format("delta").load("t"))

first.write.format("delta").saveAsTable("kept")
spark.sql("INSERT INTO kept VALUES (3, 'e')")
first.where("id = 1").write.format("delta").mode("append").saveAsTable("kept")
seen["table"] = ids(spark.table("kept"))
spark.sql("CREATE TABLE made (id BIGINT, k STRING) USING delta PARTITIONED BY (k)")
seen["empty"] = ids(spark.table("made"))
spark.sql("INSERT INTO made SELECT id, k FROM kept")
seen["made"] = ids(spark.table("made"))
spark.sql("CREATE TABLE seen_elsewhere USING delta LOCATION 't'")
seen["elsewhere"] = ids(spark.table("seen_elsewhere"))


def stream(frame, checkpoint, path, **options):
    writer = frame.writeStream.format("delta").option("checkpointLocation", checkpoint)
    query = writer.options(**options).trigger(availableNow=True).start(path)
    assert query.awaitTermination(60), "the stream did not end"
    return query


for _ in range(2):
    stream(spark.readStream.format("delta").load("t"), "c1", "copy")
first.write.format("delta").mode("append").save("t")
stream(spark.readStream.format("delta").load("t"), "c1", "copy")
seen["copy"] = ids(spark.read.format("delta").load("copy"))

counts = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load("copy")
counts = counts.groupBy("k").count().withColumnRenamed("count", "id")
writer = counts.writeStream.format("delta").outputMode("complete")
query = writer.option("checkpointLocation", "c2").trigger(availableNow=True).toTable("counts")
assert query.awaitTermination(60)
seen["counts"] = sorted((row.k, row.id) for row in spark.table("counts").collect())
seen["batches"] = spark.read.format("delta").load("copy").inputFiles() != []


def write_once(batch, number):
    for _ in range(2):
        write = batch.write.format("delta").mode("append")
        write.option("txnAppId", "app").option("txnVersion", number).save("once")


source = spark.readStream.format("delta").load("copy")
query = source.writeStream.foreachBatch(write_once).option("checkpointLocation", "c3")
assert query.trigger(availableNow=True).start().awaitTermination(60)
seen["once"] = ids(spark.read.format("delta").load("once"))

spark.sql("CREATE TABLE m (id BIGINT, v STRING) USING delta")
spark.sql("INSERT INTO m VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL)")
seen["deleted"] = spark.sql("DELETE FROM m WHERE `id` = 3").first().num_affected_rows
changed = spark.sql("UPDATE m AS t SET t.v = concat(upper(v), '!') WHERE t.id = 1 OR v IS NULL")
seen["updated"] = changed.first().num_affected_rows
spark.createDataFrame([Row(id=2, v="B"), Row(id=9, v="new"), Row(id=4, v="gone")]).createOrReplaceTempView("s")
merged = spark.sql(
    """MERGE INTO m AS t USING (SELECT * FROM s) AS s ON t.id = s.id
    WHEN MATCHED AND s.v = 'gone' THEN DELETE
    WHEN MATCHED THEN UPDATE SET v = concat(t.v, s.v)
    WHEN NOT MATCHED THEN INSERT *"""
)
seen["merged_rows"] = merged.first().asDict()
seen["m"] = sorted((row.id, row.v) for row in spark.table("m").collect())
spark.sql("OPTIMIZE kept")
seen["optimized"] = spark.sql("DESCRIBE HISTORY kept LIMIT 1").first().operation
seen["history"] = [row.operation for row in spark.sql("DESCRIBE HISTORY m").collect()]
seen["vacuum"] = fails(lambda: spark.sql("VACUUM m RETAIN 0 HOURS"))
seen["kept_files"] = len(spark.sql("VACUUM m DRY RUN").collect())
seen["by_path"] = len(spark.sql("DESCRIBE HISTORY delta.`t` LIMIT 2").collect())
seen["after"] = sorted((row.id, row.v) for row in spark.table("m").collect())
print(json.dumps(seen))
