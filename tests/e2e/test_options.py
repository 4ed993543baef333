"""Options whose effect Spark's documentation leaves open, held against what PySpark does."""

import json
import re
import struct
import time
from dataclasses import dataclass
from pathlib import Path

import oracle
import pipeline
import pytest
import spark_runner
from command import Onefold
from stream import Stream

# Reading CSV ------------------------------------------------------------------------------------

NUMBERS = """
NaN nan Inf inf -Inf Infinity -Infinity +Infinity INF +INF -INF none big small 1.5 1.5f 1.5d 1e400
-1e400 1e-400 0x1p3 +3 -0 . 1_000 1e3 1E3 e 0x10 ٣ null +NaN -NaN 1.5D .5F 1. 0X.8P-2f NaNf 1.5ff
1.00000017881393421514957253748434595763683319091796875
""".split()
WORDS = {
    "the usual words": {},
    "other words": {"nanValue": "none", "positiveInf": "big", "negativeInf": "small"},
    "words that are numbers": {"nanValue": "1.5", "positiveInf": "1e3", "negativeInf": "-0"},
}
DATES = ["05 Feb 2026", "5 Feb 2026", "05 FEB 2026", "05 feb 2026", "05 Mai 2026", "05 Febr 2026"]
LOCALES = {"no locale": {}, "en-US": {"locale": "en-US"}, "en": {"locale": "en"}}
READS = {
    **{name: ("numbers", "s STRING, d DOUBLE, f FLOAT", it) for name, it in WORDS.items()},
    **{
        name: ("dates", "s STRING, day DATE", {"dateFormat": "dd MMM yyyy"} | it)
        for name, it in LOCALES.items()
    },
}

# Writing CSV ------------------------------------------------------------------------------------

TEXTS = ["plain", "", None, 'quo"te', '"', "com,ma", 'both",', "back\\slash", '\\"', " edge ", "#"]
WRITES = {
    "quotes escaped": {"escapeQuotes": "true"},
    "quotes left": {"escapeQuotes": "false"},
    "all quoted": {"escapeQuotes": "false", "quoteAll": "true"},
    "another escape": {"escapeQuotes": "true", "escape": '"'},
}

# The rate source --------------------------------------------------------------------------------

RATES = [(10, 4), (100, 0), (60, 7), (3, 7), (7, 60)]  # rows a second, seconds of ramp
AGE_S = 40


def rate_options(per_second: int, ramp: int) -> dict[str, str]:
    return {"rowsPerSecond": str(per_second), "rampUpTime": f"{ramp}s"}


@dataclass(frozen=True)
class Places:
    """The input of both engines, and what Spark makes of it."""

    folder: Path
    read: dict[str, list[dict]]
    written: dict[str, list[str]]
    rates: list[list[dict]]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """One run of PySpark for all tests of this file."""
    folder = tmp_path_factory.mktemp("options")
    for name, texts in (("numbers", NUMBERS), ("dates", DATES)):
        (folder / name).mkdir()
        columns = 3 if name == "numbers" else 2
        lines = "".join("|".join([text] * columns) + "\n" for text in texts)
        (folder / name / "a.csv").write_text(lines, encoding="utf-8")
    (folder / "texts").mkdir()
    rows = [{"id": number, "s": text} for number, text in enumerate(TEXTS)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "texts" / "a.json").write_text(lines, encoding="utf-8")
    reads = []
    for place, schema, it in READS.values():
        options = {"sep": "|"} | it
        read = {"format": "csv", "path": str(folder / place), "schema": schema, "options": options}
        reads.append(read)
    writes = [
        {
            "format": "csv",
            "input": str(folder / "texts"),
            "output": str(folder / f"spark {name}"),
            "schema": "id BIGINT, s STRING",
            "options": options,
        }
        for name, options in WRITES.items()
    ]
    rates = [
        {"options": rate_options(*rate), "checkpoint": str(aged(folder / f"rate {rate}"))}
        for rate in RATES
    ]
    tasks = [("read_outputs", {"reads": reads})]
    tasks += [("write_batch", it) for it in writes] + [("run_rate", it) for it in rates]
    read, *others = spark_runner.each(tasks)
    return Places(
        folder,
        dict(zip(READS, read, strict=True)),
        dict(zip(WRITES, others[: len(writes)], strict=True)),
        others[len(writes) :],
    )


def plain(row: dict) -> tuple:
    """A row with numbers as text, so that NaN equals NaN and -0 is not 0."""
    number = lambda it: None if it is None else repr(float(it))
    # Spark tells a number of 32 bits by fewer digits than it has as one of 64.
    single = lambda it: it if it is None else struct.unpack("f", struct.pack("f", float(it)))[0]
    return (row["s"], number(row.get("d")), number(single(row.get("f"))), str(row.get("day")))


def read_by_both(
    onefold: Onefold, tmp_path: Path, spark: Places, name: str
) -> dict[str, tuple[tuple, tuple]]:
    """What each engine makes of each text of a file."""
    place, schema, options = READS[name]
    source = pipeline.read_files(spark.folder / place, schema, format="csv", sep="|", **options)
    text = pipeline.streaming_table(f"SELECT * FROM {source}", tmp_path / "out", tmp_path / "ck")
    onefold.drain(pipeline.written(text, tmp_path / "pipeline.sql"))
    found = [plain(row) for row in oracle.rows(oracle.listed_plainly(tmp_path / "out"))]
    expected = [plain(row) for row in spark.read[name]]
    both = {ours[0]: (ours, sparks) for ours, sparks in zip(found, expected, strict=True)}
    assert list(both) == (NUMBERS if place == "numbers" else DATES)
    return both


@pytest.mark.parametrize("name", READS)
def test_csv_is_read_as_spark_reads_it(
    onefold: Onefold, tmp_path: Path, spark: Places, name: str
) -> None:
    both = read_by_both(onefold, tmp_path, spark, name)
    different = [pair for pair in both.values() if pair[0] != pair[1]]
    assert not different, different


def test_the_words_for_what_is_no_number_make_a_difference(spark: Places) -> None:
    usual, other, numbers = (spark.read[name] for name in WORDS)
    assert usual != other and usual != numbers and other != numbers


def test_how_quotes_are_written_makes_a_difference(spark: Places) -> None:
    lines = [tuple(spark.written[name]) for name in WRITES]
    assert len(set(lines)) == len(WRITES)


def test_a_locale_that_is_not_english_is_refused_by_name(
    onefold: Onefold, tmp_path: Path, spark: Places
) -> None:
    source = pipeline.read_files(spark.folder / "dates", "s STRING", format="csv", locale="de")
    text = pipeline.streaming_table(f"SELECT * FROM {source}", tmp_path / "out", tmp_path / "ck")
    place = pipeline.written(text, tmp_path / "pipeline.sql")
    finished = onefold.fails("run", place, "--trigger", "available-now")
    assert "locale" in finished.stderr and "en-US" in finished.stderr, str(finished)


@pytest.mark.parametrize("name", WRITES)
def test_csv_is_written_as_spark_writes_it(
    onefold: Onefold, tmp_path: Path, spark: Places, name: str
) -> None:
    source = pipeline.read_files(spark.folder / "texts", "id BIGINT, s STRING")
    options = {"checkpointLocation": tmp_path / "ck"} | WRITES[name]
    pairs = ", ".join(f"'{key}' {pipeline.quoted(value)}" for key, value in options.items())
    text = (
        f"CREATE STREAMING TABLE out USING csv LOCATION '{tmp_path / 'out'}'\n"
        f"OPTIONS ({pairs})\nAS SELECT * FROM {source};\n"
    )
    onefold.drain(pipeline.written(text, tmp_path / "pipeline.sql"))
    (file,) = oracle.listed_plainly(tmp_path / "out")
    assert file.read_text(encoding="utf-8").splitlines() == spark.written[name]


def aged(checkpoint: Path) -> Path:
    """A checkpoint whose rate source began some time ago."""
    (checkpoint / "sources" / "0").mkdir(parents=True)
    began_ms = int(time.time() * 1000) - AGE_S * 1000
    (checkpoint / "sources" / "0" / "0").write_text(f"v1\n{began_ms}")
    return checkpoint


def rows_before(second: int, per_second: int, ramp: int) -> int:
    """Each second of the ramp has as many rows more than the one before."""
    step = per_second // (ramp + 1)
    climbing = min(second, ramp)
    return step * climbing * (climbing + 1) // 2 + max(second - ramp, 0) * per_second


@pytest.mark.parametrize("number", range(len(RATES)))
def test_the_rate_ramps_up_as_in_spark(
    onefold: Onefold, tmp_path: Path, spark: Places, number: int
) -> None:
    per_second, ramp = RATES[number]
    checkpoint, output = aged(tmp_path / "ck"), tmp_path / "out"
    named = ", ".join(f"{key} => '{it}'" for key, it in rate_options(per_second, ramp).items())
    text = (
        f"CREATE STREAMING TABLE out USING parquet LOCATION '{output}'\n"
        f"OPTIONS ('checkpointLocation' '{checkpoint}')\n"
        f"AS SELECT value FROM STREAM rate({named});\n"
    )
    ours = onefold.drain(pipeline.written(text, tmp_path / "pipeline.sql")).progress
    for progress in (ours, spark.rates[number]):
        rows = sum(it["numInputRows"] for it in progress)
        end = progress[-1]["sources"][0]["endOffset"]
        assert end >= AGE_S and rows == rows_before(end, per_second, ramp), progress
    told = [it[0]["sources"][0]["description"] for it in (ours, spark.rates[number])]
    assert told[0].split("numPartitions=")[0] == told[1].split("numPartitions=")[0]
    values = [row["value"] for row in oracle.rows(oracle.listed_plainly(output))]
    assert sorted(values) == list(range(sum(it["numInputRows"] for it in ours)))


# Caching the list of new files ------------------------------------------------------------------


FILES = 7  # two a batch, so four batches
CACHES = {
    # Options, and how often the input is listed before the second, third and fourth batch.
    "the list is kept": ({}, [0, 0, 0]),
    "nothing is kept": ({"maxCachedFiles": 0}, [1, 1, 1]),
    "two files are kept": ({"maxCachedFiles": 2}, [0, 1, 0]),
    "a rest of one is too small": ({"discardCachedInputRatio": "0.9"}, [0, 0, 1]),
    "a rest of one is enough": ({"discardCachedInputRatio": "0.5"}, [0, 0, 0]),
}


@pytest.mark.parametrize("name", CACHES)
def test_the_input_is_listed_as_often_as_the_cache_asks_for(
    onefold: Onefold, stream: Stream, tmp_path: Path, name: str
) -> None:
    options, expected = CACHES[name]
    stream.rewrite(maxFilesPerTrigger=2, **options)
    stream.feeder.feed(FILES)
    trace = tmp_path / "trace"
    under = ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=openat,renameat2", "--"]
    # A query that does not end by itself: it dies after its fourth batch.
    crash = {"ONEFOLD_CRASH_AT": "commit.created:4"}
    onefold.call("run", stream.pipeline, "--trigger", "0 seconds", under=under, env=crash)
    stream.check_exact()
    looks = [0]
    for line in trace.read_text(errors="replace").splitlines():
        if f'"{stream.input}"' in line and "O_DIRECTORY" in line:
            looks[-1] += 1
        if re.search(rf'renameat2\(.*"{re.escape(str(stream.checkpoint))}/offsets/\d+"', line):
            looks.append(0)
    assert looks[0] > 0
    assert looks[1:4] == expected
