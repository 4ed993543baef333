"""The tests can fail: with a rule of the protocol broken on purpose, they do.

The faults are compiled into the build under test and switched on by `ONEFOLD_PLANTED`. Here are
those that a process can show from outside; the others need a look inside.
"""

import os
import signal
from pathlib import Path

import pytest
from command import Onefold
from stream import stream_in
from test_kill import FILES_PER_BATCH, reached, victim_in
from test_two_drivers import check_fenced, started_and_at_work
from visibility import Watch


def killed_at(onefold: Onefold, folder: Path, *points: str) -> None:
    """A few kills at these points, everything checked."""
    victim = victim_in(onefold, folder)
    with Watch(victim.stream.output, victim.stream.checkpoint, FILES_PER_BATCH) as watch:
        for point in points:
            for hit in (1, 2, 3):
                reached(victim, point, hit)
                watch.raise_faults()
        victim.drained()


def one_paused(onefold: Onefold, folder: Path) -> None:
    """A driver that is paused while another one finishes its work."""
    stream = stream_in(folder)
    stream.feeder.feed(40)
    with Watch(stream.output, stream.checkpoint, 1):
        first = started_and_at_work(onefold, stream, 2)
        first.signal(signal.SIGSTOP)
        second = onefold.start("run", stream.pipeline, "--trigger", "available-now")
        assert second.finished().status == 0
        first.signal(signal.SIGCONT)
        check_fenced(first.finished(), second)
    stream.check_exact()


SCENARIOS = {
    "CommitBeforePublish": lambda onefold, folder: killed_at(
        onefold, folder, "stage.done", "commit.created", "publish.before-mark"
    ),
    "PublishWithoutReadingMark": lambda onefold, folder: killed_at(
        onefold, folder, "publish.marked", "commit.before"
    ),
    "PublishBeforeIntent": lambda onefold, folder: killed_at(
        onefold, folder, "intent.before", "intent.created"
    ),
    "NoFence": one_paused,
}


@pytest.mark.parametrize("bug", SCENARIOS)
def test_a_broken_rule_is_seen(
    onefold: Onefold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    # Without the fault the same steps hold, so that it is the fault which is seen.
    SCENARIOS[bug](onefold, tmp_path / "sound")
    monkeypatch.setitem(os.environ, "ONEFOLD_PLANTED", bug)
    with pytest.raises(AssertionError):
        SCENARIOS[bug](onefold, tmp_path / "broken")
