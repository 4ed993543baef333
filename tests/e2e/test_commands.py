"""The commands around a query: stop, show, verify, rewind, fork, export, import, demo."""

import json
import re
import shutil
import signal
from pathlib import Path

import checkpoint_files
import oracle
import pipeline
import pyarrow.parquet as parquet
import pytest
from command import Onefold
from stream import Stream

import events

OLD_CHECKPOINTS = Path(__file__).resolve().parents[1] / "old-checkpoints"


# Running and stopping ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_query_cleanly(
    onefold: Onefold, stream: Stream, number: signal.Signals
) -> None:
    stream.feeder.feed(30)
    running = onefold.start("run", stream.pipeline, "--trigger", "0 seconds")
    while len(checkpoint_files.commits(stream.checkpoint)) < 3:
        assert not running.ends_within(0.002), str(running.finished())
    running.signal(number)
    finished = running.finished(timeout=20)
    assert finished.status == 0, str(finished)
    checkpoint_files.check_whole(stream.checkpoint)
    onefold.drain(stream.pipeline)
    stream.check_exact()


def test_a_query_that_waits_takes_new_files_as_they_come(onefold: Onefold, stream: Stream) -> None:
    running = onefold.start("run", stream.pipeline, "--trigger", "100 milliseconds")
    for files in (1, 2, 1):
        stream.feeder.feed(files)
        while len(checkpoint_files.commits(stream.checkpoint)) < stream.feeder.files:
            assert not running.ends_within(0.005), str(running.finished())
    running.signal(signal.SIGTERM)
    assert running.finished(timeout=20).status == 0
    stream.check_exact()


def test_trigger_once_takes_everything_in_one_batch(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.feed(5)
    finished = onefold.ok("run", stream.pipeline, "--trigger", "once")
    assert [it["numInputRows"] for it in finished.progress] == [stream.feeder.records]
    stream.check_exact()


def test_progress_is_sparks_json_and_its_phases_add_up(onefold: Onefold, stream: Stream) -> None:
    stream.feeder.feed(3)
    finished = onefold.drain(stream.pipeline)
    assert [it["batchId"] for it in finished.progress] == [0, 1, 2]
    for progress in finished.progress:
        for key in ("id", "runId", "name", "timestamp", "numInputRows", "durationMs", "sources"):
            assert key in progress, progress
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", progress["timestamp"])
        phases = dict(progress["durationMs"])
        whole = phases.pop("triggerExecution")
        # Each phase is rounded to a millisecond by itself.
        assert abs(whole - sum(phases.values())) <= len(phases) + 1, progress["durationMs"]
        assert progress["sources"][0]["description"].startswith("FileStreamSource[file:")
        assert progress["sink"]["description"].startswith("FileSink[")


def test_several_tables_in_one_file_run_as_several_queries(
    onefold: Onefold, stream: Stream
) -> None:
    stream.feeder.feed(3)
    text = ""
    for name, where in (("evens", "id % 2 = 0"), ("odds", "id % 2 = 1")):
        source = pipeline.read_files(stream.input)
        text += pipeline.streaming_table(
            f"SELECT id FROM {source} WHERE {where}",
            stream.folder / name,
            stream.folder / f"{name}-checkpoint",
            name,
        )
    pipeline.written(text, stream.pipeline)
    onefold.drain(stream.pipeline)
    for name, rest in (("evens", 0), ("odds", 1)):
        rows = oracle.rows(oracle.listed_plainly(stream.folder / name))
        want = [i for i in range(stream.feeder.records) if i % 2 == rest]
        assert sorted(row["id"] for row in rows) == want


# Looking at a checkpoint ------------------------------------------------------------------------


@pytest.fixture
def done(onefold: Onefold, stream: Stream) -> Stream:
    """Five finished batches."""
    stream.feeder.feed(5)
    onefold.drain(stream.pipeline)
    return stream


def test_show_says_what_is_there_and_what_a_restart_would_do(
    onefold: Onefold, done: Stream
) -> None:
    query_id = json.loads((done.checkpoint / "metadata").read_text())["id"]
    said = onefold.ok("checkpoint", "show", done.checkpoint)
    assert query_id in said.stdout
    as_json = onefold.ok("checkpoint", "show", done.checkpoint, "--json").json
    assert query_id in json.dumps(as_json)


def old_checkpoints() -> list[Path]:
    return sorted(path.parent for path in OLD_CHECKPOINTS.rglob("metadata"))


@pytest.mark.parametrize(
    "folder", old_checkpoints(), ids=lambda path: str(path.relative_to(OLD_CHECKPOINTS))
)
def test_show_reads_every_checkpoint_that_spark_ever_wrote(
    onefold: Onefold, tmp_path: Path, folder: Path
) -> None:
    copy = tmp_path / "checkpoint"
    shutil.copytree(folder, copy)
    query_id = json.loads((copy / "metadata").read_text())["id"]

    finished = onefold.call("checkpoint", "show", copy, "--json")

    # One of them has a hole on purpose; that is said, and is not a failure to read.
    assert finished.status >= 0 and "panicked" not in finished.stderr, str(finished)
    shown = finished.json
    assert query_id in json.dumps(shown), str(finished)
    intents = checkpoint_files.intents(copy)
    assert str(intents[-1]) in json.dumps(shown), str(finished)
    assert checkpoint_files.visible_files(copy) == checkpoint_files.visible_files(folder)


def test_there_are_many_old_checkpoints() -> None:
    assert len(old_checkpoints()) >= 30


# Verifying --------------------------------------------------------------------------------------


def test_verify_holds_after_a_run(onefold: Onefold, done: Stream) -> None:
    onefold.ok("verify", done.checkpoint)
    assert onefold.ok("verify", done.checkpoint, "--json").json
    onefold.ok("checkpoint", "verify", done.checkpoint)


def rewrite_batch(stream: Stream, batch: int, change) -> Path:
    """Changes the rows of one file of a batch behind the query's back."""
    path = next(p for p in oracle.listed_plainly(stream.output) if f"-b{batch}-" in p.name)
    table = parquet.ParquetFile(path).read()
    parquet.write_table(change(table), path)
    return path


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("a row less", lambda table: table.slice(1)),
        ("one value", lambda table: table.set_column(0, "id", [[1] * table.num_rows])),
    ],
)
def test_verify_names_the_first_batch_that_differs(
    onefold: Onefold, done: Stream, what: str, change
) -> None:
    rewrite_batch(done, 3, change)
    rewrite_batch(done, 2, change)
    finished = onefold.call("verify", done.checkpoint)
    assert finished.status > 0, str(finished)
    said = finished.stdout + finished.stderr
    assert re.search(r"batch 2\b", said), str(finished)
    assert onefold.call("verify", done.checkpoint, "--json").status > 0


def test_verify_notices_a_file_that_is_gone(onefold: Onefold, done: Stream) -> None:
    next(p for p in oracle.listed_plainly(done.output) if "-b1-" in p.name).unlink()
    finished = onefold.call("verify", done.checkpoint)
    assert finished.status > 0, str(finished)
    assert re.search(r"batch 1\b", finished.stdout + finished.stderr), str(finished)


# Moving a checkpoint ----------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [["1"], ["0", "1", "2", "3", "4"]])
def test_lost_entries_of_the_manifest_are_named_and_made_again(
    onefold: Onefold, done: Stream, lost: list[str]
) -> None:
    folder = done.output / "_spark_metadata"
    entries = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in lost:
        (folder / name).unlink(missing_ok=True)
    said = onefold.fails("run", done.pipeline, "--trigger", "available-now")
    assert said.status == 4 and "checkpoint repair" in said.stderr, str(said)
    told = onefold.call("verify", done.checkpoint)
    assert told.status == 1, str(told)
    if len(lost) == 1:
        assert "_spark_metadata/1" in told.stdout and "checkpoint repair" in told.stdout, str(told)
    looked = onefold.call("checkpoint", "repair", done.checkpoint)
    assert looked.status == 1 and "--apply" in looked.stdout, str(looked)
    assert not (folder / lost[0]).exists(), "it only looks"
    onefold.ok("checkpoint", "repair", done.checkpoint, "--apply")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == entries
    onefold.ok("verify", done.checkpoint)
    done.feeder.feed(12)
    onefold.drain(done.pipeline)
    done.check_exact()
    assert onefold.ok("checkpoint", "repair", done.checkpoint, "--json").json["rebuilt"] == []



def test_an_exported_checkpoint_can_be_imported_and_continued(
    onefold: Onefold, done: Stream
) -> None:
    archive = done.folder / "checkpoint.export"
    onefold.ok("checkpoint", "export", done.checkpoint, archive)
    before = checkpoint_files.visible_files(done.checkpoint)
    shutil.rmtree(done.checkpoint)
    onefold.ok("checkpoint", "import", archive, done.checkpoint)
    assert checkpoint_files.visible_files(done.checkpoint) == before
    done.feeder.feed(3)
    onefold.drain(done.pipeline)
    done.check_exact()
    onefold.ok("verify", done.checkpoint)


def test_an_import_never_overwrites_a_checkpoint(onefold: Onefold, done: Stream) -> None:
    archive = done.folder / "checkpoint.export"
    onefold.ok("checkpoint", "export", done.checkpoint, archive)
    onefold.fails("checkpoint", "import", archive, done.checkpoint)
    done.feeder.feed(1)
    onefold.drain(done.pipeline)
    done.check_exact()


def test_a_fork_goes_on_by_itself_from_the_newest_commit(onefold: Onefold, done: Stream) -> None:
    copy, output = done.folder / "fork", done.folder / "fork-out"
    onefold.ok("checkpoint", "fork", done.checkpoint, copy, "--sink", output)
    before = done.feeder.records
    done.feeder.feed(3)
    text = pipeline.copy_events(done.input, output, copy)
    onefold.drain(pipeline.written(text, done.folder / "fork.sql"))
    onefold.drain(done.pipeline)
    done.check_exact()
    forked = oracle.rows(oracle.listed_plainly(output))
    assert sorted(row["id"] for row in forked) == list(range(before, done.feeder.records))
    ids = [json.loads((place / "metadata").read_text())["id"] for place in (done.checkpoint, copy)]
    assert ids[0] != ids[1]


def test_a_rewind_only_says_what_it_would_do_until_told_to(onefold: Onefold, done: Stream) -> None:
    before = checkpoint_files.visible_files(done.checkpoint)
    said = onefold.ok("checkpoint", "rewind", done.checkpoint, "--to-batch", 2, "--later-marks", "rewind")
    assert re.search(r"\b(3|4)\b", said.stdout), str(said)
    assert checkpoint_files.visible_files(done.checkpoint) == before
    done.check_exact()


def test_a_rewind_refuses_to_part_checkpoint_and_sink(onefold: Onefold, done: Stream) -> None:
    finished = onefold.fails("checkpoint", "rewind", done.checkpoint, "--to-batch", 2, "--apply")
    assert "--later-marks" in finished.stderr, str(finished)
    onefold.drain(done.pipeline)
    done.check_exact()


def test_rewound_batches_run_again_and_every_row_is_there_once(
    onefold: Onefold, done: Stream
) -> None:
    rewind = ("--to-batch", 1, "--apply", "--later-marks", "rewind")
    onefold.ok("checkpoint", "rewind", done.checkpoint, *rewind)
    assert checkpoint_files.commits(done.checkpoint) == [0, 1]
    assert len(oracle.rows(oracle.listed_plainly(done.output))) == 2 * events.RECORDS_PER_FILE
    done.feeder.feed(1)
    onefold.drain(done.pipeline)
    done.check_exact()
    checkpoint_files.check_whole(done.checkpoint)
    onefold.ok("verify", done.checkpoint)


@pytest.mark.parametrize("to_batch", [1, 4])
def test_a_rewind_also_takes_files_that_a_dead_driver_had_not_published(
    onefold: Onefold, done: Stream, to_batch: int
) -> None:
    done.feeder.feed(1)
    crash = {"ONEFOLD_CRASH_AT": "publish.before-mark:1"}
    killed = onefold.call("run", done.pipeline, "--trigger", "available-now", env=crash)
    assert killed.status == -9, str(killed)
    rewind = ("--to-batch", to_batch, "--apply", "--later-marks", "rewind")
    onefold.ok("checkpoint", "rewind", done.checkpoint, *rewind)
    onefold.drain(done.pipeline)
    done.check_exact()


@pytest.mark.parametrize("lost", [["4"], ["0", "1", "2", "3", "4"]])
def test_show_advises_for_lost_entries_of_the_manifest_what_run_advises(
    onefold: Onefold, done: Stream, lost: list[str]
) -> None:
    for name in lost:
        (done.output / "_spark_metadata" / name).unlink()
    ran = onefold.fails("run", done.pipeline, "--trigger", "available-now")
    assert "checkpoint repair" in ran.stderr, str(ran)
    shown = onefold.call("checkpoint", "show", done.checkpoint)
    assert shown.status == 1 and "checkpoint repair" in shown.stdout, str(shown)


@pytest.mark.parametrize("lost", [["4"], ["0", "1", "2", "3", "4"]])
def test_what_run_advises_for_lost_entries_of_the_manifest_works(
    onefold: Onefold, done: Stream, lost: list[str]
) -> None:
    for name in lost:
        (done.output / "_spark_metadata" / name).unlink()
    onefold.fails("run", done.pipeline, "--trigger", "available-now")
    onefold.ok("checkpoint", "repair", done.checkpoint, "--apply")
    done.feeder.feed(2)
    onefold.drain(done.pipeline)
    done.check_exact()
    onefold.ok("verify", done.checkpoint)


def test_an_imported_checkpoint_goes_on_into_a_new_output_by_a_fork(
    onefold: Onefold, done: Stream
) -> None:
    archive, copy = done.folder / "checkpoint.export", done.folder / "imported"
    fork, output = done.folder / "fork", done.folder / "fork-out"
    onefold.ok("checkpoint", "export", done.checkpoint, archive)
    onefold.ok("checkpoint", "import", archive, copy)
    text = pipeline.written(pipeline.copy_events(done.input, output, copy), done.folder / "new.sql")
    finished = onefold.fails("run", text, "--trigger", "available-now")
    assert re.search(rf"checkpoint fork \S+ \S+ --sink \S*{output}", finished.stderr), str(finished)
    onefold.ok("checkpoint", "fork", copy, fork, "--sink", output)
    before = done.feeder.records
    done.feeder.feed(2)
    pipeline.written(pipeline.copy_events(done.input, output, fork), text)
    onefold.drain(text)
    found = oracle.rows(oracle.listed_plainly(output))
    assert sorted(row["id"] for row in found) == list(range(before, done.feeder.records))


# The demonstration ------------------------------------------------------------------------------


def test_the_demo_kills_and_loses_nothing(onefold: Onefold, tmp_path: Path) -> None:
    finished = onefold.ok("demo", cwd=tmp_path)
    said = finished.stdout.lower()
    assert re.search(r"lost\D*\b0\b", said), str(finished)
    assert re.search(r"duplicated\D*\b0\b", said), str(finished)
    kills = re.search(r"kills\D*(\d+)", said)
    assert kills and int(kills[1]) >= 3, str(finished)
