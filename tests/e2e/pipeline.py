"""Pipelines as text, in Spark's dialect for declarative pipelines."""

from pathlib import Path

import events


def quoted(text: object) -> str:
    return "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else quoted(value)


def read_files(folder: object, schema: str = events.SCHEMA, **options: object) -> str:
    """`STREAM read_files(…)`; a `format` among the options, else JSON."""
    options = {"format": "json", "schema": schema, "maxFilesPerTrigger": 1} | options
    named = [f"{key} => {literal(value)}" for key, value in options.items() if value is not None]
    return f"STREAM read_files({', '.join([quoted(folder), *named])})"


def streaming_table(
    select: str,
    output: object,
    checkpoint: object,
    name: str = "out",
    partitioned_by: str | None = None,
    **options: object,
) -> str:
    """A whole statement that writes what `select` gives to Parquet files."""
    options = {"checkpointLocation": checkpoint} | options
    pairs = ", ".join(f"{quoted(key)} {quoted(value)}" for key, value in options.items())
    folders = f"PARTITIONED BY ({partitioned_by}) " if partitioned_by else ""
    return (
        f"CREATE STREAMING TABLE {name} USING parquet {folders}LOCATION {quoted(output)}\n"
        f"OPTIONS ({pairs})\nAS {select};\n"
    )


def copy_events(
    folder: object, output: object, checkpoint: object, preamble: str = "", **read_options: object
) -> str:
    """The pipeline of most tests: the three columns, unchanged."""
    source = read_files(folder, **read_options)
    return preamble + streaming_table(f"SELECT id, name, v FROM {source}", output, checkpoint)


def written(text: str, place: Path) -> Path:
    place.write_text(text, encoding="utf-8")
    return place
