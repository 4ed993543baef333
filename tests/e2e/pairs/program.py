"""What a program is: a query over streams of files, and the files that come to it step by step."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY = "2026-01-01"
EVENTS = "ts TIMESTAMP, k STRING, v BIGINT"


@dataclass(frozen=True)
class Step:
    """One file for one stream, or a deed between two files."""

    stream: str
    rows: list[dict]


def time(text: str) -> str:
    """`10:00` is ten minutes after midnight of the day of these tests, in UTC."""
    if "-" in text:
        return text.replace(" ", "T") + "Z"
    parts = text.split(":")
    return f"{DAY}T{text if len(parts) == 3 else '00:' + text}Z"


def events(text: str, stream: str = "in") -> Step:
    """Rows of `EVENTS`, as in `10:00 a 1, 11:00 b 2`; `-` is NULL."""
    rows = []
    for row in filter(None, (part.strip() for part in text.split(","))):
        at, key, value = row.rsplit(" ", 2)
        found = {
            "ts": None if at == "-" else time(at),
            "k": None if key == "-" else key,
            "v": None if value == "-" else int(value),
        }
        rows.append(found)
    return Step(stream, rows)


def left(text: str) -> Step:
    return events(text, "left")


def right(text: str) -> Step:
    return events(text, "right")


def table(*rows: dict, stream: str = "in") -> Step:
    """Rows of any schema."""
    return Step(stream, list(rows))


@dataclass(frozen=True)
class Program:
    """A query, its input, and the ways in which it may be started."""

    name: str
    build: Callable[[SparkSession, Inputs], DataFrame]
    steps: list[Step]
    mode: str
    sink: str = "memory"
    conf: dict[str, str] = field(default_factory=dict)
    trigger: dict = field(default_factory=dict)
    # The order of rows in a batch counts.
    ordered: bool = False
    # How many of the steps are there before the query starts.
    ready: int = 1
    # The query is started anew for each step.
    restarts: bool = False


PROGRAMS: dict[str, Program] = {}


def program(*steps: Step, mode: str = "append", **more: object) -> Callable:
    """Makes a function of a session and its inputs a program, under the function's name."""

    def register(build: Callable) -> Callable:
        assert build.__name__ not in PROGRAMS, f"two programs {build.__name__}"
        PROGRAMS[build.__name__] = Program(build.__name__, build, list(steps), mode, **more)
        return build

    return register


def refused(mode: str = "append", **more: object) -> Callable:
    """A program that may not start."""
    return program(events("0:10 a 1"), mode=mode, **more)


class Inputs:
    """The folders from which one run of one program reads."""

    def __init__(self, spark: SparkSession, folder: Path):
        self._spark = spark
        self._folder = folder
        self._files = 0

    def folder(self, name: str) -> Path:
        place = self._folder / name
        place.mkdir(parents=True, exist_ok=True)
        return place

    def stream(self, schema: str = EVENTS, name: str = "in", **options: object) -> DataFrame:
        """A stream of the files of a name, one a batch if not said otherwise."""
        options = {"maxFilesPerTrigger": 1} | options
        reader = self._spark.readStream.schema(schema).options(**options)
        return reader.json(f"file://{self.folder(name)}")

    def events(self, delay: str = "10 seconds", name: str = "in", **options) -> DataFrame:
        """A stream of `EVENTS` with a watermark."""
        return self.stream(EVENTS, name, **options).withWatermark("ts", delay)

    def static(self, schema: str, *rows: dict, name: str = "static") -> DataFrame:
        """A table of one file."""
        self.put(Step(name, list(rows)), "table")
        return self._spark.read.schema(schema).json(f"file://{self.folder(name)}")

    def put(self, step: Step, name: str | None = None) -> None:
        """Adds a file, whole at once, later than those before it."""
        place = self.folder(step.stream)
        lines = "".join(json.dumps(row) + "\n" for row in step.rows)
        target = place / f"{name or format(self._files, '03')}.json"
        hidden = place / f".{target.name}"
        hidden.write_text(lines, encoding="utf-8")
        # Files are taken in the order of their times, which count in seconds at worst.
        at = int(self._folder.stat().st_ctime) - 1000 + self._files
        os.utime(hidden, (at, at))
        hidden.rename(target)
        self._files += 1
