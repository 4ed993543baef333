"""One checkpoint and one output, worked on by Spark and by Onefold in turn."""

from collections.abc import Callable
from pathlib import Path

import checkpoint_files
import manifest
import oracle
import pytest
from command import Onefold
from spark_runner import SparkQuery
from stream import Stream

import events

# Batches of each turn. Both logs are compacted at batches 9 and 19: each engine reads what the
# other compacted, and adds to it.
TURNS = (6, 6, 9, 7)


def spark_query(stream: Stream) -> SparkQuery:
    return SparkQuery(
        stream.input, stream.output, stream.checkpoint, events.SCHEMA, ["id", "name", "v"]
    )


def check_after(stream: Stream, query: SparkQuery) -> None:
    """Every record once, for Spark's own reader as for ours."""
    verdict = oracle.judge(query.read_manifest(), stream.feeder.records)
    assert verdict.exact, f"Spark reads the output and finds: {verdict}"
    stream.check_exact()
    checkpoint_files.check_whole(stream.checkpoint)


@pytest.mark.parametrize("first", ["spark", "onefold"])
def test_each_engine_continues_what_the_other_did(
    onefold: Onefold, stream: Stream, first: str
) -> None:
    query = spark_query(stream)
    engines: dict[str, Callable[[], list[dict]]] = {
        "spark": query.run_batches,
        "onefold": lambda: onefold.drain(stream.pipeline).progress,
    }
    second = "onefold" if first == "spark" else "spark"
    batch = 0
    for turn, engine in zip(TURNS, (first, second, first, second), strict=True):
        stream.feeder.feed(turn)
        progress = engines[engine]()
        ran = [(it["batchId"], it["numInputRows"]) for it in progress if it["numInputRows"]]
        wanted = [(batch + i, events.RECORDS_PER_FILE) for i in range(turn)]
        assert ran == wanted, f"{engine}, batches {batch}.."
        batch += turn
    compacted = {path.name for path in (stream.output / "_spark_metadata").glob("*.compact")}
    assert "9.compact" in compacted and "19.compact" in compacted
    check_after(stream, query)


def test_spark_continues_what_onefold_left_after_a_kill(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.feed(6)
    crash = {"ONEFOLD_CRASH_AT": "stage.done:4"}
    killed = onefold.call("run", stream.pipeline, "--trigger", "available-now", env=crash)
    assert killed.status == -9, str(killed)
    query = spark_query(stream)

    query.run_batches()

    found = oracle.judge(oracle.rows(manifest.data_files(stream.output)), stream.feeder.records)
    assert found.exact, str(found)


def test_onefold_refuses_nothing_that_spark_finished(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.feed(3)
    spark_query(stream).run_batches()

    again = onefold.drain(stream.pipeline)

    assert [it for it in again.progress if it["numInputRows"]] == []
    assert onefold.ok("checkpoint", "show", stream.checkpoint).stdout
    stream.check_exact()
