"""The tests' own tools do see the faults that they look for."""

from pathlib import Path

import events
import oracle
import pyarrow
import pyarrow.parquet as parquet
import pytest
from visibility import Watch


def write_file(place: Path, ids: list[int]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    rows = [events.record(record_id) for record_id in ids]
    parquet.write_table(pyarrow.Table.from_pylist(rows), place)


def commit(checkpoint: Path, batch: int) -> None:
    (checkpoint / "commits").mkdir(parents=True, exist_ok=True)
    (checkpoint / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def whole(batch: int) -> list[int]:
    return list(events.ids_of_file(batch))


def test_judge_names_lost_doubled_and_invented_records() -> None:
    rows = [events.record(i) for i in (0, 1, 1, 3, 99)]
    verdict = oracle.judge(rows, 4)
    assert (verdict.lost, verdict.duplicated) == ([2], [1])
    assert [row["id"] for row in verdict.invented] == [99]
    changed = events.record(0) | {"name": "other"}
    assert not oracle.judge([changed], 1).exact
    assert oracle.judge([events.record(0)], 1).exact


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"part-0-b0-g1-x.parquet": whole(0), "part-0-b1-g1-x.parquet": whole(1)}, None),
        # A file of a batch that is not committed yet is nobody's business.
        (
            {
                "part-0-b0-g1-x.parquet": whole(0),
                "part-0-b1-g1-x.parquet": whole(1),
                "part-0-b2-g1-x.parquet": whole(2),
                "part-0-b2-g2-x.parquet": whole(2),
            },
            None,
        ),
        (
            {
                "part-0-b0-g1-x.parquet": whole(0),
                "part-0-b1-g1-x.parquet": whole(1),
                "part-0-b1-g2-x.parquet": whole(1),
            },
            "id 7 in",
        ),
        # Folders of partitions are walked.
        (
            {
                "k=0/part-0-b0-g1-x.parquet": whole(0),
                "k=1/part-0-b1-g1-x.parquet": whole(1),
                "k=1/.part-0-b1-g2-x.parquet": whole(1),
            },
            None,
        ),
        (
            {
                "part-0-b0-g1-x.parquet": whole(0),
                "k=1/part-0-b1-g1-x.parquet": whole(1),
                "k=2/part-0-b1-g1-x.parquet": whole(1)[3:4],
            },
            "id 10 in",
        ),
        ({"part-0-b0-g1-x.parquet": whole(0)}, "missing [7"),
        (
            {"part-0-b0-g1-x.parquet": whole(0), "part-0-b1-g1-x.parquet": whole(2)},
            "too early [14",
        ),
    ],
)
def test_the_watch_sees_a_doubled_a_missing_and_an_early_record(
    tmp_path: Path, files: dict[str, list[int]], fault: str | None
) -> None:
    output, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    for name, ids in files.items():
        write_file(output / name, ids)
    commit(checkpoint, 0)
    commit(checkpoint, 1)
    watch = Watch(output, checkpoint, 1)
    watch.look()
    if fault is None:
        assert watch.faults == []
    else:
        assert len(watch.faults) == 1 and fault in watch.faults[0], watch.faults


def test_the_watch_sees_a_doubled_row_where_batches_have_no_fixed_size(tmp_path: Path) -> None:
    output, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    commit(checkpoint, 0)
    write_file(output / "part-0-b0-g1-x.parquet", [0, 5])
    watch = Watch(output, checkpoint, None, key=("id", "name"))
    watch.look()
    assert watch.faults == []
    write_file(output / "part-0-b0-g2-x.parquet", [5])
    watch.look()
    assert len(watch.faults) == 1 and "(5, " in watch.faults[0], watch.faults


def test_hidden_and_underscore_names_are_not_listed(tmp_path: Path) -> None:
    for name in ("a.parquet", ".b.parquet", "_c.parquet", "_spark_metadata/0", "k=1/d.parquet"):
        write_file(tmp_path / name, [0])
    names = [path.name for path in oracle.listed_plainly(tmp_path)]
    assert names == ["a.parquet", "d.parquet"]
