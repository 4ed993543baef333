"""SIGKILL at any moment, for queries of other shapes: folders of partitions, windows, joins."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle

import checkpoint_files
import pytest
from command import Onefold, Running
from queries import Joined, Partitioned, Query, Stateful, Windows
from stream import Stream
from test_kill import (
    FILES_PER_BATCH,
    NOT_PASSED,
    OF_CALLS,
    Victim,
    batch_seconds,
    crash_points,
    kill_at_every_point,
    kill_at_random_moments,
)
from visibility import Watch

KILLS = 20
PARTITIONS = (2, 5, 1, 3)
# With a build that has RocksDB: `ONEFOLD_STATE=memory,rocksdb`.
PROVIDERS = os.environ.get("ONEFOLD_STATE", "memory").split(",")


@dataclass
class Shaped(Victim):
    """A victim that runs a query of some shape."""

    query: Query = field(kw_only=True)
    rows: int = 0

    def check_exact(self) -> None:
        self.rows = self.query.check_exact()


@dataclass
class Repartitioned(Shaped):
    """Each start has another number of partitions of the state, and may keep it elsewhere."""

    numbers: Iterator[int] = field(default_factory=lambda: cycle(PARTITIONS))
    providers: Iterator[str] = field(default_factory=lambda: cycle(PROVIDERS))

    def start(self, **env: str) -> Running:
        self.query.rewrite(next(self.numbers), next(self.providers))
        return super().start(**env)

    def drained_with_another_number(self) -> None:
        """The last driver has a number of its own as well."""
        number = next(self.numbers)
        self.query.rewrite(number)
        progress = self.drained().progress
        told = {it["numShufflePartitions"] for each in progress for it in each["stateOperators"]}
        assert told == {number}
        self.onefold.ok("verify", self.stream.checkpoint)


@pytest.fixture
def partitioned(onefold: Onefold, stream: Stream) -> Shaped:
    query = Partitioned(stream, FILES_PER_BATCH)
    query.rewrite()
    return Shaped(onefold, stream, query=query)


def test_random_kills_of_a_query_with_partition_folders_lose_and_double_nothing(
    partitioned: Shaped, stream: Stream
) -> None:
    times = batch_seconds(partitioned)
    with Watch(stream.output, stream.checkpoint, FILES_PER_BATCH) as watch:
        kill_at_random_moments(partitioned, watch, times, KILLS)
        partitioned.drained()


def test_a_kill_at_every_point_of_a_query_with_partition_folders_loses_and_doubles_nothing(
    onefold: Onefold, partitioned: Shaped, stream: Stream
) -> None:
    with Watch(stream.output, stream.checkpoint, FILES_PER_BATCH) as watch:
        missed = kill_at_every_point(partitioned, watch, (1,))
        partitioned.drained()
    assert missed == NOT_PASSED.keys() & set(crash_points(onefold)), f"never reached: {missed}"


def victim_of(onefold: Onefold, stream: Stream, shape: type[Stateful]) -> Repartitioned:
    query = shape(stream, FILES_PER_BATCH)
    query.rewrite()
    return Repartitioned(onefold, stream, query=query)


@pytest.mark.parametrize("shape", [Windows, Joined])
def test_random_kills_of_a_query_with_state_give_what_a_batch_computation_gives(
    onefold: Onefold, stream: Stream, shape: type[Stateful]
) -> None:
    victim = victim_of(onefold, stream, shape)
    times = batch_seconds(victim)
    with Watch(stream.output, stream.checkpoint, None, shape.key) as watch:
        kill_at_random_moments(victim, watch, times, KILLS)
        victim.drained_with_another_number()
    assert victim.rows > 50


@pytest.mark.parametrize("shape", [Windows, Joined])
def test_a_kill_at_every_point_of_a_query_with_state_gives_what_a_batch_computation_gives(
    onefold: Onefold, stream: Stream, shape: type[Stateful]
) -> None:
    victim = victim_of(onefold, stream, shape)
    with Watch(stream.output, stream.checkpoint, None, shape.key) as watch:
        missed = kill_at_every_point(victim, watch, (1, 2) if shape is Windows else (1,))
        victim.drained_with_another_number()
    assert missed == OF_CALLS, f"never reached: {missed - OF_CALLS}"
    assert victim.rows > 20
    assert len(checkpoint_files.commits(stream.checkpoint)) <= 5, "nothing is purged"
