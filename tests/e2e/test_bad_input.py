"""Odd, broken and hostile input: a defined result, or an error that says what to do; nothing lost."""

import gzip
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import checkpoint_files
import manifest
import oracle
import pipeline
import pyarrow
import pyarrow.parquet as parquet
import pytest
from command import Onefold
from stream import Stream, stream_in

import events

ODD_NAMES = ["with space", "100%", "a=b", "a+b", "é", "it's", 'say "x"', "a&b;c", "%20", "tab\there"]
AVAILABLE_NOW = ("--trigger", "available-now")


def ids_at(output: Path) -> list[int]:
    return sorted(row["id"] for row in oracle.rows(manifest.data_files(output)))


def lines(*ids: int) -> bytes:
    return "".join(json.dumps(events.record(i)) + "\n" for i in ids).encode()


# Names ------------------------------------------------------------------------------------------


def test_files_with_odd_names_are_read_once(onefold: Onefold, stream: Stream) -> None:
    for name in ODD_NAMES:
        stream.feeder.put(f"{name}.json", events.json_lines(stream.feeder.files).encode())
    onefold.drain(stream.pipeline)
    stream.check_exact()
    logged = {
        manifest.local_path(line["path"]).name
        for log in manifest.live_entries(source_log(stream.checkpoint))
        for line in manifest.lines_of(log)
    }
    assert logged == {f"{name}.json" for name in ODD_NAMES}
    again = onefold.drain(stream.pipeline)
    assert [it for it in again.progress if it["numInputRows"]] == []


def source_log(checkpoint: Path) -> dict[int, Path]:
    """The file source's own log has the same form as a manifest."""
    folder = checkpoint / "sources" / "0"
    return {int(path.name.split(".")[0]): path for path in folder.iterdir() if path.name[0] != "."}


@pytest.mark.parametrize("name", ODD_NAMES)
def test_folders_with_odd_names_work(onefold: Onefold, tmp_path: Path, name: str) -> None:
    stream = stream_in(tmp_path / name)
    stream.feeder.feed(3)
    onefold.drain(stream.pipeline)
    stream.feeder.feed(2)
    onefold.drain(stream.pipeline)
    stream.check_exact()
    onefold.ok("verify", stream.checkpoint)


def test_hidden_and_underscore_files_are_no_input(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.feed(1)
    for name in (".hidden.json", "_started.json"):
        (stream.input / name).write_bytes(lines(5000))
    onefold.drain(stream.pipeline)
    stream.check_exact()


def test_relative_paths_mean_the_folder_one_is_in(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.feed(2)
    text = pipeline.copy_events("in", "out", "checkpoint")
    pipeline.written(text, stream.pipeline)
    onefold.drain(stream.pipeline, cwd=stream.folder)
    stream.feeder.feed(2)
    # The same folders, named in full: one and the same query.
    stream.rewrite()
    onefold.drain(stream.pipeline, cwd=Path("/"))
    stream.check_exact()


# Content ----------------------------------------------------------------------------------------


def test_odd_but_good_json_files_give_all_their_rows(onefold: Onefold, stream: Stream) -> None:
    first = lines(*events.ids_of_file(0))
    contents = [
        b"\xef\xbb\xbf" + first,  # a byte-order mark
        b"\n\n" + lines(*events.ids_of_file(1)).replace(b"\n", b"\n  \n"),  # blank lines
        lines(*events.ids_of_file(2)).rstrip(b"\n"),  # no newline at the end
        lines(*events.ids_of_file(3)).replace(b"\n", b"\r\n"),
    ]
    for index, content in enumerate(contents):
        stream.feeder.put(f"f{index}.json", content)
    onefold.drain(stream.pipeline)
    stream.check_exact()


def test_empty_files_make_batches_without_rows(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.feed(1)
    for name in ("empty.json", "blank.json"):
        (stream.input / name).write_bytes(b"" if name == "empty.json" else b"\n \n")
        os.utime(stream.input / name, (events.FIRST_FILE_AT + 50, events.FIRST_FILE_AT + 50))
    finished = onefold.drain(stream.pipeline)
    stream.check_exact()
    assert sum(it["numInputRows"] for it in finished.progress) == stream.feeder.records
    assert checkpoint_files.commits(stream.checkpoint) == [0, 1, 2]


def test_a_parquet_file_without_rows_is_fine(onefold: Onefold, tmp_path: Path) -> None:
    stream = stream_in(tmp_path / "stream", format="parquet")
    table = pyarrow.Table.from_pylist([events.record(i) for i in events.ids_of_file(0)])
    parquet.write_table(table.slice(0, 0), stream.input / "a.parquet")
    parquet.write_table(table, stream.input / "b.parquet")
    stream.feeder.files = 1
    onefold.drain(stream.pipeline)
    stream.check_exact()


def test_parquet_files_of_differing_schemas_give_nulls_for_what_they_lack(
    onefold: Onefold, tmp_path: Path
) -> None:
    stream = stream_in(tmp_path / "stream", format="parquet")
    whole = pyarrow.Table.from_pylist([events.record(0)])
    parquet.write_table(whole, stream.input / "a.parquet")
    parquet.write_table(whole.select(["v", "id"]), stream.input / "b.parquet")
    onefold.drain(stream.pipeline)
    rows = oracle.as_json(oracle.rows(manifest.data_files(stream.output)))
    want = [events.record(0), {key: events.record(0)[key] for key in ("id", "v")}]
    assert rows == oracle.as_json(want)


def test_a_gzip_of_several_members_is_read_whole(onefold: Onefold, stream: Stream) -> None:
    members = [gzip.compress(lines(i)) for i in events.ids_of_file(0)]
    stream.feeder.put("many.json.gz", b"".join(members))
    onefold.drain(stream.pipeline)
    stream.check_exact()


def test_a_gzip_that_is_cut_short_is_named(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.feed(1)
    whole = gzip.compress(os.urandom(200).hex().encode() * 50 + lines(1))
    stream.feeder.put("cut.json.gz", whole[: len(whole) // 2])
    stream.feeder.files -= 1
    stream.feeder.feed(1)

    finished = onefold.fails("run", stream.pipeline, *AVAILABLE_NOW)

    assert "cut.json.gz" in finished.stderr, str(finished)
    assert "ignoreCorruptFiles" in finished.stderr, str(finished)
    checkpoint_files.check_whole(stream.checkpoint)
    # What the error says to do works, and nothing else is lost.
    stream.rewrite(ignoreCorruptFiles=True)
    onefold.drain(stream.pipeline)
    good = [i for i in ids_at(stream.output) if i is not None]
    assert sorted(set(good)) == list(range(stream.feeder.records))


BROKEN_LINE = b'{"id": 3, "name": \n'


def test_a_corrupt_line_is_null_in_permissive_mode(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.put("bad.json", lines(0) + BROKEN_LINE + lines(1))
    onefold.drain(stream.pipeline)
    rows = oracle.rows(manifest.data_files(stream.output))
    assert [row["id"] for row in rows] == [0, None, 1]


def test_a_corrupt_line_is_kept_in_its_column(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.put("bad.json", lines(0) + BROKEN_LINE)
    source = pipeline.read_files(stream.input, schema=events.SCHEMA + ", _corrupt_record STRING")
    text = pipeline.streaming_table(
        f"SELECT id, _corrupt_record FROM {source}", stream.output, stream.checkpoint
    )
    pipeline.written(text, stream.pipeline)
    onefold.drain(stream.pipeline)
    rows = oracle.rows(manifest.data_files(stream.output))
    assert [row["_corrupt_record"] for row in rows] == [None, BROKEN_LINE.decode().rstrip("\n")]


def test_a_corrupt_line_is_dropped_if_asked(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.put("bad.json", lines(0) + BROKEN_LINE + lines(1))
    stream.rewrite(mode="DROPMALFORMED")
    onefold.drain(stream.pipeline)
    assert ids_at(stream.output) == [0, 1]


def test_a_corrupt_line_stops_the_query_if_asked(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.put("bad.json", lines(0) + BROKEN_LINE)
    stream.rewrite(mode="FAILFAST")
    finished = onefold.fails("run", stream.pipeline, *AVAILABLE_NOW)
    assert "bad.json" in finished.stderr, str(finished)
    assert "PERMISSIVE" in finished.stderr or "DROPMALFORMED" in finished.stderr, str(finished)
    assert checkpoint_files.commits(stream.checkpoint) == []


# Files that change ------------------------------------------------------------------------------


def stopped_before_reading(onefold: Onefold, stream: Stream) -> Path:
    """The input file of an intent that has not run yet."""
    stream.feeder.feed(2)
    crash = {"ONEFOLD_CRASH_AT": "intent.created:2"}
    killed = onefold.call("run", stream.pipeline, *AVAILABLE_NOW, env=crash)
    assert killed.status == -9, str(killed)
    return stream.input / "f000001.json"


def test_a_file_changed_in_place_is_named_and_nothing_of_it_is_taken(
    onefold: Onefold, stream: Stream
) -> None:
    changed = stopped_before_reading(onefold, stream)
    before = changed.read_bytes()
    changed.write_bytes(before + lines(9999))

    finished = onefold.fails("run", stream.pipeline, *AVAILABLE_NOW)

    assert changed.name in finished.stderr, str(finished)
    assert ids_at(stream.output) == list(events.ids_of_file(0))
    # Put back as it was, the query goes on.
    changed.write_bytes(before)
    os.utime(changed, (events.FIRST_FILE_AT + 1, events.FIRST_FILE_AT + 1))
    onefold.drain(stream.pipeline)
    stream.check_exact()


def test_a_file_that_vanished_is_named_unless_that_is_allowed(
    onefold: Onefold, stream: Stream
) -> None:
    gone = stopped_before_reading(onefold, stream)
    gone.unlink()
    finished = onefold.fails("run", stream.pipeline, *AVAILABLE_NOW)
    assert gone.name in finished.stderr, str(finished)
    assert "ignoreMissingFiles" in finished.stderr, str(finished)
    stream.rewrite(ignoreMissingFiles=True)
    onefold.drain(stream.pipeline)
    assert ids_at(stream.output) == list(events.ids_of_file(0))


def test_files_of_one_modification_time_are_all_read(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.feed(6)
    for path in stream.input.iterdir():
        os.utime(path, (events.FIRST_FILE_AT, events.FIRST_FILE_AT))
    onefold.drain(stream.pipeline)
    stream.check_exact()
    onefold.drain(stream.pipeline)
    stream.check_exact()


def test_a_file_that_comes_late_with_a_time_already_seen_is_read(
    onefold: Onefold, stream: Stream
) -> None:
    stream.feeder.feed(2)
    onefold.drain(stream.pipeline)
    stream.feeder.feed(1)
    os.utime(stream.input / "f000002.json", (events.FIRST_FILE_AT, events.FIRST_FILE_AT))
    onefold.drain(stream.pipeline)
    stream.check_exact()


def test_files_from_before_1970_are_read(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.feed(3)
    for index, path in enumerate(sorted(stream.input.iterdir())):
        os.utime(path, (-86_400 + index, -86_400 + index))
    onefold.drain(stream.pipeline)
    stream.feeder.feed(0)
    onefold.drain(stream.pipeline)
    stream.check_exact()


# Folders ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["..", "loop"])
def test_a_symlink_loop_is_named(onefold: Onefold, stream: Stream, target: str) -> None:
    stream.feeder.feed(1)
    below = stream.input / "below"
    below.mkdir()
    loop = below / "loop"
    loop.symlink_to(target)
    shutil.move(stream.input / "f000000.json", below)
    stream.rewrite(recursiveFileLookup=True)

    finished = onefold.fails("run", stream.pipeline, *AVAILABLE_NOW)

    assert str(loop) in finished.stderr, str(finished)
    loop.unlink()
    onefold.drain(stream.pipeline)
    stream.check_exact()


def test_an_output_folder_that_is_the_input_folder_is_refused(
    onefold: Onefold, stream: Stream
) -> None:
    stream.feeder.feed(2)
    before = sorted(stream.input.iterdir())
    for output in (stream.input, stream.input / "below", stream.folder / "." / "in"):
        text = pipeline.copy_events(stream.input, output, stream.checkpoint)
        pipeline.written(text, stream.pipeline)
        finished = onefold.fails("run", stream.pipeline, *AVAILABLE_NOW)
        assert str(stream.input) in finished.stderr, str(finished)
        assert sorted(stream.input.iterdir()) == before


def test_a_folder_named_as_a_batch_in_the_intents_is_named_or_ignored(
    onefold: Onefold, stream: Stream
) -> None:
    stream.feeder.feed(3)
    onefold.drain(stream.pipeline)
    odd = stream.checkpoint / "offsets" / "7"
    odd.mkdir()
    stream.feeder.feed(8)

    finished = onefold.fails("run", stream.pipeline, *AVAILABLE_NOW)

    assert str(odd) in finished.stderr, str(finished)
    odd.rmdir()
    onefold.drain(stream.pipeline)
    stream.check_exact()
    checkpoint_files.check_whole(stream.checkpoint)


def test_an_input_folder_that_is_not_there_is_named(onefold: Onefold, stream: Stream) -> None:
    stream.input.rmdir()
    finished = onefold.fails("run", stream.pipeline, *AVAILABLE_NOW)
    assert str(stream.input) in finished.stderr, str(finished)


def _brought_libraries(binary: Path) -> list[Path]:
    """The libraries of a binary that are no part of the system, which only root can read here."""
    lines = subprocess.run(["ldd", binary], check=True, capture_output=True, text=True).stdout
    found = [Path(word) for line in lines.splitlines() for word in line.split() if "/" in word]
    return [path for path in found if path.parts[1] not in ("lib", "lib64", "usr")]


@pytest.fixture
def as_nobody(root: None, binary: Path) -> Iterator[tuple[Onefold, Stream]]:
    """The command run by a user who may not read everything, for root may."""
    with tempfile.TemporaryDirectory(prefix="onefold-nobody-") as name:
        home = Path(name)
        home.chmod(0o755)
        (home / "logs").mkdir()
        command = home / binary.name
        for file in (binary, *_brought_libraries(binary)):
            shutil.copy(file, home / file.name)
        stream = stream_in(home / "stream")
        stream.feeder.feed(2)
        subprocess.run(["chown", "-R", "65534:65534", str(stream.folder)], check=True)
        yield Onefold(command, home / "logs"), stream


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.mark.parametrize("which", ["input", "output", "checkpoint"])
def test_a_folder_that_may_not_be_entered_is_named(
    as_nobody: tuple[Onefold, Stream], which: str
) -> None:
    onefold, stream = as_nobody
    folder = {"input": stream.input, "output": stream.output, "checkpoint": stream.checkpoint}[which]
    folder.mkdir(exist_ok=True)
    os.chown(folder, 65534, 65534)
    folder.chmod(0)

    finished = onefold.fails("run", stream.pipeline, *AVAILABLE_NOW, under=NOBODY)

    assert str(folder) in finished.stderr, str(finished)
    assert "denied" in finished.stderr.lower(), str(finished)
    folder.chmod(0o755)
    onefold.ok("run", stream.pipeline, *AVAILABLE_NOW, under=NOBODY)
    stream.check_exact()


# Words of the user ------------------------------------------------------------------------------


def test_an_unknown_option_is_named_with_the_nearest_one(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.feed(1)
    stream.rewrite(maxFilePerTriger=1)
    finished = onefold.fails("run", stream.pipeline, *AVAILABLE_NOW)
    assert "maxFilePerTriger" in finished.stderr, str(finished)
    assert "maxFilesPerTrigger" in finished.stderr, str(finished)
    assert not stream.checkpoint.exists()


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("CREATE STREAMING TABLE out USING parquet\nAS SELEC id FROM STREAM read_files('x');\n", 2, 4),
        ("CREATE STREAMING TABLE out USNG parquet AS SELECT 1;\n", 1, 28),
    ],
)
def test_a_parse_error_points_at_line_and_column(
    onefold: Onefold, tmp_path: Path, text: str, line: int, column: int
) -> None:
    place = pipeline.written(text, tmp_path / "broken.sql")
    finished = onefold.fails("run", place, *AVAILABLE_NOW)
    said = finished.stderr
    assert f"{place}:{line}:{column}" in said or (
        f"line {line}" in said.lower() and f"column {column}" in said.lower()
    ), str(finished)


def test_a_column_that_is_not_there_is_named(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.feed(1)
    source = pipeline.read_files(stream.input)
    text = pipeline.streaming_table(f"SELECT idd FROM {source}", stream.output, stream.checkpoint)
    pipeline.written(text, stream.pipeline)
    finished = onefold.fails("run", stream.pipeline, *AVAILABLE_NOW)
    assert "idd" in finished.stderr, str(finished)


# Checkpoints that do not fit --------------------------------------------------------------------


@pytest.fixture
def done(onefold: Onefold, stream: Stream) -> Stream:
    """A stream with four finished batches and two more files waiting."""
    stream.feeder.feed(4)
    onefold.drain(stream.pipeline)
    stream.feeder.feed(2)
    return stream


def check_stops_and_names(onefold: Onefold, stream: Stream, *words: str) -> None:
    """The query stops with these words, again and again, and changes nothing at the sink."""
    before = oracle.listed_plainly(stream.output)
    for _ in range(2):
        finished = onefold.fails("run", stream.pipeline, *AVAILABLE_NOW)
        for word in words:
            assert word in finished.stderr, f"{word} is not said: {finished}"
    assert oracle.listed_plainly(stream.output) == before


def test_a_checkpoint_without_metadata_is_not_started_from_zero(
    onefold: Onefold, done: Stream
) -> None:
    (done.checkpoint / "metadata").unlink()
    check_stops_and_names(onefold, done, "metadata", str(done.checkpoint))


def test_a_lost_checkpoint_is_found_by_the_marks_at_the_sink(onefold: Onefold, done: Stream) -> None:
    shutil.rmtree(done.checkpoint)
    check_stops_and_names(onefold, done, str(done.output))


def test_an_older_copy_of_the_checkpoint_is_found(onefold: Onefold, done: Stream) -> None:
    old = done.folder / "old"
    shutil.copytree(done.checkpoint, old)
    onefold.drain(done.pipeline)
    shutil.rmtree(done.checkpoint)
    old.rename(done.checkpoint)
    check_stops_and_names(onefold, done, str(done.output))


@pytest.mark.parametrize("folder", ["offsets", "commits"])
def test_a_hole_is_named(onefold: Onefold, done: Stream, folder: str) -> None:
    (done.checkpoint / folder / "2").unlink()
    check_stops_and_names(onefold, done, folder, "2")


DAMAGES = {
    "empty": lambda whole: b"",
    "cut": lambda whole: whole[: len(whole) * 2 // 3],
    "zeros": lambda whole: bytes(len(whole)),
}


@pytest.mark.parametrize("name", ["offsets/3", "commits/3", "metadata"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named(onefold: Onefold, done: Stream, name: str, damage: str) -> None:
    path = done.checkpoint / name
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    check_stops_and_names(onefold, done, str(path))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_log_of_the_source_is_made_again_from_the_intent(
    onefold: Onefold, done: Stream, damage: str
) -> None:
    path = done.checkpoint / "sources" / "0" / "3"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    finished = onefold.drain(done.pipeline)
    assert "made again" in finished.stderr, str(finished)
    done.check_exact()
    checkpoint_files.check_whole(done.checkpoint)


def test_another_querys_output_is_refused(onefold: Onefold, done: Stream) -> None:
    other = done.folder / "other"
    text = pipeline.copy_events(done.input, done.output, other)
    pipeline.written(text, done.pipeline)
    check_stops_and_names(onefold, done, str(done.output))
