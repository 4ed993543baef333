"""A pipeline into Kafka through faults: SIGKILL at any moment, brokers that die, drivers that sleep
past their time, requests held back and replies lost. Kafka's own client counts at the end."""

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Iterator

import events
import pytest
from command import Onefold, Running
from conftest import seed
from kafka_broker import KafkaBroker, Record
from kafka_proxy import KafkaProxy
from pipeline import quoted, read_files, written
from test_kafka import new_topic, to_kafka

# `cargo xtask crash kafka` takes more of all.
KILLS = int(os.environ.get("ONEFOLD_KAFKA_KILLS", "20"))
RECORDS = int(os.environ.get("ONEFOLD_KAFKA_RECORDS", "0"))
RECORDS_PER_BATCH = int(os.environ.get("ONEFOLD_KAFKA_BATCH", "40"))
FILES_PER_BATCH = 2
BACKLOG = 24  # batches that wait at each start


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that a test may harm."""
    broker = KafkaBroker(tmp_path / "kafka")
    yield broker
    broker.close()


class Into:
    """A pipeline from files into a topic, and what feeds it."""

    def __init__(self, kafka: KafkaBroker, onefold: Onefold, folder: Path, partitions: int = 2):
        self.kafka, self.onefold, self.folder = kafka, onefold, folder
        self.topic = new_topic(kafka, partitions)
        self.feeder = events.Feeder(folder / "in")
        self.pipeline = folder / "pipeline.sql"
        self.write_pipeline()

    def write_pipeline(self, bootstrap: str | None = None, **options: object) -> None:
        source = read_files(self.folder / "in", maxFilesPerTrigger=FILES_PER_BATCH)
        select = f"SELECT CAST(id % 5 AS STRING) AS key, CAST(id AS STRING) AS value FROM {source}"
        options = {"topic": self.topic} | options
        if bootstrap is not None:
            options["kafka.bootstrap.servers"] = bootstrap
        retries = (
            "SET onefold.retry.initialBackoff = 100ms;\nSET onefold.retry.maxBackoff = 1s;\n"
            "SET onefold.retry.maxAttempts = 60;\n"
        )
        text = to_kafka(self.kafka, select, self.folder / "checkpoint", **options)
        written(retries + text, self.pipeline)

    def feed_batches(self, batches: int) -> None:
        self.feeder.feed(batches * FILES_PER_BATCH)

    def start(self, **env: str) -> Running:
        return self.onefold.start("run", self.pipeline, "--trigger", "available-now", env=env)

    @property
    def records(self) -> int:
        return self.feeder.records

    def waiting(self) -> int:
        """Batches that wait."""
        return self.feeder.files // FILES_PER_BATCH - self.commits()

    def commits(self) -> int:
        """Batches that are over; the files of old ones are gone."""
        files = (self.folder / "checkpoint" / "commits").glob("[0-9]*")
        return max((int(file.name) + 1 for file in files), default=0)

    def check_exact(self) -> None:
        """0 lost, 0 doubled, and in each partition the order of each batch's rows is kept."""
        records = self.kafka.client.read(self.topic)
        count = Counter(int(record.value) for record in records)
        wanted = range(self.records)
        lost = [it for it in wanted if it not in count]
        doubled = {it: times for it, times in count.items() if times > 1}
        assert not lost and not doubled, f"lost {lost[:20]}, doubled {list(doubled.items())[:20]}"
        assert len(count) == len(wanted)
        self.check_order(records)

    def check_order(self, records: list[Record]) -> None:
        batch: dict[int, int] = {}
        row: dict[tuple[int, int], int] = {}
        for record in records:
            number = int(record.value)
            # Batches in order, and the rows of a file, which one partition of the engine reads.
            of_batch = number // (FILES_PER_BATCH * events.RECORDS_PER_FILE)
            file = (record.partition, number // events.RECORDS_PER_FILE)
            assert batch.get(record.partition, -1) <= of_batch, f"{record} is out of order"
            assert row.get(file, -1) < number, f"{record} is out of order"
            batch[record.partition], row[file] = of_batch, number

    def drain(self) -> None:
        self.onefold.drain(self.pipeline)
        self.check_exact()


class FromKafka(Into):
    """The same from a topic of two partitions; odd numbers lie in the second one."""

    BATCH = RECORDS_PER_BATCH

    def __init__(self, kafka: KafkaBroker, onefold: Onefold, folder: Path):
        self.source = new_topic(kafka, 2)
        self.fed = 0
        super().__init__(kafka, onefold, folder)

    def write_pipeline(self, bootstrap: str | None = None, **options: object) -> None:
        source = (
            f"STREAM read_kafka(bootstrapServers => {quoted(self.kafka.bootstrap)}, "
            f"subscribe => {quoted(self.source)}, startingOffsets => 'earliest', "
            f"maxOffsetsPerTrigger => {self.BATCH})"
        )
        select = f"SELECT key, value FROM {source}"
        options = {"topic": self.topic} | options
        text = to_kafka(self.kafka, select, self.folder / "checkpoint", **options)
        written(text, self.pipeline)

    def feed_batches(self, batches: int) -> None:
        numbers = range(self.fed, self.fed + batches * self.BATCH)
        rows = [{"key": str(it % 5), "value": str(it), "partition": it % 2} for it in numbers]
        self.kafka.client.produce(self.source, rows)
        self.fed += len(rows)

    @property
    def records(self) -> int:
        return self.fed

    def waiting(self) -> int:
        return self.fed // self.BATCH - self.commits()

    def check_order(self, records: list[Record]) -> None:
        last: dict[tuple[int, int], int] = {}
        for record in records:
            number = int(record.value)
            place = (record.partition, number % 2)
            assert last.get(place, -1) < number, f"{record} is out of order"
            last[place] = number


@pytest.mark.parametrize("pipeline", [Into, FromKafka])
def test_random_kills_lose_nothing_double_nothing_and_keep_the_order(
    kafka: KafkaBroker, onefold: Onefold, tmp_path: Path, pipeline: type[Into]
):
    into = pipeline(kafka, onefold, tmp_path)
    rng = random.Random(seed())
    into.feed_batches(BACKLOG)
    began = time.time()
    into.drain()
    batch_s = (time.time() - began) / BACKLOG
    print(f"seed {seed()}: batch {batch_s:.3f} s")
    kills = survived = 0
    while kills < KILLS:
        into.feed_batches(max(BACKLOG - into.waiting(), 0))
        before = into.commits()
        running = into.start()
        if rng.random() < 0.8:
            while into.commits() <= before and not running.ends_within(0.002):
                pass
        running.ends_within(rng.uniform(0, 3 * batch_s))
        if running.kill():
            kills += 1
        else:
            survived += 1
            finished = running.finished()
            assert finished.status == 0, finished
            assert survived <= KILLS, "the drivers finish before they can be killed"
        if kills % 50 == 0:
            print(f"{kills} kills, {into.commits()} commits, {into.records} records", flush=True)
    while pipeline is FromKafka and into.records < RECORDS:
        into.feed_batches(BACKLOG)
    into.drain()
    print(f"{kills} kills, {into.commits()} commits, {into.records} records")


def test_a_kill_at_every_point_of_the_protocol_doubles_nothing(
    kafka: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    into = Into(kafka, onefold, tmp_path)
    reached = []
    for point in onefold.ok("crash-points").stdout.split():
        into.feed_batches(3)
        finished = into.start(ONEFOLD_CRASH_AT=f"{point}:2").finished()
        assert finished.status in (0, -signal.SIGKILL), finished
        if finished.status != 0:
            reached.append(point)
    into.drain()
    for point in ["stage.during", "publish.before-mark", "publish.marked", "commit.before"]:
        assert point in reached, reached


def test_a_broker_that_is_killed_in_mid_transaction_loses_nothing(
    own_kafka: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    into = Into(own_kafka, onefold, tmp_path)
    rng = random.Random(seed())
    into.feed_batches(60)
    running = into.start()
    for _ in range(3):
        before = into.commits()
        while into.commits() < before + 2 and not running.ends_within(0.01):
            pass
        running.ends_within(rng.uniform(0, 0.2))
        own_kafka.kill()
        own_kafka.restart()
    finished = running.finished()
    assert finished.status == 0, finished
    into.drain()


def test_nodes_of_a_cluster_that_die_in_turn_lose_nothing(onefold: Onefold, tmp_path: Path):
    # Coordinators and leaders move each time.
    broker = KafkaBroker(tmp_path / "kafka", nodes=3)
    try:
        into = Into(broker, onefold, tmp_path)
        into.feed_batches(60)
        running = into.start()
        for node in (1, 2, 3):
            before = into.commits()
            while into.commits() < before + 2 and not running.ends_within(0.01):
                pass
            broker.kill(node)
            running.ends_within(2)
            broker.restart(node)
        finished = running.finished()
        assert finished.status == 0, finished
        into.drain()
    finally:
        broker.close()


def test_a_driver_that_wakes_after_its_successor_published_adds_nothing(
    kafka: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    into = Into(kafka, onefold, tmp_path)
    into.write_pipeline(**{"kafka.transaction.timeout.ms": 2000})
    rng = random.Random(seed())
    woken = 0
    for _ in range(5):
        into.feed_batches(12)
        before = into.commits()
        zombie = into.start()
        while into.commits() <= before and not zombie.ends_within(0.002):
            pass
        zombie.ends_within(rng.uniform(0, 0.15))
        if not zombie.alive:
            continue
        zombie.signal(signal.SIGSTOP)
        # Past the time of its transaction, so that the brokers end it as well.
        into.onefold.drain(into.pipeline)
        time.sleep(2.5)
        into.feed_batches(2)
        into.onefold.drain(into.pipeline)
        zombie.signal(signal.SIGCONT)
        finished = zombie.finished()
        assert finished.status != 0, finished
        assert "newer driver" in finished.stderr or "fenced" in finished.stderr.lower(), finished
        into.check_exact()
        woken += 1
    into.drain()
    assert woken >= 2, "too few drivers lived long enough to be stopped"


def through_proxy(onefold: Onefold, folder: Path, fault: str, batches: int) -> KafkaProxy:
    """A pipeline whose requests to commit meet a fault now and then; everything is checked."""
    proxy = KafkaProxy(fault, every=4)
    broker = KafkaBroker(folder / "kafka", proxy=proxy.port)
    try:
        proxy.upstream = broker.behind
        into = Into(broker, onefold, folder)
        into.feed_batches(batches)
        times = {"kafka.default.api.timeout.ms": 2000, "kafka.retry.backoff.ms": 100}
        into.write_pipeline(bootstrap=proxy.bootstrap, **times)
        finished = into.start().finished()
        assert finished.status == 0, finished
        into.check_exact()
        return proxy
    finally:
        proxy.close()
        broker.close()


@pytest.mark.parametrize("fault", ["held", "lost", "doubled"])
def test_commits_held_back_replies_lost_and_requests_doubled_double_nothing(
    onefold: Onefold, tmp_path: Path, fault: str
):
    assert through_proxy(onefold, tmp_path, fault, 12).faults >= 2, "too few commits met the fault"
