"""Tables of databases: written through kills of the query, of the server and of the connection
between them, and counted with the databases' own clients."""

import itertools
import random
import signal
import sqlite3
from pathlib import Path
from typing import Iterator

import checkpoint_files
import events
import pytest
from command import Onefold
from conftest import seed
from connect_server import ConnectServer
from database_server import CommitProxy, DatabaseServer
from pipeline import quoted, read_files, written

# Points between two durable acts of a batch that a query without state passes.
POINTS = [
    "intent.before",
    "intent.created",
    "stage.during",
    "stage.done",
    "publish.before-mark",
    "publish.marked",
    "commit.before",
    "commit.created",
    "recovery.before",
    "recovery.discarded",
]
NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, DatabaseServer]]:
    """One server of each kind for all tests that do not harm it."""
    servers = {kind: DatabaseServer(kind) for kind in ("postgres", "mariadb")}
    yield servers
    for server in servers.values():
        server.close()


@pytest.fixture(params=["postgres", "mariadb"])
def server(request, servers) -> DatabaseServer:
    return servers[request.param]


@pytest.fixture
def connect(binary: Path, tmp_path: Path) -> Iterator[ConnectServer]:
    connect = ConnectServer(binary, tmp_path / "server")
    yield connect
    assert connect.stop() == 0, connect.error.read_text()


@pytest.fixture
def table() -> str:
    return f"t{next(NUMBERS)}"


def copy(folder: Path, options: dict, table: str, **more: object) -> Path:
    options = {"checkpointLocation": folder / "checkpoint", "dbtable": table} | options | more
    pairs = ", ".join(f"{quoted(name)} {quoted(value)}" for name, value in options.items())
    text = (
        f"CREATE STREAMING TABLE out USING jdbc OPTIONS ({pairs})\n"
        f"AS SELECT id, name, v FROM {read_files(folder / 'in')};\n"
    )
    return written(text, folder / "pipeline.sql")


def check_exact(server: DatabaseServer, table: str, records: int) -> None:
    assert server.ids(table) == list(range(records))
    rows = server.sql(f"SELECT id, name, v FROM {table} ORDER BY id")
    found = [(int(row[0]), row[1], float(row[2])) for row in rows]
    assert found == [tuple(events.record(number).values()) for number in range(records)]


def killed_at_every_point(onefold: Onefold, feeder: events.Feeder, pipeline: Path) -> None:
    killed = 0
    for point in POINTS:
        for time in (1, 2):
            feeder.feed(3)
            env = {"ONEFOLD_CRASH_AT": f"{point}:{time}"}
            died = onefold.start("run", pipeline, "--trigger", "available-now", env=env).finished()
            killed += died.status != 0
    feeder.feed(1)
    onefold.drain(pipeline)
    assert killed >= len(POINTS), killed


@pytest.mark.parametrize("keys", ["", "id"])
def test_killed_at_every_point_each_row_is_there_once(
    onefold: Onefold, server: DatabaseServer, table: str, tmp_path: Path, keys: str
):
    feeder = events.Feeder(tmp_path / "in")
    before = server.staging_tables()
    more = {"upsertKeys": keys} if keys else {}
    pipeline = copy(tmp_path, server.options(), table, **more)
    killed_at_every_point(onefold, feeder, pipeline)
    check_exact(server, table, feeder.records)
    assert server.staging_tables() == before
    # No checkpoint holds the password, nor an address that may have one in it.
    config = tmp_path / "config"
    config.write_text("".join(f"{name}={value}\n" for name, value in server.options().items()))
    told = onefold.ok("verify", tmp_path / "checkpoint", "--json", "--command-config", config)
    assert told.json["ok"] and told.json["rows"] == feeder.records, told.stdout
    assert "onefold-secret" not in told.stdout + told.stderr


def test_a_file_of_sqlite_is_written_through_kills(onefold: Onefold, tmp_path: Path):
    feeder = events.Feeder(tmp_path / "in")
    place = tmp_path / "x.db"
    pipeline = copy(tmp_path, {"url": f"jdbc:sqlite:{place}"}, "t")
    killed_at_every_point(onefold, feeder, pipeline)
    with sqlite3.connect(place) as base:
        rows = base.execute("SELECT id, name, v FROM t ORDER BY id").fetchall()
        tables = base.execute("SELECT name FROM sqlite_master WHERE name LIKE 'onefold_s_%'")
        assert tables.fetchall() == []
    assert rows == [tuple(events.record(number).values()) for number in range(feeder.records)]
    # A path is no secret.
    told = onefold.ok("verify", tmp_path / "checkpoint", "--json")
    assert told.json["ok"] and told.json["rows"] == feeder.records, told.stdout


@pytest.mark.parametrize("fault", ["reply", "request"])
def test_a_commit_that_is_lost_on_its_way_is_looked_for(
    onefold: Onefold, server: DatabaseServer, table: str, tmp_path: Path, fault: str
):
    rng = random.Random(f"{seed()}/{server.kind}/{fault}")
    proxy = CommitProxy(server.port, fault, 0.2, rng)
    feeder = events.Feeder(tmp_path / "in")
    pipeline = copy(tmp_path, server.options(proxy.port), table)
    for _ in range(4):
        feeder.feed(4)
        onefold.call("run", pipeline, "--trigger", "available-now")
    proxy.close()
    assert proxy.faults >= 1, (proxy.commits, proxy.faults)
    # What is left goes straight to the server.
    pipeline = copy(tmp_path, server.options(), table)
    onefold.drain(pipeline)
    check_exact(server, table, feeder.records)


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_server_that_is_cut_off_loses_and_doubles_nothing(
    onefold: Onefold, tmp_path: Path, kind: str
):
    server = DatabaseServer(kind)
    rng = random.Random(f"{seed()}/{kind}")
    feeder = events.Feeder(tmp_path / "in")
    pipeline = copy(tmp_path, server.options(), "t")
    for _ in range(6):
        feeder.feed(8)
        running = onefold.start("run", pipeline, "--trigger", "available-now")
        running.ends_within(rng.uniform(0.05, 0.8))
        server.tell("kill")
        server.tell("start")
        running.finished()
    onefold.drain(pipeline)
    check_exact(server, "t", feeder.records)
    server.close()


def test_sessions_that_are_terminated_lose_and_double_nothing(
    onefold: Onefold, servers, table: str, tmp_path: Path
):
    server = servers["postgres"]
    rng = random.Random(f"{seed()}/terminate")
    feeder = events.Feeder(tmp_path / "in")
    pipeline = copy(tmp_path, server.options(), table)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'onefold'"
    for _ in range(6):
        feeder.feed(8)
        running = onefold.start("run", pipeline, "--trigger", "available-now")
        while not running.ends_within(rng.uniform(0.02, 0.2)):
            server.sql(end)
            if rng.random() < 0.3:
                break
        running.finished()
    onefold.drain(pipeline)
    check_exact(server, table, feeder.records)


def test_a_driver_that_was_paused_is_fenced_by_the_next_one(
    onefold: Onefold, server: DatabaseServer, table: str, tmp_path: Path
):
    rng = random.Random(f"{seed()}/paused")
    feeder = events.Feeder(tmp_path / "in")
    pipeline = copy(
        tmp_path, server.options(), table, **{"onefold.jdbc.lockTimeout": "90s"}
    )
    for _ in range(3):
        feeder.feed(20)
        before = len(checkpoint_files.commits(tmp_path / "checkpoint"))
        first = onefold.start("run", pipeline, "--trigger", "available-now")
        while len(checkpoint_files.commits(tmp_path / "checkpoint")) < before + 2:
            assert not first.ends_within(0.001), str(first.finished())
        first.ends_within(rng.uniform(0, 0.05))
        first.signal(signal.SIGSTOP)
        second = onefold.start("run", pipeline, "--trigger", "available-now")
        second.ends_within(rng.uniform(0, 1))
        first.signal(signal.SIGCONT)
        assert first.finished().status > 0
        finished = second.finished()
        assert finished.status == 0, str(finished)
    check_exact(server, table, feeder.records)


def test_no_secret_is_shown(onefold: Onefold, servers, table: str, tmp_path: Path):
    server = servers["mariadb"]
    feeder = events.Feeder(tmp_path / "in")
    feeder.feed(1)
    secret = server.about["password"]
    inside = server.url() + f"?user=onefold&password={secret}"
    pipeline = copy(tmp_path, {"url": inside}, table)
    said = [onefold.ok("run", pipeline, "--trigger", "available-now")]
    said.append(onefold.ok("explain", pipeline))
    wrong = copy(tmp_path, {"url": server.url() + "?user=onefold&password=wr0ng-secret"}, table)
    said.append(onefold.call("run", wrong, "--trigger", "available-now"))
    assert said[-1].status != 0
    text = "".join(str(finished) for finished in said)
    assert secret not in text and "wr0ng-secret" not in text
    assert f"127.0.0.1:{server.port}/onefold" in text
    for place in (tmp_path / "checkpoint").rglob("*"):
        assert not place.is_file() or secret.encode() not in place.read_bytes(), place


def test_a_program_writes_and_reads_as_with_spark(
    connect: ConnectServer, server: DatabaseServer, table: str
):
    login = [server.about["user"], server.about.get("password", "")]
    url = server.url().split("?")[0]
    seen = connect.run("jdbc.py", url, *login, table).result
    assert "already exists" in seen["exists"]
    assert seen["first"] == seen["parts"] == list(range(10)) and seen["count"] == 10
    assert seen["predicates"] == [0, 1, 7] and seen["query"] == [6, 7, 8, 9]
    assert seen["overwritten"] == [0, 1, 2]
    catalog = seen["catalog"]
    assert catalog["rows"] == [0, 1, 2, 100, 101] and catalog["columns"] == ["id", "v"]
    assert catalog["saved"] == [0, 1, 2, 9, 100, 101, 102]
    assert catalog["emptied"] == 0 and catalog["left"] == [5]
    assert "knows its columns" in catalog["own_columns"]
    assert "redacted" in catalog["made_by"] and url not in catalog["made_by"]
    assert "onefold-secret" not in catalog["made_by"]
    ids = [10 * number + place for number in range(3) for place in range(4)]
    assert seen["failures"] == [True, True, True]
    assert seen["a"] == sorted(ids + ids) and seen["b"] == [4, 4, 4]
