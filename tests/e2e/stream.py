"""A pipeline that copies numbered events from JSON files to Parquet files, and its folders."""

from dataclasses import dataclass
from pathlib import Path

import oracle
import pipeline
from events import Feeder


@dataclass
class Stream:
    """The folders of one such pipeline, and what feeds it."""

    folder: Path
    feeder: Feeder
    pipeline: Path

    @property
    def input(self) -> Path:
        return self.feeder.folder

    @property
    def output(self) -> Path:
        return self.folder / "out"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def rewrite(self, preamble: str = "", **read_options: object) -> None:
        """Writes the pipeline anew with other options."""
        text = pipeline.copy_events(
            self.input, self.output, self.checkpoint, preamble, **read_options
        )
        pipeline.written(text, self.pipeline)

    def check_exact(self) -> None:
        oracle.check_exact(self.output, self.feeder.records)


def stream_in(folder: Path, **read_options: object) -> Stream:
    folder.mkdir(parents=True, exist_ok=True)
    stream = Stream(folder, Feeder(folder / "in"), folder / "pipeline.sql")
    stream.rewrite(**read_options)
    return stream
