"""Reads the manifest of a file sink (`_spark_metadata`) as Spark does, sharing no code with it or us."""

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlparse

ENTRY = re.compile(r"^(\d+)(\.compact)?$")


def entries(output: Path) -> dict[int, Path]:
    """The manifest's files by batch; a compacted one wins over a plain one of the same batch."""
    folder = output / "_spark_metadata"
    found: dict[int, Path] = {}
    if not folder.is_dir():
        return found
    for path in folder.iterdir():
        match = ENTRY.match(path.name)
        if match and (match[2] or int(match[1]) not in found):
            found[int(match[1])] = path
    return found


def lines_of(entry: Path) -> list[dict]:
    version, *lines = entry.read_text(encoding="utf-8").split("\n")
    assert version == "v1", f"{entry}: starts with {version!r}"
    return [json.loads(line) for line in lines]


def local_path(uri: str) -> Path:
    parts = urlparse(uri)
    assert parts.scheme == "file" and not parts.netloc, uri
    return Path(unquote(parts.path))


def live_entries(found: dict[int, Path]) -> list[Path]:
    """The entries that count: the newest compacted one and all after it."""
    compacted = [batch for batch, path in found.items() if path.name.endswith(".compact")]
    start = max(compacted, default=0)
    wanted = sorted(batch for batch in found if batch >= start)
    if wanted:
        assert wanted == list(range(wanted[0], wanted[-1] + 1)), f"the manifest has a hole: {wanted}"
        assert compacted or wanted[0] == 0, f"the manifest starts at {wanted[0]}"
    return [found[batch] for batch in wanted]


def data_files(output: Path) -> list[Path]:
    """The data files that a reader of the manifest sees, in order."""
    lines = [line for entry in live_entries(entries(output)) for line in lines_of(entry)]
    removed = {line["path"] for line in lines if line["action"] == "delete"}
    return [local_path(line["path"]) for line in lines if line["path"] not in removed]


def check(output: Path) -> None:
    """Each file of the manifest exists, once, with the recorded size."""
    lines = [line for entry in live_entries(entries(output)) for line in lines_of(entry)]
    paths = [line["path"] for line in lines]
    assert len(paths) == len(set(paths)), "the manifest names a file twice"
    for line in lines:
        size = local_path(line["path"]).stat().st_size
        assert size == line["size"], f"{line['path']}: {size} bytes, {line['size']} recorded"
