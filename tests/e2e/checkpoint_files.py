"""Reads a checkpoint folder independently of Onefold and checks what must always hold of it."""

import json
import re
from pathlib import Path

NUMBER = re.compile(r"^\d+$")


def ids(folder: Path) -> list[int]:
    """The batches that have a file in `offsets/` or `commits/`, ascending."""
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if NUMBER.match(path.name))


def intents(checkpoint: Path) -> list[int]:
    return ids(checkpoint / "offsets")


def commits(checkpoint: Path) -> list[int]:
    return ids(checkpoint / "commits")


def visible_files(checkpoint: Path) -> set[str]:
    """Spark's part of the checkpoint: no hidden names, nothing of `_onefold/`."""
    found = set()
    for path in checkpoint.rglob("*"):
        parts = path.relative_to(checkpoint).parts
        if path.is_file() and parts[0] != "_onefold" and not any(p.startswith(".") for p in parts):
            found.add("/".join(parts))
    return found


def offsets(checkpoint: Path, batch: int) -> tuple[str, dict, list[str]]:
    """Version, metadata and one line a source."""
    path = checkpoint / "offsets" / str(batch)
    version, head, *sources = path.read_text(encoding="utf-8").split("\n")
    assert version in ("v1", "v2"), f"{path}: {version!r}"
    assert sources, f"{path}: no source"
    return version, json.loads(head), sources


def check_whole(checkpoint: Path) -> None:
    """No file under a final name is torn, ids have no hole, and a commit has its intent."""
    metadata = checkpoint / "metadata"
    if metadata.exists():
        assert json.loads(metadata.read_text())["id"], metadata
    intended, committed = intents(checkpoint), commits(checkpoint)
    for found in (intended, committed):
        assert not found or found == list(range(found[0], found[-1] + 1)), f"a hole: {found}"
    if committed:
        assert metadata.exists(), "commits without metadata"
        assert intended and committed[-1] in (intended[-1], intended[-1] - 1), (
            f"last commit {committed[-1]}, last intent {intended[-1:]}"
        )
    for batch in intended:
        offsets(checkpoint, batch)
    for batch in committed:
        path = checkpoint / "commits" / str(batch)
        version, body = path.read_text(encoding="utf-8").split("\n")
        assert version in ("v1", "v2") and "nextBatchWatermarkMs" in json.loads(body), path
    for log in (checkpoint / "sources").glob("*/[!.]*"):
        version, *lines = log.read_text(encoding="utf-8").split("\n")
        assert version == "v1", f"{log}: {version!r}"
        for line in lines:
            assert json.loads(line)["path"].startswith("file:///"), log
