"""Delta tables: written by Onefold and read by another implementation, and the other way round."""

from pathlib import Path

import events
import pyarrow
from command import Onefold
from connect_server import ConnectServer
from deltalake import DeltaTable, write_deltalake
from pipeline import quoted, read_files, written

# Points between two durable acts of a batch that a query without state passes.
POINTS = [
    "intent.before",
    "intent.created",
    "stage.during",
    "stage.done",
    "publish.before-mark",
    "publish.marked",
    "commit.before",
    "commit.created",
    "recovery.before",
    "recovery.discarded",
]


def copy(folder: Path, source: str, output: Path) -> Path:
    pairs = f"'checkpointLocation' {quoted(folder / 'checkpoint')}"
    text = (
        f"CREATE STREAMING TABLE out USING delta LOCATION {quoted(output)}\n"
        f"OPTIONS ({pairs})\nAS SELECT id, name, v FROM {source};\n"
    )
    return written(text, folder / "pipeline.sql")


def rows(table: Path) -> list[dict]:
    return sorted(DeltaTable(table).to_pyarrow_table().to_pylist(), key=lambda row: row["id"])


def check_exact(table: Path, records: int) -> None:
    assert rows(table) == [events.record(number) for number in range(records)]


def test_a_program_writes_and_reads_tables_as_with_spark(server: ConnectServer):
    seen = server.run("delta.py").result
    assert "already exists" in seen["exists"]
    assert seen["all"] == [1, 2, 11, 12] and seen["filtered"] == [11]
    assert seen["first"] == [1, 2] and seen["sql"] == 4
    assert seen["columns"] == [["id", "bigint"], ["k", "string"]]
    assert "`more`" in seen["unknown"] and "mergeSchema" in seen["unknown"]
    assert sorted(seen["merged"], key=str) == [1.5, 1.5, None, None, None, None]
    assert seen["overwritten"] == [1]
    assert seen["table"] == [1, 1, 2, 3] and seen["empty"] == [] and seen["made"] == [1, 1, 2, 3]
    assert seen["elsewhere"] == [1]
    assert seen["copy"] == [1, 1, 2] and seen["once"] == [1, 1, 2]
    assert seen["counts"] == [["a b", 2], ["c/d", 1]]
    assert (seen["deleted"], seen["updated"]) == (1, 2)
    assert seen["merged_rows"] == {
        "num_affected_rows": 3,
        "num_updated_rows": 1,
        "num_deleted_rows": 1,
        "num_inserted_rows": 1,
    }
    assert seen["m"] == seen["after"] == [[1, "A!"], [2, "bB"], [9, "new"]]
    assert seen["history"][:3] == ["MERGE", "UPDATE", "DELETE"] and seen["optimized"] == "OPTIMIZE"
    assert "168 hours" in seen["vacuum"] and seen["kept_files"] == 0 and seen["by_path"] == 2
    table = DeltaTable(server.folder / "t")
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [1, 1, 2]
    assert table.metadata().partition_columns == ["k"]
    operations = [commit["operation"] for commit in table.history()]
    assert operations[0] == "WRITE"
    copied = DeltaTable(server.folder / "copy").history()
    assert {commit["operation"] for commit in copied} == {"STREAMING UPDATE"}


def test_killed_at_every_point_each_row_is_there_once(onefold: Onefold, tmp_path: Path):
    feeder = events.Feeder(tmp_path / "in")
    output = tmp_path / "out"
    pipeline = copy(tmp_path, read_files(tmp_path / "in"), output)
    killed = 0
    for point in POINTS:
        for time in (1, 2):
            feeder.feed(3)
            env = {"ONEFOLD_CRASH_AT": f"{point}:{time}"}
            died = onefold.start("run", pipeline, "--trigger", "available-now", env=env).finished()
            killed += died.status != 0
    feeder.feed(1)
    onefold.drain(pipeline)
    assert killed >= len(POINTS), killed
    check_exact(output, feeder.records)
    # Files that no commit names are gone, as far as their batches are decided.
    named = {Path(path).name for path in DeltaTable(output).file_uris()}
    there = {path.name for path in output.glob("*.parquet")}
    assert named == there
    assert any(output.glob("_delta_log/*.checkpoint.parquet"))


def test_a_table_of_another_writer_is_followed(onefold: Onefold, tmp_path: Path):
    source, output = tmp_path / "source", tmp_path / "out"

    def write(first: int, count: int) -> None:
        records = [events.record(number) for number in range(first, first + count)]
        write_deltalake(source, pyarrow.Table.from_pylist(records), mode="append")

    write(0, 5)
    write(5, 5)
    pipeline = copy(tmp_path, f"STREAM read_delta({quoted(source)})", output)
    onefold.drain(pipeline)
    check_exact(output, 10)
    write(10, 3)
    DeltaTable(source).optimize.compact()
    write(13, 3)
    onefold.drain(pipeline)
    check_exact(output, 16)


def test_an_append_goes_behind_another_writer_s_merge_and_compaction(
    onefold: Onefold, tmp_path: Path
):
    feeder = events.Feeder(tmp_path / "in")
    output = tmp_path / "out"
    pipeline = copy(tmp_path, read_files(tmp_path / "in"), output)
    feeder.feed(2)
    onefold.drain(pipeline)
    DeltaTable(output).optimize.compact()
    feeder.feed(1)
    onefold.drain(pipeline)
    changed = pyarrow.Table.from_pylist([events.record(3) | {"name": "merged"}])
    merge = DeltaTable(output).merge(changed, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().execute()
    feeder.feed(1)
    onefold.drain(pipeline)
    expected = [events.record(number) for number in range(feeder.records)]
    expected[3]["name"] = "merged"
    assert rows(output) == expected


def test_a_function_of_foreach_batch_that_fails_behind_its_writes_writes_nothing_twice(server: ConnectServer):
    seen = server.run("delta_once.py").result
    ids = [10 * number + place for number in range(3) for place in range(4)]
    assert seen == {
        "failures": [0, 1, 2],
        "rows": sorted(ids + ids),
        "log": ids,
        "sums": [[0, 6], [1, 6]],
        "lines": ids,
        "files": ids,
        "plain": [0, 0],
    }
