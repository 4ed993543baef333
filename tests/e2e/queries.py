"""Queries of several shapes, and what each must give, computed in plain Python.

Each reads the numbered records. A query with state takes a number of partitions, which may be
another one at each start.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import manifest
import oracle
import pipeline
import pyarrow.dataset as dataset
from stream import Stream

import events

STEP_MS = 1000
JITTER_MS = 10_000  # records come out of order by as much
DELAY_MS = 20_001  # odd, where all times are even: no time ever equals a watermark
BOUND_MS = 15_000
WINDOW_MS = 10_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EVENT_TIME = (
    f"timestamp_millis({events.FIRST_FILE_AT * 1000} + id * {STEP_MS} + id * 7918 % {JITTER_MS}"
    " - CASE WHEN id % 50 = 49 THEN 86400000 ELSE 0 END)"
)
WATERMARK = f"WATERMARK ts DELAY OF INTERVAL '{DELAY_MS / 1000}' SECONDS"


def late(record_id: int) -> bool:
    """A day late, from record 49 on: behind every watermark that its batch may have."""
    return record_id % 50 == 49


def event_ms(record_id: int) -> int:
    return events.FIRST_FILE_AT * 1000 + record_id * STEP_MS + record_id * 7918 % JITTER_MS


def in_time(records: int) -> list[int]:
    return [i for i in range(records) if not late(i)]


def newest_watermark(ids: Iterable[int]) -> int:
    """Where the watermark stands after these records, of which none is late."""
    return max(event_ms(i) for i in ids) - DELAY_MS


def rows_at(stream: Stream) -> list[dict]:
    """The rows at the sink, which are the same for both kinds of readers."""
    manifest.check(stream.output)
    by_manifest = oracle.rows(manifest.data_files(stream.output))
    listed = oracle.rows(oracle.listed_plainly(stream.output))
    assert sorted(map(repr, by_manifest)) == sorted(map(repr, listed))
    return listed


@dataclass
class Query:
    """A query over a stream's input, at most so many files a batch."""

    stream: Stream
    files_per_batch: int
    key: ClassVar[tuple[str, ...]] = ("id",)

    def source(self, **options: object) -> str:
        options = {"maxFilesPerTrigger": self.files_per_batch} | options
        return pipeline.read_files(self.stream.input, **options)

    def write(self, select: str, settings: dict[str, object], **table: object) -> None:
        preamble = "".join(f"SET {key} = {value};\n" for key, value in settings.items())
        text = pipeline.streaming_table(
            select, self.stream.output, self.stream.checkpoint, **table
        )
        pipeline.written(preamble + text, self.stream.pipeline)


class Partitioned(Query):
    """Copies the records into the folders `k=0`, `k=1`, `k=2`."""

    def rewrite(self) -> None:
        select = f"SELECT id, name, v, id % 3 AS k FROM {self.source(cleanSource='delete')}"
        settings = {"spark.sql.streaming.minBatchesToRetain": 2}
        self.write(select, settings, partitioned_by="k")

    def check_exact(self) -> int:
        self.stream.check_exact()
        files = dataset.dataset(self.stream.output, format="parquet", partitioning="hive")
        rows = files.to_table(columns=["id", "k"]).to_pylist()
        astray = [row for row in rows if row["id"] % 3 != row["k"]]
        assert not astray, astray[:8]
        return len(rows)


class Stateful(Query):
    """Logs are purged and state is merged often, so that this is met as well."""

    def select(self) -> str:
        raise NotImplementedError

    def rewrite(self, partitions: int = 2, provider: str = "memory") -> None:
        settings = {
            "spark.sql.shuffle.partitions": partitions,
            "spark.sql.streaming.stateStore.providerClass": provider,
            "spark.sql.streaming.minBatchesToRetain": 2,
            "spark.sql.streaming.stateStore.minDeltasForSnapshot": 3,
        }
        self.write(self.select(), settings)


class Windows(Stateful):
    """Counts and sums by window and key, each given out once, when the watermark passes it."""

    key = ("start", "k")

    def select(self) -> str:
        return (
            "SELECT window.start AS start, k, count(*) AS n, sum(id) AS total\n"
            f"FROM (SELECT id, id % 2 AS k, {EVENT_TIME} AS ts FROM {self.source()}) {WATERMARK}\n"
            f"GROUP BY window(ts, '{WINDOW_MS} milliseconds'), k"
        )

    def check_exact(self) -> int:
        records = self.stream.feeder.records
        watermark = newest_watermark(in_time(records))
        counts, sums = Counter(), Counter()
        for i in in_time(records):
            start = event_ms(i) // WINDOW_MS * WINDOW_MS
            if start + WINDOW_MS <= watermark:
                counts[start, i % 2] += 1
                sums[start, i % 2] += i
        expected = [(*key, count, sums[key]) for key, count in counts.items()]
        found = [
            ((row["start"] - EPOCH) // timedelta(milliseconds=1), row["k"], row["n"], row["total"])
            for row in rows_at(self.stream)
        ]
        assert sorted(found) == sorted(expected)
        return len(found)


class Joined(Stateful):
    """Each record with the one that is ten later, if that is there, not too far in time."""

    def select(self) -> str:
        return (
            "SELECT l.id, r.v\n"
            f"FROM (SELECT id, {EVENT_TIME} AS ts FROM {self.source()}) {WATERMARK} AS l\n"
            f"LEFT JOIN (SELECT id - 10 AS id, v, {EVENT_TIME} AS ts FROM {self.source()}"
            f" WHERE id % 3 <> 0) {WATERMARK} AS r\n"
            f"ON l.id = r.id AND r.ts BETWEEN l.ts AND l.ts + INTERVAL {BOUND_MS // 1000} SECONDS"
        )

    def check_exact(self) -> int:
        records = self.stream.feeder.records
        there = {i for i in in_time(records) if i % 3 != 0}
        # The least of both sides, and the right one does not see what is filtered below it.
        watermark = newest_watermark(there)
        expected = []
        for i in in_time(records):
            other = i + 10
            if other in there and 0 <= event_ms(other) - event_ms(i) <= BOUND_MS:
                expected.append((i, events.value_of(other)))
            elif event_ms(i) + BOUND_MS <= watermark:
                expected.append((i, None))
        found = [(row["id"], row["v"]) for row in rows_at(self.stream)]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        matched = sum(value is not None for _, value in found)
        return min(matched, len(found) - matched)
