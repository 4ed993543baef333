"""Makes system calls of a process fail, from outside, with strace.

`strace` counts calls by thread, and it cannot filter files whose names are not known beforehand.
So a fault of fsync or link is asked for at the k-th call of each thread, and the trace tells
afterwards which files it really hit. Writes go to many other places, so they are struck at one file
whose name is known.
"""

import re
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
