"""An S3 server in a process of its own, so that it outlives the drivers that the tests kill."""

import json
import subprocess
from pathlib import Path
from typing import Iterator

import pyarrow.fs
import pyarrow.parquet as parquet


class S3Server:
    """The server of the test kit, and a client for it that shares no code with Onefold."""

    def __init__(self, program: Path):
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        about = json.loads(self.process.stdout.readline())
        self.env: dict[str, str] = about["env"]
        self.root: str = about["url"].rstrip("/")
        self.files = pyarrow.fs.S3FileSystem(
            access_key=self.env["AWS_ACCESS_KEY_ID"],
            secret_key=self.env["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=self.env["AWS_ENDPOINT_URL"],
            region=self.env["AWS_REGION"],
        )

    @property
    def secret(self) -> str:
        return self.env["AWS_SECRET_ACCESS_KEY"]

    def url(self, path: str) -> str:
        return f"{self.root}/{path}"

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(10)

    def open_uploads(self) -> int:
        return int(self._ask("uploads"))

    def _ask(self, question: str) -> str:
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def keys(self, prefix: str = "") -> list[str]:
        """The keys below a prefix, without it."""
        base = f"{self.root.removeprefix('s3://')}/{prefix}".rstrip("/")
        selector = pyarrow.fs.FileSelector(base, recursive=True, allow_not_found=True)
        found = self.files.get_file_info(selector)
        return sorted(it.path[len(base) + 1 :] for it in found if it.is_file)

    def read(self, key: str) -> bytes:
        with self.files.open_input_stream(f"{self.root.removeprefix('s3://')}/{key}") as stream:
            return stream.read()

    def data_files(self, prefix: str) -> list[str]:
        """What a plain listing shows."""
        return [
            key
            for key in self.keys(prefix)
            if not any(part.startswith(("_", ".")) for part in key.split("/"))
        ]

    def rows(self, prefix: str, names: list[str]) -> list[dict]:
        """The rows of Parquet files below a prefix."""
        found = []
        for name in names:
            place = f"{self.root.removeprefix('s3://')}/{prefix}/{name}"
            with self.files.open_input_file(place) as file:
                found += parquet.ParquetFile(file).read().to_pylist()
        return found


def served(program: Path) -> Iterator[S3Server]:
    server = S3Server(program)
    try:
        yield server
    finally:
        server.close()
