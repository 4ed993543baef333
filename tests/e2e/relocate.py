"""Places a golden case somewhere: copies it, rewrites the addresses in its logs, sets file times.

The cases were recorded under `file:///golden/CASE`; the file source and the manifest hold absolute
addresses, and the source knows a file by its modification time, which git does not keep.
"""

import os
import re
import shutil
from pathlib import Path
from urllib.parse import quote

import events

RECORDED_UNDER = "file:///golden/"
NUMBERED = re.compile(r"^f(\d{3})\.json$")


def place(case: Path, target: Path) -> Path:
    """Copies `case` to `target` and makes it fit there."""
    shutil.copytree(case, target)
    old = RECORDED_UNDER + case.name + "/"
    new = "file://" + quote(str(target)) + "/"
    logs = [target / "checkpoint" / "sources", target / "output" / "_spark_metadata"]
    for path in (path for log in logs for path in log.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            _rewrite(path, old, new)
    _set_times(target)
    return target


def add_more(target: Path) -> None:
    """Moves the files of each `NAME_more` folder into `NAME`: the input of the continuation."""
    for folder in sorted(target.glob("*_more")):
        to = folder.with_name(folder.name.removesuffix("_more"))
        for path in sorted(folder.iterdir()):
            os.rename(path, to / path.name)


def _rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    if old in text:
        path.write_text(text.replace(old, new), encoding="utf-8")
        # Hadoop's checksum of the old bytes would be an error; none at all is fine.
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _set_times(target: Path) -> None:
    for path in target.rglob("*.json"):
        match = NUMBERED.match(path.name)
        if match:
            at = events.FIRST_FILE_AT + int(match[1])
            os.utime(path, (at, at))
