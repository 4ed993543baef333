"""Counts records at the sink with someone else's reader (PyArrow), never with Onefold's."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as parquet

import events
import manifest


def listed_plainly(output: Path) -> list[Path]:
    """What a reader without a manifest sees: all files but hidden and `_` names, at any depth."""
    found = []
    for path in output.rglob("*"):
        parts = path.relative_to(output).parts
        if not any(part.startswith((".", "_")) for part in parts) and path.is_file():
            found.append(path)
    return sorted(found)


def rows_of(path: Path) -> list[dict]:
    return parquet.ParquetFile(path).read().to_pylist()


def rows(paths: list[Path]) -> list[dict]:
    return [row for path in paths for row in rows_of(path)]


def as_json(found: list[dict]) -> list[str]:
    """Rows as sorted JSON lines; columns without a value are left out, as Spark's `toJSON` does."""
    kept = [{key: value for key, value in row.items() if value is not None} for row in found]
    return sorted(json.dumps(row, sort_keys=True) for row in kept)


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a set of records; all empty when nothing is."""

    lost: list[int]
    duplicated: list[int]
    invented: list[object]

    @property
    def exact(self) -> bool:
        return not (self.lost or self.duplicated or self.invented)

    def __str__(self) -> str:
        parts = [("lost", self.lost), ("duplicated", self.duplicated), ("invented", self.invented)]
        return ", ".join(f"{len(ids)} {what} {ids[:12]}" for what, ids in parts if ids) or "exact"


def judge(found: list[dict], expected: int) -> Verdict:
    """Compares rows with the records 0 .. `expected`."""
    seen = Counter(row["id"] for row in found)
    wrong = [row for row in found if not _is_record(row, expected)]
    return Verdict(
        lost=[i for i in range(expected) if i not in seen],
        duplicated=sorted(i for i, count in seen.items() if count > 1),
        invented=wrong,
    )


def _is_record(row: dict, expected: int) -> bool:
    known = isinstance(row["id"], int) and 0 <= row["id"] < expected
    return known and all(row.get(key, want) == want for key, want in events.record(row["id"]).items())


def check_exact(output: Path, expected: int) -> None:
    """Every record is at the sink once, for a reader of the manifest and for one that just lists."""
    manifest.check(output)
    for way, paths in (
        ("manifest", manifest.data_files(output)),
        ("plain listing", listed_plainly(output)),
    ):
        verdict = judge(rows(paths), expected)
        assert verdict.exact, f"by {way} of {output}: {verdict}"
