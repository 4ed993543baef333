"""A real broker that encrypts and asks for a password, with what the checkpoint must not hold."""

import uuid
from pathlib import Path
from typing import Iterator

import pytest

from command import Onefold
from kafka_broker import KafkaBroker
from pipeline import literal, quoted, streaming_table, written

SECRET = f"hunter2-{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(tmp_path_factory.mktemp("secure"), secure=f"me:{SECRET}")
    yield broker
    broker.close()


def login(cluster: KafkaBroker, mechanism: str, password: str = SECRET) -> dict[str, str]:
    """How to come in, in the words of a Java client where they differ."""
    own = {
        "kafka.bootstrap.servers": cluster.secure,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.certificates": (cluster.folder / "ca.pem").read_text(),
        "kafka.sasl.mechanism": mechanism,
    }
    if mechanism == "PLAIN":
        return own | {"kafka.sasl.username": "me", "kafka.sasl.password": password}
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return own | {
        "kafka.sasl.jaas.config": f'{module} required username="me" password="{password}";'
    }


def pipeline(options: dict[str, str], topics: tuple[str, str], folder: Path) -> Path:
    start, end = topics
    read = options | {"subscribe": start, "startingOffsets": "earliest"}
    named = ", ".join(f"`{name}` => {literal(value)}" for name, value in read.items())
    sink = options | {"topic": end, "checkpointLocation": str(folder / "checkpoint")}
    pairs = ", ".join(f"{quoted(name)} {quoted(value)}" for name, value in sink.items())
    text = f"CREATE STREAMING TABLE out USING kafka OPTIONS ({pairs})\n"
    text += f"AS SELECT key, value FROM STREAM read_kafka({named});\n"
    return written(text, folder / "pipeline.sql")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_records_come_and_go_encrypted_and_tools_log_in_by_a_file(
    cluster: KafkaBroker, onefold: Onefold, tmp_path: Path, mechanism: str
):
    topics = tuple(f"Safe.{uuid.uuid4().hex}" for _ in range(2))
    for topic in topics:
        cluster.client.create(topic)
        assert cluster.client.read(topic) == []
    cluster.client.produce(topics[0], [{"key": "k", "value": str(number)} for number in range(50)])
    options = login(cluster, mechanism)
    onefold.drain(pipeline(options, topics, tmp_path))
    values = [int(record.value) for record in cluster.client.read(topics[1])]
    assert values == list(range(50))

    checkpoint = tmp_path / "checkpoint"
    without = onefold.call("verify", checkpoint)
    assert without.status != 0 and "command-config" in without.stdout + without.stderr, without
    config = tmp_path / "client.properties"
    secret = {name: value for name, value in options.items() if "sasl" in name}
    config.write_text("".join(f"{name}={value}\n" for name, value in secret.items()))
    verified = onefold.ok("verify", checkpoint, "--json", "--command-config", config).json
    assert verified["ok"] and verified["rows"] == 50, verified
    by_name = {"ONEFOLD_COMMAND_CONFIG": str(config)}
    assert onefold.ok("verify", checkpoint, "--json", env=by_name).json["ok"]
    kept = b"".join(file.read_bytes() for file in checkpoint.rglob("*") if file.is_file())
    assert SECRET.encode() not in kept


def test_a_wrong_password_and_an_unknown_certificate_are_told_apart(
    cluster: KafkaBroker, onefold: Onefold, tmp_path: Path
):
    quick = {"kafka.default.api.timeout.ms": "3000", "fetchOffset.numRetries": "0"}
    wrong = login(cluster, "PLAIN", "wrong-" + SECRET) | quick
    unknown = login(cluster, "PLAIN") | quick
    del unknown["kafka.ssl.truststore.certificates"]
    for options, why in [(wrong, "Authentication failed"), (unknown, "certificate verify failed")]:
        read = ", ".join(f"`{name}` => {literal(value)}" for name, value in options.items())
        select = f"SELECT value FROM STREAM read_kafka({read}, subscribe => 'in')"
        text = "SET onefold.retry.maxAttempts = 1;\n"
        text += streaming_table(select, tmp_path / "out", tmp_path / "checkpoint")
        file = written(text, tmp_path / "reads.sql")
        refused = onefold.call("run", file, "--trigger", "available-now")
        assert refused.status != 0 and why in refused.stderr, refused
        assert SECRET not in refused.stderr + refused.stdout
