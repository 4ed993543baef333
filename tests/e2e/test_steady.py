"""The tenth batch is like every other: what is compacted was prepared before, by counts of calls."""

import os
import re
import statistics
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import checkpoint_files
import pytest
from command import Onefold
from stream import Stream

BATCHES = 102
CALL = re.compile(r"^\d+ +(\w+)\((.*)")
RESUMED = re.compile(r"^\d+ +<\.\.\. \w+ resumed>")
FD = re.compile(r"^\d+<([^>]*)>")
TEXTS = re.compile(r'"([^"]*)"')


@dataclass
class Batch:
    """Calls from the commit of the batch before to its own."""

    synced: Counter = field(default_factory=Counter)
    named: list[str] = field(default_factory=list)
    # Records read while the batch waits for one of its own, by the folder of that.
    read: Counter = field(default_factory=Counter)


def batches_of(trace: Path, stream: Stream) -> list[Batch]:
    """What each batch did below the stream's folder."""
    found = [Batch()]
    for line in trace.read_text(errors="replace").splitlines():
        match = CALL.match(line)
        if not match or str(stream.folder) not in line or RESUMED.match(line):
            continue
        call, args = match.groups()
        batch = found[-1]
        if call == "fsync":
            hidden = Path(FD.match(args)[1]).name.startswith(".")
            batch.synced["file" if hidden else "folder"] += 1
        elif call == "openat" and "O_CREAT" not in args and "O_DIRECTORY" not in args:
            path = Path(TEXTS.search(args)[1])
            folder = os.path.relpath(path.parent, stream.folder)
            # Once the batch's own record has its name, the batch does not wait.
            if not any(name.startswith(f"{folder}/") for name in batch.named):
                batch.read[folder] += path.name[0].isdigit()
        elif call == "renameat2":
            name = str(Path(TEXTS.findall(args)[1]).relative_to(stream.folder))
            batch.named.append(re.sub(r"part-.*", "DATA", name))
            if name.startswith("checkpoint/commits/"):
                found.append(Batch())
    return found


def traced(onefold: Onefold, stream: Stream, trace: Path) -> list[Batch]:
    under = ["strace", "-f", "-qq", "-y", "-o", str(trace)]
    under += ["-e", "trace=openat,fsync,renameat2", "--"]
    onefold.drain(stream.pipeline, under=under)
    return batches_of(trace, stream)


@pytest.fixture
def batches(onefold: Onefold, stream: Stream, tmp_path: Path) -> list[Batch]:
    stream.feeder.feed(BATCHES)
    found = traced(onefold, stream, tmp_path / "trace")
    stream.check_exact()
    assert len(checkpoint_files.commits(stream.checkpoint)) == BATCHES
    return found


def test_a_batch_that_compacts_costs_no_more_syncs_names_or_reads(batches: list[Batch]) -> None:
    for number, batch in list(enumerate(batches))[1:BATCHES]:
        kind = f"{number}.compact" if number % 10 == 9 else str(number)
        wanted = [
            f"checkpoint/sources/0/{kind}",
            f"checkpoint/offsets/{number}",
            "out/DATA",
            f"out/_spark_metadata/{kind}",
            f"checkpoint/commits/{number}",
        ]
        assert batch.named == wanted, f"batch {number}"
        # Of the five, only the source's own log is not synced: it can be made again.
        assert batch.synced == {"file": 4, "folder": 4}, f"batch {number}: {batch.synced}"
    # What is compacted was read before, but for the newest entries; not the ten of an interval. Where
    # the machine is busy, a batch may meet what reads ahead, so that the usual one counts.
    for folder in ("checkpoint/sources/0", "out/_spark_metadata"):
        reads = [batch.read[folder] for batch in batches[9:BATCHES:10]]
        assert len(reads) == 10 and statistics.median(reads) <= 3, f"{folder}: {reads}"


def test_a_driver_that_had_no_time_to_prepare_is_seen_to_read(
    onefold: Onefold, stream: Stream, tmp_path: Path
) -> None:
    stream.feeder.feed(19)
    onefold.drain(stream.pipeline)
    stream.feeder.feed(1)
    batch = traced(onefold, stream, tmp_path / "trace")[0]
    assert "out/_spark_metadata/19.compact" in batch.named
    assert batch.read["out/_spark_metadata"] > 5
