"""Runs the `onefold` command as a user would: as a process of its own."""

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 120


@dataclass(frozen=True)
class Finished:
    """A process that has ended."""

    argv: list[str]
    status: int
    stdout: str
    stderr: str

    @property
    def progress(self) -> list[dict]:
        """The progress of each batch, from the JSON lines on standard output."""
        found = []
        for line in self.stdout.splitlines():
            if line.startswith("{"):
                value = json.loads(line)
                value = value.get("progress", value)
                if "batchId" in value:
                    found.append(value)
        return found

    @property
    def json(self) -> object:
        return json.loads(self.stdout)

    def __str__(self) -> str:
        return (
            f"{' '.join(self.argv)}\nexit status {self.status}\n"
            f"--- stdout\n{self.stdout[-4000:]}\n--- stderr\n{self.stderr[-4000:]}"
        )


class Running:
    """A process that runs, its output in files so that no pipe can block it."""

    def __init__(self, argv: list[str], log: Path, env: dict[str, str], cwd: Path | None):
        self.argv = argv
        self.log = log
        with open(f"{log}.out", "wb") as out, open(f"{log}.err", "wb") as err:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=cwd
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ends_within(self, seconds: float) -> bool:
        try:
            self.process.wait(max(seconds, 0))
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> bool:
        """SIGKILL; whether it was that which ended it."""
        self.process.kill()
        return self.process.wait() == -signal.SIGKILL

    def finished(self, timeout: float = TIMEOUT_S) -> Finished:
        """Waits for its end. One that does not end is killed, and that is a failure."""
        if not self.ends_within(timeout):
            self.kill()
            raise AssertionError(f"does not end within {timeout} s: {self._result()}")
        return self._result()

    def _result(self) -> Finished:
        read = lambda kind: Path(f"{self.log}.{kind}").read_text(encoding="utf-8", errors="replace")
        return Finished(self.argv, self.process.returncode, read("out"), read("err"))


class Onefold:
    """The command, with a folder for its logs."""

    def __init__(self, binary: Path, logs: Path):
        self.binary = binary
        self.logs = logs
        self.started = 0

    def start(
        self,
        *args: object,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        under: list[str] | None = None,
    ) -> Running:
        """Starts `onefold ARGS`; `under` is a command that runs it, such as strace."""
        self.started += 1
        argv = [*(under or []), str(self.binary), *map(str, args)]
        return Running(argv, self.logs / f"{self.started:04d}", {**os.environ, **(env or {})}, cwd)

    def call(self, *args: object, timeout: float = TIMEOUT_S, **how: object) -> Finished:
        """Runs it to its end, whatever the end."""
        return self.start(*args, **how).finished(timeout)

    def ok(self, *args: object, **how: object) -> Finished:
        """Runs it to its end, which must be a good one."""
        finished = self.call(*args, **how)
        assert finished.status == 0, str(finished)
        return finished

    def fails(self, *args: object, **how: object) -> Finished:
        """Runs it to its end, which must be an error said in words, not a crash."""
        finished = self.call(*args, **how)
        assert finished.status > 0, str(finished)
        assert "panicked" not in finished.stderr, str(finished)
        assert finished.stderr.strip(), f"no word of why: {finished}"
        return finished

    def drain(self, pipeline: Path, **how: object) -> Finished:
        """Runs a pipeline until all that is there now is done."""
        return self.ok("run", pipeline, "--trigger", "available-now", **how)
