"""Numbers each key's rows by state of all kinds, into Parquet. With a process id it kills that
process in mid-stream; with a number of partitions, the state has that many from its start on."""

import os
import signal
import sys

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

source, out, checkpoint, victim, partitions = sys.argv[1:]


class Numbering(StatefulProcessor):
    """Gives each row its place among the key's rows, by three variables that must agree."""

    def init(self, handle):
        self.count = handle.getValueState("count", "n BIGINT")
        self.seen = handle.getListState("seen", "id BIGINT")
        self.tags = handle.getMapState("tags", "tag STRING", "n INT, ids ARRAY<BIGINT>")

    def handleInputRows(self, key, rows, timerValues):
        count = self.count.get()[0] if self.count.exists() else 0
        for row in rows:
            count += 1
            self.seen.appendValue((row.id,))
            tag = (f"t{row.id % 3}",)
            n, ids = self.tags.getValue(tag) if self.tags.containsKey(tag) else (0, [])
            self.tags.updateValue(tag, (n + 1, (ids + [row.id])[-3:]))
            yield Row(k=key[0], id=row.id, place=count)
        self.count.update((count,))
        assert len(list(self.seen.get())) == count
        assert sum(n for n, _ in self.tags.values()) == count

    def close(self):
        pass


spark = SparkSession.builder.getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", partitions)
events = (
    spark.readStream.schema("id BIGINT, k STRING").option("maxFilesPerTrigger", 1).json(source)
)
numbered = events.groupBy("k").transformWithState(
    Numbering(), "k STRING, id BIGINT, place BIGINT", "Append", "None"
)
writer = numbered.writeStream.format("parquet").option("checkpointLocation", checkpoint)
if victim == "-":
    query = writer.trigger(availableNow=True).start(out)
    query.awaitTermination()
else:
    query = writer.start(out)
    while (query.lastProgress or {"batchId": 0})["batchId"] < 5:
        query.awaitTermination(0.05)
    os.kill(int(victim), signal.SIGKILL)
    # The client would try for minutes to say goodbye.
    os._exit(0)
