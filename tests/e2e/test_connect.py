"""Unmodified PySpark programs against `onefold serve`."""

import json
import os
import select
import socket
import subprocess
from pathlib import Path

import pyarrow.parquet
import pytest

from connect_server import ConnectServer
from command import Onefold


def parquet_values(folder: Path, column: str) -> list:
    """A column of all files of a plain listing, as any reader sees them."""
    values: list = []
    for file in sorted(folder.rglob("*.parquet")):
        if not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts):
            values.extend(pyarrow.parquet.read_table(file)[column].to_pylist())
    return values


def test_the_program_of_a_tutorial_runs_unchanged(server: ConnectServer):
    seen = server.run("tutorial.py").result
    assert seen["active"] is False and seen["exception"] is None
    assert seen["values"] == list(range(len(seen["values"]))) and len(seen["values"]) >= 3
    assert sorted(parquet_values(server.folder / "table", "value")) == seen["values"]


def test_frames_and_sql_give_what_spark_gives(server: ConnectServer):
    seen = server.run("batch.py").result
    assert seen["version"].startswith("4.")
    assert seen["range"] == list(range(10))
    assert seen["shown"] == (
        "+---+--------+------+\n| id|customer|amount|\n+---+--------+------+\n"
        "|  1|     ann|   2.5|\n|  2|     bob|   4.0|\n+---+--------+------+\n"
    )
    assert seen["sql"] == [{"s": 6.5}] and seen["bound"] == [2] and seen["joined"] == 2
    assert seen["grouped"] == [["ann", 2.5], ["bob", 4.0]]
    assert seen["back"] == [{"id": 1, "amount": 2.5, "customer": "ann"}]
    assert seen["json"] == ["amount double", "customer string", "id bigint"]
    assert seen["files"] == [["ann", 2.5], ["bob", 4.0]]
    assert seen["order"] and seen["first"] == [0, 1, 2]
    assert (seen["three"], seen["one"], seen["by"]) == ([3, 1000], [1, 1000], [4, 1000])
    assert seen["table"] == 3 and seen["gone"] is False


def test_values_and_frames_come_together_as_in_spark(server: ConnectServer):
    seen = server.run("coming_together.py").result
    empty = "p=__HIVE_DEFAULT_PARTITION__"
    assert seen == {
        "union": ["double", "1.0", "2.5"],
        "by name": ["decimal(12,2)", "1.00", "2.55"],
        "sql": ["bigint", "1", "5000000000"],
        "when": ["double", "1.0", "2.5"],
        "half": ["double", "0.0", "0.5"],
        "unpivot": ["double", "2.0", "2.5"],
        "derived": 2,
        "without": [1],
        "dropped": 3,
        "itself": True,
        "int": [["p=1", empty], [False, True]],
        "date": [["p=2026-01-02", empty], [False, True]],
        "string": [[empty, "p=x y"], [False, True]],
        "boolean": [[empty, "p=true"], [False, True]],
    }


def test_windows_foreach_batch_and_a_listener_work_together(
    server: ConnectServer, tmp_path: Path
):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    # Four files of five minutes each; keys a and b in turn.
    for file in range(4):
        lines = []
        for row in range(10):
            number = file * 10 + row
            time = f"2026-01-01T00:{file * 5 + row // 2:02}:00Z"
            key = "ab"[number % 2]
            lines.append(json.dumps({"id": number, "k": key, "ts": time}))
        (source / f"{file}.txt").write_text("\n".join(lines) + "\n")
    seen = server.run("teams.py", source, out, tmp_path / "checkpoint").result
    assert seen["name"] == "teams" and seen["exception"] is None
    assert seen["operators"] == ["stateStoreSave"]
    assert seen["watermark"] == "2026-01-01T00:09:00.000Z"
    starts = [f"2026-01-01 00:{minute:02}:00" for minute in (0, 5, 10, 15)]
    assert seen["windows"] == [[start, key, 5] for start in starts for key in "ab"]
    kinds = [event[0] for event in seen["heard"]]
    assert kinds[0] == "started" and kinds[-1] == "terminated"
    assert sum(event[2] for event in seen["heard"] if event[0] == "progress") == 40
    assert "writing batch 1\n" in server.error.read_text(), "what a function prints is not shown"


def test_a_server_killed_in_mid_stream_delivers_each_row_once(binary: Path, tmp_path: Path):
    source, out, checkpoint = (tmp_path / name for name in ("in", "out", "checkpoint"))
    source.mkdir()
    for file in range(300):
        lines = [json.dumps({"id": file * 3 + row, "k": "k"}) for row in range(3)]
        (source / f"{file:04}.json").write_text("\n".join(lines) + "\n")
    server = ConnectServer(binary, tmp_path / "server")
    server.run("copy_files.py", source, out, checkpoint, server.process.pid, ok=False)
    server.kill()
    done = len(list((checkpoint / "commits").glob("[0-9]*")))
    assert 5 <= done < 300, "the server was not killed in mid-stream"
    again = ConnectServer(binary, tmp_path / "server")
    again.run("copy_files.py", source, out, checkpoint, "-")
    assert again.stop() == 0
    assert sorted(parquet_values(out, "id")) == list(range(900))


def test_mistakes_arrive_as_sparks_exceptions_with_useful_text(server: ConnectServer):
    seen = server.run("mistakes.py").result
    expected = {
        "column": ("AnalysisException", "nope"),
        "table": ("AnalysisException", "nowhere"),
        "syntax": ("ParseException", "line 1"),
        "division": ("ArithmeticException", "zero"),
        "collect": ("AnalysisException", "writeStream.start()"),
        "mode": ("AnalysisException", "omplete"),
        "python": ("StreamingQueryException", "no room in batch"),
        "stream": ("StreamingQueryException", "zero"),
    }
    for name, (kind, text) in expected.items():
        assert seen[name][0] == kind, f"{name}: {seen[name]}"
        assert text in seen[name][1], f"{name}: {seen[name]}"
    assert seen["table"][2] == "TABLE_OR_VIEW_NOT_FOUND"
    assert seen["column"][2] == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert 'File "' in seen["python"][1], "the traceback of the user's function is missing"


def test_python_functions_run_in_processes_that_end_with_the_server(
    server: ConnectServer, tmp_path: Path
):
    rows = tmp_path / "rows"
    rows.mkdir()
    seen = server.run("python_functions.py", rows).result
    assert seen["udf"] == ["A!", None] and seen["name"] == ["shout(name)"]
    assert seen["pandas"] == [0.5, 1.0] and seen["sql"] == [0, 2, 4]
    assert seen["map"] == [1, 1, 2, 2] and seen["grouped"] == [[1, 1], [2, 1]]
    assert seen["exception"] is None
    assert (rows / "0-0").read_text() == "".join(f"{value}!\n" for value in range(10))


@pytest.mark.parametrize(
    "program",
    ["hanging.py", "hanging_processor.py", "hanging_function.py", "hanging_collect.py"],
)
def test_stopping_a_query_ends_a_function_that_hangs(
    server: ConnectServer, tmp_path: Path, program: str
):
    mark = tmp_path / "mark"
    seen = server.run(program, mark).result
    assert seen == {"active": False, "exception": None}
    pid = int(Path(f"{mark}.done").read_text())
    # A daemon of PySpark kills its workers when it gets round to it.
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(process):
        assert select.select([process], [], [], 60)[0]


def test_a_function_ends_with_a_server_that_is_killed(binary: Path, tmp_path: Path):
    server = ConnectServer(binary, tmp_path / "server")
    ended = server.run("hanging_left.py", tmp_path / "mark", server.process.pid)
    server.process.wait()
    assert ended.result == {"process": True}


def test_a_function_gets_no_more_memory_than_its_process_may_have(server: ConnectServer):
    assert server.run("memory.py").result == {"small": 64, "large": True, "after": 1}


def test_a_token_is_needed_where_others_can_connect(
    binary: Path, onefold: Onefold, tmp_path: Path
):
    refused = onefold.fails("serve", "--bind", "0.0.0.0:0")
    assert "token" in refused.stderr
    secret = tmp_path / "token"
    secret.write_text("open sesame\n")
    server = ConnectServer(binary, tmp_path / "server", "--token-file", secret)
    # PySpark sends a token in plain text to `localhost` only.
    local = server.remote.replace("127.0.0.1", "localhost")
    wrong = server.run("version.py", remote=f"{local}/;token=sesame", ok=False)
    assert wrong.status != 0 and "token" in wrong.stderr
    url = f"{local}/;token=open%20sesame"
    assert server.run("version.py", remote=url).stdout.startswith("4.")
    assert server.stop() == 0
    assert "sesame" not in server.error.read_text()


def test_sessions_are_cloned_observed_and_given_modules(server: ConnectServer):
    seen = server.run("session_parts.py").result
    assert seen["clone"] == ["7", [1, 2, 3]] and seen["gone"] is False
    assert seen["observed"] == {"rows": 10, "most": 9, "mean": 4.5}
    assert seen["written"] == {"sum": 6}
    assert seen["functions"] == [40, 45, 50]
    assert seen["each"] == 30
    assert "OPERATION_CANCELED" in seen["interrupted"]


def test_a_client_reaches_a_server_with_a_certificate_and_a_token(binary: Path, tmp_path: Path):
    folder = tmp_path / "server"
    folder.mkdir()
    certificate, key, token = folder / "cert.pem", folder / "key.pem", folder / "token"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    made += ["-nodes", "-days", "2", "-keyout", key, "-out", certificate, *subject]
    subprocess.run(list(map(str, made)), check=True, capture_output=True)
    token.write_text("a-secret-of-this-test\n")
    options = ["--tls-cert", certificate, "--tls-key", key, "--token-file", token]
    server = ConnectServer(binary, folder, *options)
    try:
        place = server.remote.replace("127.0.0.1", "localhost") + "/;use_ssl=true"
        trusted = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificate)}
        remote = f"{place};token=a-secret-of-this-test"
        # Functions run in workers that reach the server by themselves.
        seen = server.run("session_parts.py", remote=remote, env=trusted).result
        assert seen["functions"] == [40, 45, 50] and seen["each"] == 30
        wrong = server.run("version.py", remote=f"{place};token=other", env=trusted, ok=False)
        assert wrong.status != 0 and "the token is missing or wrong" in wrong.stderr
        # Who does not encrypt gets nothing but an alert: PySpark would try again for minutes.
        host, port = server.remote.removeprefix("sc://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as plain:
            plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            assert plain.recv(64)[:1] in (b"", b"\x15")
    finally:
        assert server.stop() == 0, server.error.read_text()
    assert "a-secret-of-this-test" not in server.error.read_text()


def test_a_server_that_others_can_reach_needs_a_token_and_says_what_is_not_encrypted(
    onefold: Onefold, tmp_path: Path
):
    # The address is one of those kept for documentation: nothing can listen on it.
    refused = onefold.call("serve", "--bind", "203.0.113.1:0")
    assert refused.status == 2 and "set a token that clients must send" in refused.stderr
    token = tmp_path / "token"
    token.write_text("a-secret-of-this-test\n")
    told = onefold.call("serve", "--bind", "203.0.113.1:0", "--token-file", token)
    assert "connections are not encrypted" in told.stderr
    assert "a-secret-of-this-test" not in told.stderr + told.stdout
    missing = onefold.call("serve", "--tls-cert", tmp_path / "none.pem", "--tls-key", token)
    assert missing.status == 2 and "none.pem" in missing.stderr


def test_texts_are_read_as_rows(server: ConnectServer):
    seen = server.run("texts_as_rows.py").result
    assert seen == {
        "json": ["struct<a:string,b:double>", ["x", 1.0], [None, 2.5], [None, 3.0]],
        "typed": ["struct<b:double>", [1.0], [2.5], [3.0]],
        "corrupt": [
            "struct<_corrupt_record:string,a:string>",
            [None, "1"],
            ["no json", None],
            [None, "y"],
        ],
        "told": [
            "struct<a:int,_corrupt_record:string>",
            [1, None],
            [None, "no json"],
            [None, '{"a": "y"}'],
        ],
        "dropped": ["struct<a:int>", [1]],
        "failed": True,
        "csv": ["struct<_c0:string,_c1:string>", ["a", "1"], ["b", "2"]],
        "header": ["struct<id:int,day:date>", [1, "2026-01-31"], [2, None]],
        "few": [
            "struct<a:int,b:string,_corrupt_record:string>",
            [1, "x", None],
            [2, None, "2"],
        ],
        "given": {"unit": "cent", "bounds": [0, 9]},
        "kept": {"unit": "cent", "bounds": [0, 9]},
        "added": {"x": 1},
        "taken back": {},
        "rows": [1],
        "fitted": ["struct<b:string,A:string>", [None, "1"]],
        "nullable": "NULLABLE_COLUMN_OR_FIELD",
        "type": "INVALID_COLUMN_OR_FIELD_DATA_TYPE",
    }


def test_statements_beside_queries_do_what_they_do_in_spark(server: ConnectServer):
    seen = server.run("statements.py").result
    made_by = seen.pop("made by")
    assert made_by.startswith("CREATE TABLE t (\n  a INT,\n  b STRING COMMENT 'why')\nUSING parquet")
    assert seen == {
        "global": 3,
        "taken": "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS",
        "there": True,
        "replaced": [[7]],
        "gone": [True, False],
        "cached": [0, 2],
        "views": ["files", "twice"],
        "described": [
            ["a", "int", None],
            ["b", "string", "why"],
            ["# Partition Information", "", ""],
            ["# col_name", "data_type", "comment"],
            ["b", "string", "why"],
        ],
        "more": True,
        "of query": [["a", "int", None]],
        "emptied": 0,
        "use": [None, "SCHEMA_NOT_FOUND"],
        "explained": [True, True, True],
        "files": [True] * len(seen["files"]),
        "local": [True, False],
        "held": [True, 1, False, False],
        "hints": [2, 2, "UNRESOLVED_COLUMN.WITH_SUGGESTION"],
        "created": "TABLE_OR_VIEW_ALREADY_EXISTS",
        "appended": [0, 1, 5],
        "overwritten": [[9]],
        "nothing": ["struct<id:bigint>", 0],
        "paths": ["PATH_ALREADY_EXISTS", "PATH_NOT_FOUND", "DATA_SOURCE_NOT_FOUND"],
        "zipped": [["p=ä", "gz.parquet"]],
        "lines": ["a,b\n1,-\n"],
        "absent": [["1", None], ["2", None], ["3", ""]],
        "folders": [[2, "b"], [9, "a"]],
        "whole": [[1, "a"]],
        "names": [
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            "INSERT_COLUMN_ARITY_MISMATCH",
            "INSERT_COLUMN_ARITY_MISMATCH",
        ],
        "tables": [
            ["files", "TEMPORARY", True],
            ["parts", "MANAGED", False],
            ["t", "MANAGED", False],
            ["twice", "TEMPORARY", True],
            ["w", "MANAGED", False],
        ],
        "shown": ["parts", "t", "w"],
        "wide": [0, 1],
        "tail": [3, 1],
        "lateral": [[1, 2, "a"], [2, 4, "a"]],
        "decimal": [[1e300]],
    }
    assert seen["files"]


def test_tables_stay_whole_and_take_what_they_take_in_spark(server: ConnectServer):
    assert server.run("tables.py").result == {
        "of itself": [[10], [11], [12]],
        "failed": "DIVIDE_BY_ZERO",
        "still": [[10], [11], [12]],
        "outside": [[5]],
        "partitions": [["p=1/q=x"], ["p=2/q=y"]],
        "rows": [[3, 2, "y"], [9, 1, "x"]],
        "no partition": "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        "not taken": "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
        "view": 2,
        "both gone": "TABLE_OR_VIEW_NOT_FOUND",
        "twice": [[[1, 2]], "COLUMN_ALREADY_EXISTS"],
        "database": ["default"],
        "table": ["parts", "spark_catalog", ["default"], None, "MANAGED", False],
        "no table": "TABLE_OR_VIEW_NOT_FOUND",
        "columns": [["a", False], ["p", True], ["q", True]],
        "function": "abs",
        "no function": "ROUTINE_NOT_FOUND",
        "out of range": "PythonException",
        "chunks": True,
    }
