"""Spark's own checkpoints are continued as Spark continues them: rows, batches, files."""

import json
from pathlib import Path

import checkpoint_files
import manifest
import oracle
import pipeline
import pytest
import relocate
from command import Onefold

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def one_source(columns: str):
    return lambda case: f"SELECT {columns} FROM " + pipeline.read_files(case / "input")


def two_sources(*names: str | None):
    def select(case: Path) -> str:
        return "\nUNION ALL ".join(
            "SELECT id FROM " + pipeline.read_files(case / folder, schema="id BIGINT", name=name)
            for folder, name in zip(("in1", "in2"), names, strict=True)
        )

    return select


QUERIES = {
    "a_file_to_parquet": one_source("id, name, v, v * 2 AS w"),
    "e1_crash": one_source("id, name, v"),
    "e2_crash": one_source("id, name, v"),
    "h_offsetlog_v2": two_sources(None, None),
    "h2_named_sources": two_sources("alpha", "beta"),
}


def expected_rows(case: Path, which: str) -> list[str]:
    lines = (case / f"EXPECTED_{which}.jsonl").read_text(encoding="utf-8").splitlines()
    return oracle.as_json([json.loads(line) for line in lines])


def rows_by_manifest(case: Path) -> list[str]:
    return oracle.as_json(oracle.rows(manifest.data_files(case / "output")))


def batches(progress: list[dict]) -> list[tuple[int, int]]:
    return [(each["batchId"], each["numInputRows"]) for each in progress]


def placed(name: str, tmp_path: Path) -> tuple[Path, Path]:
    """The case in a place of its own, and the pipeline that continues it."""
    case = relocate.place(GOLDEN / name, tmp_path / name)
    schema_aware = QUERIES[name](case)
    text = pipeline.streaming_table(schema_aware, case / "output", case / "checkpoint")
    return case, pipeline.written(text, tmp_path / "pipeline.sql")


@pytest.mark.parametrize("name", QUERIES)
def test_a_golden_case_is_continued_as_spark_continues_it(
    onefold: Onefold, tmp_path: Path, name: str
) -> None:
    case, text = placed(name, tmp_path)
    assert rows_by_manifest(case) == expected_rows(case, "before"), "the case itself is not whole"
    relocate.add_more(case)

    finished = onefold.drain(text)

    assert rows_by_manifest(case) == expected_rows(case, "after_continuation")
    manifest.check(case / "output")
    expected = (case / "EXPECTED_progress_after_continuation.jsonl").read_text().splitlines()
    assert batches(finished.progress) == batches([json.loads(line) for line in expected])
    files = (case / "EXPECTED_checkpoint_files_after_continuation.txt").read_text().split()
    wanted = {name.removeprefix("checkpoint/") for name in files}
    assert checkpoint_files.visible_files(case / "checkpoint") == wanted
    checkpoint_files.check_whole(case / "checkpoint")


def test_a_leftover_of_spark_stays_out_of_the_manifest(onefold: Onefold, tmp_path: Path) -> None:
    case, text = placed("e2_crash", tmp_path)
    known = set(manifest.data_files(case / "output"))
    leftovers = set(oracle.listed_plainly(case / "output")) - known
    assert len(leftovers) == 1

    onefold.drain(text)

    after = manifest.data_files(case / "output")
    assert len(after) == 4 and not leftovers & set(after)


@pytest.mark.parametrize("name", QUERIES)
def test_a_continued_case_has_nothing_left_to_do(
    onefold: Onefold, tmp_path: Path, name: str
) -> None:
    case, text = placed(name, tmp_path)
    relocate.add_more(case)
    onefold.drain(text)
    files = checkpoint_files.visible_files(case / "checkpoint")

    again = onefold.drain(text)

    assert [n for _, n in batches(again.progress) if n] == []
    assert checkpoint_files.visible_files(case / "checkpoint") == files
    assert rows_by_manifest(case) == expected_rows(case, "after_continuation")
