"""Kafka's records in Avro whose schemas are in a registry, there and back through a pipeline."""

import struct
import uuid
from pathlib import Path
from typing import Iterator

import pytest

from command import Onefold
from kafka_broker import KafkaBroker
from pipeline import literal, quoted, written
from schema_registry import SchemaRegistry

OLD = {"type": "record", "name": "click", "fields": [{"name": "id", "type": "long"}]}
NEW = OLD | {
    "fields": [*OLD["fields"], {"name": "page", "type": "string", "default": "none"}]
}
SECRET = f"hunter2-{uuid.uuid4().hex}"


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(f"me:{SECRET}")
    yield registry
    registry.close()


def framed(number: int, body: bytes) -> bytes:
    return struct.pack(">bI", 0, number) + body


def pipeline(kafka: KafkaBroker, registry: SchemaRegistry, folder: Path, topics, mode: str) -> Path:
    start, end, subject = topics
    options = f"map('schema.registry.subject', {quoted(subject)}, 'mode', {quoted(mode)})"
    given = {"bootstrapServers": kafka.bootstrap, "subscribe": start, "startingOffsets": "earliest"}
    read = ", ".join(f"{name} => {literal(value)}" for name, value in given.items())
    settings = {
        "onefold.schemaRegistry.url": registry.url,
        "onefold.schemaRegistry.basic.auth.user.info": f"me:{SECRET}",
        "onefold.retry.initialBackoff": "50ms",
    }
    text = "".join(f"SET {name} = {value};\n" for name, value in settings.items())
    text += (
        f"CREATE STREAMING TABLE out USING kafka OPTIONS ('kafka.bootstrap.servers' "
        f"{quoted(kafka.bootstrap)}, 'topic' {quoted(end)}, "
        f"'checkpointLocation' {quoted(folder / 'checkpoint')})\n"
        f"AS SELECT to_avro(click, '', map('schema.registry.subject', {quoted(subject)})) AS value "
        f"FROM (SELECT from_avro(value, '', {options}) AS click FROM STREAM read_kafka({read})) "
        "WHERE click IS NOT NULL;\n"
    )
    return written(text, folder / "pipeline.sql")


def test_records_of_several_schemas_become_records_of_the_newest(
    kafka: KafkaBroker, onefold: Onefold, registry: SchemaRegistry, tmp_path: Path
):
    start, end = (f"Avro.{uuid.uuid4().hex}" for _ in range(2))
    for topic in (start, end):
        kafka.client.create(topic)
        assert kafka.client.read(topic) == []
    subject = f"{start}-value"
    old, new = registry.register(subject, OLD), registry.register(subject, NEW)
    rows = [framed(old, b"\x02"), framed(new, b"\x04\x04ab"), framed(old, b"\x06")]
    kafka.client.produce(start, [{"value": row} for row in rows])
    # What names another schema than there is, or none, is damage.
    kafka.client.produce(start, [{"value": framed(99, b"\x08")}, {"value": b"\x08"}])
    topics = (start, end, subject)

    failed = onefold.call("run", pipeline(kafka, registry, tmp_path, topics, "FAILFAST"), "--trigger", "available-now")
    assert failed.status != 0
    assert "names schema 99" in failed.stderr or "begin with the id" in failed.stderr, failed.stderr

    registry.failures = 2
    onefold.drain(pipeline(kafka, registry, tmp_path, topics, "PERMISSIVE"))
    values = [record.value for record in kafka.client.read(end)]
    bodies = [b"\x02\x08none", b"\x04\x04ab", b"\x06\x08none"]
    assert values == [framed(new, body) for body in bodies]
    # Each id once, however many rows name it.
    assert registry.asked.count(f"/schemas/ids/{old}") <= 2, registry.asked
    told = failed.stderr + onefold.ok("explain", tmp_path / "pipeline.sql").stdout
    kept = b"".join(file.read_bytes() for file in (tmp_path / "checkpoint").rglob("*") if file.is_file())
    assert SECRET not in told and SECRET.encode() not in kept


def test_a_registry_that_refuses_says_what_to_set(
    kafka: KafkaBroker, onefold: Onefold, registry: SchemaRegistry, tmp_path: Path
):
    registry.authorization = "Basic other"
    topics = ("in", "out", "clicks-value")
    refused = onefold.call("run", pipeline(kafka, registry, tmp_path, topics, "FAILFAST"))
    assert refused.status != 0
    assert "basic.auth.user.info" in refused.stderr and SECRET not in refused.stderr, refused.stderr
