"""A data source in Python, read and written as a batch and as a stream. With a process id it kills
that process in mid-stream."""

import json
import os
import signal
import sys

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

out, checkpoint, victim = sys.argv[1:]
END = 120


class Range(InputPartition):
    def __init__(self, start, end):
        super().__init__(None)
        self.start = start
        self.end = end


class Written(WriterCommitMessage):
    def __init__(self, count):
        self.count = count


class NumbersReader(DataSourceReader):
    def __init__(self, options):
        self.end = int(options.get("end", 6))

    def partitions(self):
        return [Range(0, self.end // 2), Range(self.end // 2, self.end)]

    def read(self, partition):
        for number in range(partition.start, partition.end):
            yield (number, f"n{number}")


class NumbersStream(DataSourceStreamReader):
    def initialOffset(self):
        return {"at": 0}

    def latestOffset(self, start, limit):
        return {"at": min(start["at"] + 4, END)}

    def partitions(self, start, end):
        middle = (start["at"] + end["at"]) // 2
        return [Range(start["at"], middle), Range(middle, end["at"])]

    def read(self, partition):
        for number in range(partition.start, partition.end):
            yield (number, f"n{number}")

    def commit(self, end):
        pass


class Files:
    def __init__(self, options):
        self.path = options["path"]

    def write(self, iterator):
        return Written(sum(1 for _ in iterator))

    def commit(self, messages, batch="batch"):
        total = sum(message.count for message in messages)
        with open(os.path.join(self.path, f"{batch}.json"), "w") as file:
            json.dump(total, file)


class BatchFiles(Files, DataSourceWriter):
    pass


class StreamFiles(Files, DataSourceStreamWriter):
    pass


class Numbers(DataSource):
    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "id BIGINT, name STRING"

    def reader(self, schema):
        return NumbersReader(self.options)

    def streamReader(self, schema):
        return NumbersStream()

    def writer(self, schema, overwrite):
        return BatchFiles(self.options)

    def streamWriter(self, schema, overwrite):
        return StreamFiles(self.options)


spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(Numbers)
stream = spark.readStream.format("numbers").load()
writer = stream.writeStream.format("parquet").option("checkpointLocation", checkpoint)
if victim != "-":
    query = writer.start(out)
    while (query.lastProgress or {"batchId": 0})["batchId"] < 5:
        query.awaitTermination(0.05)
    os.kill(int(victim), signal.SIGKILL)
    # The client would try for minutes to say goodbye.
    os._exit(0)
query = writer.start(out)
query.processAllAvailable()
query.stop()
seen = {}
frame = spark.read.format("numbers").option("end", 10).load()
seen["read"] = sorted(tuple(row) for row in frame.collect())
seen["some"] = [row.name for row in frame.where("id = 7").select("name").collect()]
written = os.path.join(out, "..", "written")
os.makedirs(written)
frame.write.format("numbers").mode("append").save(written)
again = spark.readStream.schema("id BIGINT").parquet(out)
query = (
    again.writeStream.format("numbers")
    .option("checkpointLocation", checkpoint + "-2")
    .trigger(availableNow=True)
    .start(written)
)
query.awaitTermination()
seen["written"] = {
    name: json.load(open(os.path.join(written, name))) for name in sorted(os.listdir(written))
}
print(json.dumps(seen))
