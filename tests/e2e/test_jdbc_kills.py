"""Tables of databases through SIGKILLs of the query at random moments, counted with the databases' own
clients. `cargo xtask crash databases` kills more often."""

import os
import random
import sqlite3
import time
from pathlib import Path
from typing import Callable

import checkpoint_files
import events
import pytest
from command import Onefold, Running
from conftest import seed
from database_server import DatabaseServer
from pipeline import quoted, read_files, written

KILLS = int(os.environ.get("ONEFOLD_DATABASE_KILLS", "12"))
# A file of SQLite and MariaDB are killed less often: one server shows most.
SHARE = {"postgres": 1, "mariadb": 4, "sqlite": 4}
BACKLOG = 30  # batches that wait at each start: more than a process does before it is killed


def pipeline_into(folder: Path, options: dict[str, str]) -> Path:
    options = {"checkpointLocation": folder / "checkpoint", "dbtable": "t"} | options
    pairs = ", ".join(f"{quoted(name)} {quoted(value)}" for name, value in options.items())
    text = (
        f"CREATE STREAMING TABLE out USING jdbc OPTIONS ({pairs})\n"
        f"AS SELECT id, name, v FROM {read_files(folder / 'in')};\n"
    )
    return written(text, folder / "pipeline.sql")


def of_sqlite(place: Path) -> list[tuple]:
    with sqlite3.connect(place) as base:
        return base.execute("SELECT id, name, v FROM t ORDER BY id").fetchall()


def of_server(server: DatabaseServer) -> list[tuple]:
    rows = server.sql("SELECT id, name, v FROM t ORDER BY id")
    return [(int(row[0]), row[1], float(row[2])) for row in rows]


class Victim:
    """A pipeline whose driver is started and killed, again and again."""

    def __init__(self, onefold: Onefold, folder: Path, options: dict[str, str]):
        self.onefold = onefold
        self.feeder = events.Feeder(folder / "in")
        self.checkpoint = folder / "checkpoint"
        self.pipeline = pipeline_into(folder, options)
        self.rng = random.Random(seed())

    def newest_intent(self) -> int:
        return max(checkpoint_files.intents(self.checkpoint), default=-1)

    def start(self) -> Running:
        waiting = self.feeder.files - (self.newest_intent() + 1)
        self.feeder.feed(max(BACKLOG - waiting, 0))
        return self.onefold.start("run", self.pipeline, "--trigger", "available-now")

    def times(self) -> tuple[float, float]:
        """How long a start and how long a batch take, from the times of the commits of a whole run."""
        started = time.time()
        assert self.start().finished().status == 0
        commits = [self.checkpoint / "commits" / str(it) for it in range(BACKLOG)]
        times = [commit.stat().st_mtime for commit in commits]
        return times[0] - started, (times[-1] - times[0]) / (len(times) - 1)

    def kill(self, kills: int) -> int:
        """Kills so many drivers; how many batches there are then."""
        start_s, batch_s = self.times()
        print(f"seed {seed()}: start {start_s:.3f} s, batch {batch_s:.3f} s")
        killed = survived = 0
        while killed < kills:
            before = self.newest_intent()
            running = self.start()
            if self.rng.random() < 0.2:
                # Somewhere in starting up and recovering.
                running.ends_within(self.rng.uniform(0, start_s + batch_s))
            else:
                while self.newest_intent() <= before and not running.ends_within(0.001):
                    pass
                running.ends_within(self.rng.uniform(0, 3 * batch_s))
            if running.kill():
                killed += 1
                continue
            survived += 1
            finished = running.finished()
            assert finished.status == 0, f"kill {killed}: {finished}"
            assert survived <= kills, "the drivers finish before they can be killed"
        self.onefold.drain(self.pipeline)
        return checkpoint_files.commits(self.checkpoint)[-1] + 1


@pytest.mark.parametrize("kind", ["postgres", "mariadb", "sqlite"])
def test_random_kills_lose_no_row_and_double_none(onefold: Onefold, tmp_path: Path, kind: str):
    server = None if kind == "sqlite" else DatabaseServer(kind)
    place = tmp_path / "x.db"
    options = {"url": f"jdbc:sqlite:{place}"} if server is None else server.options()
    rows: Callable[[], list[tuple]] = lambda: of_server(server) if server else of_sqlite(place)
    victim = Victim(onefold, tmp_path, options)
    kills = max(KILLS // SHARE[kind], 1)
    batches = victim.kill(kills)
    found, records = rows(), victim.feeder.records
    ids = [row[0] for row in found]
    lost, doubled = records - len(set(ids)), len(ids) - len(set(ids))
    print(f"{kind}: {kills} kills, {batches} batches, {records} rows: {lost} lost, {doubled} doubled")
    assert found == [tuple(events.record(number).values()) for number in range(records)]
    assert batches > kills // 4, "too few batches were done between the kills"
    if server:
        assert server.staging_tables() == []
        server.close()
