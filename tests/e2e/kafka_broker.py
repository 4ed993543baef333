"""A real Kafka cluster on loopback, and Kafka's own client, which shares no code with Onefold."""

import base64
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Optional

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "kafka.sh"
CLIENT = Path(__file__).parent / "kafka_client" / "Client.java"


@dataclass(frozen=True)
class Record:
    """One record as a topic holds it; `headers` are pairs of name and bytes."""

    partition: Optional[int]
    offset: int
    key: Optional[bytes]
    value: Optional[bytes]
    timestamp: int
    headers: tuple = ()


class Talk:
    """A process that answers each line with lines."""

    def __init__(self, command: list, errors, **env: str):
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            env={it: value for it, value in os.environ.items() if it != "LD_LIBRARY_PATH"} | env,
        )

    def tell(self, *lines: str) -> None:
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def hear(self) -> str:
        line = self.process.stdout.readline()
        assert line, "the process ended"
        return line.rstrip("\n")

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(60)


class KafkaBroker:
    """A cluster of one or more nodes, numbered from 1, that ends with this process."""

    def __init__(
        self,
        folder: Path,
        nodes: int = 1,
        proxy: Optional[int] = None,
        secure: Optional[str] = None,
        **settings,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.errors = (folder / "errors").open("w")
        given = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        env = {} if proxy is None else {"KAFKA_PROXY": str(proxy)}
        env |= {} if secure is None else {"KAFKA_SECURE": secure}
        self.talk = Talk([SCRIPT, "serve", folder, nodes, *given], self.errors, **env)
        line = self.talk.process.stdout.readline()
        assert line, (folder / "errors").read_text()[-4000:]
        about = json.loads(line)
        self.bootstrap: str = about["bootstrap"]
        # The port that a proxy leads to.
        self.behind: Optional[int] = int(about["behind"]) if about["behind"] else None
        # For who encrypts, with the certificate in `ca.pem`, and logs in.
        self.secure: str = about["secure"]
        self._client: Optional[KafkaClient] = None

    @property
    def client(self) -> "KafkaClient":
        if self._client is None:
            self._client = KafkaClient(self.bootstrap, self.folder)
        return self._client

    def _act(self, act: str, node: int) -> str:
        self.talk.tell(f"{act} {node}")
        return self.talk.hear()

    def kill(self, node: int = 1) -> None:
        """Ends a node as a power cut of its process would."""
        assert self._act("kill", node) == "killed"

    def stop(self, node: int = 1) -> None:
        assert self._act("stop", node) == "stopped"

    def restart(self, node: int = 1) -> None:
        """Brings a node back with the ports and logs that it had."""
        assert self._act("start", node).isdigit(), "the node did not come back"

    def pid(self, node: int = 1) -> int:
        return int((self.folder / f"node-{node}" / "pid").read_text())

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self.talk.close()
        self.errors.close()


class KafkaClient:
    """Kafka's own client, in Java."""

    def __init__(self, bootstrap: str, folder: Path):
        jars = subprocess.run(
            [SCRIPT, "jars"], check=True, capture_output=True, text=True
        ).stdout.strip()
        self.errors = (folder / "client-errors").open("w")
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self.talk = Talk([*command, "-cp", f"{jars}/*", CLIENT, bootstrap], self.errors)

    def _ask(self, *parts, rows: Iterable[str] = ()) -> list[str]:
        self.talk.tell("\t".join(map(str, parts)), *rows)
        lines = []
        while not (line := self.talk.hear()).startswith(("ok", "failed")):
            lines.append(line)
        assert line == "ok", line
        return lines

    def create(self, topic: str, partitions: int = 1, **settings) -> None:
        given = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        self._ask("create", topic, partitions, *given)

    def grow(self, topic: str, partitions: int) -> None:
        self._ask("grow", topic, partitions)

    def delete(self, topic: str) -> None:
        self._ask("delete", topic)

    def transactions(self) -> dict[str, str]:
        """Transactional ids, each with the state of its transaction."""
        return dict(line.split("\t") for line in self._ask("open"))

    def read(self, topic: str, isolation: str = "read_committed") -> list[Record]:
        """All that a reader sees now, in the order of partitions and offsets."""
        records = []
        for line in self._ask("read", topic, isolation):
            partition, offset, key, value, timestamp, *rest = line.split("\t")
            headers = tuple(
                (rest[at], _bytes(rest[at + 1])) for at in range(0, len(rest), 2)
            )
            records.append(
                Record(
                    int(partition), int(offset), _bytes(key), _bytes(value), int(timestamp), headers
                )
            )
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def produce(
        self,
        topic: str,
        rows: Iterable[dict],
        transaction: Optional[str] = None,
        end: str = "commit",
    ) -> None:
        """Sends rows with `value` and maybe `key`, `partition`, `timestamp`, `headers`. With a
        transactional id, in one transaction that is committed, aborted or left open (`end`)."""
        lines = []
        for row in rows:
            parts = [row.get("partition"), _text(row.get("key")), _text(row.get("value"))]
            parts.append(row.get("timestamp"))
            for name, value in row.get("headers", ()):
                parts += [name, _text(value)]
            lines.append("\t".join("-" if part is None else str(part) for part in parts))
        self._ask("produce", topic, transaction or "-", end, len(lines), rows=lines)

    def close(self) -> None:
        self.talk.close()
        self.errors.close()


def _bytes(text: str) -> Optional[bytes]:
    return None if text == "-" else base64.b64decode(text)


def _text(value) -> str:
    if value is None:
        return "-"
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()
