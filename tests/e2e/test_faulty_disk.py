"""A disk that fails or is full: nothing torn, the error names the place, a restart is exact."""

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
# failed write-back once it was reported. A full disk stays full, except for writes, since the error
# itself must be written somewhere.
FAULTS = [
    *((FSYNC, "EIO", hits) for hits in ("1", "2", "3", "5", "8", "12")),
    *((LINK, "EIO", hits) for hits in ("1", "2", "3", "5")),
    *((FSYNC, "ENOSPC", hits) for hits in ("1+", "2+", "4+")),
    *((LINK, "ENOSPC", hits) for hits in ("1+", "2+", "4+", "7+")),
    *((WRITE, "ENOSPC", hits) for hits in ("1", "2", "3..4", "5..7", "9..12")),
    *((WRITE, "EIO", hits) for hits in ("1", "2..3", "6..8")),
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

    finished = onefold.call("run", stream.pipeline, "--trigger", "available-now", under=fault.under)

    struck = fault.paths_hit([stream.checkpoint, stream.output])
    if calls == WRITE and finished.status == 0:
        # Nothing had happened yet, so that trying again was right.
        stream.check_exact()
    elif struck and not fault.paths_hit([onefold.logs]):
        check_names_the_place(finished, struck)
    check_untorn(stream)
    onefold.drain(stream.pipeline)
    stream.check_exact()
    onefold.ok("verify", stream.checkpoint)


@pytest.mark.parametrize("calls", [FSYNC, LINK, WRITE])
def test_the_faults_do_strike_the_checkpoint(
    onefold: Onefold, stream: Stream, tmp_path: Path, calls: str
) -> None:
    stream.feeder.feed(2)
    fault = Fault(calls, "EIO", "1+", tmp_path / "trace")
    onefold.call("run", stream.pipeline, "--trigger", "available-now", under=fault.under)
    assert fault.paths_hit([stream.checkpoint, stream.output])


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

    finished = onefold.fails("run", stream.pipeline, "--trigger", "available-now")

    assert "no space left" in finished.stderr.lower(), str(finished)
    assert str(stream.folder) in finished.stderr or str(small_disk) in finished.stderr, str(finished)
    check_untorn(stream)
    ballast.unlink()
    onefold.drain(stream.pipeline)
    stream.check_exact()
