"""`onefold serve`, and programs of PySpark's own client against it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).parent / "connect_programs"
PROGRAM_TIMEOUT_S = 90


class Program:
    """A program that has ended."""

    def __init__(self, finished: subprocess.CompletedProcess):
        self.status = finished.returncode
        self.stdout = finished.stdout
        self.stderr = finished.stderr

    def __str__(self) -> str:
        return f"exit {self.status}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr[-6000:]}"

    @property
    def result(self) -> dict:
        """What it printed last, which is JSON."""
        return json.loads(self.stdout.splitlines()[-1])


class ConnectServer:
    """One server on a port of its own."""

    def __init__(self, binary: Path, folder: Path, *args: object, env: dict | None = None):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.error = folder / "server.err"
        with open(self.error, "ab") as error:
            self.process = subprocess.Popen(
                [str(binary), "serve", "--bind", "127.0.0.1:0", *map(str, args)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=error,
                cwd=folder,
                # Python functions of the client run in the Python of these tests.
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, **(env or {})},
                text=True,
            )
        line = self.process.stdout.readline()
        assert line.startswith("listening on sc://"), f"{line!r}: {self.error.read_text()}"
        self.remote = line.removeprefix("listening on ").strip()

    def run(
        self,
        name: str,
        *args: object,
        remote: str | None = None,
        ok: bool = True,
        env: dict | None = None,
    ) -> Program:
        """Runs a program of `connect_programs` as a user would: it only knows SPARK_REMOTE."""
        env = {**os.environ, "SPARK_REMOTE": remote or self.remote, **(env or {})}
        finished = subprocess.run(
            [sys.executable, str(PROGRAMS / name), *map(str, args)],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
        )
        program = Program(finished)
        if ok:
            assert program.status == 0, f"{program}\n--- server\n{self.error.read_text()[-4000:]}"
        return program

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ends it as a user would."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)
