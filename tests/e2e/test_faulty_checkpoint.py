"""Faults that strike just one kind of record: of the checkpoint, of its state, of the manifest.

Nothing under a final name is torn, the error names the record, and a restart is exact.
"""

import json
from pathlib import Path

import checkpoint_files
import manifest
import oracle
import pytest
from command import Finished, Onefold
from faulty_disk import LINK, Fault, FaultBelow, compiled
from queries import Windows
from stream import Stream
from test_faulty_disk import RETRY_SOON, check_names_the_place

BATCHES = 4
RUN = ("run", "--trigger", "available-now", "--conf", RETRY_SOON)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("library"))


@pytest.fixture
def query(onefold: Onefold, stream: Stream) -> Windows:
    """A query with state that has done some batches, and more to do."""
    query = Windows(stream, files_per_batch=1)
    query.rewrite()
    stream.feeder.feed(BATCHES)
    onefold.drain(stream.pipeline)
    stream.feeder.feed(BATCHES)
    return query


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 * (value & 1))
    return value ^ 0xFFFFFFFF


def visible(folder: Path, pattern: str) -> list[Path]:
    return [path for path in folder.glob(pattern) if not path.name.startswith(".")]


def check_untorn(stream: Stream) -> None:
    """Whatever has a final name is whole, also what is not committed."""
    checkpoint_files.check_whole(stream.checkpoint)
    for path in visible(stream.checkpoint, "_onefold/generations/*"):
        assert json.loads(path.read_text())["generation"] == int(path.name), path
    for path in visible(stream.checkpoint, "_onefold/prepared/*"):
        head, body = path.read_bytes().split(b"\n")
        assert head == b"v1 %08x" % crc32c(body), path
    for path in visible(stream.checkpoint, "_onefold/state/*/*.changes"):
        whole = path.read_bytes()
        assert whole.startswith(b"OFSTATE\1") and whole.endswith(b"OFSTEND\1"), path
    for path in visible(stream.output, "_spark_metadata/*"):
        assert manifest.lines_of(path), path
    for path in oracle.listed_plainly(stream.output):
        oracle.rows_of(path)


def check_went_well(onefold: Onefold, query: Windows) -> None:
    """A restart without the fault is exact."""
    onefold.drain(query.stream.pipeline)
    assert query.check_exact() > 4
    check_untorn(query.stream)
    onefold.ok("verify", query.stream.checkpoint)


def check_told(finished: Finished, struck: list[Path]) -> None:
    assert struck, f"nothing was struck: {finished}"
    check_names_the_place(finished, struck)


def check_told_or_tried_again(finished: Finished, struck: list[Path], query: Windows) -> None:
    """Where nothing had happened yet, trying again, under another name, is right."""
    assert struck, f"nothing was struck: {finished}"
    if finished.status == 0:
        assert query.check_exact() > 4
    else:
        check_told(finished, struck)


def run_with(onefold: Onefold, stream: Stream, fault: FaultBelow) -> Finished:
    return onefold.call(*RUN, stream.pipeline, env=fault.env)


# Each record is written hidden, beside its later place; `hit` is that of a batch under way.
RECORDS = {
    "generation": ("/checkpoint/_onefold/generations/.", 1),
    "source log": ("/checkpoint/sources/0/.", 2),
    "intent": ("/checkpoint/offsets/.", 2),
    "state": ("/checkpoint/_onefold/state/changes/.", 2),
    "prepared": ("/checkpoint/_onefold/prepared/.", 2),
    "mark": ("/out/_spark_metadata/.", 2),
    "commit": ("/checkpoint/commits/.", 2),
}
SYNCED = [name for name in RECORDS if name != "source log"]


@pytest.mark.parametrize("record", RECORDS)
def test_a_disk_that_is_full_for_one_kind_of_record_is_named_and_a_restart_is_exact(
    onefold: Onefold, query: Windows, library: Path, tmp_path: Path, record: str
) -> None:
    at, hit = RECORDS[record]
    fault = FaultBelow(library, "write", "ENOSPC", at, tmp_path / "trace", hit, stays=True)
    finished = run_with(onefold, query.stream, fault)
    check_told(finished, fault.paths_hit())
    assert "no space left" in finished.stderr.lower(), str(finished)
    check_untorn(query.stream)
    check_went_well(onefold, query)


@pytest.mark.parametrize("record", RECORDS)
def test_one_failing_write_of_a_record_tears_nothing_and_doubles_nothing(
    onefold: Onefold, query: Windows, library: Path, tmp_path: Path, record: str
) -> None:
    at, hit = RECORDS[record]
    fault = FaultBelow(library, "write", "EIO", at, tmp_path / "trace", hit)
    finished = run_with(onefold, query.stream, fault)
    check_told_or_tried_again(finished, fault.paths_hit(), query)
    check_untorn(query.stream)
    check_went_well(onefold, query)


@pytest.mark.parametrize("record", SYNCED)
def test_one_failing_sync_of_a_record_is_named_and_a_restart_is_exact(
    onefold: Onefold, query: Windows, library: Path, tmp_path: Path, record: str
) -> None:
    at, hit = RECORDS[record]
    fault = FaultBelow(library, "fsync", "EIO", at, tmp_path / "trace", hit)
    finished = run_with(onefold, query.stream, fault)
    check_told(finished, fault.paths_hit())
    check_untorn(query.stream)
    check_went_well(onefold, query)


def test_a_failed_sync_is_not_tried_again_and_again(
    onefold: Onefold, query: Windows, library: Path, tmp_path: Path
) -> None:
    at, hit = RECORDS["commit"]
    fault = FaultBelow(library, "fsync", "EIO", at, tmp_path / "trace", hit)
    finished = run_with(onefold, query.stream, fault)
    check_told(finished, fault.paths_hit())
    assert "is tried again" not in finished.stderr, str(finished)
    assert finished.status == 5 and "start the process again" in finished.stderr, str(finished)


@pytest.mark.parametrize("record", SYNCED)
def test_one_failing_sync_of_the_folder_of_a_record_is_named_and_a_restart_is_exact(
    onefold: Onefold, query: Windows, library: Path, tmp_path: Path, record: str
) -> None:
    at, hit = RECORDS[record]
    folder = at.removesuffix("/.")
    # The record has its name already, and nobody knows whether it keeps that.
    fault = FaultBelow(library, "fsync", "EIO", f"{folder}$", tmp_path / "trace", hit)
    finished = run_with(onefold, query.stream, fault)
    check_told(finished, fault.paths_hit())
    assert fault.paths_hit() == [Path(f"{query.stream.folder}{folder}")]
    check_untorn(query.stream)
    check_went_well(onefold, query)


# A batch under way, and what it gives a final name.
NAMED = ["checkpoint/offsets/6", "out/_spark_metadata/6", "checkpoint/commits/6"]
# A driver that tries again does so under another name.
NAMED_BY_DRIVER = ["checkpoint/_onefold/prepared/6-2", "checkpoint/_onefold/generations/2"]


@pytest.mark.parametrize("name", NAMED + NAMED_BY_DRIVER)
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_record_that_cannot_get_its_name_is_named_and_a_restart_is_exact(
    onefold: Onefold, query: Windows, tmp_path: Path, name: str, error: str
) -> None:
    place = query.stream.folder / name
    fault = Fault(LINK, error, "1+", tmp_path / "trace", place)
    finished = onefold.call(*RUN, query.stream.pipeline, under=fault.under)
    if name in NAMED_BY_DRIVER:
        check_told_or_tried_again(finished, fault.paths_hit([place]), query)
    else:
        check_told(finished, fault.paths_hit([place]))
    assert not place.exists()
    check_untorn(query.stream)
    check_went_well(onefold, query)


def test_a_new_checkpoint_whose_identity_cannot_be_written_is_started_again(
    onefold: Onefold, stream: Stream, library: Path, tmp_path: Path
) -> None:
    query = Windows(stream, files_per_batch=1)
    query.rewrite()
    stream.feeder.feed(2 * BATCHES)
    at = "/checkpoint/.metadata."
    fault = FaultBelow(library, "write", "ENOSPC", at, tmp_path / "trace", stays=True)
    finished = run_with(onefold, stream, fault)
    check_told(finished, fault.paths_hit())
    assert not (stream.checkpoint / "metadata").exists()
    check_went_well(onefold, query)


FINAL = ["checkpoint/offsets", "checkpoint/commits", "checkpoint/sources/0", "out/_spark_metadata"]
OWN = ["generations", "prepared", "state/changes"]


def test_a_torn_record_of_any_kind_is_seen(query: Windows) -> None:
    check_untorn(query.stream)
    for folder in [*FINAL, *(f"checkpoint/_onefold/{name}" for name in OWN), "out"]:
        files = [path for path in visible(query.stream.folder / folder, "*") if path.is_file()]
        whole = max(files).read_bytes()
        max(files).write_bytes(whole[:-20])
        with pytest.raises((AssertionError, ValueError, OSError)):
            check_untorn(query.stream)
        max(files).write_bytes(whole)
    check_untorn(query.stream)
