"""Small programs through Spark Connect give what real Spark gave.

`run_spark_programs.py spark_results` records what Spark gives; this test compares schema (names and
types) and rows, values exactly. Where Onefold gives something else, `spark_results/differences.txt`
says so: a difference that is not in the file fails, and one that is gone, too. The file is written
anew where the variable ONEFOLD_RECORD_DIFFERENCES is set.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from connect_server import ConnectServer

HERE = Path(__file__).parent
RESULTS = HERE / "spark_results"
DIFFERENCES = RESULTS / "differences.txt"
TIMEOUT_S = 600


def read(folder: Path) -> dict[str, list[dict]]:
    found = {}
    for file in sorted(folder.glob("*.json")):
        for name, parts in json.loads(file.read_text()).items():
            found[f"{file.stem}.{name}"] = parts
    return found


SPARK = read(RESULTS)


def differences() -> dict[str, str]:
    lines = DIFFERENCES.read_text().splitlines() if DIFFERENCES.exists() else []
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


@pytest.fixture(scope="module")
def onefold_gave(
    binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, list[dict]]]:
    folder = tmp_path_factory.mktemp("programs")
    server = ConnectServer(binary, folder / "server", env={"TZ": "UTC"})
    command = [sys.executable, HERE / "run_spark_programs.py", folder / "results", server.remote]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert finished.returncode == 0, finished.stderr[-4000:]
    assert server.stop() == 0, server.error.read_text()
    given = read(folder / "results")
    if "ONEFOLD_RECORD_DIFFERENCES" in os.environ:
        record(given)
    yield given


def bare(part: dict | None) -> dict | None:
    """Without the text of an error, which is each engine's own."""
    return part and {key: it for key, it in part.items() if key != "text"}


def at(parts: list[dict], place: int) -> dict | None:
    return parts[place] if place < len(parts) else None


def reason(expected: dict, given: dict | None) -> str:
    if given is None:
        return "the program ended early"
    if "error" in given:
        # What the planner thinks was meant is another word in each run.
        text = given["text"].split("Did you mean")[0].split("SQLSTATE")[0]
        return f"{given['error']} {' '.join(text.split())[:120]}"
    if "error" in expected:
        return f"no error, where Spark has {expected['error']}"
    if expected.get("schema") != given.get("schema"):
        spark, own = expected.get("schema"), given.get("schema")
        return f"columns {json.dumps(own, ensure_ascii=False)[:100]}, in Spark {json.dumps(spark, ensure_ascii=False)[:100]}"
    return "other values"


def record(given: dict[str, list[dict]]) -> None:
    lines = ["# What differs from Spark: program, part, and what Onefold gives instead."]
    for name, parts in SPARK.items():
        own = given.get(name, [])
        for place, part in enumerate(parts):
            if bare(part) != bare(at(own, place)):
                lines.append(f"{name}[{place}]: {reason(part, at(own, place))}")
    DIFFERENCES.write_text("\n".join(lines) + "\n")


def test_the_programs_are_many_and_most_are_equal():
    known = differences()
    equal = [name for name in SPARK if not any(key.startswith(f"{name}[") for key in known)]
    assert len(SPARK) >= 100
    parts = sum(len(it) for it in SPARK.values())
    print(f"{len(equal)} of {len(SPARK)} programs, {parts - len(known)} of {parts} results")


@pytest.mark.parametrize("name", SPARK)
def test_a_program_gives_what_spark_gave(name: str, onefold_gave: dict[str, list[dict]]):
    known = differences()
    own = onefold_gave.get(name, [])
    for place, part in enumerate(SPARK[name]):
        key, given = f"{name}[{place}]", at(own, place)
        if key in known:
            assert bare(given) != bare(part), f"{key} is as in Spark now: strike it from {DIFFERENCES}"
        else:
            shown = json.dumps([part, given], ensure_ascii=False, indent=1)
            assert bare(given) == bare(part), f"{key}: Spark, then Onefold\n{shown}"
