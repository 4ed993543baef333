"""Reading from a real Kafka: from PySpark, from SQL, through SIGKILL."""

import json
import os
import random
import uuid
from pathlib import Path

import pyarrow.dataset

from command import Onefold
from conftest import seed
from connect_server import ConnectServer
from kafka_broker import KafkaBroker
from pipeline import literal, quoted, streaming_table, written

KILLS = int(os.environ.get("ONEFOLD_KAFKA_KILLS", "20"))


def new_topic(kafka: KafkaBroker, partitions: int = 1, **settings) -> str:
    name = f"Shop.{uuid.uuid4().hex}"
    kafka.client.create(name, partitions, **settings)
    # The broker hears of a topic a moment after the controller; a producer that is first gets its
    # sequence numbers wrong.
    assert kafka.client.read(name) == []
    return name


def read_kafka(kafka: KafkaBroker, topic: str, **options: object) -> str:
    options = {
        "bootstrapServers": kafka.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    } | options
    named = ", ".join(f"{name} => {literal(value)}" for name, value in options.items())
    return f"read_kafka({named})"


def rows_of(folder: Path) -> list[dict]:
    """All rows of a plain listing, as any reader sees them."""
    files = [
        str(file)
        for file in folder.rglob("*.parquet")
        if not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    ]
    return pyarrow.dataset.dataset(files).to_table().to_pylist() if files else []


def test_pyspark_reads_a_topic_as_a_stream_and_as_a_table(
    kafka: KafkaBroker, server: ConnectServer
):
    topic = new_topic(kafka)
    rows = [
        {"key": "a", "value": "1", "headers": [("h", None), ("h", "x")]},
        {"key": None, "value": "2"},
        {"key": "a", "value": None},
    ]
    kafka.client.produce(topic, rows)
    seen = server.run("kafka_source.py", kafka.bootstrap, topic).result
    assert seen["schema"] == [
        "key binary",
        "value binary",
        "topic string",
        "partition int",
        "offset bigint",
        "timestamp timestamp",
        "timestampType int",
        "headers array<struct<key:string,value:binary>>",
    ]
    assert seen["written"] == [["a", "1", 0], [None, "2", 1], ["a", None, 2]]
    assert seen["description"] == f"KafkaV2[Subscribe[{topic}]]"
    assert json.loads(seen["end"]) == {topic: {"0": 3}}
    assert seen["behind"] == "0"
    assert seen["table"] == [["a", "1"], [None, "2"], ["a", None]] and seen["count"] == 3
    assert seen["headers"] == [[["h", None], ["h", "x"]], [], []]
    assert "subscribe, subscribePattern, assign" in seen["refused"]


def test_a_pipeline_reads_topics_and_keeps_sparks_offsets(
    kafka: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    orders, names = new_topic(kafka, 2), new_topic(kafka)
    kafka.client.produce(names, [{"key": "1", "value": "ann"}, {"key": "2", "value": "bob"}])
    kafka.client.produce(orders, [{"key": "1", "value": "10", "partition": 0}])
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    select = (
        "SELECT CAST(o.value AS STRING) AS amount, CAST(n.value AS STRING) AS name "
        f"FROM STREAM {read_kafka(kafka, orders)} o "
        f"JOIN {read_kafka(kafka, names)} n ON o.key = n.key"
    )
    pipeline = written(streaming_table(select, out, checkpoint), tmp_path / "pipeline.sql")
    onefold.drain(pipeline)
    assert rows_of(out) == [{"amount": "10", "name": "ann"}]
    kafka.client.produce(orders, [{"key": "2", "value": "20", "partition": 1}])
    onefold.drain(pipeline)
    assert sorted(row["name"] for row in rows_of(out)) == ["ann", "bob"]
    last = (checkpoint / "offsets" / "1").read_text().splitlines()[-1]
    assert json.loads(last) == {orders: {"0": 1, "1": 1}}
    initial = (checkpoint / "sources" / "0" / "0").read_bytes()
    assert initial == b"\0v1\n" + json.dumps(
        {orders: {"0": 0, "1": 0}}, separators=(",", ":")
    ).encode()


def test_a_password_is_nowhere_to_be_seen(kafka: KafkaBroker, onefold: Onefold, tmp_path: Path):
    secret = f"hunter2-{uuid.uuid4()}"
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="u" password="{secret}";'
    )
    source = (
        f"read_kafka(bootstrapServers => {quoted(kafka.bootstrap)}, subscribe => 't', "
        "kafka.security.protocol => 'SASL_PLAINTEXT', kafka.sasl.mechanism => 'PLAIN', "
        f"kafka.sasl.jaas.config => {quoted(jaas)}, kafka.default.api.timeout.ms => 1000)"
    )
    select = f"SELECT value FROM STREAM {source}"
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    pipeline = written(streaming_table(select, out, checkpoint), tmp_path / "pipeline.sql")
    env = {"RUST_LOG": "debug"}
    failed = onefold.fails("run", pipeline, "--trigger", "available-now", env=env)
    explained = onefold.call("explain", pipeline, env=env)
    for said in (failed, explained):
        assert secret not in said.stdout + said.stderr
    pipeline.unlink()
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.is_relative_to(tmp_path) and "kafka" not in file.parts:
            assert secret.encode() not in file.read_bytes(), file


def test_sigkill_loses_no_record_and_doubles_none(
    kafka: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    chance = random.Random(seed())
    topic = new_topic(kafka, 3)
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    source = read_kafka(kafka, topic, maxOffsetsPerTrigger=50)
    select = f"SELECT partition, offset, CAST(CAST(value AS STRING) AS BIGINT) AS v FROM STREAM {source}"
    pipeline = written(streaming_table(select, out, checkpoint), tmp_path / "pipeline.sql")
    sent = 0
    for kill in range(KILLS):
        rows = [{"value": str(sent + n), "partition": (sent + n) % 3} for n in range(500)]
        kafka.client.produce(topic, rows)
        sent += len(rows)
        running = onefold.start("run", pipeline, "--trigger", "available-now")
        running.ends_within(chance.uniform(0.1, 1.5))
        running.kill()
    onefold.drain(pipeline)
    found = rows_of(out)
    assert sorted(row["v"] for row in found) == list(range(sent))
    assert len({(row["partition"], row["offset"]) for row in found}) == sent


def test_a_broker_that_restarts_interrupts_nothing(
    onefold: Onefold, tmp_path: Path
):
    broker = KafkaBroker(tmp_path / "kafka")
    try:
        broker.client.create("t", 2)
        out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
        source = read_kafka(broker, "t", maxOffsetsPerTrigger=200)
        select = f"SELECT CAST(CAST(value AS STRING) AS BIGINT) AS v FROM STREAM {source}"
        pipeline = written(streaming_table(select, out, checkpoint), tmp_path / "pipeline.sql")
        rows = [{"value": str(n), "partition": n % 2} for n in range(4_000)]
        broker.client.produce("t", rows[:2_000])
        running = onefold.start("run", pipeline)
        waited = 0
        while len(rows_of(out)) < 200:
            assert running.alive and not running.ends_within(0.1), running.finished()
            waited += 1
            assert waited < 600
        broker.kill()
        broker.restart()
        broker.client.produce("t", rows[2_000:])
        while len(rows_of(out)) < 4_000:
            assert running.alive and not running.ends_within(0.1), running.finished()
            waited += 1
            assert waited < 1_200
        running.kill()
        onefold.drain(pipeline)
        assert sorted(row["v"] for row in rows_of(out)) == list(range(4_000))
    finally:
        broker.close()


def test_a_topic_is_rewound_by_a_command(kafka: KafkaBroker, onefold: Onefold, tmp_path: Path):
    topic = new_topic(kafka)
    kafka.client.produce(topic, [{"value": "a"}, {"value": "b"}, {"value": "c"}])
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    select = f"SELECT CAST(value AS STRING) AS v FROM STREAM {read_kafka(kafka, topic)}"
    pipeline = written(streaming_table(select, out, checkpoint), tmp_path / "pipeline.sql")
    onefold.drain(pipeline)
    seen = lambda: sorted(row["v"] for row in rows_of(out))
    rewind = ("checkpoint", "rewind", checkpoint, "--topic", topic, "--to")
    shown = onefold.ok(*rewind, '{"0":1}')
    assert "stands at {0: 3}" in shown.stdout and "nothing was changed" in shown.stdout
    onefold.drain(pipeline)
    assert seen() == ["a", "b", "c"]
    applied = onefold.ok(*rewind, '{"0":1}', "--apply", "--json").json
    assert applied["applied"] and applied["sources"] == {"0": {"0": 3}}
    onefold.drain(pipeline)
    assert seen() == ["a", "b", "b", "c", "c"]
    onefold.ok("checkpoint", "verify", checkpoint)
    onefold.drain(pipeline)
    assert seen() == ["a", "b", "b", "c", "c"]
    unknown = onefold.fails(*rewind, '{"7":5}', "--apply")
    assert "has not read partition 7" in unknown.stderr, unknown
    # A wish that cannot be followed any more, as of a topic that has fewer partitions now.
    wish = checkpoint / "_onefold" / "sources" / "0"
    newest = max(int(it.name) for it in (checkpoint / "commits").iterdir() if it.name.isdigit())
    (wish / f"rewind-{newest}-1").write_text(json.dumps({"topic": topic, "to": {"offsets": {"7": 5}}}))
    stuck = onefold.fails("run", pipeline, "--trigger", "available-now")
    assert "partition 7" in stuck.stderr and "takes its place" in stuck.stderr, stuck
    onefold.ok(*rewind, "latest", "--apply")
    onefold.drain(pipeline)
    assert seen() == ["a", "b", "b", "c", "c"]
    other = onefold.fails("checkpoint", "rewind", checkpoint, "--topic", "x", "--to", "earliest")
    assert "no source" in other.stderr
    neither = onefold.fails("checkpoint", "rewind", checkpoint)
    assert "--to-batch" in neither.stderr
