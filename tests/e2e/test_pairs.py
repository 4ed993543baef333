"""Small programs side by side: a real PySpark and the stock client against `onefold serve`.

Each engine runs all programs in one session of its own, both at the same time; `pairs` has the
programs, and `pairs/differences.py` says what may differ, and why.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pairs.all  # noqa: F401
import pytest
from connect_server import ConnectServer
from pairs.compare import compare
from pairs.differences import DIFFERENCES
from pairs.program import PROGRAMS

HERE = Path(__file__).parent
TIMEOUT_S = 1200


@dataclass(frozen=True)
class Both:
    """What each engine gave, by program."""

    ours: dict[str, dict]
    sparks: dict[str, dict]


class Session:
    """A process that runs programs in one session."""

    def __init__(self, folder: Path, names: list[str], remote: str | None):
        folder.mkdir()
        self.output = folder / "results"
        self.log = folder / "log"
        env = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        # Times of rows come to Python in the zone of the process.
        env |= {"TZ": "UTC", "PYTHONPATH": str(HERE)}
        env.pop("SPARK_REMOTE", None)
        if remote is not None:
            env["SPARK_REMOTE"] = remote
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pairs.run", folder / "files", self.output, *names],
                env=env,
                cwd=folder,
                stdout=log,
                stderr=log,
            )

    def results(self) -> dict[str, dict]:
        status = self.process.wait(TIMEOUT_S)
        assert status == 0, self.log.read_text(errors="replace")[-6000:]
        records = [json.loads(line) for line in self.output.read_text("utf-8").splitlines()]
        return {record["name"]: record for record in records}


@pytest.fixture(scope="module")
def both(
    binary: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Both:
    """Runs the programs of the tests that were chosen, each in both engines."""
    chosen = [item.callspec.params["name"] for item in request.session.items if is_ours(item)]
    folder = tmp_path_factory.mktemp("pairs")
    server = ConnectServer(binary, folder / "server", env={"PYTHONPATH": str(HERE)})
    sessions: list[Session] = []
    try:
        sessions.append(Session(folder / "spark", chosen, None))
        sessions.append(Session(folder / "onefold", chosen, server.remote))
        sparks, ours = (session.results() for session in sessions)
    finally:
        for session in sessions:
            session.process.kill()
            session.process.wait()
        status = server.stop()
    assert status == 0, server.error.read_text()
    return Both(ours=ours, sparks=sparks)


def is_ours(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return item.fspath == Path(__file__) and callspec is not None and "name" in callspec.params


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_engines_give_the_same(both: Both, name: str) -> None:
    found = compare(both.ours[name], both.sparks[name])
    known = DIFFERENCES.get(name)
    if known is None:
        assert not found, "\n".join(map(str, found))
        return
    others = [it for it in found if it.field not in known.fields]
    assert not others, "\n".join(map(str, others))
    # A difference that is gone is to be taken off the list.
    assert known.passing or {it.field for it in found} == known.fields, f"of {known}: only {found}"


def test_every_known_difference_is_of_a_program() -> None:
    assert set(DIFFERENCES) <= set(PROGRAMS)
    assert all(known.reason for known in DIFFERENCES.values())


def test_a_comparison_sees_each_kind_of_difference() -> None:
    batch = {"batchId": 0, "operators": [{"name": "dedupe", "numRowsTotal": 1}]}
    record = {"rows": [[1], [1, 2]], "batches": [batch], "error": None}
    assert compare(record, record) == []
    changes = {
        "rows": record | {"rows": [[1], [1, 3]]},
        "steps": record | {"rows": [[1]]},
        "batches": record | {"batches": [batch, batch]},
        "batchId": record | {"batches": [batch | {"batchId": 1}]},
        "numRowsTotal": record
        | {"batches": [batch | {"operators": [{"name": "dedupe", "numRowsTotal": 2}]}]},
        "error": record | {"error": {"type": "A", "class": None, "cause": None, "text": ""}},
    }
    for field, changed in changes.items():
        assert {it.field for it in compare(record, changed)} == {field}
        assert {it.field for it in compare(changed, record)} == {field}
