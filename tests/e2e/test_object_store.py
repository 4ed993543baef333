"""Checkpoint and output both in S3, over the real protocol; read back with PyArrow's own client."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import oracle
import pipeline
import pytest
from command import Onefold, Running
from events import RECORDS_PER_FILE, Feeder
from s3_server import S3Server
from test_kill import NOT_PASSED, crash_points
from test_two_drivers import check_fenced
from visibility import BATCH_IN_NAME

FILES_PER_BATCH = 2
CHECKPOINT = "lake/checkpoint"
OUTPUT = "lake/ou t"


@dataclass
class Lake:
    """A pipeline from local files to a bucket."""

    onefold: Onefold
    s3: S3Server
    feeder: Feeder
    pipeline: Path

    def start(self, **env: str) -> Running:
        args = ("run", self.pipeline, "--trigger", "available-now")
        return self.onefold.start(*args, env=self.s3.env | env)

    def committed(self) -> int:
        """How many batches are over."""
        return max((int(key) for key in self.s3.keys(f"{CHECKPOINT}/commits")), default=-1) + 1

    def seen(self, batches: int | None = None) -> list[dict]:
        """The rows that a plain listing shows, of all or of the first batches."""
        names = self.s3.data_files(OUTPUT)
        if batches is not None:
            names = [name for name in names if int(BATCH_IN_NAME.search(name)[1]) < batches]
        return self.s3.rows(OUTPUT, names)

    def check_exact(self) -> None:
        verdict = oracle.judge(self.seen(), self.feeder.records)
        assert verdict.exact, str(verdict)
        # At most the next compact file of the sink and that of the source, begun ahead.
        assert self.s3.open_uploads() <= 2
        for command in (("verify",), ("checkpoint", "verify"), ("checkpoint", "show")):
            self.onefold.ok(*command, self.s3.url(CHECKPOINT), env=self.s3.env)


@pytest.fixture
def lake(onefold: Onefold, s3: S3Server, tmp_path: Path) -> Lake:
    feeder = Feeder(tmp_path / "in")
    text = pipeline.copy_events(
        feeder.folder,
        s3.url(OUTPUT),
        s3.url(CHECKPOINT),
        preamble="SET spark.sql.streaming.minBatchesToRetain = 2;\n",
        maxFilesPerTrigger=FILES_PER_BATCH,
        cleanSource="delete",
    )
    return Lake(onefold, s3, feeder, pipeline.written(text, tmp_path / "pipeline.sql"))


def test_a_kill_at_every_point_loses_nothing_and_doubles_nothing(lake: Lake) -> None:
    points = crash_points(lake.onefold)
    met = set()
    for point in points:
        for hit in (1, 2):
            if point.startswith("recovery."):
                lake.feeder.feed(FILES_PER_BATCH)
                assert lake.start(ONEFOLD_CRASH_AT="stage.done:1").finished().status == -9
            lake.feeder.feed(3 * FILES_PER_BATCH)
            finished = lake.start(ONEFOLD_CRASH_AT=f"{point}:{hit}").finished()
            assert finished.status in (0, -9), str(finished)
            if finished.status == -9:
                met.add(point)
            # A plain listing of what is committed shows each record once, at this moment too.
            committed = lake.committed()
            records = committed * FILES_PER_BATCH * RECORDS_PER_FILE
            verdict = oracle.judge(lake.seen(committed), records)
            assert verdict.exact, f"{point}:{hit}: {verdict}"
    finished = lake.start().finished()
    assert finished.status == 0, str(finished)
    lake.check_exact()
    assert set(points) - met == NOT_PASSED.keys() & set(points)
    check_no_secret(lake)


def test_what_is_staged_is_an_upload_and_nobody_sees_it(lake: Lake) -> None:
    lake.feeder.feed(FILES_PER_BATCH)
    uploads = set()
    for _ in range(3):
        assert lake.start(ONEFOLD_CRASH_AT="stage.done:1").finished().status == -9
        assert lake.s3.keys(OUTPUT) == []
        uploads.add(lake.s3.open_uploads())
    # One a partition. Those of the driver before are gone: what dead drivers leave does not pile up.
    assert len(uploads) == 1 and uploads <= {1, 2}, uploads
    assert lake.start(ONEFOLD_CRASH_AT="publish.before-mark:1").finished().status == -9
    assert lake.start().finished().status == 0
    assert lake.s3.open_uploads() == 0
    lake.check_exact()


def test_a_driver_that_was_paused_finds_itself_fenced(lake: Lake) -> None:
    lake.feeder.feed(40 * FILES_PER_BATCH)
    first = lake.start()
    while lake.committed() < 2:
        assert not first.ends_within(0.001), str(first.finished())
    first.signal(signal.SIGSTOP)
    second = lake.start()
    finished = second.finished()
    assert finished.status == 0, str(finished)
    first.signal(signal.SIGCONT)
    check_fenced(first.finished(), second)
    lake.check_exact()


def test_a_second_driver_takes_over_from_one_at_work(lake: Lake) -> None:
    lake.feeder.feed(40 * FILES_PER_BATCH)
    first = lake.start()
    while lake.committed() < 2:
        assert not first.ends_within(0.001), str(first.finished())
    second = lake.start()
    check_fenced(first.finished(), second)
    assert second.finished().status == 0
    lake.check_exact()


HADOOP = {
    "spark.hadoop.fs.s3a.access.key": "AWS_ACCESS_KEY_ID",
    "spark.hadoop.fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
    "spark.hadoop.fs.s3a.endpoint": "AWS_ENDPOINT_URL",
    "spark.hadoop.fs.s3a.endpoint.region": "AWS_REGION",
}


def conf_of(values: dict[str, str]) -> list[str]:
    return [arg for key, value in values.items() for arg in ("--conf", f"{key}={value}")]


def without_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)


def test_sparks_settings_reach_the_store_for_every_command(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_aws(monkeypatch)
    lake.feeder.feed(3 * FILES_PER_BATCH)
    conf = conf_of({key: lake.s3.env[name] for key, name in HADOOP.items()})
    lake.onefold.ok("explain", lake.pipeline, *conf)
    lake.onefold.ok("run", lake.pipeline, "--trigger", "available-now", *conf)
    for command in (("verify",), ("checkpoint", "verify"), ("checkpoint", "show")):
        lake.onefold.ok(*command, lake.s3.url(CHECKPOINT), *conf)
    assert oracle.judge(lake.seen(), lake.feeder.records).exact
    check_no_secret(lake)


def test_settings_in_the_pipeline_reach_the_store_too(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_aws(monkeypatch)
    lake.feeder.feed(FILES_PER_BATCH)
    settings = "".join(f"SET {key} = {lake.s3.env[name]};\n" for key, name in HADOOP.items())
    pipeline.written(settings + lake.pipeline.read_text(), lake.pipeline)
    lake.onefold.drain(lake.pipeline)
    assert oracle.judge(lake.seen(), lake.feeder.records).exact
    check_no_secret(lake)


@pytest.mark.parametrize(
    "wrong", [{"AWS_SECRET_ACCESS_KEY": "hunter2-but-another"}, {"AWS_ACCESS_KEY_ID": "nobody"}]
)
def test_a_refused_key_is_said_once_and_never_shown(lake: Lake, wrong: dict[str, str]) -> None:
    lake.feeder.feed(1)
    finished = lake.onefold.fails(
        "run", lake.pipeline, "--trigger", "available-now", env=lake.s3.env | wrong
    )
    assert "lake/checkpoint" in finished.stderr, str(finished)
    check_no_secret(lake)


def check_no_secret(lake: Lake) -> None:
    """No log of any command and no object holds the secret."""
    for log in lake.onefold.logs.iterdir():
        assert "hunter2" not in log.read_text(errors="replace"), log
    for key in lake.s3.keys():
        assert b"hunter2" not in lake.s3.read(key), key
