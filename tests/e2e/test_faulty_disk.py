"""A disk that fails or is full: nothing torn, the error names the place, a restart is exact."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import checkpoint_files
import oracle
import pytest
from command import Finished, Onefold
from faulty_disk import FSYNC, LINK, WRITE, Fault
from stream import Stream, stream_in

BATCHES = 5
RETRY_SOON = "onefold.retry.initialBackoff=1ms"
RUN = ("run", "--trigger", "available-now", "--conf", RETRY_SOON)


def check_untorn(stream: Stream) -> None:
    """Whatever has a final name is whole, also what is not committed."""
    checkpoint_files.check_whole(stream.checkpoint)
    for path in oracle.listed_plainly(stream.output):
        oracle.rows_of(path)


def check_names_the_place(finished: Finished, hit: list[Path]) -> None:
    """The error names a file that the fault struck, or its folder."""
    assert finished.status > 0, f"the fault at {hit[0]} went unnoticed: {finished}"
    assert "panicked" not in finished.stderr, str(finished)
    places = {str(path) for path in hit} | {str(path.parent) for path in hit}
    assert any(place in finished.stderr for place in places), f"names none of {places}: {finished}"


# fsync fails once only: a driver that just tried again would "succeed", for the kernel forgets a
# failed write-back once it was reported. A full disk stays full.
FAULTS = [
    *((FSYNC, "EIO", hits) for hits in ("1", "2", "3", "5", "8", "12")),
    *((LINK, "EIO", hits) for hits in ("1", "2", "3", "5")),
    *((FSYNC, "ENOSPC", hits) for hits in ("1+", "2+", "4+")),
    *((LINK, "EIO", hits) for hits in ("1+", "3+")),
    *((LINK, "ENOSPC", hits) for hits in ("1+", "2+", "4+", "7+")),
]


@pytest.mark.parametrize(("calls", "error", "hits"), FAULTS)
def test_a_failing_call_tears_nothing_and_a_restart_is_exact(
    onefold: Onefold, stream: Stream, tmp_path: Path, calls: str, error: str, hits: str
) -> None:
    # One batch is done before, so that a checkpoint is there.
    stream.feeder.feed(1)
    onefold.drain(stream.pipeline)
    stream.feeder.feed(BATCHES)
    fault = Fault(calls, error, hits, tmp_path / "trace")

    finished = onefold.call(*RUN, stream.pipeline, under=fault.under)

    struck = fault.paths_hit([stream.folder])
    if calls == LINK and finished.status == 0:
        # A link that failed may be tried again, after a look at what is there. Calls are counted by
        # thread, so of `7+` another thread may be spared; only of `1+` none is.
        assert hits != "1+", str(finished)
        stream.check_exact()
    elif struck:
        check_names_the_place(finished, struck)
    check_untorn(stream)
    onefold.drain(stream.pipeline)
    stream.check_exact()
    onefold.ok("verify", stream.checkpoint)


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("hits", ["1", "2", "1+"])
def test_a_failing_write_of_data_tears_nothing_and_a_restart_is_exact(
    onefold: Onefold, stream: Stream, tmp_path: Path, error: str, hits: str
) -> None:
    stream.feeder.feed(1)
    onefold.drain(stream.pipeline)
    stream.feeder.feed(BATCHES)
    query = json.loads((stream.checkpoint / "metadata").read_text())["id"]
    staged = f".part-00000-{query}-b1-g2-c000.snappy.parquet.g2.staged"
    fault = Fault(WRITE, error, hits, tmp_path / "trace", stream.output / staged)

    finished = onefold.call(*RUN, stream.pipeline, under=fault.under)

    struck = fault.paths_hit([stream.output])
    if finished.status == 0:
        # Nothing had happened yet, so that trying again, under another name, was right.
        stream.check_exact()
    else:
        check_names_the_place(finished, struck)
    assert struck or hits == "2", "the data file was not written under its known name"
    check_untorn(stream)
    onefold.drain(stream.pipeline)
    stream.check_exact()
    onefold.ok("verify", stream.checkpoint)


@pytest.mark.parametrize("calls", [FSYNC, LINK])
def test_the_faults_do_strike(
    onefold: Onefold, stream: Stream, tmp_path: Path, calls: str
) -> None:
    stream.feeder.feed(2)
    fault = Fault(calls, "EIO", "1+", tmp_path / "trace")
    onefold.call(*RUN, stream.pipeline, under=fault.under)
    assert fault.paths_hit([stream.folder])


@pytest.fixture
def small_disk(root: None, tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(folder: Path) -> Path:
    """Takes all the space that is left."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
    return ballast


@pytest.mark.parametrize("where", ["output", "checkpoint", "both"])
def test_a_full_disk_stops_the_query_and_space_lets_it_go_on(
    onefold: Onefold, tmp_path: Path, small_disk: Path, where: str
) -> None:
    stream = stream_in(tmp_path / "stream")
    for name, place in (("output", stream.output), ("checkpoint", stream.checkpoint)):
        (small_disk / name).mkdir()
        if where in (name, "both"):
            place.symlink_to(small_disk / name)
    stream.feeder.feed(3)
    onefold.drain(stream.pipeline)
    stream.feeder.feed(BATCHES)
    ballast = fill(small_disk)

    finished = onefold.fails(*RUN, stream.pipeline)

    assert "no space left" in finished.stderr.lower(), str(finished)
    assert str(stream.folder) in finished.stderr or str(small_disk) in finished.stderr, str(finished)
    check_untorn(stream)
    ballast.unlink()
    onefold.drain(stream.pipeline)
    stream.check_exact()
