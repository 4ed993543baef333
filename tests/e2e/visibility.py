"""Watches a sink while drivers run and die: is there ever a moment at which a reader sees a fault?

Two readers are played, over and over, in a thread:
- one that just lists the output folder and takes the files of committed batches. The batch is in
  the file's name; commits are looked up before the listing, so every file of a committed batch that
  the listing shows must be final;
- one that reads through the manifest.
Each must see, at every moment, the records 0 .. n of some whole number of batches, each once.
That needs batches of a fixed number of input files, read in order. Of a query whose rows are not
those of its input, such as one with state, only that no row is there twice is looked at.
"""

import os
import re
import threading
from pathlib import Path

import pyarrow.parquet as parquet

import checkpoint_files
import events
import manifest

BATCH_IN_NAME = re.compile(r"-b(\d+)-g(\d+)-")
PAUSE_S = 0.004


class Watch:
    """`with Watch(…) as watch:` looks until the block ends, then raises what it saw."""

    def __init__(
        self,
        output: Path,
        checkpoint: Path,
        files_per_batch: int | None,
        key: tuple[str, ...] = ("id",),
    ):
        """`key` are the columns that tell rows apart; `files_per_batch` is `None` where batches
        have no fixed number of rows."""
        self.output = output
        self.checkpoint = checkpoint
        self.records_per_batch = files_per_batch and files_per_batch * events.RECORDS_PER_FILE
        self.key = key
        self.looks = 0
        self.newest = -1
        self.faults: list[str] = []
        self._ids: dict[Path, list[object]] = {}
        self._manifest: dict[tuple[str, int], list[Path]] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look_until_done, name="watch")

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._done.set()
        self._thread.join()
        if kind is None:
            self.raise_faults()

    def raise_faults(self) -> None:
        assert not self.faults, "a reader saw a fault: " + "; ".join(self.faults[:5])
        assert self.looks > 0

    def _look_until_done(self) -> None:
        while not self._done.is_set() and len(self.faults) < 20:
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 – a reader that fails has seen a fault
                self.faults.append(f"{type(error).__name__}: {error}")
            self._done.wait(PAUSE_S)

    def look(self) -> None:
        """One look of each reader."""
        committed = max(checkpoint_files.commits(self.checkpoint), default=-1)
        if committed >= 0:
            self._check("plain listing", committed, self._listed(committed))
        marked, files = self._through_manifest()
        if marked >= 0:
            self._check("manifest", marked, files)
        self.newest = max(self.newest, committed)
        self.looks += 1

    def _listed(self, committed: int) -> list[Path]:
        found = []
        for folder, below, names in os.walk(self.output):
            below[:] = [name for name in below if not name.startswith((".", "_"))]
            for name in names:
                match = BATCH_IN_NAME.search(name)
                if not name.startswith((".", "_")) and match and int(match[1]) <= committed:
                    found.append(Path(folder, name))
        return found

    def _through_manifest(self) -> tuple[int, list[Path]]:
        # An old entry may be cleaned up between listing and reading; then look again.
        for attempt in range(5):
            found = manifest.entries(self.output)
            try:
                files = [path for entry in manifest.live_entries(found) for path in self._entry(entry)]
                return max(found, default=-1), files
            except (FileNotFoundError, AssertionError):
                if attempt == 4:
                    raise
        raise AssertionError("unreachable")

    def _entry(self, entry: Path) -> list[Path]:
        key = (entry.name, entry.stat().st_size)
        if key not in self._manifest:
            self._manifest[key] = [manifest.local_path(it["path"]) for it in manifest.lines_of(entry)]
        return self._manifest[key]

    def _check(self, way: str, batch: int, files: list[Path]) -> None:
        seen: dict[object, str] = {}
        for path in files:
            for record_id in self._read(path):
                if record_id in seen:
                    self.faults.append(
                        f"by {way} at batch {batch}: id {record_id} in {seen[record_id]} and {path.name}"
                    )
                    return
                seen[record_id] = path.name
        if self.records_per_batch is None:
            return
        expected = (batch + 1) * self.records_per_batch
        if len(seen) != expected or (seen and max(seen) != expected - 1):
            missing = sorted(set(range(expected)) - seen.keys())[:8]
            extra = sorted(seen.keys() - set(range(expected)))[:8]
            self.faults.append(
                f"by {way} at batch {batch}: {len(seen)} of {expected} ids, "
                f"missing {missing}, too early {extra}"
            )

    def _read(self, path: Path) -> list[object]:
        """The ids of a file; a file under a final name never changes, so it is read once."""
        if path not in self._ids:
            table = parquet.ParquetFile(path).read(columns=list(self.key))
            columns = [table.column(name).to_pylist() for name in self.key]
            self._ids[path] = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        elif not path.exists():
            raise FileNotFoundError(path)
        return self._ids[path]
