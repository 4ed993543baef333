"""What every test gets: the command, and a pipeline that copies numbered events."""

import os
import subprocess
from pathlib import Path
from typing import Iterator

import pytest

from command import Onefold
from connect_server import ConnectServer
from kafka_broker import KafkaBroker
from s3_server import S3Server, served
from stream import Stream, stream_in

ROOT = Path(__file__).resolve().parents[2]


def pytest_report_header() -> str:
    return f"seed {seed()} (set ONEFOLD_SEED to repeat a run)"


def seed() -> int:
    """One number decides every random choice of a run."""
    if "ONEFOLD_SEED" not in os.environ:
        os.environ["ONEFOLD_SEED"] = str(int.from_bytes(os.urandom(4), "big"))
    return int(os.environ["ONEFOLD_SEED"])


@pytest.fixture(scope="session")
def binary() -> Path:
    """The command: `ONEFOLD_BIN`, or built here."""
    if "ONEFOLD_BIN" in os.environ:
        return Path(os.environ["ONEFOLD_BIN"]).resolve(strict=True)
    build = ["cargo", "build", "--locked"]
    command = ["--package", "onefold-cli", "--features", "crash-points,planted-bugs"]
    server = ["--package", "onefold-testkit", "--example", "s3_server"]
    for what in (command, server):
        subprocess.run([*build, *what], cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    return (ROOT / target / "debug" / "onefold").resolve(strict=True)


@pytest.fixture
def root() -> None:
    """For tests that mount a file system or become another user. CI is root and skips nothing."""
    if os.geteuid() != 0:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("needs root")


@pytest.fixture
def onefold(binary: Path, tmp_path: Path) -> Onefold:
    logs = tmp_path / "logs"
    logs.mkdir()
    return Onefold(binary, logs)


@pytest.fixture
def server(binary: Path, tmp_path: Path) -> Iterator[ConnectServer]:
    """A server of Spark Connect, for one test."""
    server = ConnectServer(binary, tmp_path / "server")
    yield server
    assert server.stop() == 0, server.error.read_text()


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return stream_in(tmp_path / "stream")


@pytest.fixture
def s3(binary: Path) -> Iterator[S3Server]:
    yield from served(binary.parent / "examples" / "s3_server")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory) -> Iterator[KafkaBroker]:
    """One broker for all tests that do not harm it."""
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    yield broker
    broker.close()
