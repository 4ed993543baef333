"""Runs the programs of `spark_programs` and writes what they give as JSON.

    run_spark_programs.py spark_results      in a JVM of its own, with classic PySpark
    run_spark_programs.py RESULTS REMOTE     through Spark Connect

RESULTS becomes a folder with a file for each module; the variable MODULES names those to run,
separated by commas, if not all.
"""

import datetime
import decimal
import importlib
import inspect
import json
import os
import pkgutil
import re
import sys
import time
from pathlib import Path
from typing import Any

os.environ["TZ"] = "UTC"
os.environ["PYSPARK_PYTHON"] = sys.executable
time.tzset()

import spark_programs  # noqa: E402
from spark_programs.frames import InOrder  # noqa: E402

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def session(remote: str | None):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if remote is None:
        builder = builder.master("local[2]").config("spark.ui.enabled", "false")
    else:
        builder = builder.remote(remote)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def modules() -> list[str]:
    names = [module.name for module in pkgutil.iter_modules(spark_programs.__path__)]
    wanted = os.environ.get("MODULES", "").split(",")
    return [name for name in names if name != "frames" and (wanted == [""] or name in wanted)]


def programs(name: str) -> dict[str, Any]:
    """The programs of a module: those of its functions that are not private."""
    module = importlib.import_module(f"spark_programs.{name}")
    found = inspect.getmembers(module, inspect.isfunction)
    own = [(key, it) for key, it in found if it.__module__ == module.__name__]
    return {key: it for key, it in own if not key.startswith("_")}


def value(it: Any) -> Any:
    """A value of a row as JSON; what JSON has no form for is an object of one key."""
    from pyspark.sql import Row

    if it is None or isinstance(it, (bool, int, str)):
        return it
    if isinstance(it, float):
        return {"float": repr(it)}
    if isinstance(it, decimal.Decimal):
        return {"decimal": str(it)}
    if isinstance(it, datetime.datetime):
        return {"time": it.isoformat()}
    if isinstance(it, datetime.date):
        return {"date": it.isoformat()}
    if isinstance(it, datetime.timedelta):
        return {"micros": it // datetime.timedelta(microseconds=1)}
    if isinstance(it, (bytes, bytearray)):
        return {"bytes": bytes(it).hex()}
    if isinstance(it, Row):
        return {"row": [value(part) for part in it]}
    if isinstance(it, (list, tuple)):
        return [value(part) for part in it]
    if isinstance(it, dict):
        # A map has no order.
        return {"map": sorted(([value(k), value(v)] for k, v in it.items()), key=json.dumps)}
    return {"text": str(it)}


def evaluated(it: Any) -> Any:
    from pyspark.sql import DataFrame

    if callable(it) and not isinstance(it, InOrder):
        it = it()
    ordered = isinstance(it, InOrder)
    frame = it.frame if ordered else it
    if not isinstance(frame, DataFrame):
        return {"value": value(frame)}
    rows = [[value(part) for part in row] for row in frame.collect()]
    if not ordered:
        rows.sort(key=json.dumps)
    schema = [[field.name, field.dataType.simpleString()] for field in frame.schema]
    return {"schema": schema, "rows": rows}


def told(error: Exception) -> str:
    """What an error says, for people only."""
    return " ".join(str(error).split("\n==")[0].split("JVM stacktrace")[0].split())[:200]


def result(it: Any) -> dict:
    """What a part of a program gives: rows with their schema, a value, or an error's class."""
    from pyspark.errors import PySparkException

    try:
        return evaluated(it)
    except PySparkException as error:
        condition = error.getCondition()
        return {"error": condition or type(error).__name__, "text": told(error)}
    except Exception as error:  # noqa: BLE001 any other is a result, too
        # PySpark does not know every class of Java that carries an error class of Spark.
        named = re.search(r"\[([A-Z_]+(\.[A-Z_]+)?)\]", str(error))
        return {"error": named[1] if named else type(error).__name__, "text": told(error)}


def run(program: Any, spark: Any) -> list[dict]:
    try:
        given = program(spark)
    except Exception as error:  # noqa: BLE001 the other programs run all the same
        return [{"error": type(error).__name__, "text": told(error)}]
    parts = given if isinstance(given, list) else [given]
    return [result(part) for part in parts]


def main(folder: Path, remote: str | None) -> None:
    spark = session(remote)
    folder.mkdir(parents=True, exist_ok=True)
    for name in modules():
        results = {key: run(program, spark) for key, program in programs(name).items()}
        lines = []
        for key in sorted(results):
            parts = ",\n".join(f"    {json.dumps(part, ensure_ascii=False)}" for part in results[key])
            lines.append(f"  {json.dumps(key)}: [\n{parts}\n  ]")
        (folder / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
