"""Runs a real PySpark (classic, two local threads) in a process of its own, on loopback only.

`run_batches` continues a query of this shape on a checkpoint until all input that is there is done;
`read_manifest` reads a sink's output the way Spark reads it. Each starts a JVM of its own, so that
nothing of one run lives on in the next.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT_S = 240


@dataclass
class SparkQuery:
    """JSON files → the given columns → Parquet files.

    With a `watermark` (column and delay) and a `select` over the table `events`, which those columns
    make, also what needs state.
    """

    input: Path
    output: Path
    checkpoint: Path
    schema: str
    columns: list[str]
    conf: dict[str, str] = field(default_factory=dict)
    watermark: tuple[str, str] | None = None
    select: str | None = None
    name: str | None = None

    def run_batches(self) -> list[dict]:
        """The progress of each batch of this run."""
        return _in_child("run_batches", self._plain())

    def read_manifest(self) -> list[dict]:
        """All rows that Spark sees in the output."""
        return _in_child("read_manifest", self._plain())

    def _plain(self) -> dict:
        plain = {key: str(getattr(self, key)) for key in ("input", "output", "checkpoint", "schema")}
        names = ("columns", "conf", "watermark", "select", "name")
        return plain | {name: getattr(self, name) for name in names}


def run_each(queries: list[SparkQuery]) -> list[list[dict]]:
    """The progress of each batch of each query, all in one process."""
    return each([("run_batches", query._plain()) for query in queries])


def each(tasks: list[tuple[str, dict]]) -> list:
    """The answers of several tasks, each a name and what it is to do, all in one process."""
    return _in_child("each", {"tasks": tasks, "conf": {}})


def read_outputs(reads: list[dict]) -> list[list[dict]]:
    """The rows of each of several outputs: each read has `format`, `path`, `schema` and `options`."""
    # Values of folders stay the texts that they are.
    conf = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}
    return _in_child("read_outputs", {"reads": reads, "conf": conf})


def _in_child(task: str, query: dict) -> list:
    request = json.dumps({"task": task, "query": query})
    env = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    finished = subprocess.run(
        [sys.executable, __file__, request],
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert finished.returncode == 0, f"Spark failed at {task}:\n{finished.stderr[-6000:]}"
    return json.loads(finished.stdout.splitlines()[-1])


def _session(conf: dict[str, str]):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("onefold-e2e")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
    }
    for key, value in (settings | conf).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _run_batches(session, query: dict) -> list[dict]:
    frame = (
        session.readStream.schema(query["schema"])
        .option("maxFilesPerTrigger", 1)
        .json("file://" + query["input"])
        .selectExpr(*query["columns"])
    )
    if query["watermark"]:
        frame = frame.withWatermark(*query["watermark"])
    if query["select"]:
        frame.createOrReplaceTempView("events")
        frame = session.sql(query["select"])
    writer = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", "file://" + query["checkpoint"])
        .trigger(availableNow=True)
    )
    if query["name"]:
        writer = writer.queryName(query["name"])
    running = writer.start("file://" + query["output"])
    running.awaitTermination()
    return [json.loads(progress.json) for progress in running.recentProgress]


def _read_manifest(session, query: dict) -> list[dict]:
    return [json.loads(row) for row in session.read.parquet(query["output"]).toJSON().collect()]


def _read_outputs(session, query: dict) -> list[list[dict]]:
    found = []
    for read in query["reads"]:
        reader = session.read.format(read["format"]).options(**read["options"])
        if read["schema"]:
            reader = reader.schema(read["schema"])
        rows = reader.load("file://" + read["path"]).toJSON().collect()
        found.append([json.loads(row) for row in rows])
    return found


def _write_batch(session, query: dict) -> list[str]:
    """Writes rows of JSON files as one file; its lines."""
    frame = session.read.schema(query["schema"]).json(query["input"]).coalesce(1)
    frame.write.format(query["format"]).options(**query["options"]).save(query["output"])
    (file,) = Path(query["output"]).glob("part-*")
    return file.read_text(encoding="utf-8").splitlines()


def _run_rate(session, query: dict) -> list[dict]:
    """The progress of one run of the rate source on a checkpoint."""
    frame = session.readStream.format("rate").options(**query["options"]).load()
    writer = frame.writeStream.format("noop").trigger(availableNow=True)
    running = writer.option("checkpointLocation", "file://" + query["checkpoint"]).start()
    running.awaitTermination()
    return [json.loads(progress.json) for progress in running.recentProgress]


def _each(session, query: dict) -> list:
    return [TASKS[task](session, what) for task, what in query["tasks"]]


TASKS = {
    "run_batches": _run_batches,
    "read_manifest": _read_manifest,
    "read_outputs": _read_outputs,
    "write_batch": _write_batch,
    "run_rate": _run_rate,
    "each": _each,
}


def _child(request: dict) -> None:
    session = _session(request["query"]["conf"])
    answer = TASKS[request["task"]](session, request["query"])
    session.stop()
    print(json.dumps(answer))


if __name__ == "__main__":
    _child(json.loads(sys.argv[1]))
