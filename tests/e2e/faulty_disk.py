"""Makes system calls of a process fail, from outside, with strace.

`strace` counts calls by thread, and it cannot filter files whose names are not known beforehand.
So a fault is asked for at the k-th call of each thread, and the trace tells afterwards which files
it really hit.
"""

import re
from dataclasses import dataclass
from pathlib import Path

FSYNC = "fsync,fdatasync"
WRITE = "write,pwrite64,writev"
LINK = "link,linkat,rename,renameat,renameat2"

INJECTED = re.compile(r"^(?:\d+ )?(?P<call>\w+)\((?P<args>.*)\) .*\(INJECTED\)")
IN_ARGS = re.compile(r'<(/[^>]*)>|"(/[^"]*)"')


@dataclass(frozen=True)
class Fault:
    """Calls of one kind fail with one error, from the k-th of each thread on or only that one."""

    calls: str
    error: str
    hit: int
    forever: bool
    trace: Path

    @property
    def under(self) -> list[str]:
        """The command that runs another one with this fault."""
        when = f"{self.hit}+" if self.forever else str(self.hit)
        inject = f"inject={self.calls}:error={self.error}:when={when}"
        return [
            *("strace", "-f", "-qq", "-y", "-s", "0", "-o", str(self.trace)),
            *("-e", f"trace={self.calls}", "-e", inject, "--"),
        ]

    def paths_hit(self, folders: list[Path]) -> list[Path]:
        """The files in `folders` at which the fault struck."""
        found = []
        for line in self.trace.read_text(errors="replace").splitlines():
            match = INJECTED.match(line)
            if match:
                names = [Path(one or two) for one, two in IN_ARGS.findall(match["args"])]
                found += [it for it in names if any(it.is_relative_to(f) for f in folders)]
        return found
