"""What the file sinks write is what other readers read: PyArrow, Python's own modules, and Spark."""

import bz2
import csv
import gzip
import io
import json
import zlib
from decimal import Decimal
from pathlib import Path

import manifest
import oracle
import pipeline
import pyarrow
import pyarrow.dataset as dataset
import pyarrow.orc as orc
import pyarrow.parquet as parquet
import spark_runner
from command import Onefold

SCHEMA = "id BIGINT, s STRING, d DOUBLE, b BOOLEAN, n DECIMAL(12,2)"
TEXTS = ["plain", "", None, "é 日本 𝄞", 'quo"te', "com,ma", "back\\slash", " edge ", "tab\tin", "%20"]
ROWS = [
    {
        "id": number,
        "s": TEXTS[number % len(TEXTS)],
        "d": number / 4 if number % 7 else None,
        "b": number % 2 == 0,
        "n": f"{number - 500}.25",
    }
    for number in range(1000)
]

TEXT_CODECS = ["none", "gzip", "deflate", "bzip2", "zstd"]
CODECS = {
    "parquet": ["none", "snappy", "gzip", "lz4", "lz4_raw", "zstd", "brotli"],
    "orc": ["none", "snappy", "zlib", "lz4", "zstd"],
    "json": TEXT_CODECS,
    "csv": TEXT_CODECS,
    "text": TEXT_CODECS,
}
SELECT = {
    "text": "concat_ws('|', id, s, b) AS value",
    # The ORC writer has no decimals.
    "orc": "id, s, d, b, CAST(n AS DOUBLE) AS n",
}
SPARK_SCHEMA = {"text": "value STRING", "orc": SCHEMA.replace("DECIMAL(12,2)", "DOUBLE")}
# Spark's own reader is asked about these; of zstd in text files it needs a library of Hadoop's.
SPARK_READS = {
    "parquet": ["snappy", "gzip", "lz4_raw", "zstd"],
    "orc": ["none", "snappy", "zlib", "lz4", "zstd"],
    "json": ["none", "gzip", "deflate", "bzip2"],
    "csv": ["none", "gzip", "deflate", "bzip2"],
    "text": ["none", "gzip", "deflate", "bzip2"],
}


def tables(folder: Path, source: str) -> str:
    """A pipeline of one table a format and codec."""
    text = ""
    for form, codecs in CODECS.items():
        select = SELECT.get(form, "id, s, d, b, n")
        for codec in codecs:
            name = f"{form}_{codec}"
            text += (
                f"CREATE STREAMING TABLE {name} USING {form} LOCATION '{folder / name}'\n"
                f"OPTIONS ('checkpointLocation' '{folder / 'checkpoints' / name}', "
                f"'compression' '{codec}')\nAS SELECT {select} FROM {source};\n"
            )
    return text


def unpacked(path: Path, codec: str) -> str:
    packed = path.read_bytes()
    match codec:
        case "gzip":
            packed = gzip.decompress(packed)
        case "bzip2":
            packed = bz2.decompress(packed)
        case "deflate":
            packed = zlib.decompress(packed)
        case "zstd":
            packed = pyarrow.input_stream(path, compression="zstd").read()
    return packed.decode("utf-8")


def rows_of(path: Path, form: str, codec: str) -> list[dict]:
    if form == "parquet":
        return parquet.ParquetFile(path).read().to_pylist()
    if form == "orc":
        return orc.ORCFile(path).read().to_pylist()
    text = unpacked(path, codec)
    if form == "text":
        return [{"value": line} for line in text.split("\n")[:-1]]
    if form == "json":
        return [json.loads(line, parse_float=Decimal) for line in text.splitlines()]
    fields = ("id", "s", "d", "b", "n")
    found = csv.reader(io.StringIO(text, newline=""), escapechar="\\", doublequote=False)
    return [dict(zip(fields, row, strict=True)) for row in found]


def plain(row: dict, form: str) -> tuple:
    """A row with what all formats can tell: CSV has no types, and trims edges as Spark does."""
    if form == "text":
        return (row["value"],)
    text = row.get("s")
    if form == "csv":
        # Readers differ in what an escape outside of quotes means.
        text = (text or "").strip().replace("\\", "")
    value = row.get("d")
    value = None if value in (None, "") else float(value)
    truth = {"true": True, "false": False}.get(row["b"], row["b"])
    return (int(row["id"]), text, value, truth, Decimal(str(row["n"])))


def wanted(form: str) -> list[tuple]:
    if form == "text":
        return sorted(
            ("|".join(str(it) for it in (row["id"], row["s"], str(row["b"]).lower()) if it is not None),)
            for row in ROWS
        )
    return sorted((plain(row, form) for row in ROWS), key=lambda row: row[0])


def ordered(found: list[dict], form: str) -> list[tuple]:
    return sorted((plain(row, form) for row in found), key=lambda row: row[0])


def test_every_format_and_codec_is_read_by_others(onefold: Onefold, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for part in range(2):
        lines = "".join(json.dumps(row) + "\n" for row in ROWS[part * 500 : part * 500 + 500])
        (folder / f"{part}.json").write_text(lines, encoding="utf-8")
    source = pipeline.read_files(folder, SCHEMA)
    onefold.drain(pipeline.written(tables(tmp_path, source), tmp_path / "pipeline.sql"))
    reads = []
    for form, codecs in CODECS.items():
        for codec in codecs:
            output = tmp_path / f"{form}_{codec}"
            manifest.check(output)
            paths = oracle.listed_plainly(output)
            found = [row for path in paths for row in rows_of(path, form, codec)]
            assert ordered(found, form) == wanted(form), f"{form} {codec}"
            if codec in SPARK_READS[form]:
                schema = SPARK_SCHEMA.get(form, SCHEMA)
                reads.append({"format": form, "path": str(output), "schema": schema, "options": {}})
            onefold.ok("verify", tmp_path / "checkpoints" / f"{form}_{codec}")
    for read, found in zip(reads, spark_runner.read_outputs(reads), strict=True):
        form = read["format"]
        assert ordered(found, form) == wanted(form), f"Spark reads {read['path']}"


FOLDERS = ["a b", "", None, "a%b", "a=b", "é", "a/b", "x:y", "日本", "..", "a'b\"c", "a+b", "%2F", "#?"]


def test_partition_folders_of_any_value_are_read_by_others(onefold: Onefold, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    values = FOLDERS + [f"many {number}" for number in range(100)]
    rows = [{"id": number, "k": value} for number, value in enumerate(values)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "a.json").write_text(text, encoding="utf-8")
    source = pipeline.read_files(folder, "id BIGINT, k STRING")
    output = tmp_path / "out"
    pipeline.written(
        f"CREATE STREAMING TABLE t USING parquet PARTITIONED BY (k) LOCATION '{output}'\n"
        f"OPTIONS ('checkpointLocation' '{tmp_path / 'checkpoint'}')\nAS SELECT id, k FROM {source};\n",
        tmp_path / "pipeline.sql",
    )
    onefold.drain(tmp_path / "pipeline.sql")
    manifest.check(output)
    # A folder cannot tell an empty text from none, for Spark neither.
    expected = sorted((row["id"], row["k"] or None) for row in rows)
    folders = pyarrow.schema([("k", pyarrow.string())])
    hive = dataset.HivePartitioning(folders, segment_encoding="uri")
    table = dataset.dataset(output, format="parquet", partitioning=hive).to_table()
    assert sorted((row["id"], row["k"]) for row in table.to_pylist()) == expected
    read = {"format": "parquet", "path": str(output), "schema": None, "options": {}}
    (found,) = spark_runner.read_outputs([read])
    assert sorted((row["id"], row.get("k")) for row in found) == expected
    onefold.ok("verify", tmp_path / "checkpoint")
