"""The input of the tests: every record is a pure function of its number.

So the expected output needs no memory: after `n` files it is the records 0 .. n * RECORDS_PER_FILE,
each exactly once, each with the payload that `name_of` and `value_of` give.
"""

import json
import os
from pathlib import Path

SCHEMA = "id BIGINT, name STRING, v DOUBLE"
RECORDS_PER_FILE = 7
FIRST_FILE_AT = 1_767_225_600  # 2026-01-01T00:00:00Z


def name_of(record_id: int) -> str:
    return f"n{(record_id * 2_654_435_761) % 2**32:08x}"


def value_of(record_id: int) -> float:
    return record_id / 4


def record(record_id: int) -> dict:
    return {"id": record_id, "name": name_of(record_id), "v": value_of(record_id)}


def ids_of_file(index: int) -> range:
    return range(index * RECORDS_PER_FILE, (index + 1) * RECORDS_PER_FILE)


def json_lines(index: int) -> str:
    return "".join(json.dumps(record(i), ensure_ascii=False) + "\n" for i in ids_of_file(index))


class Feeder:
    """Puts files into a folder, one second of modification time apart, each whole at once."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.files = 0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def records(self) -> int:
        return self.files * RECORDS_PER_FILE

    def feed(self, count: int) -> None:
        for _ in range(count):
            self.put(f"f{self.files:06d}.json", json_lines(self.files).encode())

    def put(self, name: str, content: bytes) -> Path:
        """Adds a file of any name and content as the next one."""
        place = self.folder / name
        hidden = self.folder / f".{self.files}.arriving"
        hidden.write_bytes(content)
        at = FIRST_FILE_AT + self.files
        os.utime(hidden, (at, at))
        os.rename(hidden, place)
        self.files += 1
        return place
