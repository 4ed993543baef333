"""Spark's clients in other languages than Python, each with the program of a tutorial."""

import json
import os
import subprocess
from pathlib import Path

import pyspark

from connect_server import ConnectServer

HERE = Path(__file__).parent
TIMEOUT_S = 240
# PySpark brings Spark's JVM client beside the whole of Spark; with these on the class path, programs
# would run in a Spark of their own.
NOT_THE_CLIENT = ("spark-sql_", "spark-connect_", "spark-hive", "spark-mllib", "spark-pipelines")
# What Spark's own launcher opens for Arrow.
OPENED = ["java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio"]
OPENED += ["java.util", "java.util.concurrent", "sun.nio.ch"]


def result_of(command: list, server: ConnectServer) -> dict:
    """What a program printed last, which is JSON."""
    env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    env["SPARK_REMOTE"] = server.remote.replace("127.0.0.1", "localhost")
    finished = subprocess.run(
        [str(part) for part in command],
        cwd=server.folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert finished.returncode == 0, finished.stdout[-2000:] + finished.stderr[-4000:]
    return json.loads(finished.stdout.splitlines()[-1])


def test_the_jvm_client_runs_the_program_of_a_tutorial(server: ConnectServer):
    jars = Path(pyspark.__file__).parent / "jars"
    plain = [jar for jar in sorted(jars.glob("*.jar")) if not jar.name.startswith(NOT_THE_CLIENT)]
    path = ":".join([str(jars / "connect-repl" / "*"), *map(str, plain)])
    opens = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED]
    program = HERE / "jvm_client" / "Tutorial.java"
    seen = result_of(["java", *opens, "-cp", path, program], server)
    assert seen["active"] is False and seen["range"] == 10
    assert seen["values"] == list(range(len(seen["values"]))) and len(seen["values"]) >= 3


def test_the_rust_client_runs_the_program_of_a_tutorial(server: ConnectServer):
    cache = Path(os.environ.get("ONEFOLD_CACHE", Path.home() / ".cache" / "onefold"))
    target = cache / "rust-client"
    env = {name: value for name, value in os.environ.items() if not name.startswith("CARGO_")}
    # Built once for each content of its lock file: cargo sees that nothing changed.
    built = subprocess.run(
        ["cargo", "build", "--locked", "--quiet", "--target-dir", str(target)],
        cwd=HERE.parent / "rust_client",
        env={**env, "CARGO_INCREMENTAL": "0", "CARGO_PROFILE_DEV_DEBUG": "0"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr[-4000:]
    program = target / "debug" / "onefold-rust-client-test"
    seen = result_of([program], server)
    assert seen["active"] is False and seen["range"] == 10
    assert seen["values"] == list(range(len(seen["values"]))) and len(seen["values"]) >= 3
