"""Makes system calls of a process fail, from outside, with strace.

`strace` counts calls by thread, and it cannot filter files whose names are not known beforehand.
So a fault of fsync or link is asked for at the k-th call of each thread, and the trace tells
afterwards which files it really hit. Writes go to many other places, so they are struck at one file
whose name is known. Where only the folder is known, as for all that gets its final name later, a
small library in the process makes the calls fail (`failing_calls.c`).
"""

import errno
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

FSYNC = "fsync,fdatasync"
WRITE = "write,pwrite64,writev,pwritev"
LINK = "link,linkat,rename,renameat,renameat2"

INJECTED = re.compile(r"^(?:\d+ +)?(?P<call>\w+)\((?P<args>.*)\) .*\(INJECTED\)")
IN_ARGS = re.compile(r'<(/[^>]*)>|"(/[^"]*)"')


@dataclass(frozen=True)
class Fault:
    """Calls of one kind fail with one error: of each thread those numbered by `hits`, as strace
    writes that: `3`, `3..5`, or `3+` for the third and all that follow; with `only`, calls on
    that file."""

    calls: str
    error: str
    hits: str
    trace: Path
    only: Path | None = None

    @property
    def under(self) -> list[str]:
        """The command that runs another one with this fault."""
        inject = f"inject={self.calls}:error={self.error}:when={self.hits}"
        return [
            *("strace", "-f", "-qq", "-y", "-s", "0", "-o", str(self.trace)),
            *("-e", f"trace={self.calls}", "-e", inject),
            *(("-P", str(self.only)) if self.only else ()),
            "--",
        ]

    def paths_hit(self, places: list[Path]) -> list[Path]:
        """The files at or below `places` at which the fault struck."""
        found = []
        for line in self.trace.read_text(errors="replace").splitlines():
            match = INJECTED.match(line)
            if match:
                names = [Path(one or two) for one, two in IN_ARGS.findall(match["args"])]
                found += [it for it in names if any(it.is_relative_to(p) for p in places)]
        return found


@dataclass(frozen=True)
class FaultBelow:
    """Writes or syncs of files whose path holds a text (or ends with it, if that ends with `$`)
    fail: number `hit` of the process, and if it `stays`, all that follow. A write that fails has
    written half."""

    library: Path
    call: str
    error: str
    at: str
    trace: Path
    hit: int = 1
    stays: bool = False

    @property
    def env(self) -> dict[str, str]:
        """What the process must be started with."""
        plain = {
            "LD_PRELOAD": self.library,
            "FAIL_CALL": self.call,
            "FAIL_ERRNO": getattr(errno, self.error),
            "FAIL_AT": self.at,
            "FAIL_HIT": self.hit,
            "FAIL_TRACE": self.trace,
        }
        if self.stays:
            plain["FAIL_ON"] = 1
        return {key: str(value) for key, value in plain.items()}

    def paths_hit(self) -> list[Path]:
        """The files that were struck."""
        if not self.trace.exists():
            return []
        return [Path(line) for line in self.trace.read_text(encoding="utf-8").splitlines()]


def compiled(folder: Path) -> Path:
    """The library that makes calls fail. A C compiler is there wherever Rust links."""
    library = folder / "failing_calls.so"
    source = Path(__file__).with_name("failing_calls.c")
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-o", str(library)]
    subprocess.run(["cc", *flags, str(source), "-ldl"], check=True)
    return library
