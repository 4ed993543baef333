"""Writing to a real Kafka, as Kafka's own client sees it under read_committed: from SQL, from
PySpark, as a stream and as a whole."""

import uuid
from pathlib import Path

import events
from command import Onefold
from connect_server import ConnectServer
from kafka_broker import KafkaBroker
from pipeline import quoted, read_files, written


def new_topic(kafka: KafkaBroker, partitions: int = 1, **settings) -> str:
    name = f"Out.{uuid.uuid4().hex}"
    kafka.client.create(name, partitions, **settings)
    return name


def to_kafka(kafka: KafkaBroker, select: str, checkpoint: object, **options: object) -> str:
    """A statement that writes what `select` gives to Kafka."""
    options = {
        "checkpointLocation": checkpoint,
        "kafka.bootstrap.servers": kafka.bootstrap,
    } | options
    pairs = ", ".join(f"{quoted(key)} {quoted(value)}" for key, value in options.items())
    return f"CREATE STREAMING TABLE out USING kafka OPTIONS ({pairs})\nAS {select};\n"


def events_to_kafka(kafka: KafkaBroker, folder: Path, topic: str, **options: object) -> Path:
    select = (
        "SELECT CAST(id % 7 AS STRING) AS key, CAST(id AS STRING) AS value "
        f"FROM {read_files(folder / 'in')}"
    )
    text = to_kafka(kafka, select, folder / "checkpoint", topic=topic, **options)
    return written(text, folder / "pipeline.sql")


def ids(kafka: KafkaBroker, topic: str) -> list[int]:
    return [int(record.value) for record in kafka.client.read(topic)]


def test_a_pipeline_writes_each_row_once_and_verify_reads_it_back(
    kafka: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    topic = new_topic(kafka, 3)
    feeder = events.Feeder(tmp_path / "in")
    feeder.feed(4)
    pipeline = events_to_kafka(kafka, tmp_path, topic)
    onefold.drain(pipeline)
    records = kafka.client.read(topic)
    assert sorted(int(it.value) for it in records) == list(range(feeder.records))
    # A key is always in the same partition, which is the one that Java's producers choose.
    assert len({(it.key, it.partition) for it in records}) == len({it.key for it in records})
    java = new_topic(kafka, 3)
    kafka.client.produce(java, [{"key": it.key.decode(), "value": it.value.decode()} for it in records])
    places = {it.key: it.partition for it in kafka.client.read(java)}
    assert {it.key: it.partition for it in records} == places

    verified = onefold.ok("verify", tmp_path / "checkpoint", "--json").json
    assert verified["ok"], verified
    assert verified["equal"] >= 4 and verified["rows"] == len(records), verified
    assert onefold.ok("explain", pipeline).stdout.count("exactly") >= 1


def test_two_flows_write_into_one_sink(kafka: KafkaBroker, onefold: Onefold, tmp_path: Path):
    start, end = new_topic(kafka), new_topic(kafka)
    server = quoted(kafka.bootstrap)
    read = (
        f"STREAM read_kafka(bootstrapServers => {server}, subscribe => {quoted(start)}, "
        "startingOffsets => 'earliest')"
    )

    def flow(name: str, left: int) -> str:
        value = f"concat({quoted(name + '-')}, CAST(value AS STRING))"
        rows = f"SELECT {value} AS value FROM {read} WHERE CAST(CAST(value AS STRING) AS INT) % 2 = {left}"
        return f"CREATE FLOW {name} AS INSERT INTO parity BY NAME\n{rows};\n"

    sink = (
        f"CREATE SINK parity USING kafka OPTIONS ('kafka.bootstrap.servers' {server}, "
        f"'topic' {quoted(end)});\n"
    )
    pipeline = written(flow("even", 0) + sink + flow("odd", 1), tmp_path / "pipeline.sql")
    wanted: list[str] = []
    for first in (0, 5):
        kafka.client.produce(start, [{"value": str(at)} for at in range(first, first + 5)])
        onefold.drain(pipeline)
        wanted += [f"{'odd' if at % 2 else 'even'}-{at}" for at in range(first, first + 5)]
        assert sorted(it.value.decode() for it in kafka.client.read(end)) == sorted(wanted)
    checkpoints = tmp_path / "onefold-data" / "_checkpoints"
    assert sorted(it.name for it in checkpoints.iterdir()) == ["even", "odd"]
    for name in ("even", "odd"):
        verified = onefold.ok("verify", checkpoints / name, "--json").json
        assert verified["ok"] and verified["rows"] + len(verified["notComparable"]) >= 5, verified


def test_pyspark_writes_a_stream_and_a_whole_with_headers_nulls_and_topics(
    kafka: KafkaBroker, server: ConnectServer
):
    first, second = new_topic(kafka, 2), new_topic(kafka)
    program = server.run("kafka_write.py", kafka.bootstrap, first, second)
    assert program.status == 0, program
    records = kafka.client.read(first)
    streamed = [it for it in records if it.partition == 1]
    assert [(it.key, it.value) for it in streamed] == [
        (b"a", b"1"),
        (None, b""),
        (b"", None),
    ]
    assert [it.headers for it in streamed] == [(("h", None), ("h", b""), ("h", b"x")), (), ()]
    assert [it.value for it in kafka.client.read(second)] == [b"other"]
    whole = [it.value for it in records if it.partition == 0]
    assert sorted(whole) == [b"w0", b"w1", b"w2"]
    refusals = program.result
    assert "topic option required when no 'topic' attribute is present" in refusals["no topic"]
    assert "required attribute 'value' not found" in refusals["no value"]
    assert "value attribute unsupported type bigint" in refusals["number"]
    assert "null topic present in the data" in refusals["null topic"]
    assert "than is taken" in refusals["large"] and first in refusals["large"]
    assert "does not exist" in refusals["missing topic"]
    assert "Overwrite" in refusals["overwrite"]


def test_what_cannot_work_is_told_at_once(kafka: KafkaBroker, onefold: Onefold, tmp_path: Path):
    topic = new_topic(kafka)
    feeder = events.Feeder(tmp_path / "in")
    for wrong in ("127.0.0.1", "127.0.0.1:99999", ":9092", f"{kafka.bootstrap},x:0"):
        options = {"kafka.bootstrap.servers": wrong}
        pipeline = events_to_kafka(kafka, tmp_path, topic, **options)
        refused = onefold.fails("run", pipeline, "--trigger", "available-now")
        assert "is no address of a broker" in refused.stderr, refused
    feeder.feed(1)
    onefold.drain(events_to_kafka(kafka, tmp_path, topic))
    fork = onefold.fails("checkpoint", "fork", tmp_path / "checkpoint", tmp_path / "fork", "--sink", "x")
    assert "is no folder that --sink could exchange" in fork.stderr, fork
    assert not (tmp_path / "fork").exists() and not Path("x").exists()


def test_at_least_once_needs_no_marks_and_says_so(
    kafka: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    topic = new_topic(kafka)
    feeder = events.Feeder(tmp_path / "in")
    feeder.feed(2)
    guarantee = {"onefold.kafka.guarantee": "at-least-once"}
    pipeline = events_to_kafka(kafka, tmp_path, topic, **guarantee)
    onefold.drain(pipeline)
    assert sorted(ids(kafka, topic)) == list(range(feeder.records))
    assert "at-least-once" in onefold.ok("explain", pipeline).stdout
