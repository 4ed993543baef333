"""SIGKILL at any moment loses nothing and doubles nothing, and no reader ever sees otherwise."""

import os
import random
import time
from dataclasses import dataclass

import checkpoint_files
import pytest
from command import Finished, Onefold, Running
from conftest import seed
from stream import Stream, stream_in
from visibility import Watch

FILES_PER_BATCH = 2
RANDOM_KILLS = int(os.environ.get("ONEFOLD_KILLS", "200"))
BACKLOG = 30  # batches that wait at each start: more than a process does before it is killed

# Old logs are purged and read files are removed, so that those points are passed as well.
PURGING = "SET spark.sql.streaming.minBatchesToRetain = 2;\n"

# Points that this pipeline does not pass, each with the reason.
NOT_PASSED = {
    "call.before": "a query that calls nobody",
    "call.answered": "a query that calls nobody",
    "effects.before": "a query that calls nobody",
    "effects.created": "a query that calls nobody",
    "state.before": "a query without state",
    "state.created": "a query without state",
    "prepared.before": "a query without state whose sink tells totals writes no prepared record",
    "prepared.created": "a query without state whose sink tells totals writes no prepared record",
}
# Of these, those that no query passes that calls nobody outside.
OF_CALLS = {point for point, why in NOT_PASSED.items() if why == "a query that calls nobody"}


@dataclass
class Victim:
    """A pipeline whose driver is started and killed, again and again."""

    onefold: Onefold
    stream: Stream
    kills: int = 0

    def feed(self) -> None:
        """Keeps more input waiting than the next process can take."""
        planned = newest_intent(self.stream) + 1
        waiting = self.stream.feeder.files // FILES_PER_BATCH - planned
        self.stream.feeder.feed(max(BACKLOG - waiting, 0) * FILES_PER_BATCH)

    def start(self, **env: str) -> Running:
        self.feed()
        return self.onefold.start("run", self.stream.pipeline, "--trigger", "available-now", env=env)

    def check_exact(self) -> None:
        self.stream.check_exact()

    def drained(self) -> Finished:
        """Lets one driver live to the end and checks every record."""
        finished = self.onefold.drain(self.stream.pipeline)
        self.check_exact()
        checkpoint_files.check_whole(self.stream.checkpoint)
        # What dead drivers left is gone; this one may have begun the next compact files.
        left = [path for path in self.stream.folder.rglob(".*.staged")]
        left += [path for path in self.stream.folder.rglob(".*.tmp")]
        assert len(left) <= 2, left
        return finished


def victim_in(onefold: Onefold, folder, preamble: str = "", **options: object) -> Victim:
    stream = stream_in(folder)
    stream.rewrite(preamble, maxFilesPerTrigger=FILES_PER_BATCH, **options)
    return Victim(onefold, stream)


def newest_intent(stream: Stream) -> int:
    return max(checkpoint_files.intents(stream.checkpoint), default=-1)


def batch_seconds(victim: Victim) -> tuple[float, float]:
    """How long a start and how long a batch take, from the times of the commits of a whole run."""
    victim.feed()
    started = time.time()
    victim.onefold.drain(victim.stream.pipeline)
    commits = victim.stream.checkpoint / "commits"
    times = [
        (commits / str(batch)).stat().st_mtime
        for batch in checkpoint_files.commits(victim.stream.checkpoint)
    ]
    return times[0] - started, (times[-1] - times[0]) / (len(times) - 1)


def wait_for_new_intent(running: Running, stream: Stream, before: int) -> None:
    """Returns when the driver has begun a batch of its own, or has ended."""
    while newest_intent(stream) <= before and not running.ends_within(0.001):
        pass


def kill_at_random_moments(
    victim: Victim, watch: Watch, times: tuple[float, float], kills: int
) -> None:
    """`times` are those of a start and of a batch."""
    rng = random.Random(seed())
    start_s, batch_s = times
    print(f"seed {seed()}: start {start_s:.3f} s, batch {batch_s:.3f} s")
    survived = 0
    while victim.kills < kills and not watch.faults:
        before = newest_intent(victim.stream)
        running = victim.start()
        if rng.random() < 0.2:
            # Somewhere in starting up and recovering.
            running.ends_within(rng.uniform(0, start_s + batch_s))
        else:
            # Somewhere in the first three batches.
            wait_for_new_intent(running, victim.stream, before)
            running.ends_within(rng.uniform(0, 3 * batch_s))
        if running.kill():
            victim.kills += 1
        else:
            survived += 1
            finished = running.finished()
            assert finished.status == 0, f"kill {victim.kills}: {finished}"
            assert survived <= kills, "the drivers finish before they can be killed"
    watch.raise_faults()


def test_random_kills_lose_nothing_and_double_nothing(onefold: Onefold, tmp_path) -> None:
    victim = victim_in(onefold, tmp_path / "victim")
    times = batch_seconds(victim)
    with Watch(victim.stream.output, victim.stream.checkpoint, FILES_PER_BATCH) as watch:
        kill_at_random_moments(victim, watch, times, RANDOM_KILLS)
        victim.drained()
    batches = checkpoint_files.commits(victim.stream.checkpoint)[-1] + 1
    print(f"{victim.kills} kills, {batches} batches, {watch.looks} looks")
    assert batches > RANDOM_KILLS // 4, "too few batches were done between the kills"


def crash_points(onefold: Onefold) -> list[str]:
    return onefold.ok("crash-points").stdout.split()


def reached(victim: Victim, point: str, hit: int) -> bool:
    """Starts a driver that kills itself at the given hit of a point; whether it got there."""
    running = victim.start(ONEFOLD_CRASH_AT=f"{point}:{hit}")
    finished = running.finished()
    if finished.status == 0:
        return False
    assert finished.status == -9, f"{point}:{hit}: {finished}"
    victim.kills += 1
    return True


def kill_at_every_point(victim: Victim, watch: Watch, hits: tuple[int, ...]) -> set[str]:
    """The points that were never reached."""
    points = crash_points(victim.onefold)
    assert len(points) >= 10, points
    met = set()
    for point in points:
        for hit in hits:
            # What recovery does is passed only when there is something to recover.
            if point.startswith("recovery."):
                reached(victim, "stage.done", 1)
            if reached(victim, point, hit):
                met.add(point)
        watch.raise_faults()
    return set(points) - met


def test_a_kill_at_every_named_point_loses_nothing_and_doubles_nothing(
    onefold: Onefold, tmp_path
) -> None:
    victim = victim_in(onefold, tmp_path / "victim", preamble=PURGING, cleanSource="delete")
    with Watch(victim.stream.output, victim.stream.checkpoint, FILES_PER_BATCH) as watch:
        missed = kill_at_every_point(victim, watch, (1, 2, 3))
        victim.drained()
    assert missed == NOT_PASSED.keys() & set(crash_points(onefold)), f"never reached: {missed}"


@pytest.mark.parametrize("second", ["recovery.before", "recovery.discarded", "publish.marked"])
def test_a_kill_at_every_point_and_then_again_in_recovery(
    onefold: Onefold, tmp_path, second: str
) -> None:
    victim = victim_in(onefold, tmp_path / "victim")
    victim.onefold.drain(victim.stream.pipeline)
    with Watch(victim.stream.output, victim.stream.checkpoint, FILES_PER_BATCH) as watch:
        for first in crash_points(onefold):
            reached(victim, first, 1)
            reached(victim, second, 1)
            watch.raise_faults()
        victim.drained()
    assert victim.kills >= 16
