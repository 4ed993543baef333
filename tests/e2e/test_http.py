"""Calls over HTTP: a key never has two bodies, and what was answered and written down is not called again."""

import json
import random
import signal
from pathlib import Path
from typing import Iterator

import pyarrow.parquet
import pytest

import checkpoint_files
import events
from command import Finished, Onefold, Running
from conftest import seed
from connect_server import ConnectServer
from events import Feeder
from http_receiver import HttpReceiver
from pipeline import literal, quoted, read_files, streaming_table, written

CRASHES = 100
SECRET = "hunter2-of-the-http-tests"
# Points that a query with calls passes, each with the most hits that one run surely has.
POINTS = {
    "generation.created": 1,
    "recovery.before": 1,
    "intent.before": 3,
    "intent.created": 3,
    "call.before": 20,
    "call.answered": 20,
    "effects.before": 3,
    "effects.created": 3,
    "stage.done": 3,
    "commit.before": 3,
    "commit.created": 3,
    "purge.during": 1,
}
PREAMBLE = "SET spark.sql.streaming.minBatchesToRetain = 2;\n"


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    receiver = HttpReceiver()
    yield receiver
    receiver.close()


def options(pairs: dict) -> str:
    return ", ".join(f"{quoted(name)} {quoted(literal(value).strip(chr(39)))}" for name, value in pairs.items())


class Case:
    """A pipeline that calls, its input and its receiver."""

    def __init__(self, onefold: Onefold, folder: Path, receiver: HttpReceiver):
        folder.mkdir(parents=True, exist_ok=True)
        self.onefold, self.folder, self.receiver = onefold, folder, receiver
        self.feeder = Feeder(folder / "in")
        self.checkpoint = folder / "checkpoint"
        self.pipeline = folder / "pipeline.sql"
        self.recorded: dict[str, int] = {}

    def start(self, *args: object, **env: str) -> Running:
        return self.onefold.start("run", self.pipeline, "--trigger", "available-now", *args, env=env)

    def drain(self) -> Finished:
        finished = self.start().finished()
        assert finished.status == 0, str(finished)
        return finished

    def note_recorded(self) -> None:
        """Remembers which replies are durable now, and how often their keys were called so far."""
        counts = self.receiver.counts()
        for file in (self.checkpoint / "_onefold" / "effects").glob("*-*-*"):
            if file.name.startswith("."):
                continue
            for reply in json.loads(file.read_text().split("\n", 1)[1])["replies"]:
                self.recorded.setdefault(reply["key"], counts[reply["key"]])

    def check_calls(self) -> None:
        """No recorded key was called again, and each event is done once."""
        counts = self.receiver.counts()
        again = {key: n for key, n in self.recorded.items() if counts[key] != n}
        assert not again, f"called after their replies were durable: {again}"
        ids = sorted(json.loads(body)["id"] for body in self.receiver.done())
        assert ids == list(range(self.feeder.records))


class Sink(Case):
    """Each event is a request."""

    def __init__(self, onefold: Onefold, folder: Path, receiver: HttpReceiver, **more: object):
        super().__init__(onefold, folder, receiver)
        named = {
            "url": f"{receiver.url}/charge",
            "idempotentReceiver": "true",
            "checkpointLocation": self.checkpoint,
        } | more
        text = (
            f"{PREAMBLE}CREATE STREAMING TABLE out USING http OPTIONS ({options(named)})\n"
            f"AS SELECT id, name, v FROM {read_files(self.feeder.folder)};\n"
        )
        written(text, self.pipeline)

    def check(self) -> None:
        self.check_calls()


class Enrichment(Case):
    """Each event is asked for, and the reply goes into files."""

    def __init__(self, onefold: Onefold, folder: Path, receiver: HttpReceiver):
        super().__init__(onefold, folder, receiver)
        self.output = folder / "out"
        call = f"http_call({quoted(receiver.url + '/enrich')}, to_json(struct(id, name)))"
        select = (
            f"SELECT id, r.status AS status, r.body AS body FROM (SELECT id, {call} AS r "
            f"FROM {read_files(self.feeder.folder)})"
        )
        written(PREAMBLE + streaming_table(select, self.output, self.checkpoint), self.pipeline)

    def check(self) -> None:
        self.check_calls()
        rows = []
        for file in sorted(self.output.glob("part-*.parquet")):
            rows += pyarrow.parquet.read_table(file).to_pylist()
        rows.sort(key=lambda row: row["id"])
        assert [row["id"] for row in rows] == list(range(self.feeder.records))
        for row in rows:
            asked = json.loads(json.loads(row["body"])["charged"])
            assert asked == {"id": row["id"], "name": events.name_of(row["id"])}
            assert row["status"] == 200


CASES = [Sink, Enrichment]


@pytest.mark.parametrize("case", CASES)
def test_each_event_is_called_for_once(onefold: Onefold, tmp_path, receiver, case) -> None:
    it = case(onefold, tmp_path, receiver)
    it.feeder.feed(5)
    it.drain()
    it.check()
    assert set(receiver.counts().values()) == {1}
    it.drain()
    assert set(receiver.counts().values()) == {1}


@pytest.mark.parametrize("case", CASES)
def test_crashes_at_seeded_points_repeat_only_what_is_not_known(
    onefold: Onefold, tmp_path, receiver, case
) -> None:
    rng = random.Random(f"{seed()}/{case.__name__}")
    it = case(onefold, tmp_path, receiver)
    crashes, reached = 0, set()
    points = POINTS | ({"publish.before-mark": 3, "publish.marked": 3} if case is Sink else {})
    while crashes < CRASHES:
        it.feeder.feed(3)
        point = rng.choice(sorted(points))
        hit = rng.randint(1, points[point])
        finished = it.start(ONEFOLD_CRASH_AT=f"{point}:{hit}").finished()
        assert finished.status in (0, -signal.SIGKILL), f"{point}:{hit}: {finished}"
        if finished.status != 0:
            crashes += 1
            reached.add(point)
        it.note_recorded()
    it.drain()
    it.note_recorded()
    it.check()
    assert points.keys() - reached <= {"purge.during"}, f"never reached: {points.keys() - reached}"
    repeated = sum(n - 1 for n in receiver.counts().values())
    print(f"{crashes} crashes, {len(it.recorded)} replies seen durable, {repeated} calls repeated")
    assert repeated <= crashes * 32, "no more than were under way"


def test_a_driver_that_was_paused_is_fenced_and_no_key_gets_two_bodies(
    onefold: Onefold, tmp_path, receiver
) -> None:
    rng = random.Random(f"{seed()}/paused")
    for moment in range(4):
        it = Sink(onefold, tmp_path / str(moment), HttpReceiver())
        it.feeder.feed(40)
        first = it.start()
        while len(it.receiver.counts()) < rng.randrange(1, 60) and not first.ends_within(0.001):
            pass
        first.signal(signal.SIGSTOP)
        second = it.start()
        while len(checkpoint_files.commits(it.checkpoint)) < 5 and not second.ends_within(0.001):
            pass
        first.signal(signal.SIGCONT)
        loser = first.finished()
        assert loser.status > 0 and "fenced" in loser.stderr, str(loser)
        assert second.finished().status == 0
        it.drain()
        it.check()
        it.receiver.close()


def test_a_refusal_stops_the_query_and_names_the_row(onefold: Onefold, tmp_path) -> None:
    refuse = lambda key, path, body: (422, "id 3 is taken") if '"id":3,' in body else (200, "")
    receiver = HttpReceiver(refuse)
    it = Sink(onefold, tmp_path, receiver)
    it.feeder.feed(2)
    finished = it.start().finished()
    assert finished.status != 0
    for part in ["row 3 of partition 0 of batch 0", "422", "id 3 is taken", "onRefusal"]:
        assert part in finished.stderr, str(finished)
    # The others were heard, and only the one that was refused is asked again.
    receiver.answer = lambda key, path, body: (200, "")
    it.note_recorded()
    assert len(it.recorded) == 6
    it.drain()
    it.check()
    receiver.close()


def test_what_is_refused_is_noted_once_where_that_is_asked_for(onefold: Onefold, tmp_path) -> None:
    refuse = lambda key, path, body: (422, "taken") if '"id":3,' in body else (200, "")
    receiver = HttpReceiver(refuse)
    it = Sink(onefold, tmp_path, receiver, onRefusal="skip-and-record")
    it.feeder.feed(2)
    it.start(ONEFOLD_CRASH_AT="stage.done:1").finished()
    it.drain()
    it.check_calls()
    files = [file for file in (it.checkpoint / "_onefold" / "refused").iterdir() if file.name[0] != "."]
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert [(row["row"], row["status"], row["reply"]) for row in rows] == [(3, 422, "taken")]
    assert json.loads(rows[0]["body"])["id"] == 3
    assert set(receiver.counts().values()) == {1}
    receiver.close()


def test_the_report_says_whose_part_is_whose(onefold: Onefold, tmp_path, receiver) -> None:
    honours = Sink(onefold, tmp_path / "a", receiver)
    report = onefold.ok("explain", honours.pipeline).stdout
    assert "Idempotency-Key" in report and "idempotentReceiver" in report, report
    silent = Sink(onefold, tmp_path / "b", receiver, idempotentReceiver="false")
    silent.feeder.feed(1)
    finished = silent.start("--conf", "onefold.requireExactlyOnce=true").finished()
    assert finished.status != 0 and "idempotentReceiver" in finished.stderr, str(finished)
    silent.drain()
    silent.check()


def test_secrets_are_sent_and_nowhere_shown(onefold: Onefold, tmp_path, receiver) -> None:
    secrets = {"auth.bearer": SECRET, "headers.X-Key": f"{SECRET}-too"}
    it = Sink(onefold, tmp_path, receiver, **secrets)
    it.feeder.feed(2)
    said = [onefold.ok("explain", it.pipeline), it.drain()]
    receiver.answer = lambda key, path, body: (400, "no")
    it.feeder.feed(1)
    said.append(it.start().finished())
    assert said[-1].status != 0
    assert all(h["authorization"] == f"Bearer {SECRET}" for h in receiver.headers)
    assert all(h["x-key"] == f"{SECRET}-too" for h in receiver.headers)
    for finished in said:
        assert SECRET not in finished.stdout + finished.stderr
    for file in it.checkpoint.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def test_hosts_that_may_not_be_called_are_not(onefold: Onefold, tmp_path, receiver) -> None:
    for case in CASES:
        it = case(onefold, tmp_path / case.__name__, receiver)
        it.feeder.feed(1)
        refused = it.start("--conf", "onefold.http.privateNetworks=refused").finished()
        assert refused.status != 0 and "private network" in refused.stderr, str(refused)
        denied = it.start("--conf", "onefold.http.deny=127.0.0.1").finished()
        assert denied.status != 0 and "onefold.http.deny" in denied.stderr, str(denied)
    assert not receiver.counts()


def test_a_program_of_pyspark_calls_and_sends(binary: Path, tmp_path, receiver) -> None:
    server = ConnectServer(binary, tmp_path / "server")
    try:
        seen = server.run("http_calls.py", receiver.url, tmp_path / "work").result
    finally:
        assert server.stop() == 0, server.error.read_text()
    assert seen["batch"] == [[1, 200, '{"charged": "one"}'], [2, 200, '{"charged": "two"}']]
    assert seen["schema"] == (
        "struct<status:int,body:string,headers:map<string,string>>"
    ), seen
    assert seen["type"] == "application/json"
    assert seen["null"] is None
    assert sorted(row[0] for row in seen["stream"]) == [1, 2, 3]
    assert all(json.loads(row[1])["charged"] == f"s{row[0]}" for row in seen["stream"])
    sent = [json.loads(body) for body in receiver.done() if body.startswith("{")]
    assert sorted(row["id"] for row in sent) == [1, 2, 3]
    assert "privateNetworks" in seen["sealed"]


def test_a_call_uses_the_reply_of_another_one(onefold: Onefold, tmp_path, receiver) -> None:
    feeder, output = Feeder(tmp_path / "in"), tmp_path / "out"
    feeder.feed(2)
    inner = f"http_call({quoted(receiver.url + '/a')}, name)"
    select = (
        f"SELECT id, http_call({quoted(receiver.url + '/b')}, r.body).body AS body FROM "
        f"(SELECT id, {inner} AS r FROM {read_files(feeder.folder)})"
    )
    text = streaming_table(select, output, tmp_path / "checkpoint")
    onefold.ok("run", written(text, tmp_path / "p.sql"), "--trigger", "available-now")
    rows = [row for file in output.glob("part-*") for row in pyarrow.parquet.read_table(file).to_pylist()]
    assert len(rows) == feeder.records
    for row in rows:
        inner = json.loads(json.loads(row["body"])["charged"])
        assert inner == {"charged": events.name_of(row["id"])}
    assert len(receiver.counts()) == 2 * feeder.records
