"""Databases whose disk fills up, and sessions that are encrypted."""

import random
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Iterator

import events
import pytest
from command import Finished, Onefold
from conftest import seed
from database_server import CommitProxy, DatabaseServer
from pipeline import quoted, read_files, written
from test_jdbc_kills import pipeline_into

# Few tries, soon.
RUN = (
    *("run", "--trigger", "available-now"),
    *("--conf", "onefold.retry.maxAttempts=2", "--conf", "onefold.retry.initialBackoff=1ms"),
)
# Text of a row that no page of a table packs away.
WIDE = 300_000


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
@pytest.mark.parametrize("moment", ["request", "both", "reply"])
def test_a_server_that_is_cut_off_around_a_commit_loses_and_doubles_nothing(
    onefold: Onefold, tmp_path: Path, kind: str, moment: str
):
    """As in a power cut: before COMMIT reaches it, while it does it, after it did it."""
    server = DatabaseServer(kind)

    def cut() -> None:
        server.tell("kill")
        server.tell("start")

    rng = random.Random(f"{seed()}/{kind}/{moment}")
    proxy = CommitProxy(server.port, moment, 0.3, rng, cut, most=2)
    feeder = events.Feeder(tmp_path / "in")
    pipeline = pipeline_into(tmp_path, server.options(proxy.port))
    for _ in range(3):
        feeder.feed(4)
        onefold.call("run", pipeline, "--trigger", "available-now")
    proxy.close()
    assert proxy.faults >= 1, (proxy.commits, proxy.faults)
    # What is left goes straight to the server.
    pipeline = pipeline_into(tmp_path, server.options())
    onefold.drain(pipeline)
    assert server.ids("t") == list(range(feeder.records))
    server.close()


@contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """A file system of its own, which can be filled, where a server of another user gets at it."""
    folder = Path(tempfile.mkdtemp(prefix="onefold-disk."))
    folder.chmod(0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=777", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        # Servers end with the test that fails, and may still be there.
        subprocess.run(["umount", "--lazy", folder], check=True)
        folder.rmdir()


def fill(disk: Path, left: int) -> Path:
    """Takes the room of a disk but for so many bytes."""
    ballast = disk / "ballast"
    free = shutil.disk_usage(disk).free
    with open(ballast, "wb") as file:
        chunk = b"x" * (1 << 16)
        for _ in range(max(free - left, 0) // len(chunk)):
            file.write(chunk)
    return ballast


def wide(folder: Path, options: dict[str, str]) -> Path:
    """As the pipeline of other tests, with rows that need room."""
    options = {"checkpointLocation": folder / "checkpoint", "dbtable": "t"} | options
    pairs = ", ".join(f"{quoted(name)} {quoted(value)}" for name, value in options.items())
    # Random-looking text, which cannot be packed.
    text = f"array_join(transform(sequence(1, {WIDE // 64}), n -> sha2(concat(id, '/', n), 256)), '')"
    return written(
        f"CREATE STREAMING TABLE out USING jdbc OPTIONS ({pairs})\n"
        f"AS SELECT id, {text} AS w FROM {read_files(folder / 'in')};\n",
        folder / "pipeline.sql",
    )


def check_says_what_to_do(finished: Finished) -> None:
    assert "free space on the disk of the database" in finished.stderr, str(finished)


def filled(onefold: Onefold, tmp_path: Path, options: dict[str, str], disk: Path, left: int):
    """A query that runs into a full disk, and again when there is room; the error of the first."""
    feeder = events.Feeder(tmp_path / "in")
    pipeline = wide(tmp_path, options)
    feeder.feed(1)
    onefold.drain(pipeline)
    feeder.feed(3)
    ballast = fill(disk, left)
    finished = onefold.fails(*RUN, pipeline)
    ballast.unlink()
    return feeder, pipeline, finished


@pytest.mark.parametrize("place", ["table", "staging"])
def test_a_full_disk_under_a_table_of_postgres_stops_the_query_and_room_continues_it(
    onefold: Onefold, tmp_path: Path, root, place: str
):
    server = DatabaseServer("postgres")
    with small_disk("64m") as disk:
        space = disk / "space"
        space.mkdir()
        shutil.chown(space, "postgres")
        server.sql(f"CREATE TABLESPACE small LOCATION '{space}'")
        server.sql("CREATE TABLE t (id bigint, w text) " + ("TABLESPACE small" if place == "table" else ""))
        options = server.options()
        if place == "staging":
            options["sessionInitStatement"] = "SET default_tablespace = small"
        feeder, pipeline, finished = filled(onefold, tmp_path, options, disk, 1 << 20)
        check_says_what_to_do(finished)
        assert "(53100)" in finished.stderr, str(finished)
        assert server.ids("t") == list(range(events.RECORDS_PER_FILE))
        onefold.drain(pipeline)
        assert server.ids("t") == list(range(feeder.records))
        assert server.staging_tables() == []
        server.close()


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_server_without_room_loses_and_doubles_nothing(
    onefold: Onefold, tmp_path: Path, root, kind: str
):
    """Also its logs are on that disk: it may end, or wait, as it likes."""
    with small_disk("600m") as disk:
        server = DatabaseServer(kind, folder=disk)
        feeder = events.Feeder(tmp_path / "in")
        pipeline = wide(tmp_path, server.options())
        feeder.feed(1)
        onefold.drain(pipeline)
        feeder.feed(12)
        ballast = fill(disk, 4 << 20)
        running = onefold.start(*RUN, pipeline)
        # MariaDB waits for room by itself.
        ended = running.ends_within(15)
        if ended:
            assert running.finished().status > 0, str(running.finished())
        ballast.unlink()
        if not ended:
            running.kill()
        server.tell("kill")
        server.tell("start")
        onefold.drain(pipeline)
        assert server.ids("t") == list(range(feeder.records))
        server.close()


def test_a_full_disk_under_a_file_of_sqlite_stops_the_query_and_room_continues_it(
    onefold: Onefold, tmp_path: Path, root
):
    with small_disk("64m") as disk:
        options = {"url": f"jdbc:sqlite:{disk / 'x.db'}"}
        feeder, pipeline, finished = filled(onefold, tmp_path, options, disk, 1 << 20)
        check_says_what_to_do(finished)
        onefold.drain(pipeline)
        with closing(sqlite3.connect(disk / "x.db")) as base:
            found = [row[0] for row in base.execute("SELECT id FROM t ORDER BY id")]
        assert found == list(range(feeder.records))


@pytest.fixture(scope="module", params=["postgres", "mariadb"])
def closed(request) -> Iterator[DatabaseServer]:
    """A server that takes encrypted sessions only."""
    server = DatabaseServer(request.param, tls=True)
    yield server
    server.close()


def run_with(onefold: Onefold, folder: Path, server: DatabaseServer, setting: str, **more) -> Finished:
    folder.mkdir(exist_ok=True)
    events.Feeder(folder / "in").feed(1)
    options = server.options() | more
    options["url"] += ("&" if "?" in options["url"] else "?") + setting
    return onefold.call(*RUN, pipeline_into(folder, options | {"dbtable": f"t_{folder.name}"}))


def test_a_session_is_encrypted_and_the_server_is_checked_as_the_url_says(
    onefold: Onefold, closed: DatabaseServer, tmp_path: Path
):
    own = {
        "postgres": ("sslmode=disable", "sslmode=require", "sslmode=verify-full"),
        "mariadb": ("sslMode=disable", "sslMode=required", "sslMode=verify_identity"),
    }
    disable, require, verify = own[closed.kind]
    authority = Path(closed.about["tls"]) / "ca.pem"
    assert run_with(onefold, tmp_path / "plain", closed, disable).status > 0
    for name, setting in (("hidden", require), ("known", f"{verify}&sslrootcert={authority}")):
        finished = run_with(onefold, tmp_path / name, closed, setting)
        assert finished.status == 0, str(finished)
        assert closed.ids(f"t_{name}") == list(range(events.RECORDS_PER_FILE))
    # The options of their own, as the properties of a Java driver.
    more = {"sslmode": "verify-full", "sslrootcert": str(authority)}
    finished = run_with(onefold, tmp_path / "options", closed, "ApplicationName=x", **more)
    assert finished.status == 0, str(finished)


def test_a_server_that_is_not_the_one_is_not_spoken_to(
    onefold: Onefold, closed: DatabaseServer, tmp_path: Path
):
    verify = "sslmode=verify-full"
    # Nobody on this machine vouches for it.
    finished = run_with(onefold, tmp_path / "unknown", closed, verify)
    assert finished.status > 0 and "certificate" in finished.stderr, str(finished)
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run([str(Path(__file__).parents[2] / "scripts/certify.sh"), str(other)], check=True)
    finished = run_with(onefold, tmp_path / "other", closed, f"{verify}&sslrootcert={other}/ca.pem")
    assert finished.status > 0 and "certificate" in finished.stderr, str(finished)
    # Its certificate is for 127.0.0.1 and not for this name.
    authority = Path(closed.about["tls"]) / "ca.pem"
    url = closed.url().replace("127.0.0.1", "localhost")
    setting = f"{verify}&sslrootcert={authority}"
    finished = run_with(onefold, tmp_path / "name", closed, setting, url=url)
    assert finished.status > 0 and "certificate" in finished.stderr, str(finished)
    # A word that was mistyped leaves nothing unprotected.
    finished = run_with(onefold, tmp_path / "typo", closed, "sslmod=verify-full")
    assert finished.status > 0 and "sslmod" in finished.stderr, str(finished)
