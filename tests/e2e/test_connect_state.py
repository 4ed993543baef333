"""State and data sources of Python programs: exact through kills and another number of partitions."""

import json
from pathlib import Path

import pyarrow.parquet

from connect_server import ConnectServer


def rows(folder: Path, *columns: str) -> list:
    """The rows of all files of a plain listing, as any reader sees them."""
    values: list = []
    for file in sorted(folder.rglob("*.parquet")):
        if not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts):
            table = pyarrow.parquet.ParquetFile(file).read()
            values.extend(zip(*(table[column].to_pylist() for column in columns)))
    return values


def test_state_of_a_processor_is_exact_through_a_kill_and_another_number_of_partitions(
    binary: Path, tmp_path: Path
):
    source, out, checkpoint = (tmp_path / name for name in ("in", "out", "checkpoint"))
    source.mkdir()
    files = 40
    for file in range(files):
        ids = range(file * 6, file * 6 + 6)
        lines = [json.dumps({"id": number, "k": f"k{number % 5}"}) for number in ids]
        (source / f"{file:04}.json").write_text("\n".join(lines) + "\n")
    server = ConnectServer(binary, tmp_path / "server")
    server.run("keyed_state.py", source, out, checkpoint, server.process.pid, 3, ok=False)
    server.kill()
    done = len(list((checkpoint / "commits").glob("[0-9]*")))
    assert 5 <= done < files, "the server was not killed in mid-stream"
    again = ConnectServer(binary, tmp_path / "server")
    again.run("keyed_state.py", source, out, checkpoint, "-", 2)
    assert again.stop() == 0
    # Each row once, and each at its place among the rows of its key.
    expected = sorted(
        (f"k{number % 5}", number, number // 5 + 1) for number in range(files * 6)
    )
    assert sorted(rows(out, "k", "id", "place")) == expected


def test_timers_initial_state_and_static_rows_work(server: ConnectServer, tmp_path: Path):
    source = tmp_path / "in"
    source.mkdir()
    batches = [
        [("a", 1, 10), ("b", 2, 20)],
        [("a", 3, 30)],
        [("c", 4, 59)],
    ]
    for number, batch in enumerate(batches):
        lines = [
            json.dumps({"k": k, "n": n, "ts": f"2026-01-01T00:00:{second}Z"})
            for k, n, second in batch
        ]
        (source / f"{number}.json").write_text("\n".join(lines) + "\n")
    seen = server.run("state_timers.py", source, tmp_path / "checkpoint").result
    # A key's timers are due when the watermark has reached them: that of a's first row (10 s) with
    # the second batch, which adds to the sum before it, and then its sum is gone.
    assert seen["sums"] == [
        ["a", 1004, "2026-01-01 00:00:30"],
        ["b", 2, "2026-01-01 00:00:20"],
        ["c", 4, "2026-01-01 00:00:59"],
    ]
    assert seen["counts"] == [["a", 2], ["b", 1]]


def test_a_data_source_of_python_is_read_again_by_its_offsets(binary: Path, tmp_path: Path):
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    server = ConnectServer(binary, tmp_path / "server")
    server.run("data_source.py", out, checkpoint, server.process.pid, ok=False)
    server.kill()
    done = len(list((checkpoint / "commits").glob("[0-9]*")))
    assert 5 <= done < 30, "the server was not killed in mid-stream"
    again = ConnectServer(binary, tmp_path / "server")
    seen = again.run("data_source.py", out, checkpoint, "-").result
    assert again.stop() == 0
    assert sorted(rows(out, "id", "name")) == [(number, f"n{number}") for number in range(120)]
    assert seen["read"] == [[number, f"n{number}"] for number in range(10)]
    assert seen["some"] == ["n7"]
    assert seen["written"] == {"0.json": 120, "batch.json": 10}
