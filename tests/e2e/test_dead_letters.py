"""Records that cannot be processed: the query goes on, and each is there once, beside the rows."""

import signal
from pathlib import Path

from command import Onefold
from connect_server import ConnectServer
from kafka_broker import KafkaBroker, Record
from pipeline import quoted, written
from test_kafka import new_topic, to_kafka

ROWS = ['{"id": 1}', "no json", '{"id": 2}', '{"id": "x"}', '{"id": 3}', '{"id": 0}']
PARSED = "from_json(CAST(value AS STRING), 'id BIGINT', map('mode', 'FAILFAST')).id"


def query(kafka: KafkaBroker, topic: str, **options: object) -> str:
    """Reads ids, and divides by them."""
    options = {
        "bootstrapServers": kafka.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    } | options
    given = ", ".join(f"{key} => {quoted(value)}" for key, value in options.items())
    parsed = f"SELECT key, {PARSED} AS id FROM STREAM read_kafka({given}) WHERE value IS NOT NULL"
    return f"SELECT key, CAST(6 div id AS STRING) AS value FROM ({parsed})"


def feed(kafka: KafkaBroker, topic: str, first: int = 0, times: int = 1) -> int:
    """Keys tell the order; gives the next one."""
    rows = [{"key": f"k{at}", "value": row} for at, row in enumerate(ROWS * times, first)]
    kafka.client.produce(topic, rows)
    return first + len(rows)


def fed(kafka: KafkaBroker) -> str:
    topic = new_topic(kafka)
    feed(kafka, topic)
    kafka.client.produce(topic, [{"value": None}])
    return topic


def told(record: Record) -> dict:
    return {name: value.decode() for name, value in record.headers}


def test_rows_and_dead_letters_are_one_transaction(
    kafka: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    start, end, dead = fed(kafka), new_topic(kafka), new_topic(kafka)
    options = {"topic": end, "onefold.deadLetters.topic": dead}
    text = to_kafka(kafka, query(kafka, start), tmp_path / "checkpoint", **options)
    onefold.drain(written(text, tmp_path / "pipeline.sql"))
    assert [record.value for record in kafka.client.read(end)] == [b"6", b"3", b"2"]
    letters = kafka.client.read(dead)
    assert [(it.key, it.value.decode()) for it in letters] == [
        (b"k1", ROWS[1]),
        (b"k3", ROWS[3]),
        (b"k5", ROWS[5]),
    ]
    assert [told(it)["onefold.offset"] for it in letters] == ["1", "3", "5"]
    assert {told(it)["onefold.topic"] for it in letters} == {start}
    errors = [told(it)["onefold.error"] for it in letters]
    assert "MALFORMED_RECORD_IN_PARSING" in errors[0] and "divide by zero" in errors[2], errors
    verified = onefold.ok("verify", tmp_path / "checkpoint", "--json").json
    assert verified["ok"] and verified["rows"] == 6, verified


def test_a_kill_at_any_point_doubles_neither_rows_nor_dead_letters(
    kafka: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    start, end, dead = new_topic(kafka), new_topic(kafka), new_topic(kafka)
    options = {"topic": end, "onefold.deadLetters.topic": dead}
    select = query(kafka, start, maxOffsetsPerTrigger=3)
    text = to_kafka(kafka, select, tmp_path / "checkpoint", **options)
    pipeline = written(text, tmp_path / "pipeline.sql")
    reached, records = [], 0
    for point in onefold.ok("crash-points").stdout.split():
        records = feed(kafka, start, records, 2)
        crash = {"ONEFOLD_CRASH_AT": f"{point}:2"}
        running = onefold.start("run", pipeline, "--trigger", "available-now", env=crash)
        finished = running.finished()
        assert finished.status in (0, -signal.SIGKILL), finished
        if finished.status != 0:
            reached.append(point)
    assert {"stage.during", "publish.before-mark", "publish.marked", "commit.before"} <= set(reached)
    onefold.drain(pipeline)
    keys = lambda topic: [int(record.key[1:]) for record in kafka.client.read(topic)]
    bad = {1, 3, 5}
    whole = range(records)
    assert keys(end) == [it for it in whole if it % len(ROWS) not in bad]
    assert keys(dead) == [it for it in whole if it % len(ROWS) in bad]


def test_pyspark_sends_them_to_files(kafka: KafkaBroker, server: ConnectServer, tmp_path: Path):
    start = fed(kafka)
    program = server.run("dead_letters.py", kafka.bootstrap, start, tmp_path / "data")
    assert program.status == 0, program
    assert program.result["rows"] == [2, 3, 6]
    letters = sorted(program.result["letters"], key=lambda it: it["offset"])
    assert [it["offset"] for it in letters] == [1, 3, 5]
    assert [it["value"] for it in letters] == [ROWS[1], ROWS[3], ROWS[5]]
    assert all(it["topic"] == start and it["_error"] for it in letters)
    assert program.result["progress"] == [["dead letters", 3]]
    # Without a place for them, the first one stops the query.
    assert "MALFORMED_RECORD_IN_PARSING" in program.result["stopped"]


def test_a_topic_that_the_query_reads_takes_no_dead_letters(
    kafka: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    start = fed(kafka)
    options = {"topic": new_topic(kafka), "onefold.deadLetters.topic": start}
    text = to_kafka(kafka, query(kafka, start), tmp_path / "checkpoint", **options)
    refused = onefold.fails("explain", written(text, tmp_path / "pipeline.sql"))
    assert f"the topic of dead letters, `{start}`, is one that the query reads" in refused.stderr
    options["onefold.deadLetters.topic"] = f"{start}-dead"
    text = to_kafka(kafka, query(kafka, start), tmp_path / "checkpoint", **options)
    explained = onefold.ok("explain", written(text, tmp_path / "pipeline.sql")).stdout
    assert f"dead letters KafkaSink[{start}-dead]  exactly once" in explained, explained


def test_a_sink_of_files_sends_them_to_a_topic_with_their_error(
    kafka: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    start, dead = fed(kafka), new_topic(kafka)
    options = {
        "checkpointLocation": tmp_path / "checkpoint",
        "onefold.deadLetters.format": "kafka",
        "onefold.deadLetters.kafka.bootstrap.servers": kafka.bootstrap,
        "onefold.deadLetters.onefold.kafka.guarantee": "at-least-once",
    }

    def pipeline(options: dict) -> Path:
        pairs = ", ".join(f"{quoted(key)} {quoted(value)}" for key, value in options.items())
        text = (
            f"CREATE STREAMING TABLE out USING json LOCATION {quoted(tmp_path / 'out')}\n"
            f"OPTIONS ({pairs})\nAS {query(kafka, start)};\n"
        )
        return written(text, tmp_path / "pipeline.sql")

    # Without a topic they would go to the one that they came from.
    refused = onefold.fails("run", pipeline(options), "--trigger", "available-now")
    assert "give onefold.deadLetters.topic" in refused.stderr, refused
    onefold.drain(pipeline(options | {"onefold.deadLetters.topic": dead}))
    letters = kafka.client.read(dead)
    assert [it.value.decode() for it in letters] == [ROWS[1], ROWS[3], ROWS[5]]
    assert [told(it)["onefold.offset"] for it in letters] == ["1", "3", "5"]
    assert all(told(it)["onefold.error"] for it in letters)


def test_a_query_whose_dead_letters_move_is_verified_where_they_are(
    kafka: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    start, end = fed(kafka), new_topic(kafka)

    def pipeline(**dead: object) -> Path:
        options = {"topic": end, "onefold.kafka.guarantee": "at-least-once"}
        options |= {f"onefold.deadLetters.{name}": value for name, value in dead.items()}
        text = to_kafka(kafka, query(kafka, start), tmp_path / "checkpoint", **options)
        return written(text, tmp_path / "pipeline.sql")

    onefold.drain(pipeline(path=tmp_path / "first"))
    # Without the option, as the files of the first place belong to batches before.
    good = '{"id": 6}'
    kafka.client.produce(start, [{"value": good}])
    onefold.drain(pipeline())
    feed(kafka, start)
    onefold.drain(pipeline(path=tmp_path / "second", format="json"))
    verified = onefold.ok("verify", tmp_path / "checkpoint", "--json").json
    [letters] = verified["further"]
    assert verified["ok"] and letters["rows"] == 3, verified
    assert [it["why"] for it in letters["notComparable"]] == [
        "the query put them into another place then"
    ]


def test_a_query_that_cannot_fail_for_a_record_says_so(
    kafka: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    source = f"STREAM read_kafka(bootstrapServers => {quoted(kafka.bootstrap)}, subscribe => 'x')"
    options = {"topic": "y", "onefold.deadLetters.topic": "z"}
    text = to_kafka(kafka, f"SELECT key, value FROM {source}", tmp_path / "checkpoint", **options)
    refused = onefold.fails("explain", written(text, tmp_path / "pipeline.sql"))
    assert "no step of this query can send a single record away" in refused.stderr, refused
