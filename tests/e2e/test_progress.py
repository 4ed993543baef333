"""Progress is Spark's, field by field: both engines run the same queries over the same files."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import spark_runner
from command import Onefold
from conftest import ROOT
from queries import DELAY_MS, EVENT_TIME, WINDOW_MS, Windows
from spark_runner import SparkQuery
from stream import stream_in

import events

Fields = dict[str, object]

# What only one of the two tells. `docs/progress.md` says why.
OURS = [
    r"watermarks\[\d+\]\.(node|column|sources\[\d+\]|watermark|lastRows|idle|holdsBack)",
    r"sink\.metrics\.(rows|hash)",
    r"stateOperators\[\d+\]\.customMetrics\.numLateRows",
]
SPARKS = [
    r"stateOperators\[\d+\]\.customMetrics\.(forceSnapshotCount|numSnapshotsAutoRepaired)",
    r"stateOperators\[\d+\]\.customMetrics\.loadedMapCache(Hit|Miss)Count",
    r"stateOperators\[\d+\]\.customMetrics\.SnapshotLastUploaded\.partition_\d+_default",
]
# What is measured, or drawn by lot: of one type, but not of one value.
MEASURED = [
    r"id|runId|timestamp|batchDuration|durationMs\.\w+",
    r"(sources\[\d+\]\.)?(input|processed)RowsPerSecond",
    r"stateOperators\[\d+\]\.(\w+TimeMs|memoryUsedBytes)",
    r"stateOperators\[\d+\]\.customMetrics\.stateOnCurrentVersionSizeBytes",
]


def fields(value: object, path: str = "") -> Fields:
    """Every value by its place, in the order in which they are printed."""
    found: Fields = {}
    if isinstance(value, dict) and value:
        for key, below in value.items():
            found |= fields(below, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for place, below in enumerate(value):
            found |= fields(below, f"{path}[{place}]")
    else:
        found[path] = value
    return found


def fits(path: str, patterns: list[str]) -> bool:
    return any(re.fullmatch(pattern, path) for pattern in patterns)


def compare(ours: dict, sparks: dict, outputs: tuple[Path, Path]) -> list[str]:
    """The differences between two progresses, besides those that are meant."""
    mine = {path: it for path, it in fields(ours).items() if not fits(path, OURS)}
    theirs = {path: it for path, it in fields(sparks).items() if not fits(path, SPARKS)}
    if list(mine) != list(theirs):
        return [f"fields in their order: {list(mine)}, Spark's: {list(theirs)}"]
    for side, output in ((mine, outputs[0]), (theirs, outputs[1])):
        side["sink.description"] = side["sink.description"].replace(str(output), "OUTPUT")
    return [
        f"{path}: {mine[path]!r}, Spark's {theirs[path]!r}"
        for path in mine
        if type(mine[path]) is not type(theirs[path])
        or (mine[path] != theirs[path] and not fits(path, MEASURED))
    ]


@dataclass(frozen=True)
class Both:
    """A query's progress by both engines, and where each wrote."""

    ours: list[dict]
    sparks: list[dict]
    outputs: tuple[Path, Path]


@pytest.fixture(scope="module")
def both(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Both]:
    """A query without state and one with windows, by both engines."""
    folder = tmp_path_factory.mktemp("progress")
    (folder / "logs").mkdir()
    onefold = Onefold(binary, folder / "logs")
    plain = stream_in(folder / "plain")
    plain.feeder.feed(3)
    windows = Windows(stream_in(folder / "windows"), files_per_batch=1)
    windows.rewrite(partitions=2)
    # Record 49 is late, and windows are given out.
    windows.stream.feeder.feed(9)
    ours = [onefold.drain(it.pipeline).progress for it in (plain, windows.stream)]
    common = {"schema": events.SCHEMA, "name": "out"}
    query = SparkQuery(
        plain.input, folder / "out-1", folder / "checkpoint-1", columns=["id", "name", "v"], **common
    )
    stateful = SparkQuery(
        windows.stream.input,
        folder / "out-2",
        folder / "checkpoint-2",
        columns=["id", "id % 2 AS k", f"{EVENT_TIME} AS ts"],
        watermark=("ts", f"{DELAY_MS} milliseconds"),
        select="SELECT window.start AS start, k, count(*) AS n, sum(id) AS total FROM events "
        f"GROUP BY window(ts, '{WINDOW_MS} milliseconds'), k",
        **common,
    )
    sparks = spark_runner.run_each([query, stateful])
    return {
        "plain": Both(ours[0], sparks[0], (plain.output, query.output)),
        "windows": Both(ours[1], sparks[1], (windows.stream.output, stateful.output)),
    }


@pytest.mark.parametrize(("name", "batches"), [("plain", 3), ("windows", 10)])
def test_every_batch_tells_what_spark_tells(
    both: dict[str, Both], name: str, batches: int
) -> None:
    of = both[name]
    assert len(of.ours) == len(of.sparks) == batches
    for mine, theirs in zip(of.ours, of.sparks, strict=True):
        differences = compare(mine, theirs, of.outputs)
        assert not differences, f"batch {theirs['batchId']}: " + "\n".join(differences)


def test_rates_have_one_decimal_in_both(both: dict[str, Both]) -> None:
    for side in (side for of in both.values() for side in (of.ours, of.sparks)):
        told = [fields(each) for each in side]
        rates = [it for each in told for path, it in each.items() if path.endswith("RowsPerSecond")]
        assert any(rate > 0 for rate in rates)
        assert all(rate == round(rate, 1) for rate in rates), rates


def test_late_rows_and_removed_state_are_among_what_is_compared(both: dict[str, Both]) -> None:
    operators = [each["stateOperators"][0] for each in both["windows"].sparks]
    assert sum(it["numRowsDroppedByWatermark"] for it in operators) == 1
    assert sum(it["numRowsRemoved"] for it in operators) > 0


def test_what_only_one_engine_tells_is_there_and_in_the_docs(both: dict[str, Both]) -> None:
    told = (ROOT / "docs" / "progress.md").read_text(encoding="utf-8")
    for patterns, side in ((OURS, "ours"), (SPARKS, "sparks")):
        paths = [path for each in getattr(both["windows"], side) for path in fields(each)]
        for pattern in patterns:
            those = {path for path in paths if re.fullmatch(pattern, path)}
            assert those, f"nothing fits {pattern}"
            names = {re.sub(r"\[\d+\]", "", path) for path in those}
            leaves = {re.sub(r".*\.", "", re.sub(r"\.partition_.*", "", it)) for it in names}
            assert all(f"`{leaf}`" in told for leaf in leaves), f"docs lack one of {leaves}"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda it: it.pop("batchDuration"), "fields in their order"),
        (lambda it: it.update(numInputRows=7.0), "numInputRows"),
        (lambda it: it["sources"][0].update(endOffset={"logOffset": 99}), "logOffset"),
        (lambda it: it["stateOperators"][0].update(numRowsTotal=999), "numRowsTotal"),
        (lambda it: it["sink"].update(description="FileSink[elsewhere]"), "sink.description"),
        (lambda it: it.update(more=1), "fields in their order"),
    ],
)
def test_a_difference_is_seen(both: dict[str, Both], change, said: str) -> None:
    of = both["windows"]
    changed = {key: it for key, it in of.ours[5].items()}
    changed["sources"] = [dict(it) for it in changed["sources"]]
    changed["stateOperators"] = [dict(it) for it in changed["stateOperators"]]
    changed["sink"] = dict(changed["sink"])
    change(changed)
    differences = compare(changed, of.sparks[5], of.outputs)
    assert differences and said in differences[0], differences
