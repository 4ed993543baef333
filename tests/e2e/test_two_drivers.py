"""Two drivers on one checkpoint: the newer one wins at once, the older one stops and says who won."""

import random
import re
import signal
import socket

import checkpoint_files
import pytest
from command import Finished, Onefold, Running
from conftest import seed
from stream import Stream
from visibility import Watch

BATCHES = 40


def started_and_at_work(onefold: Onefold, stream: Stream, batches: int) -> Running:
    """A driver that has committed at least that many more batches."""
    before = len(checkpoint_files.commits(stream.checkpoint))
    running = onefold.start("run", stream.pipeline, "--trigger", "available-now")
    while len(checkpoint_files.commits(stream.checkpoint)) < before + batches:
        assert not running.ends_within(0.001), str(running.finished())
    return running


def check_fenced(loser: Finished, winner: Running) -> None:
    assert loser.status > 0, str(loser)
    assert "panicked" not in loser.stderr, str(loser)
    said = loser.stderr
    assert "fenced" in said, str(loser)
    assert socket.gethostname() in said, str(loser)
    assert re.search(rf"\bpid {winner.pid}\b", said), str(loser)
    assert re.search(r"since \d{4}-\d\d-\d\d", said), str(loser)


@pytest.mark.parametrize("moment", range(8))
def test_a_driver_that_was_paused_finds_itself_fenced(
    onefold: Onefold, stream: Stream, moment: int
) -> None:
    rng = random.Random(f"{seed()}/{moment}")
    stream.feeder.feed(BATCHES)
    with Watch(stream.output, stream.checkpoint, 1):
        first = started_and_at_work(onefold, stream, rng.randrange(1, 4))
        first.ends_within(rng.uniform(0, 0.1))
        first.signal(signal.SIGSTOP)

        second = started_and_at_work(onefold, stream, rng.randrange(1, 6))
        first.signal(signal.SIGCONT)

        check_fenced(first.finished(), second)
        finished = second.finished()
        assert finished.status == 0, str(finished)
    stream.check_exact()
    checkpoint_files.check_whole(stream.checkpoint)


def test_a_driver_that_was_paused_till_all_was_done_touches_nothing(
    onefold: Onefold, stream: Stream
) -> None:
    stream.feeder.feed(BATCHES)
    with Watch(stream.output, stream.checkpoint, 1):
        first = started_and_at_work(onefold, stream, 3)
        first.signal(signal.SIGSTOP)
        second = onefold.start("run", stream.pipeline, "--trigger", "available-now")
        finished = second.finished()
        assert finished.status == 0, str(finished)
        stream.check_exact()
        first.signal(signal.SIGCONT)
        check_fenced(first.finished(), second)
    stream.check_exact()
    onefold.ok("verify", stream.checkpoint)


def test_a_second_driver_takes_over_from_one_at_work(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.feed(BATCHES)
    with Watch(stream.output, stream.checkpoint, 1):
        first = started_and_at_work(onefold, stream, 2)
        second = onefold.start("run", stream.pipeline, "--trigger", "available-now")
        check_fenced(first.finished(), second)
        finished = second.finished()
        assert finished.status == 0, str(finished)
        # The winner says as well whom it took the checkpoint from.
        assert re.search(rf"\bpid {first.pid}\b", finished.stderr), str(finished)
    stream.check_exact()
