"""One query, several sinks: read and computed once, and each sink holds each row once."""

import json
from pathlib import Path

import events
import manifest
from command import Onefold
from connect_server import ConnectServer
from deltalake import DeltaTable
from kafka_broker import KafkaBroker
from pipeline import quoted, read_files, written
from test_delta import POINTS
from test_kafka import new_topic

# Where a driver may die between two sinks.
BETWEEN = ["publish.before-mark", "publish.marked"]


def flow_into_both(folder: Path) -> Path:
    text = (
        f"CREATE SINK lake USING delta LOCATION {quoted(folder / 'lake')};\n"
        f"CREATE SINK files USING json LOCATION {quoted(folder / 'files')};\n"
        "CREATE FLOW both AS INSERT INTO lake, files BY NAME\n"
        f"SELECT id, name, v FROM {read_files(folder / 'in')};\n"
    )
    return written(text, folder / "pipeline.sql")


def in_lake(folder: Path) -> list[int]:
    return sorted(DeltaTable(folder / "lake").to_pyarrow_table()["id"].to_pylist())


def in_files(folder: Path) -> list[int]:
    """By the manifest, as readers of the folder see it."""
    lines = [line for path in manifest.data_files(folder / "files") for line in path.open()]
    return sorted(json.loads(line)["id"] for line in lines)


def test_killed_at_every_point_both_sinks_hold_each_row_once(onefold: Onefold, tmp_path: Path):
    feeder = events.Feeder(tmp_path / "in")
    pipeline = flow_into_both(tmp_path)
    killed = 0
    for point in POINTS + BETWEEN:
        for time in (1, 2, 3):
            feeder.feed(2)
            env = {"ONEFOLD_CRASH_AT": f"{point}:{time}"}
            died = onefold.start("run", pipeline, "--trigger", "available-now", env=env).finished()
            killed += died.status != 0
    feeder.feed(1)
    onefold.drain(pipeline)
    assert killed >= len(POINTS), killed
    wanted = list(range(feeder.records))
    assert in_lake(tmp_path) == wanted
    assert in_files(tmp_path) == wanted
    checkpoint = tmp_path / "onefold-data" / "_checkpoints" / "both"
    verified = onefold.ok("verify", checkpoint, "--json").json
    [files] = verified["further"]
    assert verified["ok"] and files["ok"] and files["name"] == "files", verified
    assert verified["rows"] == files["rows"] > 0, verified


def test_kafka_goes_first_and_files_follow(kafka: KafkaBroker, onefold: Onefold, tmp_path: Path):
    feeder, topic = events.Feeder(tmp_path / "in"), new_topic(kafka)
    feeder.feed(3)
    server = quoted(kafka.bootstrap)
    sinks = {
        "topic": f"kafka OPTIONS ('kafka.bootstrap.servers' {server}, 'topic' {quoted(topic)})",
        "files": f"json LOCATION {quoted(tmp_path / 'files')}",
    }

    def pipeline(*names: str) -> Path:
        made = "".join(f"CREATE SINK {name} USING {how};\n" for name, how in sinks.items())
        rows = f"SELECT id, CAST(id AS STRING) AS value FROM {read_files(tmp_path / 'in')}"
        text = f"{made}CREATE FLOW both AS INSERT INTO {', '.join(names)}\n{rows};\n"
        return written(text, tmp_path / "pipeline.sql")

    # A transaction cannot wait until another sink has decided.
    refused = onefold.fails("run", pipeline("files", "topic"), "--trigger", "available-now")
    assert "cannot wait for another sink's decision" in refused.stderr, refused
    onefold.drain(pipeline("topic", "files"))
    assert sorted(int(it.value) for it in kafka.client.read(topic)) == list(range(21))
    assert in_files(tmp_path) == list(range(21))


def test_pyspark_names_further_sinks_by_options(server: ConnectServer, tmp_path: Path):
    seen = server.run("several_sinks.py", tmp_path / "data").result
    assert seen["memory"] == seen["archive"] == [["a", 2], ["b", 1]]
    assert seen["progress"] == [["archive", 2]]
