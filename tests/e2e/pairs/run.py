"""Runs programs in one session, of Spark in this process or of the server in `SPARK_REMOTE`.

    python -m pairs.run FOLDER OUTPUT [NAME ...]

Writes a line of JSON for each program: what it gave.
"""

from __future__ import annotations

import datetime
import decimal
import json
import logging
import os
import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pairs.all
from pairs.program import PROGRAMS, Inputs, Program

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
}
# Small batches spend their time in compiling; what Spark gives is the same without.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LOCAL = {
    "spark.driver.extraJavaOptions": JAVA,
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # With it, rows that a filter above takes out do not count as input.
    "spark.sql.json.filterPushdown.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
COUNTS = ("numRowsTotal", "numRowsUpdated", "numRowsRemoved", "numRowsDroppedByWatermark")


def session() -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("onefold-pairs")
    if "SPARK_REMOTE" not in os.environ:
        builder = builder.master("local[2]")
        for key, value in LOCAL.items():
            builder = builder.config(key, value)
    made = builder.getOrCreate()
    logging.disable(logging.CRITICAL)
    if "SPARK_REMOTE" not in os.environ:
        made.sparkContext.setLogLevel("OFF")
    for key, value in SETTINGS.items():
        made.conf.set(key, value)
    return made


def plain(value: object) -> object:
    """A value of a row as JSON that tells all of it."""
    if isinstance(value, tuple) and hasattr(value, "__fields__"):
        return {name: plain(it) for name, it in zip(value.__fields__, value)}
    if isinstance(value, dict):
        return sorted(([plain(key), plain(it)] for key, it in value.items()), key=json.dumps)
    if isinstance(value, (list, tuple)):
        return [plain(it) for it in value]
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, decimal.Decimal) or not isinstance(value, (int, str, type(None))):
        return str(value)
    return value


def rows_of(frame: DataFrame, ordered: bool) -> list:
    rows = [plain(row) for row in frame.collect()]
    return rows if ordered else sorted(rows, key=json.dumps)


def batch_of(progress: dict) -> dict:
    """What of a progress both engines must agree on."""
    return {
        "batchId": progress["batchId"],
        "numInputRows": progress["numInputRows"],
        "numOutputRows": progress["sink"]["numOutputRows"],
        "eventTime": progress.get("eventTime", {}),
        "sources": [source["numInputRows"] for source in progress["sources"]],
        "operators": [
            {"name": it["operatorName"]} | {name: it[name] for name in COUNTS}
            for it in progress["stateOperators"]
        ],
    }


class Run:
    """One run of one program."""

    def __init__(self, spark: SparkSession, folder: Path, program: Program):
        self.spark = spark
        self.program = program
        self.folder = folder / program.name
        self.inputs = Inputs(spark, self.folder)
        self.batches: list[dict] = []
        self.rows: list = []

    def start(self, frame: DataFrame) -> StreamingQuery:
        writer = frame.writeStream.outputMode(self.program.mode)
        writer = writer.option("checkpointLocation", f"file://{self.folder / 'checkpoint'}")
        if self.program.trigger:
            writer = writer.trigger(**self.program.trigger)
        if self.program.sink == "memory":
            return writer.format("memory").queryName(self.program.name).start()
        if self.program.sink == "foreachBatch":
            return writer.foreachBatch(self.batch_writer()).start()
        return writer.format(self.program.sink).start(f"file://{self.folder / 'out'}")

    def batch_writer(self):
        place, ordered = str(self.inputs.folder("batches")), self.program.ordered

        def write(frame: DataFrame, batch: int) -> None:
            with open(f"{place}/{batch:03}", "w", encoding="utf-8") as file:
                json.dump(rows_of(frame, ordered), file)

        return write

    def result(self) -> list:
        """The rows that are there by now."""
        if self.program.sink == "memory":
            return rows_of(self.spark.table(self.program.name), self.program.ordered)
        if self.program.sink == "foreachBatch":
            files = sorted(self.inputs.folder("batches").iterdir())
            return [json.loads(file.read_text(encoding="utf-8")) for file in files]
        out = self.folder / "out"
        return rows_of(self.spark.read.format(self.program.sink).load(f"file://{out}"), False)

    def feed(self) -> None:
        steps = self.program.steps
        for step in steps[: self.program.ready]:
            self.inputs.put(step)
        frame = self.program.build(self.spark, self.inputs)
        query = self.start(frame)
        try:
            self.settle(query)
            for step in steps[self.program.ready :]:
                if self.program.restarts:
                    self.note(query)
                    query.stop()
                    self.inputs.put(step)
                    query = self.start(frame)
                else:
                    self.inputs.put(step)
                self.settle(query)
        finally:
            self.note(query)
            query.stop()

    def settle(self, query: StreamingQuery) -> None:
        if self.program.trigger:
            query.awaitTermination()
            if query.exception() is not None:
                raise query.exception()
        else:
            query.processAllAvailable()
        self.rows.append(self.result())

    def note(self, query: StreamingQuery) -> None:
        self.batches += [batch_of(json.loads(it.json)) for it in query.recentProgress]

    def record(self) -> dict:
        """What the program gave, whole or until its error."""
        try:
            for key, value in self.program.conf.items():
                self.spark.conf.set(key, value)
            self.feed()
            error = None
        except Exception as raised:  # noqa: BLE001 - what is raised is what is compared
            error = error_of(raised)
        finally:
            for key in self.program.conf:
                self.spark.conf.unset(key)
            for key, value in SETTINGS.items():
                self.spark.conf.set(key, value)
        return {"rows": self.rows, "batches": self.batches, "error": error}


def error_of(raised: Exception) -> dict:
    from pyspark.errors import PySparkException

    text = str(raised)
    known = isinstance(raised, PySparkException)
    # The error of a query names the one that ended it.
    causes = [it for it in re.findall(r"\[([A-Z][A-Z0-9_.]{5,})\]", text) if it != "STREAM_FAILED"]
    return {
        "type": type(raised).__name__,
        "class": raised.getCondition() if known else None,
        "cause": causes[0] if causes else None,
        "text": text if known else traceback.format_exc(),
    }


def main(folder: str, output: str, *names: str) -> None:
    spark = session()
    with open(output, "w", encoding="utf-8") as file:
        for name in names or PROGRAMS:
            found = Run(spark, Path(folder), PROGRAMS[name]).record()
            print(json.dumps({"name": name} | found), file=file, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
